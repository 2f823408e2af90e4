"""The program that simulates a set of path ids, for the ensemble, the step bias and replays."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree, UInt32
from simkit_solvers import over_parts
from simkit_solvers.grids.adaptive_grid import AdaptiveGrid
from simkit_solvers.grids.grid import Grid, TracedGrid
from simkit_solvers.grids.jump_grid import JumpGrid
from simkit_solvers.loops.reverse_pass import REVERSE_BYTES as PATH_BYTES
from simkit_solvers.loops.reverse_pass import ReversePass, reverse_pass
from simkit_solvers.methods.registry import in_calculus_of
from simkit_solvers.numerics.tangents import as_tangent, jvp
from simkit_solvers.numerics.traced import Static
from simkit_solvers.problems.schedule import schedule_of
from simkit_solvers.random.generator import seed_words
from simkit_solvers.random.noise import CounterNoise

from simkit.ensemble.coupling import OnSums, Swapped
from simkit.ensemble.initial import draw_initial
from simkit.ensemble.simulation import Driver, Run, Simulation
from simkit.ensemble.stepping import AbstractStepping

REVERSE_BYTES = 2**28  # of all threads: what a run of 1 GB leaves after Python, the compiler and the paths

Ids = UInt32[Array | np.ndarray, "leaves lanes"]


@dataclasses.dataclass(frozen=True)
class PathProgram:
    """A function of (inputs, ids) that simulates paths; equal to another where both do the same.

    `inputs` are the numbers of a run, those of the steps of a `TracedGrid` among them, and the seed's key.
    Initial values are numbers, arrays of one for each path, or distributions. Real numbers are in the run's
    precision, and all is traced, so that a derivative, a sweep or another seed needs no recompilation.

    It gives a dictionary of arrays `(rows, leaves, lanes)`; on an adaptive grid also `ACCEPTED`, `REJECTED`
    and `REACHED` with one row each, for a jump process `STATUS` as well. `constants` is the run without the
    inputs' numbers; `initial` are the names of the initial values in their order.
    `driver` makes a path's noise on a fixed grid of key, path and whether its normals are float64.
    The reverse pass of a fixed grid keeps about `reverse_bytes` of what its loop carries.
    """

    constants: Static
    initial: tuple[str, ...]
    precision: str
    float64_normals: bool
    convert: bool
    driver: Driver
    reverse_bytes: int = REVERSE_BYTES

    def __call__(self, inputs: Run, ids: Ids) -> dict[str, jax.Array]:
        return self.each(functools.partial(self.one_path, memory=self.reverse_bytes / ids.size))(inputs, ids)

    def each(self, one_path: Callable) -> Callable:
        """From a function of (inputs, path) to one of (inputs, paths).

        `paths` is a tree of arrays `(leaves, lanes, …)`: ids alone, or ids and numbers of each path's own.
        `inputs` may be any tree of arrays. Each array that comes out is `(rows, leaves, lanes)`.
        """
        return functools.partial(self._grouped, one_path)

    def _grouped(self, one_path: Callable, inputs: PyTree, paths: PyTree) -> PyTree:
        def simulate(group: PyTree) -> PyTree:
            return jax.vmap(functools.partial(one_path, inputs), out_axes=1)(group)

        def in_groups_of(*size: int):
            return jax.tree.map(lambda x: x.reshape(-1, *size, *x.shape[2:]), paths)

        shape, size = jax.tree.leaves(paths)[0].shape[:2], self.stepping.group
        if size is None:
            rows = simulate(in_groups_of())
        else:
            groups = over_parts(simulate, in_groups_of(size))
            rows = jax.tree.map(lambda x: jnp.moveaxis(x, 0, 1), groups)
        return jax.tree.map(lambda x: x.reshape(-1, *shape), rows)

    @property
    def stepping(self) -> AbstractStepping:
        """How its paths go on in time."""
        return self.run.stepping

    @property
    def run(self) -> Run:
        """The run without the inputs' numbers: `None` stands in their places."""
        return self.constants.tree

    def combined(self, inputs: Run) -> Any:
        """The run with the inputs' numbers."""
        whole = eqx.combine(inputs._replace(initial=None, key=None), self.run)
        return whole._replace(initial=inputs.initial, key=inputs.key)

    def in_solvers_calculus(self, problem: Any) -> Any:
        """The problem as the solver integrates it."""
        return in_calculus_of(self.run.solver, problem) if self.convert else problem

    def prepared(self, inputs: Run, path: jax.Array) -> tuple:
        """The problem as the solver integrates it, the solver, initial state, grid, noise and observer."""
        run = self.combined(inputs)
        y0 = self.start(inputs, run.problem, path)
        noise = self.stepping.noise(self, inputs, path)
        return self.in_solvers_calculus(run.problem), run.solver, y0, run.grid, noise, run.observer

    def start(self, inputs: Run, problem: Any, path: jax.Array) -> PyTree:
        """The initial state of a path."""
        start = {name: inputs.initial[name] for name in self.initial}
        dtype = jnp.dtype(jnp.int32 if self.stepping.whole else self.precision)
        return problem.State(**draw_initial(start, inputs.key, path, dtype, self.float64_normals))

    def start_moved(self, inputs: Run, move: Run, problem: Any, path: jax.Array) -> dict[str, Any]:
        """How the initial values of a path move along a direction of the inputs; only those that do."""
        moving = [name for name in self.initial if jax.tree.leaves(move.initial.get(name))]
        if not moving:
            return {}

        def start(initial):
            y0 = self.start(inputs._replace(initial=initial), problem, path)
            return {name: getattr(y0, name) for name in moving}

        return jvp(start, inputs.initial, as_tangent(inputs.initial, move.initial))[1]

    def one_path(self, inputs: Run, path: jax.Array, memory: float = PATH_BYTES) -> dict[str, jax.Array]:
        """The rows of one path, by name."""
        return self.stepping.rows(self, inputs, path, memory)

    def reverse_pass(self, inputs: Run, ids: Ids) -> ReversePass:
        """What a reverse pass of such a call will keep for each path; nothing is computed.

        Raises `ValueError` where the grid is not fixed: what adaptive steps keep is diffrax's own choice.
        """
        grid = self.run.grid
        if not grid.known:
            raise ValueError(
                f"reverse_pass: says what the steps of a fixed grid keep, and this is {type(grid).__name__}; "
                "set time.steps"
            )

        def one_pass(inputs, path):
            return reverse_pass(*self.prepared(inputs, path), self.reverse_bytes / ids.size)

        return eqx.filter_eval_shape(one_pass, inputs, jnp.uint32(0))


def path_program(
    simulation: Simulation,
    grid: Grid | TracedGrid | AdaptiveGrid | JumpGrid,
    driver: Driver = CounterNoise.of,
    reverse_bytes: int = REVERSE_BYTES,
) -> tuple[PathProgram, Run]:
    """The program of a simulation's paths on a grid, and the arguments it needs in addition to path ids."""
    drift = None if simulation.reduction is None else simulation.reduction.drift
    run = simulation.run._replace(grid=grid, drift=drift)
    static, numbers = run.split()
    program = PathProgram(
        Static(static),
        tuple(simulation.initial),
        simulation.precision,
        simulation.normals == "float64",
        simulation.convert,
        driver_of(simulation, driver),
        reverse_bytes,
    )
    return program, _arguments(simulation, run, numbers)


def driver_of(simulation: Simulation, driver: Driver = CounterNoise.of) -> Driver:
    """What makes the noise of a simulation's paths, from what makes that of independent ones on its grid."""
    driver = Swapped(driver) if simulation.swapped else driver
    if simulation.draws_per_step > 1:
        driver = OnSums(driver, simulation.draws_per_step, any(x.middles for x in simulation.observed))
    reduction, steps = simulation.reduction, simulation.grid.steps
    return driver if reduction is None or steps is None else reduction.driver(driver, steps, simulation.paths)


def inputs_of(simulation: Simulation, run: Run) -> Run:
    """The arguments of a simulation's program for a run like its own."""
    return _arguments(simulation, run, run.split()[1])


def _arguments(simulation: Simulation, run: Run, numbers: Run) -> Run:
    """The numbers of a run in the types of the program's arguments, with the seed's key."""

    def as_type(dtype, x):
        # Not on a device yet: putting each number there by itself would take longer than the program's call.
        return (jnp if isinstance(x, jax.Array) else np).asarray(x, dtype)

    def converted(x):
        return x if isinstance(x, np.unsignedinteger) else as_type(simulation.precision, x)

    arguments = jax.tree.map(converted, numbers)
    if run.stepping.whole:  # which float32 may not hold
        whole = jax.tree.map(lambda x: as_type("float64", x), numbers.initial)
        arguments = arguments._replace(initial=whole)
    return arguments._replace(key=seed_words(simulation.seed))


def with_traced_steps(simulation: Simulation, grid: Any) -> Any:
    """The grid with numbers of steps that one program takes as arguments, where it can.

    Not those of events, whose places among the steps are static, nor those of Sobol' points, of which they
    make the tree.
    """
    schedule, reduction = schedule_of(simulation.problem), simulation.reduction
    static = (schedule is not None and schedule.events) or (reduction is not None and reduction.scramblings)
    return grid if static else grid.traced()
