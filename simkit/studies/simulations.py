"""Designs evaluated on simulations: runs x paths under one `vmap`, chunk by chunk in several threads."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from simkit.ensemble.chunks import OF_STUDIES, Chunk, Chunks, plan_chunks, rows_in_memory
from simkit.ensemble.could_differ import is_random
from simkit.ensemble.over_chunks import concatenated
from simkit.ensemble.paths import PathProgram, path_program
from simkit.ensemble.programs import Request, compiled
from simkit.ensemble.simulation import Run, Simulation
from simkit.ensemble.sizes import check_chunks
from simkit.ensemble.work import devices_of, workers_of
from simkit.errors import NumericalError
from simkit.observe.observable import waits
from simkit.studies.designs import Design
from simkit.studies.limits import check_ranges, check_streams
from simkit.studies.values import Values


class Lanes(NamedTuple):
    """One path each: its id, and the numbers that its parameters change, with tangents for derivatives.

    `numbers` are `(leaves, lanes, …)`, `tangents` `(leaves, lanes, d, …)`.
    """

    ids: Any
    numbers: list[Any]
    tangents: list[Any]


@dataclasses.dataclass(frozen=True)
class DesignProgram:
    """A function of (inputs, lanes) that gives the last values `(1, leaves, lanes)` of quantities by name.

    `varying` are the places of the numbers among the inputs' leaves that parameters change. With `directions`
    derivatives `(d, leaves, lanes)` come too. For each of the `first_times` among the names, which have no
    such derivatives, there is also, as `waits(name)`, whether the path has not met the condition.
    """

    paths: PathProgram
    names: tuple[str, ...]
    varying: tuple[int, ...]
    directions: int
    first_times: tuple[str, ...]

    def __call__(self, inputs: Run, lanes: Lanes):
        return self.paths.each(self._one_run)(inputs, lanes)

    @property
    def values_of_path(self) -> int:
        """How many numbers a path gives."""
        return len(self.names) * (1 + self.directions) + len(self.first_times)

    def _one_run(self, inputs: Run, lane: Lanes):
        leaves, structure = jax.tree.flatten(inputs)

        def values(numbers):
            own = list(leaves)
            for place, number in zip(self.varying, numbers, strict=True):
                own[place] = number
            rows = self.paths.one_path(jax.tree.unflatten(structure, own), lane.ids)
            waiting = {waits(name): jnp.reshape(rows[waits(name)], -1)[-1:] for name in self.first_times}
            return {name: rows[name][-1:] for name in self.names} | waiting

        if not self.directions:
            return values(lane.numbers), None
        jvps = jax.vmap(lambda tangent: jax.jvp(values, (lane.numbers,), (tangent,)), out_axes=(None, 0))
        last, slopes = jvps(lane.tangents)
        return last, {name: x[:, 0] for name, x in slopes.items()}


class Bindings(NamedTuple):
    """How parameters become a program's numbers: for points `(n, d)` those of the places `varying`."""

    numbers: Callable[[Any], list[Any]]
    varying: tuple[int, ...]
    unused: tuple[str, ...]


def bindings(simulation: Simulation, inputs: Run, parameters: tuple[str, ...]) -> Bindings:
    """Which of the inputs' numbers the parameters, which are constants, change, and how.

    `unused` are the parameters that change none.
    """
    bind = simulation.bind
    if bind is None:
        raise ValueError("a study takes a simulation that was built from an experiment")
    own = jax.tree.leaves(inputs)

    def leaves(given: Mapping[str, Any]) -> list[Any]:
        return jax.tree.leaves(bind(given).split()[1])

    def traced_in(names: tuple[str, ...]) -> tuple[int, ...]:
        places: list[int] = []

        def watch(values):
            given = dict(zip(names, values, strict=True))
            places.extend(i for i, leaf in enumerate(leaves(given)) if isinstance(leaf, Tracer))

        jax.eval_shape(watch, [jnp.float64(simulation.constants[name]) for name in names])
        return tuple(places)

    varying = traced_in(parameters)

    def numbers(point):
        moved = leaves({name: point[i] for i, name in enumerate(parameters)})
        return [jnp.asarray(moved[i], own[i].dtype) for i in varying]

    return Bindings(numbers, varying, tuple(name for name in parameters if not traced_in((name,))))


@dataclasses.dataclass(frozen=True, eq=False)
class SimulatedDesign:
    """Evaluates designs on a simulation: the last values of the quantities that `jobs` names.

    Members of a row with the same stream meet the same `paths` paths, and all others their own, whose ids
    follow from replicate and row: the values depend neither on threads and devices nor on chunks.
    """

    simulation: Simulation
    parameters: tuple[str, ...]
    paths: int
    replicates: int
    keep: bool
    progress: Callable[[int, int], None] | None
    jobs: DesignProgram
    inputs: Run
    bindings: Bindings

    def __call__(self, design: Design, base: np.ndarray, first: int) -> dict[str, Values]:
        """The values of rows `first`, … by quantity, in blocks that fit into memory."""
        values = self.replicates * design.members * self.paths * self.jobs.values_of_path
        most = rows_in_memory(values, self.simulation.memory)
        results: dict[str, Values] = {}
        for start in range(0, base.shape[1], most):
            block = self._rows(design, base[:, start : start + most], first + start)
            results = {name: results[name].and_more(x) if start else x for name, x in block.items()}
        return results

    def _rows(self, design: Design, base: np.ndarray, first: int) -> dict[str, Values]:
        rows, replicates, paths = base.shape[1], self.replicates, self.paths
        check_streams(replicates, first + rows, paths)
        points = base[:, :, design.take].reshape(-1, len(self.parameters))
        numbers = np.arange(replicates)[:, None] + replicates * (first + np.arange(rows))[None]
        firsts = (2 * numbers[:, :, None] + design.streams) * paths
        ids = (firsts[..., None] + np.arange(paths)).astype(np.uint32).reshape(-1)
        with jax.enable_x64(True):
            check_ranges(self.simulation, self.parameters, points)
            values, slopes = self._simulated(points, ids)
        random, shape = is_random(self.simulation), (replicates, rows, design.members, paths)
        results = {}
        for name in self.jobs.names:
            self._check_finite(name, values[name], points)
            own = Values.of(values[name].reshape(shape), random, self.keep)
            if self.jobs.directions:
                self._check_finite(f"the derivative of {name}", slopes[name].sum(0), points)
                each = slopes[name].reshape(len(self.parameters), replicates, rows, paths)
                noise = np.moveaxis(each.var(-1, ddof=1), 0, -1) / paths if random else None
                mean = np.moveaxis(each.mean(-1), 0, -1)
                own = dataclasses.replace(own, gradient=mean, gradient_noise=noise)
            if name in self.jobs.first_times:
                own = dataclasses.replace(own, waiting=values[waits(name)].reshape(shape).sum(-1))
            results[name] = own
        return results

    def _simulated(
        self, points: np.ndarray, ids: np.ndarray
    ) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """The values of all lanes `(lanes,)`, and the derivatives `(d, lanes)`, chunk by chunk."""
        plan = self._plan(len(ids))
        first = self._lanes(points, ids, next(iter(plan)))
        (run,), _ = compiled(Request(self.jobs, (self.inputs, first), devices_of(self.simulation)))

        def work(run: Callable, chunk: Chunk):
            result = run(self.inputs, self._lanes(points, ids, chunk) if chunk.first else first)
            return jax.tree.map(lambda x: np.asarray(x, np.float64).reshape(len(x), -1), result)

        workers = workers_of(self.simulation)
        ((last, slopes),) = concatenated(work, [run], plan, workers, progress=self.progress, recorded=True)
        return {name: x[0] for name, x in last.items()}, slopes or {}

    def _plan(self, lanes: int) -> Chunks:
        """The chunks of so many lanes, the values of all of which are kept."""
        simulation, values = self.simulation, self.jobs.values_of_path
        kept = OF_STUDIES * 8 * values * lanes
        left = simulation.memory and simulation.memory - kept
        plan = plan_chunks(dataclasses.replace(simulation, memory=left), lanes, values)
        check_chunks(simulation, plan, values, kept)
        return plan

    def _lanes(self, points: np.ndarray, ids: np.ndarray, chunk: Chunk) -> Lanes:
        """The lanes of a chunk, whose ids are places among `ids`; those beyond the last repeat it."""
        which = np.minimum(chunk.first + np.arange(chunk.ids.size), len(ids) - 1)
        own = np.unique(which // self.paths)
        place = np.searchsorted(own, which // self.paths)
        repeated = np.broadcast_to(points[own[:1]], (len(which) - len(own), points.shape[1]))
        padded = np.concatenate([points[own], repeated])

        def laid_out(x):
            return np.asarray(x)[place].reshape(chunk.leaves, chunk.lanes, *x.shape[1:])

        numbers = [laid_out(x) for x in jax.vmap(self.bindings.numbers)(padded)]
        tangents = []
        if self.jobs.directions:
            slopes = jax.vmap(jax.jacfwd(self.bindings.numbers))(padded)
            tangents = [laid_out(np.moveaxis(np.asarray(x), -1, 1)) for x in slopes]
        return Lanes(ids[which].reshape(chunk.leaves, chunk.lanes), numbers, tangents)

    def _check_finite(self, name: str, values: np.ndarray, points: np.ndarray) -> None:
        bad = np.flatnonzero(~np.isfinite(values))
        if len(bad):
            point = points[bad[0] // self.paths]
            at = ", ".join(f"{key} = {x:g}" for key, x in zip(self.parameters, point, strict=True))
            raise NumericalError(
                f"{name} is {values[bad[0]]:g} in {len(bad):,} of {len(values):,} runs, first at {at}; "
                "choose distributions that stay where it is finite, more steps or another solver"
            )


def simulated_design(
    simulation: Simulation,
    parameters: tuple[str, ...],
    names: tuple[str, ...],
    paths: int,
    replicates: int,
    *,
    gradient: bool = False,
    keep: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> SimulatedDesign:
    """How a study evaluates the last values of the quantities `names`."""
    with jax.enable_x64(True):
        program, inputs = path_program(simulation, simulation.grid)
        binding = bindings(simulation, inputs, parameters)
    first_times = tuple(o.name for o in simulation.observed if o.first_time is not None and o.name in names)
    directions = len(parameters) if gradient else 0
    jobs = DesignProgram(program, names, binding.varying, directions, first_times)
    return SimulatedDesign(simulation, parameters, paths, replicates, keep, progress, jobs, inputs, binding)
