"""Running an ensemble: chunks of paths over all local devices, reduced as they come."""

import dataclasses
import math
import time
from collections.abc import Callable, Iterator, Mapping

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from simkit_solvers.grid import Grid
from simkit_solvers.jump_grid import JumpGrid

from simkit.bias import BIAS_PATHS, bias_run, step_bias
from simkit.chunks import Chunks, plan_chunks, planned_steps
from simkit.errors import NumericalError
from simkit.gathering import Gathering
from simkit.longstaff_schwartz import with_policies, with_upper_bounds
from simkit.on_each_device import ROWS
from simkit.paths import ACCEPTED, REJECTED, Inputs, PathProgram, as_device_ids, path_mesh, path_program
from simkit.programs import Request, compiled
from simkit.reducers import AbstractReducer, Covariance, Histogram, Moments
from simkit.simulation import EnsembleResult, Simulation, StepCounts

IN_FLIGHT = 2  # chunks dispatched before the oldest is merged: the host counts while the devices step

Progress = Callable[[int, int], None]


def quantity_rows(simulation: Simulation) -> dict[str, int]:
    """How many rows are kept of each quantity: of state variables all, of observables all or the last."""
    rows = dict.fromkeys(simulation.problem.State._fields, simulation.grid.rows)
    for name, info in simulation.observables.items():
        rows[name] = simulation.grid.rows if info.at == "each" else 1
    return rows


def default_reducers(
    rows: Mapping[str, int], quantiles: tuple[float, ...] = ()
) -> dict[str, AbstractReducer]:
    """The statistics that every run keeps of quantities with so many rows each."""
    return {
        "moments": Moments(rows),
        "covariance": Covariance(rows),
        "histogram": Histogram(rows, quantiles),
    }


def run_ensemble(
    simulation: Simulation, progress: Progress | None = None, ends: int = BIAS_PATHS
) -> EnsembleResult:
    """Simulate all paths and give their statistics.

    Statistics have the same bits for every number of devices and every chunk size. `progress` is called with
    the paths done and the paths in all. The result has the final values of the first `ends` paths, at least
    those that the step bias takes. Raises `NumericalError` when a path becomes NaN or infinite and `failures`
    is `stop`.
    """
    with jax.enable_x64(True):
        return _run(simulation, progress, max(ends, BIAS_PATHS))


def chunk_plan(simulation: Simulation, devices: int) -> Chunks:
    """How `run_ensemble` would cut this ensemble."""
    values = sum(quantity_rows(simulation).values())
    steps = planned_steps(simulation.grid)
    return plan_chunks(simulation.paths, steps, values, devices, simulation.chunk)


@dataclasses.dataclass(frozen=True)
class ChunkProgram:
    """A function of (inputs, ids) that simulates one chunk: its quantities in order, and the steps taken."""

    paths: PathProgram
    rows: tuple[tuple[str, int], ...]

    def __call__(self, inputs: Inputs, ids):
        everything = self.paths(inputs, ids)
        values = tuple(everything[name][-count:] for name, count in self.rows)
        return values, {name: everything[name][0] for name in (ACCEPTED, REJECTED) if name in everything}


@dataclasses.dataclass(frozen=True)
class Reduction:
    """A function of (quantities of one chunk in order, how many of its paths count) that reduces them.

    A program of its own, which reads no names: models that differ share it where as many rows are kept, and
    a third less is compiled for each.
    """

    counts: tuple[int, ...]
    mesh: Mesh

    def __call__(self, values, remaining):
        ids = values[0].shape[1:]
        finite = jnp.ones(ids, bool)
        for array in values:
            finite &= jnp.all(jnp.isfinite(array), axis=0)
        present = jnp.arange(math.prod(ids), dtype=jnp.int64).reshape(ids) < remaining
        named = {str(place): array for place, array in enumerate(values)}
        reducers = default_reducers({str(place): count for place, count in enumerate(self.counts)})
        partials = {name: reducer.update(named, present & finite) for name, reducer in reducers.items()}
        return partials, present & ~finite


def chunk_requests(simulation: Simulation, plan: Chunks, mesh: Mesh) -> tuple[Request, Request]:
    """The two programs of a run: the one that simulates a chunk of paths, and the one that reduces it.

    Observables with early exercise must have their policies.
    """
    rows = quantity_rows(simulation)
    paths, inputs = path_program(simulation, simulation.grid, mesh)
    ids = as_device_ids(0, plan.leaves, plan.lanes, mesh)
    simulated = Request(ChunkProgram(paths, tuple(rows.items())), (inputs, ids), mesh)
    values = _values(simulation, ids.shape, mesh)
    return simulated, Request(Reduction(tuple(rows.values()), mesh), (values, np.int64(0)))


def _run(simulation: Simulation, progress: Progress | None, ends: int) -> EnsembleResult:
    mesh = path_mesh(simulation.devices)
    devices = mesh.devices.size
    simulation, exercises, (fit_s, fit_compile_s) = with_policies(simulation, mesh)
    plan = chunk_plan(simulation, devices)
    rows = quantity_rows(simulation)
    simulated, reduced = chunk_requests(simulation, plan, mesh)
    bias = bias_run(simulation)
    requests = [simulated, reduced] if bias is None else [simulated, reduced, bias.request]
    (chunk, reduce, *run_again), compile_s = compiled(*requests)

    start = time.perf_counter()
    gathering = Gathering(simulation, rows, default_reducers(rows, simulation.quantiles), ends)
    inputs, _ = simulated.arguments
    for first, outputs in _in_flight(chunk, reduce, inputs, simulation.paths, plan, mesh):
        gathering.absorb(first, *outputs)
        del outputs  # or three chunks would be in memory while the next is dispatched
        if progress is not None:
            progress(min(first + plan.paths, simulation.paths), simulation.paths)
    if gathering.failed == simulation.paths:
        raise NumericalError(
            f"none of the {simulation.paths} paths has finite values: there is nothing to average"
        )
    statistics = gathering.statistics()
    elapsed_s = time.perf_counter() - start

    exercises, (bound_s, bound_compile_s) = with_upper_bounds(simulation, exercises, mesh)
    start = time.perf_counter()
    found_bias, left_out = ({}, {}) if bias is None else step_bias(bias, run_again[0], gathering.ends())
    bias_s = time.perf_counter() - start
    grid = simulation.grid
    steps = grid.steps if isinstance(grid, Grid) else gathering.step_counts(ACCEPTED, REJECTED)
    each = steps.mean if isinstance(steps, StepCounts) else steps
    return EnsembleResult(
        times=grid.times,
        statistics=statistics,
        stored=gathering.stored(),
        paths=simulation.paths,
        failed=gathering.failed,
        steps=steps,
        bias=found_bias,
        bias_left_out=left_out,
        elapsed_s=elapsed_s,
        compile_s=compile_s + fit_compile_s + bound_compile_s,
        bias_s=bias_s,
        path_steps_per_s=simulation.paths * each / elapsed_s,
        devices=devices,
        exercises=exercises,
        fit_s=fit_s + bound_s,
        ends={name: values[: simulation.paths] for name, values in gathering.ends().items()},
    )


def _in_flight(
    chunk: Callable, reduce: Callable, inputs: Inputs, paths: int, plan: Chunks, mesh: Mesh
) -> Iterator[tuple[int, tuple]]:
    """The first path of each chunk and what its two programs give, while the devices step the next ones."""
    waiting: list[tuple[int, tuple]] = []
    for first in range(0, plan.count * plan.paths, plan.paths):
        values, counts = chunk(inputs, as_device_ids(first, plan.leaves, plan.lanes, mesh))
        waiting.append((first, (values, counts, *reduce(values, np.int64(paths - first)))))
        if len(waiting) >= IN_FLIGHT:
            yield waiting.pop(0)
    yield from waiting


def _values(simulation: Simulation, ids: tuple[int, ...], mesh: Mesh) -> tuple[jax.ShapeDtypeStruct, ...]:
    """What `ChunkProgram` gives for such ids: shapes, types and how they lie on the devices."""
    counted = simulation.problem.State._fields if isinstance(simulation.grid, JumpGrid) else ()
    return tuple(
        jax.ShapeDtypeStruct(
            (count, *ids),
            jnp.float64 if name in counted else jnp.dtype(simulation.precision),
            sharding=NamedSharding(mesh, ROWS),
        )
        for name, count in quantity_rows(simulation).items()
    )
