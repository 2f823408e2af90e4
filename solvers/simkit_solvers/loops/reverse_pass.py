"""What the reverse pass of the fixed-grid loop will store."""

from typing import NamedTuple

import equinox as eqx
import jax
from jaxtyping import PyTree

from simkit_solvers.grids.grid import Grid
from simkit_solvers.loops.blocks import bytes_of, method_of, strong
from simkit_solvers.loops.checkpoints import Nesting, nesting
from simkit_solvers.loops.path_run import path_run
from simkit_solvers.methods.switched import Solver
from simkit_solvers.problems.observe import AbstractObserver
from simkit_solvers.problems.problem import AbstractODE
from simkit_solvers.random.noise import AbstractNoise

REVERSE_BYTES = 2**14  # of one path: a thousand blocks of two float64 variables


class ReversePass(NamedTuple):
    """What the reverse pass of a loop keeps for one path, besides a few vectors of working memory."""

    loops: Nesting
    carry_bytes: int

    @property
    def bytes(self) -> int:
        """All carries that are stored at a time."""
        return self.loops.carries * self.carry_bytes

    @property
    def sweeps(self) -> int:
        """How often each step is computed before its derivative, including the run itself."""
        return self.loops.levels + 1


def reverse_pass(
    problem: AbstractODE,
    solver: Solver,
    y0: PyTree,
    grid: Grid,
    noise: AbstractNoise | None,
    observer: AbstractObserver,
    memory: float = REVERSE_BYTES,
) -> ReversePass:
    """What the reverse pass of `integrate` with the same arguments will keep; nothing is computed.

    Takes arrays or their shapes, and raises what `integrate` raises.

    >>> from simkit_physics import GBM
    >>> from simkit_solvers import CounterNoise, EulerMaruyama, Grid, States, reverse_pass, seed_key
    >>> grid, noise = Grid(t0=0.0, dt=0.1, steps=1000, every=100), CounterNoise.of(seed_key(1), path=0)
    >>> model = GBM(mu=0.05, sigma=0.2)
    >>> reverse_pass(model, EulerMaruyama(), GBM.State(S=100.0), grid, noise, States()).carry_bytes
    4
    """

    def carried(problem, y0, noise, observer):
        method = method_of(problem, solver, y0, grid, noise)
        run = path_run(problem, method, grid, noise, observer)
        return jax.tree.map(strong, run.start(y0))

    start = eqx.filter_eval_shape(carried, problem, y0, noise, observer)
    size = method_of(problem, solver, y0, grid, noise).size
    carry_bytes = bytes_of(start)
    return ReversePass(nesting(grid.rows - 1, grid.blocks(size), memory / carry_bytes), carry_bytes)
