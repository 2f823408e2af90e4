"""The step bias: how far means are from those of infinitely short steps, by the same paths on other grids.

`step_levels` says which grids these are, `step_error` what follows from the values. The first 4096 paths run
again, of adaptive steps no more than a tenth of the work of the run, and then as many more as it takes for
the bias to be known as well as the mean, within that tenth. Where few of them change, or none, and what one
could add would leave the mean in doubt, as of a rare event, they are as many as it takes, within the work of
the run. Where longer steps have no claim to an estimate, or no finite values, shorter ones are compared: they
cost more, and say more of the run's own.
"""

import dataclasses
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
from simkit_solvers.methods.registry import samples_exactly, weak_order
from simkit_solvers.problems.schedule import schedule_of

from simkit.ensemble.chunk_program import chunk_program, quantity_rows
from simkit.ensemble.chunks import lanes_for, leaf_by_leaf
from simkit.ensemble.could_differ import could_differ, is_random, observable_of, range_of
from simkit.ensemble.paths import path_program, with_traced_steps
from simkit.ensemble.programs import Request, compiled
from simkit.ensemble.replicates import PLAIN, VarianceReduction
from simkit.ensemble.simulation import Simulation
from simkit.ensemble.step_bias.bias_paths import BiasRun, Ends
from simkit.ensemble.step_bias.leap_bias import leap_run
from simkit.ensemble.step_bias.resolution import OF_VALUE, resolution
from simkit.ensemble.step_bias.rounding import rounding_of_normals, rounding_of_steps, scales_by_rate
from simkit.ensemble.step_bias.step_error import ROUNDINGS, StepError, step_error
from simkit.ensemble.step_bias.step_levels import OtherGrid, approximate, levels
from simkit.ensemble.work import devices_of, workers_on
from simkit.machine.on_each_device import local_devices
from simkit.observe.observable import Observable

BIAS_PATHS = 4096
MOST_BIAS_PATHS = 2**19  # 4 MB of final values for each quantity
PART_OF_WORK = 0.1
OF_DELAYS = 0.5  # order of what is late by a part of a step
MOST_LOST = 0.01  # of the paths: more that fail on another grid, and the others are no sample of all
FEW = 9  # paths whose change says little of how many may change


@dataclasses.dataclass(frozen=True)
class StepErrors:
    """Step errors of mean and variance by quantity, and how many paths are finite in the run only."""

    errors: dict[str, StepError]
    left_out: dict[str, int]
    variances: dict[str, StepError] = dataclasses.field(default_factory=dict)

    def without(self, names: Collection[str]) -> "StepErrors":
        """The errors of all other quantities."""

        def others(each: Mapping[str, Any]) -> dict[str, Any]:
            return {name: x for name, x in each.items() if name not in names}

        return StepErrors(others(self.errors), others(self.left_out), others(self.variances))


def unknown_errors(simulation: Simulation) -> StepErrors:
    """The errors of a run without anything to compare with: unknown, none where sampling is exact.

    The former are runs whose jumps are not split between halves of a step, and whose number of steps or dates
    rule out longer ones.
    """
    return StepErrors(dict.fromkeys(approximate_means(simulation), UNKNOWN), {})


def approximate_means(simulation: Simulation) -> tuple[str, ...]:
    """The quantities whose means have a step error: of exact states those of functionals over time."""
    if simulation.stepping.exact:
        return ()
    if samples_exactly(simulation.solver, simulation.problem):
        return approximate(simulation)
    return *simulation.problem.State._fields, *simulation.observables


def extremes_of_steps(simulation: Simulation) -> tuple[str, ...]:
    """The quantities of an ordinary equation with the largest or smallest value at its fixed steps.

    What lies between steps shows on no other grid: the largest value at twice as many is often the same.
    """
    return tuple(each.name for each in _of_fixed_steps(simulation) if each.has_extremes_of_steps)


def first_times_of_steps(simulation: Simulation) -> tuple[str, ...]:
    """The quantities of an ordinary equation with a first time that is one of its fixed steps.

    It is late by up to a step, and on a grid that keeps these dates by the same.
    """
    return tuple(each.name for each in _of_fixed_steps(simulation) if each.has_first_times_of_steps)


def _of_fixed_steps(simulation: Simulation) -> Sequence[Observable]:
    return simulation.observed if simulation.stepping.kind == "ode" and simulation.grid.steps else ()


def without_step_bias(simulation: Simulation) -> tuple[str, ...]:
    """The quantities of which other grids say nothing: extremes and first times of steps, and other monitors.

    Where a condition triggers events at the ends of steps, those of another grid change the path between the
    dates that a functional monitors: it would miss what the run's own steps see. One over time has no dates.
    """
    schedule = schedule_of(simulation.problem)
    triggered = schedule is not None and schedule.triggered and simulation.problem.stochastic
    monitored = [each.name for each in simulation.observed if triggered and each.has_dates]
    of_steps = *extremes_of_steps(simulation), *first_times_of_steps(simulation)
    return *dict.fromkeys(of_steps), *([] if simulation.stepping.whole else monitored)


def bias_run(simulation: Simulation, shorter: bool = False) -> BiasRun | None:
    """How to find the step bias; None where there is nothing to compare with (`levels`)."""
    if simulation.stepping.whole:
        return leap_run(simulation, shorter, PART_OF_WORK, MOST_BIAS_PATHS)
    others = levels(simulation, shorter)
    if not others:
        return None
    cost = sum(other.cost for other in others)
    random = is_random(simulation)
    affordable = min(int(PART_OF_WORK * simulation.paths / cost), MOST_BIAS_PATHS)
    first = BIAS_PATHS
    if not simulation.grid.known:
        first = min(lanes_for(affordable), BIAS_PATHS)  # all lanes are simulated in any case
    paths = min(simulation.paths, first) if random else 1
    most = max(paths, affordable) if random else 1
    at_most = max(most, BIAS_PATHS, min(int(simulation.paths / cost), MOST_BIAS_PATHS))
    at_most = min(simulation.paths, at_most) if random else 1
    devices = devices_of(simulation) if most > paths else local_devices(1)
    ids = leaf_by_leaf(paths).ids()

    def request(other: OtherGrid) -> Request:
        there = simulation.with_run(observer=other.observer, grid=other.grid)
        grid = with_traced_steps(simulation, other.grid)
        program, inputs = path_program(there, grid, other.driver)
        return Request(chunk_program(there, program, ids), (inputs, ids), devices)

    names = tuple(quantity_rows(simulation))

    def ends(result) -> Ends:
        values, _ = result
        last = (np.asarray(array, np.float64)[-1].reshape(1, -1) for array in values)
        return dict(zip(names, last, strict=True))

    factors = tuple(other.factor for other in others if other.factor != 1)
    requests = tuple(map(request, others))
    workers = workers_on(devices, simulation.threads)
    return BiasRun(factors, requests, ends, orders(simulation), paths, most, at_most, workers)


def orders(simulation: Simulation) -> dict[str, float]:
    """The order of each quantity's mean: the solver's, of integrals over steps no more than the trapezoid's.

    Where nothing but the rule of the integral can be wrong, the order is that of the rule. Bridges between
    exact states keep the volatility of their start, which leaves them order 1. Extremes of steps have none.
    An event that a condition triggers, or a first time, is late by the part of a step in which noise moves
    on: order 1/2. Adaptive steps locate first times.
    """
    stepping = simulation.stepping
    exact = samples_exactly(simulation.solver, simulation.problem)
    order = 1.0 if exact else stepping.order or weak_order(simulation.solver, simulation.problem)
    schedule = schedule_of(simulation.problem)
    if schedule is not None and schedule.triggered and simulation.problem.stochastic:
        order = min(order, OF_DELAYS)
    state = {*simulation.problem.State._fields}
    by_name = dict.fromkeys(approximate_means(simulation), order)
    for observable in simulation.observed if simulation.grid.steps and not stepping.whole else ():
        own = [functional.order for functional in observable.functionals if functional.order is not None]
        if observable.name in by_name and own:
            of_states = [] if exact or not observable.names & state else [order]
            by_name[observable.name] = min(own + of_states)
    unknown = without_step_bias(simulation)
    return {name: order for name, order in by_name.items() if name not in unknown}


@dataclasses.dataclass(frozen=True)
class FinishedRun:
    """A simulation that has run: final values of the first paths, statistics of all, and steps of a path.

    `noise` are by quantity the errors down to which noise in a bias matters, if not that of the mean.
    """

    simulation: Simulation
    ends: Mapping[str, np.ndarray]
    moments: Mapping[str, np.ndarray]
    steps: float
    noise: Mapping[str, float] = dataclasses.field(default_factory=dict)


def step_errors(
    finished: FinishedRun, bias: BiasRun, simulate: Sequence[Callable]
) -> tuple[StepErrors, float]:
    """The step errors of all quantities at the end, and the seconds that it took to compile for them.

    `simulate` gives paths on each level of the bias run.
    """
    if finished.simulation.stepping.is_capped(lambda: finished.steps):
        return StepErrors(dict.fromkeys(bias.orders, UNKNOWN), {}), 0.0
    result = _by_levels(finished, bias, simulate)
    result.errors.update(dict.fromkeys(without_step_bias(finished.simulation), UNKNOWN))
    matters = {name: OF_VALUE * _Last.of(name, finished.moments).size for name in bias.orders}
    known = {name: error for name, error in result.errors.items() if name not in result.left_out}
    without = [name for name in bias.orders if name not in known or known[name].says_little(matters[name])]
    if bias.most == 1 and not {*without}.isdisjoint(finished.simulation.problem.State._fields):
        without = list(bias.orders)  # of one path, whose variables depend on each other
    shorter = bias_run(finished.simulation, shorter=True) if without else None
    if shorter is None or shorter.factors == bias.factors:
        unknown = dict.fromkeys(bias.orders, UNKNOWN)
        return dataclasses.replace(result, errors=unknown | result.errors), 0.0
    shorter = dataclasses.replace(shorter, orders=bias.orders)
    _, compile_s = compiled(*shorter.requests)
    again = _by_levels(finished, shorter, shorter.ready())
    errors = {name: again.errors.get(name, UNKNOWN) for name in without}
    left_out = {name: again.left_out[name] for name in without if name in again.left_out}
    variances = {name: again.variances.get(name, UNKNOWN) for name in without if name in result.variances}
    return StepErrors(result.errors | errors, left_out, result.variances | variances), compile_s


def _by_levels(finished: FinishedRun, bias: BiasRun, simulate: Sequence[Callable]) -> StepErrors:
    """The step errors by these grids, by as many paths as it takes."""
    simulation = finished.simulation
    last = {name: _Last.of(name, finished.moments) for name in bias.orders}
    scales = scales_by_rate(simulation, finished.ends)
    in_normals = rounding_of_normals(simulation)
    unsure = simulation.stepping.unsure_order
    finest = min(1.0, *bias.factors) if simulation.grid.known else 1.0
    steps = finished.steps / finest  # of the finest grid, which has the most roundings

    def rounding_of(name: str) -> float:
        size_on_the_way = max(last[name].size, scales.get(name, 0.0))
        rounding = float(rounding_of_steps(size_on_the_way, simulation, steps, last[name].spread))
        return max(rounding, in_normals * last[name].spread)

    def errors(each: Mapping[str, np.ndarray]) -> StepErrors:
        result = StepErrors({}, {})
        reduction = simulation.reduction or PLAIN
        reduced = reduction.controlled(each)
        roundings = {name: rounding_of(name) for name in each}
        events = {name: _event(name, last[name], simulation) for name in each}
        events |= dict.fromkeys(_without_steps(each, roundings, events, bias.factors, simulation), 0.0)
        for name, values in each.items():
            size, order, rounding, event = last[name].size, bias.orders[name], roundings[name], events[name]
            own, random = reduced[name], simulation.stepping.random
            jumps = bool(event) and _has_other_histories(name, simulation)
            error, lost = step_error_of_paths(
                values, bias.factors, order, rounding, event, unsure, reduction, own, random, jumps
            )
            if error is not None:
                result.errors[name] = error
            if lost:
                result.left_out[name] = lost
            if last[name].varies and not reduction.importance:
                of_squares = size * rounding
                if error is not None:  # what noise adds to a mean is in the variance too, squared
                    change = last[name].range if error.unseen else error.noise
                    of_squares = max(of_squares, change * error.noise)
                error, _ = step_error_of_paths(
                    _squares(values), bias.factors, order, of_squares, 0.0, unsure, reduction, jumps=jumps
                )
                if error is not None:
                    result.variances[name] = error
        return result

    so_far, values = bias.paths, bias.values(simulate, finished.ends, 0, bias.paths)
    result = errors(values)
    for times, most in (_times_for_noise_of_mean, bias.most), (_times_for_a_result, bias.at_most):
        known = {name: error for name, error in result.errors.items() if math.isfinite(error.noise)}
        wanted = max((times(error, last[name], name, finished) for name, error in known.items()), default=0.0)
        paths = math.ceil(min(so_far * wanted, most))
        if paths > so_far:
            more = bias.values(simulate, finished.ends, so_far, paths - so_far)
            values = {name: np.concatenate([x, more[name]]) for name, x in values.items()}
            so_far, result = paths, errors(values)
    return result


def _times_for_noise_of_mean(error: StepError, last: "_Last", name: str, finished: FinishedRun) -> float:
    """How many times as many paths know a bias as well as the mean."""
    if not 0 < last.stderr < math.inf or error.claim != "estimate":
        return 0.0
    return (error.noise / min(last.stderr, finished.noise.get(name, math.inf))) ** 2


def _times_for_a_result(error: StepError, last: "_Last", *_) -> float:
    """How many times as many paths it takes for what one could add not to leave a mean in doubt.

    Noise that is seen stays: it may be that of few large values, which make the mean doubtful itself.
    """
    return resolution(error, abs(last.mean), last.spread, last.stderr, 1).paths if error.unseen else 0.0


def step_error_of_paths(
    values: np.ndarray,
    factors: tuple[float, ...],
    order: float,
    rounding: float,
    event: float,
    unsure: float = 0.0,
    reduction: VarianceReduction = PLAIN,
    reduced: np.ndarray | None = None,
    random: bool = False,
    jumps: bool = False,
) -> tuple[StepError | None, int]:
    """The step error, and how many paths are finite in the run alone, on the worst of the grids.

    Of few values that the grids of the estimate change on none of n paths, or on few, they may change one in
    n to the next: of molecules M by 1, of M² by 2M + 1, and by `event` where all are the same. The same holds
    of a number that half of the paths share. Of values with `jumps` one in n may have another history, and
    move as far as two paths differ in the root mean square. The extrapolation enlarges what one path changes.
    Errors are those of the averages that `reduction` makes of the values, or of `reduced` ones if these are
    given. One path that is `random` shows no order.
    A grid on which too many are lost does not count, nor do longer steps: paths that survive are no sample of
    all. Where no grid is left, or a finer one is lost, there is no estimate.
    """
    averaged = values if reduced is None else reduced
    finite = np.isfinite(values)
    values, finite = (values, finite) if finite.all() else (values[finite[:, 0]], finite[finite[:, 0]])
    lost = len(finite) - finite.sum(0)
    good = lost <= MOST_LOST * len(values)
    lengths = np.asarray([1.0, *factors])
    good &= lengths < lengths[~good & (lengths > 1)].min(initial=np.inf)
    if not len(values) or not good[1:].any() or not good[lengths < 1].all():
        return None, int(lost.max(initial=0))
    near = values[:, good][:, _of_estimate(lengths[good])]
    near = near if not lost[good].any() else near[finite[:, good].all(1)]
    shared = 2 if reduction.importance else len(near) / 2
    change = _of_rarer_paths(near, event, rounding, shared) if event and len(near) else 0.0
    if jumps and len(near):
        with np.errstate(over="ignore", invalid="ignore"):
            change = max(change, math.sqrt(2) * float(near[:, 0].std()))
    unseen = change * _enlarged(lengths[good], order) / max(len(near), 1)
    means = reduction.averaged(averaged[:, good])
    error = step_error(means, lengths[1:][good[1:]].tolist(), order, max(rounding, unseen), unsure, random)
    if error is not None and error.noise == unseen > 0:
        error = dataclasses.replace(error, unseen=True)
    estimated = error is not None and math.isfinite(error.bias)
    return (error if estimated else None), int(lost.max())


def _enlarged(lengths: np.ndarray, order: float) -> float:
    """How many times as large the bias is as the difference between the two finest grids; 1 at least."""
    finest, next_finest, *_ = np.sort(lengths)
    return max(1.0, float(1 / ((next_finest / finest) ** order - 1)))


def _has_other_histories(name: str, simulation: Simulation) -> bool:
    """Whether a path may jump to another value on another grid, however close the grids are elsewhere.

    There an event with a condition comes before the end or not at all, a first time sooner or much later, and
    an option is exercised or held. Ordinary equations locate both.
    """
    if not simulation.stepping.random:
        return False
    schedule, observable = schedule_of(simulation.problem), observable_of(name, simulation)
    if schedule is not None and schedule.counted:
        return True
    waits = observable is not None and any(each.conditional for each in observable.functionals)
    return waits or (observable is not None and observable.exercise is not None)


def changed_paths(values: np.ndarray, factors: Sequence[float], rounding: float = 0.0) -> int:
    """How many paths have another value on the grids from which the bias is extrapolated."""
    return _changed(values[:, _of_estimate(np.asarray([1.0, *factors]))], rounding)


def _of_estimate(lengths: np.ndarray) -> list[int]:
    """The columns from whose differences the bias is extrapolated: of the run and the two finest grids."""
    return sorted({0, *np.argsort(lengths)[:2].tolist()})


def _changed(values: np.ndarray, rounding: float) -> int:
    return int(np.sum(~(_spread(values) <= rounding)))


def _spread(values: np.ndarray) -> np.ndarray:
    """How far apart the values of each path are: along columns, which takes a tenth of the time of rows."""
    columns = np.ascontiguousarray(values.T)
    return columns.max(0) - columns.min(0)


def _of_rarer_paths(values: np.ndarray, event: float, rounding: float, shared: float) -> float:
    """How much another grid may change a path where it changes few of these; 0 where that does not count.

    It counts for whole numbers and others of which paths share the values, and for one that `shared` paths
    have or more, such as the end of the run for a time at which something first happens, or 0 where paths
    have weights, where no grid has brought a path there, or away.
    """
    run = values[:, 0]
    few = _changed(values, rounding) <= min(FEW, len(run) // 10)
    if np.all(values == np.rint(values)):
        return _to_the_next(run, event) if few else 0.0
    distinct, paths = np.unique(run, return_counts=True)
    place = int(np.argmax(paths))
    there = values == distinct[place]
    if paths[place] >= shared and not np.any(there.any(1) & ~there.all(1)):
        away = run[~there[:, 0]]
        return float(np.mean(np.abs(away - distinct[place]))) if len(away) else event
    return _to_the_next(run, event) if few and 2 * len(distinct) <= len(run) else 0.0


def _to_the_next(values: np.ndarray, alone: float) -> float:
    """How far it is in the mean from a value to the farther of its neighbours; `alone` if it has none."""
    distinct, paths = np.unique(values, return_counts=True)
    if len(distinct) < 2:
        return alone
    gaps = np.diff(distinct)
    return float(np.average(np.maximum(np.append(gaps, 0.0), np.insert(gaps, 0, 0.0)), weights=paths))


def _event(name: str, last: "_Last", simulation: Simulation) -> float:
    """How far apart the values of two paths could be between which events or counts differ; 0 if none can.

    Where all paths have one value, it is as far as from one end of what they could have to the other.
    """
    if last.varies:
        return last.range
    least, most = range_of(name, simulation)
    return most - least if could_differ(name, last.mean, simulation) else 0.0


def _without_steps(
    each: Mapping[str, np.ndarray],
    roundings: Mapping[str, float],
    events: Mapping[str, float],
    factors: tuple[float, ...],
    simulation: Simulation,
) -> list[str]:
    """The observables of variables that other grids change by roundings only: none changes these either.

    What a path meets between is another matter, as are whole numbers, and events that a condition triggers.
    """
    schedule = schedule_of(simulation.problem)
    if schedule is not None and schedule.triggered:
        return []

    def is_exact(name: str) -> bool:
        values = each.get(name)
        if values is None or not np.isfinite(values).all():
            return False
        with np.errstate(over="ignore"):
            rms = float(np.sqrt(np.mean(_spread(values) ** 2)))
        near = values[:, _of_estimate(np.asarray([1.0, *factors]))]
        rare = events[name] and _of_rarer_paths(near, events[name], roundings[name], len(near) / 2)
        return rms <= ROUNDINGS * roundings[name] and not rare

    state = {*simulation.problem.State._fields}
    exact = {name for name in state if is_exact(name)}
    return [
        observable.name
        for observable in simulation.observed
        if observable.name in each
        and not (observable.functionals or observable.exercise)
        and observable.names & state <= exact
    ]


def _squares(values: np.ndarray) -> np.ndarray:
    """Squared deviations, whose means are the variances at each length of step."""
    finite = np.isfinite(values)
    n = finite.sum(0)
    with np.errstate(over="ignore", invalid="ignore"):
        means = np.where(finite, values, 0.0).sum(0) / np.maximum(n, 1)
        return (values - means) ** 2 * (n / np.maximum(n - 1, 1))


@dataclasses.dataclass(frozen=True)
class _Last:
    """What the statistics say of a quantity at the end, and whether paths differ in it."""

    mean: float
    size: float
    spread: float
    stderr: float
    range: float

    @property
    def varies(self) -> bool:
        return self.range > 0

    @staticmethod
    def of(name: str, moments: Mapping[str, np.ndarray]) -> "_Last":
        mean, variance, stderr, low, high = (
            float(moments[f"{name}_{key}"][-1]) for key in ("mean", "variance", "stderr", "min", "max")
        )
        spread = float(np.sqrt(np.nan_to_num(variance)))
        return _Last(mean, math.hypot(mean, spread), spread, stderr, high - low)


UNKNOWN = StepError(math.nan, math.nan, math.nan, "at least", math.nan)
