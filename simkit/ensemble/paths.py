"""The program that simulates a set of path ids: what the ensemble, the step bias and a replay all run."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from simkit_solvers.grids.adaptive_grid import AdaptiveGrid
from simkit_solvers.grids.grid import Grid, TracedGrid
from simkit_solvers.grids.jump_grid import JumpGrid
from simkit_solvers.loops.adaptive import integrate_adaptive
from simkit_solvers.loops.adaptive_sde import integrate_adaptive_sde
from simkit_solvers.loops.integrate import integrate
from simkit_solvers.loops.jumps import integrate_jumps
from simkit_solvers.loops.reverse_pass import REVERSE_BYTES as PATH_BYTES
from simkit_solvers.loops.reverse_pass import ReversePass, reverse_pass
from simkit_solvers.methods.jump.jump_method import JumpNoise
from simkit_solvers.methods.registry import info_of
from simkit_solvers.numerics.tangents import along, as_tangent
from simkit_solvers.problems.calculus import in_calculus
from simkit_solvers.problems.observe import AbstractObserver
from simkit_solvers.problems.problem import AbstractODE, AbstractSDE
from simkit_solvers.problems.schedule import schedule_of
from simkit_solvers.random.brownian_tree import BrownianTree
from simkit_solvers.random.generator import Words, seed_key
from simkit_solvers.random.noise import AbstractNoise, CounterNoise

from simkit.ensemble.chunks import GROUP, JUMP_GROUP, STOCHASTIC_GROUP
from simkit.ensemble.coupling import OnSums
from simkit.ensemble.initial import draw_initial, given_value, numbers_of
from simkit.ensemble.programs import Static
from simkit.ensemble.simulation import Driver as Driver
from simkit.ensemble.simulation import Simulation
from simkit.ensemble.work import workers_of

REVERSE_BYTES = 2**28  # of all threads: what a run of 1 GB leaves beside Python, the compiler and the paths
# No names of observables: these hold spaces.
ACCEPTED, REJECTED, REACHED, STATUS = "accepted steps", "rejected steps", "time reached", "why it ended"


class Inputs(NamedTuple):
    """What a program of paths is given: the floating-point leaves of the run's parts, the numbers of steps of
    a `TracedGrid`, and the seed's key.

    `initial` are the initial values by name: numbers, arrays of one for each path, laws. Real numbers are in
    the run's precision, and all is traced, so that a derivative, a sweep or another seed compiles nothing
    anew.
    """

    problem: AbstractODE
    observer: AbstractObserver
    grid: Grid | TracedGrid | AdaptiveGrid | JumpGrid
    initial: dict[str, Any]
    key: Words


@dataclasses.dataclass(frozen=True)
class PathProgram:
    """A function of (inputs, ids) that simulates paths; equal to another where both do the same.

    It gives a dictionary of arrays `(rows, leaves, lanes)`; on an adaptive grid also `ACCEPTED`, `REJECTED`
    and `REACHED` with one row each, for a jump process `STATUS` as well. `parts` are problem, observer, grid
    and solver without the inputs' numbers; `initial` are the names of the initial values in their order.
    `driver` makes a path's noise on a fixed grid of key, path and whether its normals are float64.
    The reverse pass of a fixed grid keeps about `reverse_bytes` of what its loop carries.
    """

    parts: Static
    initial: tuple[str, ...]
    precision: str
    wide: bool
    convert: bool
    driver: Driver
    reverse_bytes: int = REVERSE_BYTES

    def __call__(self, inputs: Inputs, ids) -> dict[str, jax.Array]:
        return self.each(functools.partial(self.one_path, memory=self.reverse_bytes / ids.size))(inputs, ids)

    def each(self, one_path: Callable) -> Callable:
        """From a function of (inputs, path) to one of (inputs, ids).

        `inputs` may be any tree of arrays; each array that comes out has a leading axis of rows.
        """
        return lambda inputs, ids: self._grouped(one_path, inputs, ids)

    def _grouped(self, one_path: Callable, inputs, ids):
        paths = jax.vmap(lambda path: one_path(inputs, path), out_axes=1)
        problem, _, grid, _ = self.parts.tree
        if not isinstance(grid, Grid | TracedGrid):
            stochastic = isinstance(problem, AbstractSDE)
            size = JUMP_GROUP if isinstance(grid, JumpGrid) else STOCHASTIC_GROUP if stochastic else GROUP
            groups = jax.lax.map(paths, ids.reshape(-1, size))
            rows = jax.tree.map(lambda x: jnp.moveaxis(x, 0, 1), groups)
        else:
            rows = paths(ids.reshape(-1))
        return jax.tree.map(lambda x: x.reshape(-1, *ids.shape), rows)

    def combined(self, inputs: Inputs) -> tuple[Any, Any, Any]:
        """Problem, observer and grid with the inputs' numbers."""
        problem, observer, grid, _ = self.parts.tree
        return eqx.combine(inputs[:3], (problem, observer, grid))

    def in_solvers_calculus(self, problem):
        """The problem as the solver integrates it."""
        calculus = info_of(self.parts.tree[3]).calculus
        if isinstance(problem, AbstractSDE) and self.convert and calculus is not None:
            return in_calculus(problem, calculus)
        return problem

    def start(self, inputs: Inputs, problem, path):
        """The initial state of a path."""
        laws = {name: inputs.initial[name] for name in self.initial}
        return problem.State(**draw_initial(laws, inputs.key, path, jnp.dtype(self.precision), self.wide))

    def start_moved(self, inputs: Inputs, move: Inputs, problem, path) -> dict[str, Any]:
        """How the initial values of a path move along a direction of the inputs; only those that do."""
        moving = [name for name in self.initial if jax.tree.leaves(move.initial.get(name))]
        if not moving:
            return {}

        def start(initial):
            y0 = self.start(inputs._replace(initial=initial), problem, path)
            return {name: getattr(y0, name) for name in moving}

        return along(start, inputs.initial, as_tangent(inputs.initial, move.initial))[1]

    def one_path(self, inputs: Inputs, path, memory: float = PATH_BYTES) -> dict[str, jax.Array]:
        """The rows of one path, by name."""
        problem, observer, grid = self.combined(inputs)
        solver = self.parts.tree[3]
        if isinstance(grid, JumpGrid):
            return _jumps(problem, solver, grid, observer, inputs.initial, inputs.key, path)
        problem = self.in_solvers_calculus(problem)
        y0 = self.start(inputs, problem, path)
        if isinstance(grid, AdaptiveGrid):
            if isinstance(problem, AbstractSDE):
                tree = BrownianTree.of(inputs.key, path, self.wide)
                run = integrate_adaptive_sde(problem, solver, y0, grid, tree, observer)
            else:
                run = integrate_adaptive(problem, solver, y0, grid, observer)
            counts = {ACCEPTED: run.accepted, REJECTED: run.rejected, REACHED: run.reached}
            return run.rows | {name: x[None] for name, x in counts.items()}
        return integrate(problem, solver, y0, grid, self.noise(inputs, problem, path), observer, memory)

    def reverse_pass(self, inputs: Inputs, ids) -> ReversePass:
        """What a reverse pass of such a call will keep for each path; nothing is computed.

        Raises `ValueError` where the grid is not fixed: what adaptive steps keep is diffrax's own choice.
        """
        grid = self.parts.tree[2]
        if not isinstance(grid, Grid):
            raise ValueError(
                f"reverse_pass: says what the steps of a fixed grid keep, and this is {type(grid).__name__}; "
                "set time.steps"
            )

        def kept(inputs, path):
            problem, observer, grid = self.combined(inputs)
            problem = self.in_solvers_calculus(problem)
            y0, noise = self.start(inputs, problem, path), self.noise(inputs, problem, path)
            memory = self.reverse_bytes / ids.size
            return reverse_pass(problem, self.parts.tree[3], y0, grid, noise, observer, memory)

        return eqx.filter_eval_shape(kept, inputs, jnp.uint32(0))

    def noise(self, inputs: Inputs, problem, path) -> AbstractNoise | None:
        """What drives a path on a fixed grid."""
        return self.driver(inputs.key, path, self.wide) if isinstance(problem, AbstractSDE) else None


def path_program(
    simulation: Simulation,
    grid: Grid | TracedGrid | AdaptiveGrid | JumpGrid,
    driver: Driver = CounterNoise.of,
    reverse_bytes: int | None = None,
) -> tuple[PathProgram, Inputs]:
    """The program of a simulation's paths on this grid, and what to call it with beside path ids."""
    dtype = jnp.dtype(simulation.precision)
    initial = numbers_of(simulation.initial)
    everything = (simulation.problem, simulation.observer, grid, initial)
    numbers, (*static, _) = eqx.partition(everything, _is_given)
    numbers = jax.tree.map(
        lambda x: x if isinstance(x, np.unsignedinteger) else jnp.asarray(x, dtype), numbers
    )
    if isinstance(grid, JumpGrid):  # whole numbers, which float32 may not hold
        numbers = (*numbers[:3], {name: jnp.asarray(x, jnp.float64) for name, x in initial.items()})
    program = PathProgram(
        Static((*static, simulation.solver)),
        tuple(simulation.initial),
        simulation.precision,
        simulation.normals == "float64",
        simulation.convert,
        driver if simulation.draws_per_step == 1 else OnSums(driver, simulation.draws_per_step),
        reverse_bytes or REVERSE_BYTES // len(workers_of(simulation)),
    )
    return program, Inputs(*numbers, seed_key(simulation.seed))


def start_counts(network, start: dict[str, Any], path):
    """The counts with which a path of a jump process begins."""
    return network.State(**{name: given_value(x, path).astype(jnp.int32) for name, x in start.items()})


def with_traced_steps(problem: AbstractODE, grid):
    """The grid with numbers of steps that one program takes as arguments, where it can.

    Not those of events, whose places among the steps are static.
    """
    schedule = schedule_of(problem)
    fixed = not isinstance(grid, Grid) or (schedule is not None and schedule.events)
    return grid if fixed else TracedGrid.of(grid)


def _is_given(leaf: Any) -> bool:
    """Whether a program is given a leaf rather than made for it: a real number, or a number of steps."""
    return eqx.is_inexact_array_like(leaf) or isinstance(leaf, np.unsignedinteger)


def _jumps(network, method, grid: JumpGrid, observer, start, key, path) -> dict[str, jax.Array]:
    """The rows of one path of a jump process, its counts in float64, which holds them whole."""
    y0 = start_counts(network, start, path)
    run = integrate_jumps(network, method, y0, grid, JumpNoise.of(key, path), observer)
    whole = {
        name: jnp.where(jnp.isnan(run.rows[name]), jnp.nan, x.astype(jnp.float64))
        for name, x in run.counts._asdict().items()
    }
    ends = {ACCEPTED: run.steps, REJECTED: run.rejected, REACHED: run.reached, STATUS: run.status}
    return run.rows | whole | {name: x[None] for name, x in ends.items()}
