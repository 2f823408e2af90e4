"""The first value of a path that is not finite: its place, its name and its inputs."""

import dataclasses
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from simkit_solvers.grids.grid import Grid
from simkit_solvers.loops.step import stepper_for
from simkit_solvers.problems.problem import AbstractODE, AbstractSDE
from simkit_solvers.problems.schedule import as_solved, parameters_at, schedule_of, within
from simkit_solvers.problems.terms import brownian_increment
from simkit_solvers.random.draws import Draw
from simkit_solvers.random.generator import seed_key

from simkit.diagnostics.debugging.cause import bad_operation, bad_part, functionals_alone
from simkit.diagnostics.inspection.operation_graph import in_solvers_calculus
from simkit.ensemble.failures import REPLAY_ROWS, Failure, failure_of, replayed
from simkit.ensemble.paths import driver_of
from simkit.ensemble.simulation import Simulation
from simkit.experiments.inline.inline_differential import DifferentialText
from simkit.expressions import Expression
from simkit.observe.observable import Observable
from simkit.observe.observer import Observer


@dataclasses.dataclass(frozen=True)
class Finding:
    """The first value of a path that is not finite.

    `step` is the step at whose end it was seen, from 1, and `time` the time then, 0 and `t0` for an initial
    value; without equal steps `step` is None and `time` what the path reached. `values` are what is not
    finite, `before` the state that the step began with, `increments` the Brownian increments of the step and
    `terms` the terms of the equation there. `cause` says which expression or operation gave it.
    """

    path: int
    step: int | None
    time: float
    values: dict[str, float]
    before: dict[str, float]
    increments: dict[str, float]
    terms: dict[str, float]
    cause: str
    text: str


def find(simulation: Simulation, path: int) -> Finding | None:
    """The finding of one path, `None` where all that it keeps is finite.

    A path is a pure function of its number: it is run again by the program of the ensemble, whose bits these
    are. Observables of the end alone are checked there.
    """
    with jax.enable_x64(True), jax.numpy_dtype_promotion("standard"):
        return _explained(simulation, _exact(simulation, failure_of(simulation, path)))


def _explained(simulation: Simulation, failure: Failure) -> Finding | None:
    path = failure.path
    if failure.row is None:
        return None
    row, fields = failure.row, simulation.problem.State._fields
    if failure.reached is not None:
        last = {name: float(failure.rows[name][row - 1]) for name in fields} if row else {}
        terms = _terms(simulation, float(failure.times[row - 1]), last, {}) if row else {}
        reason = failure.text.partition(": ")[2]
        bad = _bad_terms(terms)
        cause = f"{bad} is not finite at the last saved state" if bad else reason
        return Finding(path, None, failure.reached, failure.broken, last, {}, terms, cause, failure.text)
    before, increments, terms = {}, {}, {}
    if failure.endless:
        cause = failure.reason
    elif failure.observables_only:
        cause = _of_observables(simulation, failure)
    elif not failure.step:
        cause = "the initial value itself is not finite"
    elif failure.every > 1:
        cause = f"it happened in the {failure.every} steps before; run fewer steps to see which"
    else:
        before = {name: float(failure.rows[name][row - 1]) for name in fields}
        draw = draw_of(simulation, path, failure.step - 1)
        increments = increments_of(simulation, draw)
        terms = _terms(simulation, float(failure.times[row - 1]), before, increments)
        cause = _of_step(simulation, failure, before, terms, draw)
    time = float(failure.times[row])
    return Finding(path, failure.step, time, failure.broken, before, increments, terms, cause, failure.text)


def _exact(simulation: Simulation, failure: Failure) -> Failure:
    """The failure at its very step, by halving the steps between two rows of the replay.

    Not where events have their places among the steps of the whole run.
    """
    grid: Any = simulation.grid
    if failure.every == 1 or not failure.step or failure.observables_only:
        return failure
    if schedule_of(simulation.problem) is not None:
        return failure
    names = simulation.problem.State._fields

    def rows(steps: int) -> dict[str, np.ndarray]:
        return replayed(simulation, Grid(grid.t0, grid.dt, steps, steps), failure.path)

    low, high = failure.step - failure.every, failure.step
    while high - low > 1:
        middle = (low + high) // 2
        sound = all(np.isfinite(rows(middle)[name][-1]) for name in names)
        low, high = (middle, high) if sound else (low, middle)
    last = {name: rows(low)[name][-1] if low else failure.rows[name][0] for name in names}
    after = rows(high)
    pairs = {name: np.array([last[name], after[name][-1]]) for name in names}
    times = float(grid.t0) + np.array([low, high]) * float(grid.dt)
    broken = {name: float(pair[1]) for name, pair in pairs.items() if not np.isfinite(pair[1])}
    shown = ", ".join(f"{name} = {x:g}" for name, x in broken.items())
    text = f"path {failure.path}: {shown} at t = {times[1]:g} (step {high} of {grid.steps})"
    return Failure(failure.path, text, 1, pairs, times, broken, step=high)


def draw_of(simulation: Simulation, path: int, step: int) -> Draw:
    """The standard normals that a path draws for a step, counted from 0."""
    problem = simulation.problem
    if not problem.stochastic:
        return Draw(())
    make_noise = driver_of(simulation)
    noise = make_noise(seed_key(simulation.seed), jnp.uint32(path), simulation.normals == "float64")
    stepper, components = stepper_for(simulation.solver), len(problem.Noise._fields)
    start = step - step % noise.group(components)
    return noise.draws(components, stepper.areas, jnp.uint32(start), step - start + 1)[-1]


def increments_of(simulation: Simulation, draw: Draw) -> dict[str, float]:
    """The Brownian increments of a step by name."""
    if not simulation.stepping.has_increments:
        return {}
    problem, grid = cast(AbstractSDE, simulation.problem), cast(Grid, simulation.grid)
    dt = jnp.asarray(grid.dt, simulation.precision)
    result = brownian_increment(problem, dt, draw).W
    return {f"d{name}": float(x) for name, x in result._asdict().items()}


def _model(simulation: Simulation, t: float) -> Any:
    """The problem as the solver meets it in the step from a time."""
    if simulation.grid.steps is None:
        return simulation.problem
    return as_solved(within(in_solvers_calculus(simulation), t, t + float(simulation.grid.dt)))


def _terms(
    simulation: Simulation, t: float, before: dict[str, float], increments: dict[str, float]
) -> dict[str, float]:
    """The terms of the equation at a state: drift, and noise times its increments; of a network its rates."""
    model, dtype = _model(simulation, t), simulation.precision
    y = model.State(*(jnp.asarray(x, dtype) for x in before.values()))
    time = jnp.asarray(t, dtype)
    drawn = [jnp.asarray(x, dtype) for x in increments.values()]
    terms = simulation.stepping.terms(model, y, time, drawn)
    return {name: float(x) for name, x in zip(simulation.stepping.term_names, terms, strict=False)}


def _bad_terms(terms: dict[str, float]) -> str:
    return ", ".join(name for name, x in terms.items() if not np.isfinite(x))


def _of_step(simulation: Simulation, failure: Failure, before, terms, draw: Draw) -> str:
    """Which expression or operation of a step gave what is not finite."""
    row = failure.row or 0
    t, dtype = float(failure.times[row - 1]), simulation.precision
    bad = _bad_terms(terms)
    model = _model(simulation, t)
    part = _of_text(model, terms, before | {"t": t}) if bad else None
    if part is not None:
        return part
    stepper = stepper_for(simulation.solver)
    y = model.State(*(jnp.asarray(x, dtype) for x in before.values()))
    time, dt = jnp.asarray(t, dtype), jnp.asarray(simulation.grid.dt, dtype)  # pyright: ignore[reportAttributeAccessIssue]
    if stepper.variates:
        return f"{bad} is not finite" if bad else "the solver's own sampling"

    def step(t, dt, y, draw):
        return stepper.step(model, t, dt, y, draw, stepper.init(model, t, dt, y))[0]

    operation = bad_operation(step, time, dt, y, draw)
    if operation is not None:
        return f"{bad + ': ' if bad else 'inside the step: '}{operation}"
    return f"{bad} is not finite" if bad else "what happens after the step: its jumps or events"


def _of_text(model: AbstractODE, terms: dict[str, float], values: dict[str, float]) -> str | None:
    """The part of an equation in the file that is not finite."""
    _, text = getattr(type(model), "_made_by", (None, None))
    if not isinstance(text, DifferentialText):
        return None
    values = {name: float(getattr(model, name)) for name in text.parameters} | values
    for equation in text.equations:
        factors: list[tuple[str, Expression]] = [(f"drift of {equation.variable}", equation.drift)]
        factors += [(f"noise of {equation.variable}", factor) for _, factor in equation.noise]
        for name, expression in factors:
            part = None if np.isfinite(terms.get(name, 0.0)) else bad_part(expression, values)
            if part is not None:
                return f"{name}: {part}"
    return None


def _of_observables(simulation: Simulation, failure: Failure) -> str:
    """Which part of an observable is not finite, and since when, where it is a functional's argument."""
    observer, row = simulation.observer, failure.row or 0
    if not isinstance(observer, Observer):
        return "an observable"
    return "; ".join(
        f"{observable.name}: {_of_observable(simulation, failure, observable, row)}"
        for observable in observer.observables
        if observable.name in failure.broken
    )


def _of_observable(simulation: Simulation, failure: Failure, observable: Observable, row: int) -> str:
    def values(i: int) -> dict[Any, Any]:
        t = float(failure.times[i])
        numbers = simulation.constants | parameters_at(simulation.problem, t)
        state = {name: failure.rows[name][i] for name in simulation.problem.State._fields}
        return {name: float(x) for name, x in (numbers | {"t": t} | state).items()}

    for monitor in observable.monitors:
        functional = monitor.functional
        for i in range(0 if functional.sees_start else 1, row + 1):
            step = i * failure.every
            if step != monitor.date if monitor.date is not None else step % monitor.every:
                continue
            part = bad_part(functional.argument, values(i))
            if part is not None:
                return f"{functional.name}({functional.argument.text}) at t = {failure.times[i]:g}: {part}"
    known = values(row) | _functionals(simulation, failure, observable, row)
    return bad_part(observable.expression, known) or observable.expression.text


def _functionals(
    simulation: Simulation, failure: Failure, observable: Observable, row: int
) -> dict[Any, float]:
    """The values of an observable's path functionals at a row, each observed alone in another replay."""
    alone = functionals_alone(observable.expression)
    parts = {f"functional {i}": part for i, part in enumerate(alone)}  # no observable's name: it has a space
    observables = tuple(
        dataclasses.replace(observable, name=name, expression=part, exercise=None)
        for name, part in parts.items()
    )
    observer = dataclasses.replace(simulation.observer, observables=observables)
    grid = simulation.grid.thinned(REPLAY_ROWS)
    rows = replayed(simulation.with_run(observer=observer), grid, failure.path)
    return {part.whole: float(rows[name][row]) for name, part in parts.items()}
