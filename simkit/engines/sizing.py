r"""How many paths a wanted error takes, from a pilot run on other paths, whose results are dropped.

The run itself then has a number of paths that none of its values has influenced: stopping as soon as an error
is small enough would favour paths that happen to be close together. With the variance $s^2$ of the pilot,
whose own error is a part q of it, an error $\varepsilon$ takes

$$N = \frac{s^2}{\varepsilon^2} \left(1 + 1.645\, q \sqrt{1 + n/N}\right)$$

paths: the pilot's n paths may have shown too small a variance, and the run's own may show a larger one. In 95
of 100 runs both together leave the error at most $\varepsilon$. The step bias takes part of a total error:
from $\varepsilon^2$ the square of the largest bias that the pilot allows is subtracted. Where few paths make
the variance, q does not say how far that of a run may be off, and N is up to `AT_MOST` times as large.

How the error of Sobol' points falls is not known: pilots grow until one of them has reached the target with a
margin, for the spread of its scramblings and of the run's, and the run has as many paths.
"""

import contextlib
import dataclasses
import math
import time
from collections.abc import Mapping
from statistics import NormalDist
from typing import TYPE_CHECKING, cast

import numpy as np

from simkit.config.settings import MAX_PATHS, ErrorTarget
from simkit.config.settings.values import seconds_in
from simkit.engines.drift_search import with_drift
from simkit.ensemble.chunks import ADAPTIVE_WORK
from simkit.ensemble.replicates import MOMENTS, PLAIN, slopes_of
from simkit.ensemble.run import chunk_plan, run_ensemble
from simkit.ensemble.simulation import SEEDS, EnsembleResult, LevelPlan, PilotSize, Simulation
from simkit.ensemble.step_bias.step_error import fisher_quantile
from simkit.errors import InputError, NumericalError
from simkit.experiments.sections.importance_plan import possible_importance
from simkit.experiments.sections.level_plan import possible_levels
from simkit.experiments.sections.reduction_plan import possible_reductions
from simkit.multilevel.pilot import planned
from simkit.progress import counted
from simkit.records.recording import RecordedLoop, unrecorded
from simkit.results.dataset import exact_moments, to_dataset
from simkit.results.step_notes import share_of_one

if TYPE_CHECKING:
    import xarray as xr

FIRST, LEAST, MOST = 2**15, 2**11, 2**22  # paths of a pilot
FIRST_WORK, MOST_WORK = 2 * 10**8, 2 * 10**9  # path-steps of it
GROWTH = 4
FEWEST = 1000  # paths of a run: fewer do not know their own error
# Of a variance, by which that of the run's own paths may be off, unless that takes so many times the paths.
OWN, AT_MOST = 0.2, 2
SURE = NormalDist().inv_cdf(0.95)
KNOWN = 0.05  # of a variance, a mean, or the wanted error, that the pilot may leave unknown
OF_BIAS, OF_NOISE = 0.25, 0.1  # of a total error, by which a step bias, and noise in it, may be unknown
TAIL = 0.1  # of the variance that one path of the pilot may make
CLOSE = 0.5  # of a mean, from which on noise hides that it is not 0
ROOM = 0.9  # of a total error that the step bias may take
SMALL_CHUNKS = 1000  # so many of them take less time than compiling for larger ones
OTHER = 0x9E3779B97F4A7C15  # what separates a pilot's seed from the run's: 2^64 by the golden ratio
PLACE, REDUCTION = "ensemble.target", "ensemble.variance_reduction"


def sized(each: Mapping[str, Simulation]) -> dict[str, Simulation]:
    """The simulations with the number of paths that their targets take.

    Variants and points of a sweep have the same paths, as many as the one that takes most, since they are
    compared path by path. Raises `InputError` for a target that no number of paths reaches, or for which the
    pilot cannot tell how many.
    """
    each = {name: with_slopes(one) for name, one in each.items()}
    if all(one.target is None or one.pilot is not None for one in each.values()):
        return each
    found = {name: _recorded(one) for name, one in each.items()}
    paths = max(count for count, _ in found.values())
    return {name: _with_paths(one, paths, found[name][1]) for name, one in each.items()}


def with_slopes(simulation: Simulation) -> Simulation:
    """The simulation with the coefficients of its control variates, or its drift, by a pilot's paths.

    Raises `InputError` for a control whose mean is not known where the run begins.
    """
    reduction = simulation.reduction
    if reduction is None or reduction.ready:
        return simulation
    if reduction.importance:
        return with_drift(simulation, _first(simulation))
    exact = exact_moments(simulation, simulation.grid.times)
    means = []
    for name in reduction.controls:
        info = simulation.observables.get(name)
        mean = exact.get(name, {}).get("mean") if info is None else info.exact
        if mean is None:
            raise InputError(
                f"{REDUCTION}: the mean of {name} is not known from these initial values; leave it out of "
                "control"
            )
        means.append(float(np.atleast_1d(mean)[-1]))
    with unrecorded():
        result = run_ensemble(_pilot(simulation, _first(simulation)), bias_noise=None)
    covariance, _ = result.covariance_and_count
    names = [str(name) for name in result.statistics["covariance"]["quantity"]]
    slopes = slopes_of(covariance, names, reduction.controls)
    return dataclasses.replace(
        simulation, reduction=dataclasses.replace(reduction, means=tuple(means), slopes=slopes)
    )


def offers(simulation: Simulation) -> dict[str, tuple[int, float]]:
    """By each way to the target, `none` first, the paths that it takes and their seconds.

    The ways are those to reduce variances, and for a total error of a run without them several levels. Those
    for which a pilot cannot tell are left out; all of them where there is no target.
    """
    if simulation.target is None or any(each.exercise for each in simulation.observed):
        return {}
    ways = {"none": None}
    ways |= possible_reductions(simulation.problem, simulation.grid.steps, simulation.observables)
    ways |= possible_importance(simulation)
    result = {}
    for name, way in ways.items():
        with contextlib.suppress(InputError, NumericalError):
            one = with_slopes(dataclasses.replace(simulation, reduction=way, chunk=None))
            _, pilot = _found(one)
            paths = (way or PLAIN).whole(pilot.wanted, up=True)
            result[name] = paths, paths * pilot.of_path_s
    levels = possible_levels(simulation) if "none" in result else None
    if levels is not None:
        paths, seconds = result["none"]
        with contextlib.suppress(InputError, NumericalError):
            plan = planned(levels).levels or LevelPlan()
            of_work_s = seconds / (paths * plan.costs[0])  # the first level is the plain run
            result["method: multilevel"] = sum(plan.paths), plan.work * of_work_s
    return result


class _Size:
    """What a record keeps of a pilot, so that a run that goes on has as many paths."""

    pilot: PilotSize | None = None
    paths: int = 0

    def state(self) -> tuple:
        return self.paths, None if self.pilot is None else dataclasses.astuple(self.pilot)

    def restore(self, state: tuple) -> None:
        self.paths, self.pilot = state[0], PilotSize(*state[1])


def _recorded(simulation: Simulation) -> tuple[int, PilotSize]:
    """The number of paths of one simulation, and how it was found: now, or before the run was stopped."""
    size = _Size()
    loop = RecordedLoop(size, 1)
    if not loop.done:
        with unrecorded():
            size.paths, size.pilot = _found(simulation)
        loop.advance(1)
    return size.paths, cast(PilotSize, size.pilot)


def _with_paths(simulation: Simulation, paths: int, pilot: PilotSize) -> Simulation:
    """The simulation with so many paths, in chunks as the pilot's, whose programs are compiled already."""
    if pilot.wanted <= paths:
        pilot = dataclasses.replace(pilot, limited_by="")
    stored, chunk = min(simulation.stored_paths, paths), simulation.chunk
    if chunk is None:
        chunk = chunk_plan(_pilot(simulation, _first(simulation))).paths
        chunk = chunk if paths <= SMALL_CHUNKS * chunk else None
    return dataclasses.replace(simulation, paths=paths, pilot=pilot, stored_paths=stored, chunk=chunk)


def _first(simulation: Simulation) -> int:
    """The paths of the first pilot: as many as take no longer than compiling."""
    affordable = FIRST_WORK // (simulation.grid.steps or ADAPTIVE_WORK)
    return max(LEAST, min(FIRST, 1 << max(affordable, 1).bit_length() - 1))


def _pilot(simulation: Simulation, paths: int) -> Simulation:
    """The pilot with so many paths: of another seed, and without what a run stores."""
    return dataclasses.replace(
        simulation,
        paths=paths,
        seed=(simulation.seed ^ OTHER) % SEEDS,
        failures="exclude",
        stored_paths=0,
        target=None,
    )


def _found(simulation: Simulation) -> tuple[int, PilotSize]:
    """The number of paths, and how it was found."""
    target = cast(ErrorTarget, simulation.target)
    start, paths = time.perf_counter(), _first(simulation)
    noise: dict[str, float] = {}  # in step biases
    names = simulation.target_names
    while True:
        pilot = _pilot(simulation, paths)
        result = run_ensemble(pilot, bias_noise=None if target.total_error is None else noise)
        seen = _Seen(to_dataset(pilot, result, {}), result, paths, target)
        needs = [seen.need(name) for name in names]
        wanted = max(need.paths for need in needs)
        if all(need.known for need in needs) or paths >= wanted or not _may_grow(paths, result):
            break
        noise = {name: OF_NOISE * seen.wanted(name) for name in names}
        paths *= GROWTH
    for need in needs:
        if need.fault:
            raise InputError(f"{PLACE}: {need.fault}")
    return _limited(wanted, simulation, target, result, paths, time.perf_counter() - start)


def _may_grow(paths: int, result: EnsembleResult) -> bool:
    return GROWTH * paths <= MOST and GROWTH * paths * max(result.mean_steps, 1) <= MOST_WORK


def _limited(
    wanted: float,
    simulation: Simulation,
    target: ErrorTarget,
    result: EnsembleResult,
    paths: int,
    seconds: float,
) -> tuple[int, PilotSize]:
    """The paths that the limits of the target leave. Raises `InputError` where there are not so many."""
    reserved = max((each.exercise.reserved for each in simulation.observed if each.exercise), default=0)
    limits = {"max_paths": target.max_paths or math.inf}
    if target.max_time is not None:
        limits["max_time"] = max(LEAST, seconds_in(target.max_time) * paths / result.elapsed_s)
    limit = min(limits, key=lambda key: limits[key])
    count = min(wanted, limits[limit])
    if count > MAX_PATHS - reserved:
        raise InputError(
            f"{PLACE}: takes about {wanted:.2g} paths, and {MAX_PATHS - reserved:,} are the most; "
            f"ask for {math.sqrt(wanted / (MAX_PATHS - reserved)):.2g} times the error or more"
        )
    reduction = simulation.reduction or PLAIN
    count = reduction.whole(count, up=True)
    limited_by = limit if limits[limit] < max(count, wanted) else ""
    if limited_by:
        count = reduction.whole(limits[limit], up=False)
    return count, PilotSize(paths, seconds, math.ceil(wanted), result.elapsed_s / paths, limited_by)


@dataclasses.dataclass(frozen=True)
class _Need:
    """The paths that a target takes for one quantity; whether the pilot knows them, and if not why."""

    paths: float = math.inf
    known: bool = False
    fault: str = ""


class _Seen:
    """What a pilot of so many paths shows."""

    def __init__(self, dataset: "xr.Dataset", result: EnsembleResult, paths: int, target: ErrorTarget):
        self._dataset, self._paths, self._target = dataset, paths, target
        self._scramblings = int(dataset.attrs.get("scramblings", 0))
        self._moments = result.statistics.get(MOMENTS, result.statistics["moments"])

    def need(self, name: str) -> _Need:
        """What the target takes for a quantity."""
        mean, stderr = abs(self._figure(name, self._value(name))), self._figure(name, "stderr")
        of = self._of(name)
        pilot = f"in a pilot of {counted(self._paths, 'path')}"
        if any(self._figure(part, "min") == self._figure(part, "max") for part in of):
            return _Need(
                fault=f"{name} is the same on all paths {pilot}, so its error is unknown; give paths"
            )
        if not math.isfinite(stderr):
            return _Need(fault=f"{name} has no finite error {pilot}; give paths")
        share = max(share_of_one(self._dataset, part) for part in of)
        if share > TAIL:
            return _Need(
                fault=f"one path of {name} makes {100 * share:.0f} % of the variance {pilot}, which may be "
                "infinite; give paths, or observe what has lighter tails"
            )
        wanted, sure = self.wanted(name), True
        if self._target.relative:
            doubt = SURE * stderr
            if doubt > CLOSE * mean:
                return _Need(
                    fault=f"the mean of {name} is too close to 0 for a relative error: {mean:.2g} ± "
                    f"{stderr:.2g} {pilot}; leave relative out"
                )
            sure = doubt <= KNOWN * mean
        eps = float(np.finfo(self._dataset.attrs["precision"]).eps)
        if wanted < eps * mean:
            rounding = f"the rounding of {name}, about {eps * mean:.2g}"
            return _Need(known=True, fault=f"{wanted:.2g} is less than {rounding}; ask for more")
        if self._target.total_error is not None:
            bias, fault = self._largest_bias(name, wanted)
            if fault or bias >= ROOM * wanted:
                return _Need(fault=fault or self._too_long(name, bias, wanted))
            sure = (sure and self._figure(name, "bias_stderr") <= OF_BIAS * wanted) or bias == 0
            wanted = math.sqrt(wanted**2 - bias**2)
        if self._scramblings:
            return self._need_of_points(stderr / wanted, sure)
        doubt = max(self._doubt(part) for part in of)
        return _Need(self._count(stderr**2 * self._paths / wanted**2, doubt), bool(sure and doubt <= KNOWN))

    def _need_of_points(self, excess: float, sure: bool) -> _Need:
        """The paths of Sobol' points where the pilot's error is `excess` times the wanted one.

        With more points it falls at least as fast as that of independent paths. With n times fewer it grows
        at most by n^1.5, which is the rate of smooth functions (Owen 1997).
        """
        freedom = self._scramblings - 1
        excess *= math.sqrt(fisher_quantile(freedom, 0.95))
        paths = self._paths * excess ** (2 if excess > 1 else 2 / 3)
        return _Need(max(paths, FEWEST), sure and excess <= 1)

    def wanted(self, name: str) -> float:
        """The error that is wanted; of a relative one what the mean is at least."""
        wanted = float(self._target.stderr or self._target.total_error or 0)
        if not self._target.relative:
            return wanted
        mean, doubt = abs(self._figure(name, self._value(name))), SURE * self._figure(name, "stderr")
        return wanted * max(mean - doubt, CLOSE * mean)

    def _count(self, paths: float, doubt: float) -> float:
        """The paths with what two samples of such a variance may differ by."""
        fewest = max(FEWEST, min(self._paths * (doubt / OWN) ** 2, AT_MOST * paths))
        count = max(paths, fewest)
        for _ in range(20):
            count = max(paths * (1 + SURE * doubt * math.sqrt(1 + self._paths / count)), fewest)
        return count

    def _figure(self, name: str, key: str) -> float:
        """A figure at the end, NaN where there is none."""
        return float(np.atleast_1d(self._dataset.get(f"{name}_{key}", np.nan))[-1])

    def _value(self, name: str) -> str:
        return "mean" if f"{name}_mean" in self._dataset else "value"

    def _of(self, name: str) -> list[str]:
        """The means that a figure is made of; a mean is made of itself."""
        return str(self._dataset[f"{name}_{self._value(name)}"].attrs.get("means", name)).split()

    def _doubt(self, name: str) -> float:
        """The error of a variance, as a part of it."""
        variance, stderr = (self._moments[f"{name}_{key}"][-1] for key in ("variance", "variance_stderr"))
        return float(stderr / variance) if variance > 0 else 0.0

    def _largest_bias(self, name: str, wanted: float) -> tuple[float, str]:
        """The largest step bias that the pilot allows, or why that is unknown."""
        if f"{name}_bias" not in self._dataset:
            return 0.0, ""
        bias = abs(self._figure(name, "bias")) + self._figure(name, "bias_stderr")
        if math.isfinite(bias):
            return bias, ""
        return math.inf, f"the step bias of {name} is unknown, so no total error is; ask for a stderr"

    def _too_long(self, name: str, bias: float, wanted: float) -> str:
        """That the steps are too long for a total error."""
        part = f"the step bias of {name} is up to {bias:.2g}, of a total error of {wanted:.2g}"
        steps, order = self._dataset.attrs.get("steps"), self._figure(name, "bias_order")
        if steps is None or not order > 0:
            return f"{part}; use shorter steps"
        # A whole number of times as many: dates that are ends of steps remain so.
        return f"{part}; use about {steps * math.ceil((2 * bias / wanted) ** (1 / order))} time.steps"
