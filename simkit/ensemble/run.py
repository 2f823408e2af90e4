"""Running an ensemble: chunks of paths in several threads, reduced one by one."""

import dataclasses
import functools
import math
import time
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import jax
import jax.numpy as jnp
import numpy as np

from simkit.ensemble.accumulator import Accumulator
from simkit.ensemble.chunk_program import chunk_program, marked_events, quantity_rows
from simkit.ensemble.chunks import Chunk, Chunks, plan_chunks
from simkit.ensemble.early_exercise.longstaff_schwartz import with_policies, with_upper_bounds
from simkit.ensemble.over_chunks import Progress, over_chunks
from simkit.ensemble.paths import path_program, with_traced_steps
from simkit.ensemble.programs import Request, compiled
from simkit.ensemble.reducers import STATISTICS, AbstractReducer, GroupMoments, Moments
from simkit.ensemble.replicates import PLAIN, replicate_reducers, replicated, with_replicates
from simkit.ensemble.simulation import EnsembleResult, Simulation, StepCounts
from simkit.ensemble.step_bias.bias_paths import BiasRun
from simkit.ensemble.step_bias.coupled_steps import (
    BIAS_PATHS,
    FinishedRun,
    bias_run,
    step_errors,
    unknown_errors,
)
from simkit.ensemble.stepping import ACCEPTED, REJECTED
from simkit.ensemble.weights import (
    LOG_WEIGHT,
    WEIGHTS,
    paths_reaching,
    plain_squares,
    reach_of,
    square_reducer,
    without_degenerate,
)
from simkit.ensemble.work import devices_of, workers_of
from simkit.errors import NumericalError
from simkit.observe.exercise import ExerciseFit
from simkit.observe.observable import waits
from simkit.progress import counted
from simkit.records.path_file import PathFile

COUNTED_PATHS = 256  # for the mean number of adaptive steps

# Adds the paths of a plan to an accumulator, and gives the seconds that took.
Accumulate = Callable[[Simulation, Accumulator, Chunks, Progress | None], float]


def default_reducers(
    rows: Mapping[str, int], quantiles: tuple[float, ...] = (), scramblings: int = 0
) -> dict[str, AbstractReducer]:
    """All statistics, of quantities with these numbers of rows; of `scramblings` the means are theirs."""
    settings = {"rows": rows, "quantiles": quantiles}
    reducers = {
        name: kind(**{field.name: settings[field.name] for field in dataclasses.fields(kind)})
        for name, kind in STATISTICS.items()
    }
    return reducers | ({Moments.name: GroupMoments(rows, scramblings)} if scramblings else {})


def run_ensemble(
    simulation: Simulation,
    progress: Progress | None = None,
    ends: int = BIAS_PATHS,
    elsewhere: Accumulate | None = None,
    bias_noise: Mapping[str, float] | None = MappingProxyType({}),
) -> EnsembleResult:
    """Simulate all paths and give their statistics.

    Statistics have the same bits for every number of threads and devices, and every chunk size. `progress` is
    called with the paths done and the paths in all. The result has the final values of the first `ends`
    paths, at least those that the step bias takes. Where `elsewhere` is given, it adds the paths to an
    accumulator. `bias_noise` are by quantity the errors down to which noise in a step bias matters, if
    not that of the mean; of None there is no step bias. Raises `NumericalError` when a path becomes NaN or
    infinite and `failures` is `stop`.
    """
    return simulate_paths(simulation, progress, ends, elsewhere, bias_noise).result()


def simulate_paths(
    simulation: Simulation,
    progress: Progress | None = None,
    ends: int = BIAS_PATHS,
    elsewhere: Accumulate | None = None,
    bias_noise: Mapping[str, float] | None = MappingProxyType({}),
) -> "SimulatedPaths":
    """Simulate all paths as `run_ensemble` does, whose statistics are left to be finished."""
    with jax.enable_x64(True):
        return _simulated(simulation, progress, ends, elsewhere, bias_noise)


def run_part(
    simulation: Simulation, part: range, progress: Progress | None = None, ends: int = BIAS_PATHS
) -> tuple:
    """Simulate a part of the paths, which begins with a leaf, and give the state of their accumulator.

    With it come the seconds that took.
    """
    with jax.enable_x64(True):
        simulation, *_ = with_policies(simulation)
        return accumulated(simulation, part, _ends_of(bias_run(simulation), ends), progress)


def chunk_plan(simulation: Simulation) -> Chunks:
    """How `run_ensemble` would cut this ensemble."""
    marks = -(-marked_events(simulation) * simulation.grid.rows // 8)  # a byte each
    return plan_chunks(simulation, simulation.paths, sum(quantity_rows(simulation).values()) + marks)


def mean_steps_of_few(simulation: Simulation) -> float:
    """The steps of a path whose tolerances choose them, refused ones too: the mean of the first few paths.

    Observables with early exercise must have their policies.
    """
    few = dataclasses.replace(simulation, paths=min(simulation.paths, COUNTED_PATHS))
    plan = chunk_plan(few)
    request, _ = chunk_requests(few, plan)
    (program,), _ = compiled(request)
    _, counts = program(*request.arguments)
    return float(sum(np.ravel(counts[name])[: few.paths].mean() for name in (ACCEPTED, REJECTED)))


def waiting_paths(simulation: Simulation) -> dict[str, tuple[int, int]]:
    """For each first time how many paths still wait at the end, and of how many without a failure."""
    names = [observable.name for observable in simulation.observed if observable.first_time is not None]
    plan = chunk_plan(simulation)
    request, _ = chunk_requests(simulation, plan)
    (program,), _ = compiled(request)
    waiting, finite = dict.fromkeys(names, 0), 0

    def work(chunk: Chunk) -> tuple:
        values, counts = program(request.arguments[0], chunk.ids)
        of_paths = [np.asarray(array).reshape(len(array), -1)[:, : chunk.count] for array in values]
        sound = np.all([np.isfinite(rows).all(0) for rows in of_paths], axis=0)
        waits_at_end = {name: np.ravel(counts[waits(name)])[: chunk.count] for name in names}
        return sound, waits_at_end

    def add(chunk: Chunk, outputs: tuple) -> None:
        nonlocal finite
        sound, waits_at_end = outputs
        finite += int(sound.sum())
        for name, still in waits_at_end.items():
            waiting[name] += int(still[sound].sum())

    if names:
        over_chunks(plan, work, add, workers_of(simulation))
    return {name: (count, finite) for name, count in waiting.items()}


@dataclasses.dataclass(frozen=True)
class Reduction:
    """A function of (quantities of one chunk in order, how many of its paths count) that reduces them.

    A program of its own, which reads no names: models that differ share it where they have as many rows, and
    a third less is compiled for each. `kinds` are the statistics, by which programs differ. Where variances
    are reduced there are those of replicates too, with `numbers` of the `controls`, or those of squares, with
    the logarithms of the weights.
    """

    counts: tuple[int, ...]
    kinds: tuple[type[AbstractReducer], ...]
    antithetic: bool = False
    scramblings: int = 0
    controls: tuple[str, ...] = ()

    def __call__(self, values, remaining, numbers=None, log_weight=None):
        ids = values[0].shape[1:]
        finite = jnp.ones(ids, bool)
        for array in values:
            finite &= jnp.all(jnp.isfinite(array), axis=0)
        present = jnp.arange(math.prod(ids), dtype=jnp.int64).reshape(ids) < remaining
        named = {str(place): array for place, array in enumerate(values)}
        rows = {str(place): count for place, count in enumerate(self.counts)}
        reducers = default_reducers(rows, (), self.scramblings)
        partials = {name: reducer.update(named, present & finite) for name, reducer in reducers.items()}
        if numbers is not None:
            means, sound = replicated(named, present & finite, self.antithetic, self.controls, numbers)
            of_replicates = replicate_reducers(rows).items()
            partials |= {name: reducer.update(means, sound) for name, reducer in of_replicates}
        if log_weight is not None:
            partials[WEIGHTS] = square_reducer(rows).update(
                plain_squares(named, log_weight), present & finite
            )
        lost = present & ~finite
        return partials, lost, jnp.any(lost)


def chunk_requests(simulation: Simulation, plan: Chunks) -> tuple[Request, Request]:
    """The two programs of a run: the one that simulates a chunk of paths, and the one that reduces it.

    Observables with early exercise must have their policies.
    """
    rows = quantity_rows(simulation)
    grid = with_traced_steps(simulation, simulation.grid)
    devices = devices_of(simulation)
    paths, inputs = path_program(simulation, grid)
    ids = plan.ids()
    simulated = Request(chunk_program(simulation, paths, ids), (inputs, ids), devices)
    values = _values(simulation, ids.shape)
    counts, kinds, reduced = tuple(rows.values()), tuple(STATISTICS.values()), simulation.reduction
    if reduced is not None and reduced.drift is not None:
        log_weight = jax.ShapeDtypeStruct((simulation.grid.rows, *ids.shape), jnp.dtype(simulation.precision))
        given = values, np.int64(0), None, log_weight
        return simulated, Request(Reduction(counts, kinds), given, devices)
    if reduced is None or not reduced.has_replicates:
        scramblings = 0 if reduced is None else reduced.scramblings
        reduction = Reduction(counts, kinds, scramblings=scramblings)
        return simulated, Request(reduction, (values, np.int64(0)), devices)
    places = [*rows]
    controls = tuple(str(places.index(name)) for name in reduced.controls) if reduced.slopes else ()
    reduction = Reduction(counts, kinds, reduced.antithetic, controls=controls)
    return simulated, Request(reduction, (values, np.int64(0), reduced.numbers(places)), devices)


def accumulated(
    simulation: Simulation,
    part: range,
    ends: int,
    progress: Progress | None = None,
    paths_in: PathFile | None = None,
) -> tuple:
    """The state of an accumulator that has the paths of a part, and the seconds that took.

    Stored paths go into the file `paths_in` if it is given. Observables with early exercise must have their
    policies.
    """
    plan = chunk_plan(simulation).of_part(part, len(workers_of(simulation)))
    accumulator = _accumulator(simulation, ends, part, paths_in)
    seconds = _accumulate(simulation, accumulator, plan, progress)
    return accumulator.state(), seconds


def _ends_of_replicates(
    simulation: Simulation,
    statistics: Mapping[str, Mapping[str, np.ndarray]],
    final: Mapping[str, np.ndarray],
    count: int,
) -> dict[str, np.ndarray]:
    """The final values of the replicates of `count` paths, of all paths where these are scramblings."""
    first = {name: x[: min(count, simulation.paths)] for name, x in final.items()}
    if simulation.reduction is None:
        return first
    if simulation.reduction.scramblings:
        names = map(str, statistics["covariance"]["quantity"])
        return dict(zip(names, statistics[Moments.name]["ends"].T, strict=True))
    return simulation.reduction.of_paths(first)


def _ends_of(bias: BiasRun | None, ends: int) -> int:
    """Of how many paths the final values are kept."""
    return max(ends, BIAS_PATHS, 0 if bias is None else bias.at_most)


def _accumulator(
    simulation: Simulation, ends: int, part: range | None = None, paths_in: PathFile | None = None
) -> Accumulator:
    rows = quantity_rows(simulation)
    reduction = simulation.reduction or PLAIN
    reducers = default_reducers(rows, simulation.quantiles, reduction.scramblings)
    reducers |= replicate_reducers(rows) if reduction.has_replicates else {}
    reducers |= {} if reduction.drift is None else {WEIGHTS: square_reducer(rows)}
    return Accumulator(simulation, rows, reducers, ends, part, paths_in)


@dataclasses.dataclass(frozen=True)
class SimulatedPaths:
    """All paths of a simulation, before their statistics are finished; the fields are those of its result."""

    simulation: Simulation
    accumulator: Accumulator
    bias: BiasRun | None
    levels: list[Callable]  # of the step bias
    bias_noise: Mapping[str, float]
    degenerate: dict[str, float]
    exercises: dict[str, ExerciseFit]
    wanted_ends: int
    elapsed_s: float
    compile_s: float
    fit_s: float

    def result(self) -> EnsembleResult:
        """The statistics; another thread may make them while the next simulation's paths are on their way."""
        with jax.enable_x64(True):
            return self._result()

    def _result(self) -> EnsembleResult:
        simulation, accumulator, bias = self.simulation, self.accumulator, self.bias
        statistics = accumulator.statistics()
        if simulation.reduction is not None:
            statistics = with_replicates(statistics, simulation.reduction)
        steps = simulation.grid.steps or accumulator.step_counts(ACCEPTED, REJECTED)
        mean_steps = steps.mean if isinstance(steps, StepCounts) else steps
        start = time.perf_counter()
        final = accumulator.ends()
        errors, shorter_s = unknown_errors(simulation), 0.0
        if bias is not None:
            finished = FinishedRun(simulation, final, statistics["moments"], mean_steps, self.bias_noise)
            errors, shorter_s = step_errors(finished, bias, self.levels)
        if simulation.reduction is not None and simulation.reduction.importance:
            reach = dict(simulation.reduction.reach)
            statistics["moments"] = without_degenerate(statistics["moments"], reach, simulation.paths)
            errors = errors.without(self.degenerate)
        return EnsembleResult(
            times=simulation.grid.times,
            statistics=statistics,
            stored=accumulator.stored(),
            paths=simulation.paths,
            failed=accumulator.failed,
            steps=steps,
            bias=errors.errors,
            variance_bias=errors.variances,
            bias_left_out=errors.left_out,
            elapsed_s=self.elapsed_s,
            compile_s=self.compile_s + shorter_s,
            bias_s=time.perf_counter() - start - shorter_s,
            path_steps_per_s=simulation.paths * mean_steps / self.elapsed_s,
            devices=len(devices_of(simulation)),
            exercises=self.exercises,
            fit_s=self.fit_s,
            waiting=accumulator.waiting(),
            happened=[(total.sum, total.squares) for total in accumulator.happened()],
            ends=_ends_of_replicates(simulation, statistics, final, self.wanted_ends),
            degenerate=self.degenerate,
        )


def _simulated(
    simulation: Simulation,
    progress: Progress | None,
    ends: int,
    elsewhere: Accumulate | None,
    bias_noise: Mapping[str, float] | None,
) -> SimulatedPaths:
    degenerate = _degenerate(simulation)
    simulation, exercises, (fit_s, fit_compile_s) = with_policies(simulation)
    plan, bias = chunk_plan(simulation), None if bias_noise is None else bias_run(simulation)
    requests = () if elsewhere else chunk_requests(simulation, plan)
    programs, compile_s = compiled(*requests, *(() if bias is None else bias.requests))
    own = [*zip(requests, programs[: len(requests)], strict=True)]
    accumulator = _accumulator(simulation, _ends_of(bias, ends))
    accumulate = elsewhere or functools.partial(_accumulate, programs=own)
    elapsed_s = accumulate(simulation, accumulator, plan, progress)
    if accumulator.failed == simulation.paths:
        raise NumericalError(
            f"of {counted(simulation.paths, 'path')} none has finite values: there is nothing to average"
        )
    exercises, (bound_s, bound_compile_s) = with_upper_bounds(simulation, exercises)
    return SimulatedPaths(
        simulation=simulation,
        accumulator=accumulator,
        bias=bias,
        levels=[] if bias is None else bias.with_numbers(programs[len(own) :]),
        bias_noise=bias_noise or {},
        degenerate=degenerate,
        exercises=exercises,
        wanted_ends=ends,
        elapsed_s=elapsed_s,
        compile_s=compile_s + fit_compile_s + bound_compile_s,
        fit_s=fit_s + bound_s,
    )


def _degenerate(simulation: Simulation) -> dict[str, float]:
    """In importance sampling, the means at the end that are no result, and how many paths they would take.

    Raises `NumericalError` where none that is wanted would be one.
    """
    reduction = simulation.reduction or PLAIN
    reach = {name: rows[-1] for name, rows in reduction.reach if rows[-1] > reach_of(simulation.paths)}
    degenerate = {name: paths_reaching(each) for name, each in reach.items()}
    wanted = simulation.target_names
    if wanted and all(name in degenerate for name in wanted):
        drift = ", ".join(f"{x:g}" for x in reduction.drift or ())
        raise NumericalError(
            f"ensemble.variance_reduction.importance: with the drift {drift} the weights of "
            f"{', '.join(wanted)} degenerate: the variance of {wanted[0]} is made by paths up to "
            f"{reach[wanted[0]]:.2g} standard deviations of the noise from the others, which "
            f"{counted(simulation.paths, 'path')} do not show; let a pilot find the drift, as in importance: "
            f"{{of: {wanted[0]}}}, or take {degenerate[wanted[0]]:.2g} paths or more"
        )
    return degenerate


def _accumulate(
    simulation: Simulation,
    accumulator: Accumulator,
    plan: Chunks,
    progress: Progress | None,
    programs: Sequence[tuple[Request, Callable]] = (),
) -> float:
    """Simulate the chunks of a plan, reduce them and add them, and give the seconds that took.

    `programs` are those of the plan, where they are there already.
    """

    def work_on(plan: Chunks, programs: Sequence[tuple[Request, Callable]] = ()) -> Callable[[Chunk], tuple]:
        if not programs:
            requests = chunk_requests(simulation, plan)
            programs = [*zip(requests, compiled(*requests)[0], strict=True)]
        (simulated, simulate), (reduced, reduce) = programs

        def work(chunk: Chunk) -> tuple:
            values, counts = simulate(simulated.arguments[0], chunk.ids)
            numbers = (None, counts[LOG_WEIGHT]) if LOG_WEIGHT in counts else reduced.arguments[2:]
            partials, lost, some = reduce(values, np.int64(chunk.count), *numbers)
            return values, counts, accumulator.on_host(partials), lost, some

        return work

    workers, add = workers_of(simulation), accumulator.add_chunk
    return over_chunks(plan, work_on(plan, programs), add, workers, progress, accumulator, work_on)


def _values(simulation: Simulation, ids: tuple[int, ...]) -> tuple[jax.ShapeDtypeStruct, ...]:
    """What `ChunkProgram` gives for such ids: shapes and types."""
    counted = simulation.problem.State._fields if simulation.stepping.whole else ()
    return tuple(
        jax.ShapeDtypeStruct(
            (count, *ids), jnp.float64 if name in counted else jnp.dtype(simulation.precision)
        )
        for name, count in quantity_rows(simulation).items()
    )
