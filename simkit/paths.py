"""The program that simulates a set of path ids: what the ensemble, the step bias and a replay all run."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.extend.core
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from simkit_solvers.adaptive import integrate_adaptive
from simkit_solvers.adaptive_grid import AdaptiveGrid
from simkit_solvers.adaptive_sde import integrate_adaptive_sde
from simkit_solvers.brownian_tree import BrownianTree
from simkit_solvers.calculus import in_calculus
from simkit_solvers.generator import seed_key
from simkit_solvers.grid import Grid
from simkit_solvers.integrate import integrate
from simkit_solvers.jump_grid import JumpGrid
from simkit_solvers.jumps import JumpNoise, integrate_jumps
from simkit_solvers.noise import AbstractNoise, CounterNoise
from simkit_solvers.problem import AbstractSDE
from simkit_solvers.registry import info_of

from simkit.errors import InputError
from simkit.initial import Distribution, draw_initial
from simkit.simulation import Simulation

IDS = PartitionSpec("paths")
ROWS = PartitionSpec(None, "paths")
FEWEST_LANES = 64
# Adaptive paths under one `vmap`, all of which wait for the slowest: fewer wait less, and take longer a step.
# Two groups or more in the fewest lanes: the compiler takes a loop of one apart, and bits may differ.
GROUP = 32
STOCHASTIC_GROUP = 16  # their numbers of steps differ more
JUMP_GROUP = 32  # an event is short: so many share the loop's own cost
# No names of observables: these hold spaces.
ACCEPTED, REJECTED, REACHED, STATUS = "accepted steps", "rejected steps", "time reached", "why it ended"

Driver = Callable[..., AbstractNoise]


def path_mesh(devices: int | None) -> Mesh:
    """A mesh over the first `devices` local devices, all of them by default."""
    local = jax.local_devices()
    if devices is not None and not 1 <= devices <= len(local):
        raise InputError(
            f"ensemble.devices: asked for {devices}, and this process has {len(local)}; leave it out for all"
        )
    return Mesh(np.array(local[:devices]), ("paths",))


def lanes_for(paths: int) -> int:
    """A power of two, at least 64, that holds a number of paths: other widths may have other bits."""
    return max(FEWEST_LANES, 1 << max(paths - 1, 0).bit_length())


def as_device_ids(first: int, leaves: int, lanes: int, mesh: Mesh):
    """The path ids `first`, … as `uint32` `(leaves, lanes)`, the leaves laid over the devices."""
    ids = (first + np.arange(leaves * lanes, dtype=np.uint64)).astype(np.uint32).reshape(leaves, lanes)
    return jax.device_put(ids, NamedSharding(mesh, IDS))


def path_program(
    simulation: Simulation, grid: Grid | AdaptiveGrid | JumpGrid, mesh: Mesh, driver: Driver = CounterNoise.of
) -> tuple[Callable, tuple]:
    """A function of (numbers, ids) that simulates paths, and the numbers.

    The numbers are every floating-point leaf of the model, the observables and the grid, in the run's
    precision; they are traced, so that a derivative or a sweep compiles nothing anew. The function gives a
    dictionary of arrays `(rows, leaves, lanes)`; on an adaptive grid also `ACCEPTED`, `REJECTED` and
    `REACHED` with one row each, for a jump process `STATUS` as well. `driver` makes a path's noise on a fixed
    grid of key, path and whether its normals are float64.
    """
    dtype = jnp.dtype(simulation.precision)
    wide = simulation.normals == "float64"
    fixed = {name: x for name, x in simulation.initial.items() if not isinstance(x, Distribution)}
    everything = (simulation.problem, simulation.observer, grid, fixed)
    numbers, static = eqx.partition(everything, eqx.is_inexact_array_like)
    numbers = jax.tree.map(lambda x: jnp.asarray(x, dtype), numbers)
    if isinstance(grid, JumpGrid):  # whole numbers, which float32 may not hold
        counts = {name: jnp.asarray(x, jnp.float64) for name, x in fixed.items()}
        numbers = (*numbers[:3], counts)
    stochastic = isinstance(simulation.problem, AbstractSDE)
    calculus = info_of(simulation.solver).calculus if stochastic and simulation.convert else None

    def one_path(numbers, key, path):
        problem, observer, grid, fixed = eqx.combine(numbers, static)
        if isinstance(grid, JumpGrid):
            return _jumps(problem, simulation.solver, grid, observer, fixed, key, path)
        start = draw_initial({**simulation.initial, **fixed}, key, path, dtype, wide)
        if calculus is not None:
            problem = in_calculus(problem, calculus)
        y0, solver = problem.State(**start), simulation.solver
        if isinstance(grid, AdaptiveGrid):
            if stochastic:
                tree = BrownianTree.of(key, path, wide)
                run = integrate_adaptive_sde(problem, solver, y0, grid, tree, observer)
            else:
                run = integrate_adaptive(problem, solver, y0, grid, observer)
            counts = {ACCEPTED: run.accepted, REJECTED: run.rejected, REACHED: run.reached}
            return run.rows | {name: x[None] for name, x in counts.items()}
        noise = driver(key, path, wide) if stochastic else None
        return integrate(problem, solver, y0, grid, noise, observer)

    def device_paths(numbers, ids):
        key = seed_key(simulation.seed)
        paths = jax.vmap(lambda path: one_path(numbers, key, path), out_axes=1)
        if not isinstance(grid, Grid):
            group = JUMP_GROUP if isinstance(grid, JumpGrid) else STOCHASTIC_GROUP if stochastic else GROUP
            groups = jax.lax.map(paths, ids.reshape(-1, group))
            rows = jax.tree.map(lambda x: jnp.moveaxis(x, 0, 1), groups)
        else:
            rows = paths(ids.reshape(-1))
        return jax.tree.map(lambda x: x.reshape(-1, *ids.shape), rows)

    return _on_each_device(device_paths, mesh), numbers


def _jumps(network, method, grid: JumpGrid, observer, start, key, path) -> dict[str, jax.Array]:
    """The rows of one path of a jump process, its counts in float64, which holds them whole."""
    y0 = network.State(**{name: x.astype(jnp.int32) for name, x in start.items()})
    run = integrate_jumps(network, method, y0, grid, JumpNoise.of(key, path), observer)
    whole = {
        name: jnp.where(jnp.isnan(run.rows[name]), jnp.nan, x.astype(jnp.float64))
        for name, x in run.counts._asdict().items()
    }
    ends = {ACCEPTED: run.steps, REJECTED: run.rejected, REACHED: run.reached, STATUS: run.status}
    return run.rows | whole | {name: x[None] for name, x in ends.items()}


def _on_each_device(device_paths: Callable, mesh: Mesh) -> Callable:
    """The same program on every device for its own leaves: no communication, and the bits of one device.

    It is traced before `shard_map` sees it. Inside, types carry the mesh, and lineax, which compares them,
    refuses its own linear equations (lineax issue 185).
    """

    def program(numbers, ids):
        leaves = ids.shape[0] // mesh.devices.size
        own = jax.ShapeDtypeStruct((leaves, *ids.shape[1:]), ids.dtype)
        plain = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), numbers)
        traced, shapes = jax.make_jaxpr(jax.jit(device_paths), return_shape=True)(plain, own)

        def run(numbers, ids):
            found = jax.extend.core.jaxpr_as_fun(traced)(*jax.tree.leaves((numbers, ids)))
            return jax.tree.unflatten(jax.tree.structure(shapes), found)

        mapped = jax.shard_map(
            run, mesh=mesh, in_specs=(PartitionSpec(), IDS), out_specs=ROWS, check_vma=False
        )
        return mapped(numbers, ids)

    return program
