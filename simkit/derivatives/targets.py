"""What derivatives are taken with respect to, and how it moves the numbers of a run."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from simkit_solvers.problems.curve import Curve
from simkit_solvers.problems.event import UnknownTimesError
from simkit_solvers.problems.problem import parameters_of, variables_of
from simkit_solvers.problems.schedule import model_of
from simkit_solvers.random.noise import CounterNoise

from simkit.ensemble.paths import REVERSE_BYTES, PathProgram, inputs_of, path_program
from simkit.ensemble.ranges import ranged_values, ranges_of
from simkit.ensemble.simulation import Driver, Run, Simulation
from simkit.ensemble.work import workers_of
from simkit.errors import InputError
from simkit.experiments.sensitivity_names import full_name
from simkit.observe.observer import Observer
from simkit.suggestions import known_names, shown

ON_TIME = 1e-9  # of the span: what rounding makes of a time
ADAPTIVE = "set time.rtol for adaptive steps"


@dataclasses.dataclass(frozen=True)
class Target:
    """A number that derivatives are taken with respect to: `name` is that in `Simulation.targets`.

    `scale` is what steps of differences are relative to.
    """

    label: str
    name: str
    value: float
    unit: str
    scale: float


def find_target(simulation: Simulation, label: str) -> Target:
    """The target that a name means (`full_name`). Raises `InputError` where it has no derivative."""
    name = full_name(label, simulation.targets)
    if name is None:
        raise InputError(
            f"sensitivity.wrt: unknown name {shown(label)}{known_names(label, simulation.targets)}"
        )
    if simulation.stepping.whole and name.startswith("initial."):
        raise InputError(f"sensitivity.wrt: {label} is an integer count, so it has no derivative")
    value = float(simulation.targets[name])
    return Target(label, name, value, _unit(simulation, name), abs(value) or 1.0)


def _unit(simulation: Simulation, name: str) -> str:
    model = model_of(simulation.problem)
    if name.startswith("model."):
        spec = parameters_of(model).get(name.removeprefix("model."))
        return "" if spec is None else spec.unit
    if name.startswith("initial."):
        return variables_of(model)[name.removeprefix("initial.")].unit
    return ""


def binding_of(simulation: Simulation) -> Callable:
    """The function that binds the values of targets."""
    if simulation.bind is None:
        raise ValueError("a simulation without `bind` knows no targets: use one from `simkit.load`")
    return simulation.bind


def _run_at(simulation: Simulation, values: dict[str, Any]) -> Run:
    """The run with these values of the targets; policies of early exercise stay as they are.

    A single place moves from where the constants put it, so that these move it too where both are targets.
    """
    bind = binding_of(simulation)
    places = {name: x - simulation.targets[name] for name, x in values.items() if "." in name}
    run: Any = bind({name: x for name, x in values.items() if name not in places}, places)
    policies = simulation.observer.policies if isinstance(simulation.observer, Observer) else {}
    return run._replace(observer=dataclasses.replace(run.observer, policies=policies))


def numbers_at(simulation: Simulation, values: dict[str, Any]) -> Run:
    """The inputs of the run's program, in float64, with these values of the targets, traced ones too."""
    return jax.tree.map(lambda x: jnp.asarray(x, jnp.float64), _run_at(simulation, values).split()[1])


def changes(
    simulation: Simulation, targets: Sequence[Target], pairs: Sequence[tuple[int, int]] = ()
) -> tuple[tuple[Run, ...], tuple[Run, ...]]:
    """The derivatives of all numbers along each target, and the second ones along pairs of targets.

    Exact zeros are None, so that what a target does not move costs nothing. Raises `InputError` where there
    is none: of whole numbers, and of times that steps of fixed length must meet, or do not see.
    """
    names = [target.name for target in targets]
    point = tuple(jnp.float64(target.value) for target in targets)

    def numbers(*values):
        return numbers_at(simulation, dict(zip(names, values, strict=True)))

    def unit(i):
        return tuple(jnp.float64(i == j) for j in range(len(names)))

    def derivative(i):
        """In one of them alone, so that what cannot move is named by the one that would move it."""

        def along(*values):
            return jax.jvp(
                lambda x: numbers(*values[:i], x, *values[i + 1 :]), (values[i],), (jnp.float64(1),)
            )[1]

        return along

    first = tuple(_first_moved(simulation, target, derivative(i), point) for i, target in enumerate(targets))
    if simulation.stepping.whole:
        for target, move in zip(targets, first, strict=True):
            counts = [name for name, x in move.initial.items() if x is not None]
            if counts:
                raise InputError(
                    f"sensitivity.wrt: {target.label} is in the initial number of {counts[0]}, which is "
                    "whole and has no derivative; give the rates a constant of their own"
                )
    second = tuple(_moved(simulation, jax.jvp(derivative(i), point, unit(j))[1]) for i, j in pairs)
    return first, second


def _first_moved(simulation: Simulation, target: Target, derivative, point) -> Run:
    try:
        result = _moved(simulation, derivative(*point))
    except UnknownTimesError:
        raise InputError(
            f"sensitivity.wrt: {target.label} shifts event times relative to the step grid, but events must "
            f"be at step ends; {ADAPTIVE}"
        ) from None
    if isinstance(result.observer, Observer):
        for name, dates in result.observer.dates.items():
            if any(abs(float(x)) * target.scale > ON_TIME for x in jax.tree.leaves(dates)):
                raise InputError(
                    f"sensitivity.wrt: {target.label} shifts the exercise dates of {name} relative to the "
                    "step grid, but dates must be at step ends; leave it out, or give the dates a constant "
                    "of their own"
                )
    if simulation.grid.steps is not None:
        parts = jax.tree.leaves(result.problem, is_leaf=lambda x: isinstance(x, Curve))
        curves = [x for x in parts if isinstance(x, Curve) and x.interpolation == "previous"]
        if any(x.times is not None for x in curves) or (curves and jax.tree.leaves(result.grid)):
            raise InputError(
                f"sensitivity.wrt: {target.label} shifts the jumps of a curve relative to the step grid, and "
                f"a path changes only when a jump crosses a step; {ADAPTIVE}, or use interpolation: linear"
            )
    return result


def _moved(simulation: Simulation, tangent: Run) -> Run:
    dtype = jnp.dtype(simulation.precision)
    return jax.tree.map(lambda x: jnp.asarray(x, dtype) if np.any(np.asarray(x)) else None, tangent)


def in_time(simulation: Simulation, targets: Sequence[Target], moves: Sequence[Run]) -> tuple[Target, ...]:
    """The targets, of those that move the ends of time with the time between them for a scale."""
    times = np.asarray(simulation.grid.times)
    span = float(times[-1] - times[0])
    return tuple(
        dataclasses.replace(target, scale=span) if jax.tree.leaves(move.grid) else target
        for target, move in zip(targets, moves, strict=True)
    )


def is_in_range(simulation: Simulation, targets: Sequence[Target], steps: Sequence[float]) -> bool:
    """Whether parameters and initial values stay in their ranges as targets are moved by so much.

    And whether there are such distributions, curves and correlations.
    """
    try:
        run = _run_at(simulation, {t.name: t.value + step for t, step in zip(targets, steps, strict=True)})
    except ValueError:
        return False
    ranges = ranges_of(run.problem)
    return all(ranges[name].admits(float(value)) for name, value in ranged_values(run).items())


def shifted(simulation: Simulation, targets: Sequence[Target], steps: Sequence[float]) -> Run:
    """The inputs of the run's program with targets moved by so much."""
    values = {t.name: t.value + step for t, step in zip(targets, steps, strict=True)}
    return inputs_of(simulation, _run_at(simulation, values))


def program_of(simulation: Simulation, driver: Driver = CounterNoise.of) -> tuple[PathProgram, Run]:
    """The program of the run's paths and its inputs."""
    return path_program(simulation, simulation.grid, driver, REVERSE_BYTES // len(workers_of(simulation)))
