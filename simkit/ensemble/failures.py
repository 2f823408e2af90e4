"""Error messages for paths that become NaN or infinite: when, where, why and what to do."""

import dataclasses
import re
from typing import Any

import jax
import numpy as np
from simkit_solvers.grids.adaptive_grid import AdaptiveGrid
from simkit_solvers.grids.grid import Grid
from simkit_solvers.grids.jump_grid import JumpGrid
from simkit_solvers.methods.jump.jump_method import BAD_COUNT, BAD_EVENT, BAD_PROPENSITY, TOO_MANY_STEPS
from simkit_solvers.problems.problem import AbstractODE, AbstractSDE
from simkit_solvers.problems.reaction_network import LANGEVIN
from simkit_solvers.problems.schedule import schedule_of

from simkit.ensemble.chunks import FEWEST_LANES, LEAF, path_ids
from simkit.ensemble.grid_before_failure import culprit, moment
from simkit.ensemble.paths import path_program
from simkit.ensemble.programs import Request, compiled
from simkit.ensemble.simulation import Simulation
from simkit.ensemble.stepping import ACCEPTED, IN_LEAPS, REACHED, REJECTED, STATUS, happened_names
from simkit.ensemble.weights import is_of_weights
from simkit.ensemble.without_value import UNKNOWN, Undefined, undefined_at
from simkit.errors import NumericalError
from simkit.machine.on_each_device import local_devices
from simkit.observe.observable import waits
from simkit.observe.time_functions import counted_events, triggered_events

REMEDIES = {
    BAD_PROPENSITY: "Write propensities that are at or above zero for all counts that there may be",
    BAD_COUNT: "Write propensities that vanish where reactants are missing",
    TOO_MANY_STEPS: "Use a larger time.max_steps",
    BAD_EVENT: "Let events set whole numbers, such as floor(X/2) or maximum(X - 5, 0); large ones in float64",
}

SHOWN = 3
REPLAY_ROWS = 10_000
UNDEFINED = (
    "The equations have no value there, as {}: write them so that they have one, such as {}, or change a "
    "parameter"
)
UNDEFINED_SOMEWHERE = re.compile(r"\b(acosh|atanh|acos|asin|cbrt|div|log|log1p|lgamma|pow|r?sqrt)\b")
ENDS = (
    "Change a condition, or what an event sets, so that one of them no longer meets the condition of the next"
)
MODERATE = 1e6  # times the initial values: what grows without bound is larger before it is not finite
DEBUG = ". `simkit debug FILE` shows which part of which equation it was"


def failed_paths(simulation: Simulation, ids: np.ndarray) -> NumericalError:
    """The error for paths that failed: their ids, and when and where the first ones did.

    A path is a pure function of its id, so the first failures are run again with rows close together to find
    the time, which costs the ensemble itself nothing. Named and counted are those up to the end of the first
    leaf with a failure, which are the same however the ensemble is cut.
    """
    leaf = ids[0] // LEAF
    ids, end = ids[ids // LEAF == leaf], (leaf + 1) * LEAF
    failures = [failure_of(simulation, int(path)) for path in ids[:SHOWN]]
    among = f"the first {end:,}" if end < simulation.paths else f"all {simulation.paths:,}"
    more = f", and {len(ids) - SHOWN} more of {among} paths" if len(ids) > SHOWN else ""
    known = {each.status: REMEDIES[each.status] for each in failures if each.status in REMEDIES}
    stepping = simulation.stepping
    general = stepping.float32_remedy if simulation.precision == "float32" else None
    remedy = "; ".join(known.values()) or general or stepping.remedy
    if stepping.has_increments and stepping.view == LANGEVIN:
        remedy = "The Langevin equation is not valid for small counts: use DirectMethod, or more steps"
    causes = [failure.undefined for failure in failures if failure.undefined]
    if len(causes) == len(failures):
        remedy = UNDEFINED.format(" or ".join(dict.fromkeys(each.what for each in causes)), causes[0].remedy)
    large = {name: x for failure in failures for name, x in failure.large_starts.items()}
    if large and all(failure.large_starts for failure in failures):
        remedy = _smaller(large, simulation.precision)
    if all(failure.observables_only for failure in failures):
        remedy = "The state is finite: write the observable so that it has a value there"
    names = triggered_events(schedule_of(simulation.problem))
    too_many = any("max_steps" in failure.reason for failure in failures)
    endless = [failure.endless for failure in failures if failure.endless]
    if endless:
        remedy = ENDS if len(endless) == len(failures) else f"{ENDS}. {remedy}"
    elif names and too_many:
        remedy = (
            f"Events that come ever faster, as {' and '.join(names)} may, take a step each: let the "
            "condition end that, as in `when: h < 0 and v < -0.01`, or use a larger time.max_steps"
        )
    if simulation.paths > 1:  # or nothing would be left
        remedy += ", or set `ensemble: {failures: exclude}` to leave such paths out and have them counted"
    clear = known.keys() - {BAD_PROPENSITY} or len(endless) == len(failures)
    return NumericalError(f"{_texts(failures, more)}. {remedy}{'' if clear else DEBUG}")


def _smaller(large: dict[str, float], precision: str) -> str:
    """What to do about initial values that leave no room for growth."""
    starts = " and ".join(f"{name} = {x:g}" for name, x in large.items())
    other = ", or precision: float64" if precision == "float32" else ""
    return (
        f"The initial {starts} {'is' if len(large) == 1 else 'are'} near {np.finfo(precision).max:.3g}, the "
        f"largest number of {precision}: use a larger unit, in which numbers are smaller{other}"
    )


def _texts(failures: "list[Failure]", more: str) -> str:
    """What is known of each failure; a reason that several have stands once, behind the last of them."""
    reasons = dict.fromkeys(each.reason for each in failures)
    groups = []
    for reason in reasons:
        places = "; ".join(
            each.text.removesuffix(f": {reason}") for each in failures if each.reason == reason
        ) + (more if len(reasons) == 1 else "")
        groups.append(f"{places}: {reason}" if reason else places)
    return "; ".join(groups) + (more if len(reasons) > 1 else "")


@dataclasses.dataclass(frozen=True)
class Failure:
    """The first saved row of a path at which something is not finite, in a replay with rows close together.

    `rows` are all rows of the replay by name, `step` and `every` those of the row and between rows on a fixed
    grid. A path with adaptive steps, or with events, that ended early has the time that it `reached`. `row`
    is None where all rows are finite. `undefined` is what has no value, where shorter steps make no number
    of it: in the equations at the row before, or in a step from a state of moderate size that became NaN.
    `large_starts` are the initial values near the largest number.
    A path of events has the `status` with which it ended. `endless` are the names of events that trigger one
    another without end. `reason` is the end of the text, where that says why and not only what.
    """

    path: int
    text: str
    row: int | None
    rows: dict[str, np.ndarray]
    times: np.ndarray
    broken: dict[str, float] = dataclasses.field(default_factory=dict)
    observables_only: bool = False
    undefined: Undefined | None = None
    large_starts: dict[str, float] = dataclasses.field(default_factory=dict)
    step: int | None = None
    every: int = 1
    reached: float | None = None
    status: int | None = None
    endless: tuple[str, ...] = ()
    reason: str = ""


def failure_of(simulation: Simulation, path: int) -> Failure:
    """Path, time and values of a failure."""
    replay = simulation.grid.thinned(REPLAY_ROWS)
    values, times = replayed(simulation, replay, path), np.asarray(replay.times)
    values.pop(IN_LEAPS, None)
    counts = {n: values.pop(n)[0] for n in (ACCEPTED, REJECTED, REACHED, STATUS) if n in values}
    endless = _endless_events(simulation, values)
    seen = {name: x.copy() for name, x in values.items()}
    for name, info in simulation.observables.items():
        if info.at == "end":
            seen[name][:-1] = 0  # observed only at the end
    bad = np.flatnonzero(~np.all([np.isfinite(x) for x in seen.values()], axis=0))
    if not len(bad):
        return Failure(path, f"path {path}: not finite", None, values, times)
    row = int(bad[0])
    broken = {name: float(x[row]) for name, x in seen.items() if not np.isfinite(x[row])}
    last = [values[name][-1] for name in simulation.problem.State._fields]
    if counts and not np.all(np.isfinite(last)):
        return _stopped(
            simulation, path, counts, Failure(path, "", row, values, times, broken, endless=endless)
        )
    place, step, every = f"t = {times[row]:g}", None, 1
    if replay.steps is not None:
        every = replay.every
        step = row * every
        place = f"t = {float(replay.t0) + step * float(replay.dt):g} (step {step} of {replay.steps})"
    names = ", ".join(f"{name} = {x:g}" for name, x in broken.items())
    of_observables = broken.keys() <= simulation.observables.keys()
    reason = _without_end(endless)
    return Failure(
        path,
        f"path {path}: {names} at {place}" + (reason and f": {reason}"),
        row,
        values,
        times,
        broken,
        observables_only=of_observables and not _blows_up(simulation, values, row),
        undefined=_undefined(simulation, values, times, row) if every == 1 else None,
        large_starts=_large_starts(simulation, values),
        step=step,
        every=every,
        endless=endless,
        reason=reason,
    )


def _endless_events(simulation: Simulation, values: dict[str, np.ndarray]) -> tuple[str, ...]:
    """The names of events that trigger one another without end; counts of events leave the `values`."""
    schedule = schedule_of(simulation.problem)
    pairs = zip(counted_events(schedule), happened_names(simulation.problem), strict=True)
    return tuple(event for event, name in pairs if values.pop(name).min() < 0)


def _without_end(endless: tuple[str, ...]) -> str:
    """Why a path failed by such events, if there are any."""
    return (
        f"{' and '.join(endless)} trigger one another without end, at one and the same time"
        if endless
        else ""
    )


def _undefined(
    simulation: Simulation, values: dict[str, np.ndarray], times: np.ndarray, row: int
) -> Undefined | None:
    """What has no value in the equations before a row, or in a step to it from a state of moderate size."""
    fields = simulation.problem.State._fields
    if not row or np.isfinite([values[name][row] for name in fields]).all():
        return None
    cause = _undefined_after(simulation, values, times, row - 1)
    return cause or (UNKNOWN if _has_no_value(simulation, values, row) else None)


def _undefined_after(
    simulation: Simulation, values: dict[str, np.ndarray], times: np.ndarray, row: int
) -> Undefined | None:
    """What has no value in the equations at a row."""
    state = {name: float(values[name][row]) for name in simulation.problem.State._fields}
    return undefined_at(simulation, float(times[row]), state)


def _has_no_value(simulation: Simulation, values: dict[str, np.ndarray], row: int) -> bool:
    """Whether some of the state is NaN after a step from a state of moderate size, and equations may be."""
    states = np.stack([values[name] for name in simulation.problem.State._fields])
    before = np.abs(states[:, :row])
    moderate = row > 0 and before[:, -1].max() / MODERATE <= 1 + before[:, 0].max()
    undefined = moderate and np.isnan(states[:, row]).any() and not np.isinf(states[:, row]).any()
    return bool(undefined) and _may_have_no_value(simulation.problem)


def _may_have_no_value(problem: AbstractODE) -> bool:
    """Whether drift or noise have a function that is not defined everywhere, as no polynomial has."""
    y = problem.State(*[1.0] * len(problem.State._fields))
    traced = [str(jax.make_jaxpr(problem.drift)(0.0, y))]
    if isinstance(problem, AbstractSDE):
        dW = problem.Noise(*[1.0] * len(problem.Noise._fields))
        traced.append(str(jax.make_jaxpr(problem.noise)(0.0, y, dW)))
    return any(UNDEFINED_SOMEWHERE.search(text) for text in traced)


def _large_starts(simulation: Simulation, values: dict[str, np.ndarray]) -> dict[str, float]:
    """The initial values so near to the largest number that moderate growth passes it."""
    most = np.finfo(simulation.precision).max / MODERATE
    starts = {name: float(values[name][0]) for name in simulation.problem.State._fields}
    return {name: x for name, x in starts.items() if abs(x) > most}


def _stopped(simulation: Simulation, path: int, counts: dict[str, Any], failure: Failure) -> Failure:
    """The failure of a path that ended early, with the reason."""
    reason = _without_end(failure.endless) or simulation.stepping.why_ended(counts)
    cause = None if failure.endless else _culprit(simulation, path, counts)
    grid: Any = simulation.grid
    place = f"t = {counts[REACHED]:.10g} of {float(grid.t1):g}{f', where {cause}' if cause else ''}"
    return dataclasses.replace(
        failure,
        text=f"path {path}: stopped at {place}: {reason}",
        undefined=_undefined_after(simulation, failure.rows, failure.times, failure.row - 1)
        if failure.row and not failure.endless
        else None,
        reached=float(counts[REACHED]),
        status=int(counts[STATUS]) if STATUS in counts and not failure.endless else None,
        reason=reason,
    )


def _blows_up(simulation: Simulation, values: dict[str, np.ndarray], row: int) -> bool:
    """Whether the state itself grows without bound, which a power of it shows first."""
    states = np.stack([np.abs(values[name]) for name in simulation.problem.State._fields])
    eps = np.finfo(simulation.precision).eps
    return not np.isfinite(states[:, row:]).all() or bool(
        states[:, row].max() * eps**2 > 1 + states[:, 0].max()
    )


def replayed(
    simulation: Simulation, grid: Grid | AdaptiveGrid | JumpGrid, path: int
) -> dict[str, np.ndarray]:
    """The rows of one path by name, from the program that the ensemble runs: the same bits."""
    program, inputs = path_program(simulation, grid)
    ids = path_ids(path, 1, FEWEST_LANES)
    (replay,), _ = compiled(Request(program, (inputs, ids), local_devices(1)))
    rows = replay(inputs, ids)
    others = {*map(waits, simulation.observables), *filter(is_of_weights, rows)}
    return {name: np.array(array)[:, 0, 0] for name, array in rows.items() if name not in others}


def _culprit(simulation: Simulation, path: int, counts: dict[str, Any]) -> str | None:
    """The reaction or event that ended a path, from its counts just before, which a shorter replay has."""
    grid: Any = simulation.grid
    status = int(counts.get(STATUS, -1))
    if status not in (BAD_COUNT, BAD_EVENT):
        return None
    reached = float(counts[REACHED])
    short = moment(grid, reached, status)
    if short is None:
        return None
    rows = replayed(simulation, short, path)
    before = {name: float(rows[name][-1]) for name in simulation.problem.State._fields}
    if not all(map(np.isfinite, before.values())):
        return None
    return culprit(simulation.problem, before, grid, reached, status)
