"""Designs evaluated on simulations: runs x paths under one `vmap`, chunk by chunk in several threads."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from simkit.ensemble.chunks import MOST_BYTES, plan_chunks, planned_steps
from simkit.ensemble.could_differ import is_random
from simkit.ensemble.initial import numbers_of
from simkit.ensemble.paths import PathProgram, path_program
from simkit.ensemble.programs import Request, compiled
from simkit.ensemble.ranges import ranged_values, ranges_of
from simkit.ensemble.simulation import Run, Simulation
from simkit.ensemble.work import in_order, workers_of
from simkit.errors import InputError, NumericalError
from simkit.machine.on_each_device import local_devices
from simkit.studies.designs import Design
from simkit.studies.values import Values


class Lanes(NamedTuple):
    """One path each: its id, and the numbers that its parameters change, with their tangents if asked for.

    `numbers` are `(leaves, lanes, …)`, `tangents` `(leaves, lanes, d, …)`.
    """

    ids: Any
    numbers: list[Any]
    tangents: list[Any]


@dataclasses.dataclass(frozen=True)
class DesignProgram:
    """A function of (inputs, lanes) that gives the last values `(1, leaves, lanes)` of quantities by name.

    `varying` are the places of the numbers among the inputs' leaves that parameters change. With `directions`
    derivatives `(d, leaves, lanes)` come too.
    """

    paths: PathProgram
    names: tuple[str, ...]
    varying: tuple[int, ...]
    directions: int

    def __call__(self, inputs: Run, lanes: Lanes):
        return self.paths.each(self._one_run)(inputs, lanes)

    def _one_run(self, inputs: Run, lane: Lanes):
        leaves, structure = jax.tree.flatten(inputs)

        def values(numbers):
            own = list(leaves)
            for place, number in zip(self.varying, numbers, strict=True):
                own[place] = number
            rows = self.paths.one_path(jax.tree.unflatten(structure, own), lane.ids)
            return {name: rows[name][-1:] for name in self.names}

        if not self.directions:
            return values(lane.numbers), None
        along = jax.vmap(lambda tangent: jax.jvp(values, (lane.numbers,), (tangent,)), out_axes=(None, 0))
        found, slopes = along(lane.tangents)
        return found, {name: x[:, 0] for name, x in slopes.items()}


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
        bound = bind(given)
        numbers = eqx.filter(bound._replace(initial=numbers_of(bound.initial), solver=None), _is_number)
        return jax.tree.leaves(numbers)

    def traced_in(names: tuple[str, ...]) -> tuple[int, ...]:
        found: list[int] = []

        def watch(values):
            given = dict(zip(names, values, strict=True))
            found.extend(i for i, leaf in enumerate(leaves(given)) if isinstance(leaf, Tracer))

        jax.eval_shape(watch, [jnp.float64(simulation.constants[name]) for name in names])
        return tuple(found)

    varying = traced_in(parameters)

    def numbers(point):
        bound = leaves({name: point[i] for i, name in enumerate(parameters)})
        return [jnp.asarray(bound[i], own[i].dtype) for i in varying]

    return Bindings(numbers, varying, tuple(name for name in parameters if not traced_in((name,))))


def _is_number(leaf: Any) -> bool:
    # Of a tracer equinox asks for an attribute that jax has, but as None.
    return isinstance(leaf, Tracer) or eqx.is_inexact_array_like(leaf)


def evaluate_simulation(
    simulation: Simulation,
    parameters: tuple[str, ...],
    names: tuple[str, ...],
    paths: int,
    replicates: int,
    *,
    gradient: bool = False,
    keep: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[Callable[[Design, np.ndarray, int], dict[str, Values]], tuple[str, ...]]:
    """How a study evaluates the last values of the quantities `names`; and the parameters that nothing uses.

    Members of a row with the same stream meet the same `paths` paths, and all others their own, whose ids
    follow from replicate and row: the values depend neither on threads and devices nor on chunks.
    """
    random = is_random(simulation)
    with jax.enable_x64(True):
        program, inputs = path_program(simulation, simulation.grid)
        found = bindings(simulation, inputs, parameters)
    jobs = DesignProgram(program, names, found.varying, len(parameters) if gradient else 0)

    def evaluate(design: Design, base: np.ndarray, first: int) -> dict[str, Values]:
        row_bytes = 8 * replicates * design.members * paths * len(names) * (1 + jobs.directions)
        most = 1 << max(MOST_BYTES // row_bytes, 1).bit_length() - 1
        results: dict[str, Values] = {}
        for start in range(0, base.shape[1], most):
            block = rows_of(design, base[:, start : start + most], first + start)
            results = {name: results[name].and_more(x) if start else x for name, x in block.items()}
        return results

    def rows_of(design: Design, base: np.ndarray, first: int) -> dict[str, Values]:
        rows, members = base.shape[1], design.members
        _check_ids(replicates, first + rows, paths)
        points = base[:, :, design.take].reshape(-1, len(parameters))
        numbers_of = np.arange(replicates)[:, None] + replicates * (first + np.arange(rows))[None]
        firsts = (2 * numbers_of[:, :, None] + design.streams) * paths
        ids = (firsts[..., None] + np.arange(paths)).astype(np.uint32).reshape(-1)
        with jax.enable_x64(True):
            _check_ranges(simulation, parameters, points)
            values, slopes = _run_all(jobs, inputs, found, points, ids, paths, simulation, progress)
        shape = (replicates, rows, members, paths)
        results = {}
        for name in names:
            _check_finite(name, values[name], points, parameters, paths)
            own = Values.of(values[name].reshape(shape), random, keep)
            if gradient:
                each = slopes[name].reshape(len(parameters), replicates, rows, paths)
                _check_finite(f"the derivative of {name}", slopes[name].sum(0), points, parameters, paths)
                noise = np.moveaxis(each.var(-1, ddof=1), 0, -1) / paths if random else None
                own = dataclasses.replace(
                    own, gradient=np.moveaxis(each.mean(-1), 0, -1), gradient_noise=noise
                )
            results[name] = own
        return results

    return evaluate, found.unused


def _run_all(
    jobs: DesignProgram,
    inputs: Run,
    found: Bindings,
    points: np.ndarray,
    ids: np.ndarray,
    paths: int,
    simulation: Simulation,
    progress: Callable[[int, int], None] | None,
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """The values of all lanes `(lanes,)`, and the derivatives `(d, lanes)`, chunk by chunk."""
    workers, values_of_lane = workers_of(simulation), len(jobs.names) * (1 + jobs.directions)
    steps = planned_steps(simulation.grid)
    plan = plan_chunks(len(ids), steps, values_of_lane, len(workers), simulation.chunk)
    leaves, lanes, count = plan.leaves, plan.lanes, plan.paths
    numbers_of, slopes_of = jax.vmap(found.numbers), jax.vmap(jax.jacfwd(found.numbers))

    def chunk(start: int) -> Lanes:
        # Lanes beyond the last repeat it.
        which = np.minimum(start + np.arange(count), len(ids) - 1)
        own = np.unique(which // paths)
        place = np.searchsorted(own, which // paths)
        own_points = points[own]
        padded = np.concatenate(
            [own_points, np.broadcast_to(own_points[:1], (count - len(own), points.shape[1]))]
        )

        def laid(x):
            return np.asarray(x)[place].reshape(leaves, lanes, *x.shape[1:])

        numbers = [laid(x) for x in numbers_of(padded)]
        tangents = []
        if jobs.directions:
            tangents = [laid(np.moveaxis(np.asarray(x), -1, 1)) for x in slopes_of(padded)]
        return Lanes(ids[which].reshape(leaves, lanes), numbers, tangents)

    first = chunk(0)
    (run,), _ = compiled(Request(jobs, (inputs, first), local_devices(simulation.devices)))
    values: dict[str, list[np.ndarray]] = {name: [] for name in jobs.names}
    slopes: dict[str, list[np.ndarray]] = {name: [] for name in jobs.names}
    units = ((start, chunk(start) if start else first) for start in plan.firsts())
    for start, (last, along) in in_order(lambda unit: (unit[0], run(inputs, unit[1])), units, workers):
        left = min(count, len(ids) - start)
        for name in jobs.names:
            values[name].append(np.asarray(last[name], np.float64).reshape(-1)[:left])
            if along is not None:
                slopes[name].append(
                    np.asarray(along[name], np.float64).reshape(jobs.directions, -1)[:, :left]
                )
        if progress is not None:
            progress(start + left, len(ids))
    found_slopes = {name: np.concatenate(parts, -1) for name, parts in slopes.items() if parts}
    return {name: np.concatenate(parts) for name, parts in values.items()}, found_slopes


def _check_ids(replicates: int, rows: int, paths: int) -> None:
    most = 2 * replicates * rows * paths
    if most > 2**32:
        raise InputError(
            f"uncertainty: {replicates} replicates of {rows} points with {paths} paths each need {most:,} "
            "streams of noise, and there are 2^32; take fewer"
        )


def _check_ranges(simulation: Simulation, parameters: tuple[str, ...], points: np.ndarray) -> None:
    """Raise `InputError` where a law gives a parameter or an initial value what it may not have."""
    if simulation.bind is None:
        return
    bind = simulation.bind

    def ranged(point):
        return ranged_values(bind({name: point[i] for i, name in enumerate(parameters)}))

    if simulation.grid.has_events:
        starts = jax.vmap(lambda point: numbers_of(bind(dict(zip(parameters, point, strict=True))).initial))
        for name, counts in starts(points).items():
            parts = np.flatnonzero(np.asarray(counts) != np.rint(counts))
            if len(parts):
                raise InputError(
                    f"initial.{name}: must be a whole number of molecules, and the distributions give it "
                    f"{float(counts.ravel()[parts[0]]):.6g}; choose a discrete one, or give the rates a "
                    "constant of their own"
                )
    ranges = ranges_of(simulation.problem)
    for name, values in jax.vmap(ranged)(points).items():
        for extreme in (float(np.min(values)), float(np.max(values))):
            if not ranges[name].admits(extreme):
                raise InputError(
                    f"{name}: must be {ranges[name].range}, and the distributions give it {extreme:.6g}"
                    "; choose one that stays inside, such as lognormal, uniform or truncated_normal"
                )


def _check_finite(
    name: str, values: np.ndarray, points: np.ndarray, parameters: tuple[str, ...], paths: int
) -> None:
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        point = points[bad[0] // paths]
        at = ", ".join(f"{key} = {x:g}" for key, x in zip(parameters, point, strict=True))
        raise NumericalError(
            f"{name} is {values[bad[0]]:g} in {len(bad):,} of {len(values):,} runs, first at {at}; choose "
            "distributions that stay where it is finite, more steps or another solver"
        )
