"""How the fixed-grid loop is divided into blocks of unrolled steps."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from simkit_solvers.grids.grid import PERIOD, Grid, TracedGrid
from simkit_solvers.loops.compensated import AbstractCompensatedStep, check_float32, compensated
from simkit_solvers.loops.step import stepper_for
from simkit_solvers.loops.stepper import AbstractStepper
from simkit_solvers.methods.switched import Solver
from simkit_solvers.numerics.platforms import on_accelerator
from simkit_solvers.problems.jump_diffusion import AbstractJumpDiffusion
from simkit_solvers.problems.problem import AbstractODE
from simkit_solvers.random.draws import Draw
from simkit_solvers.random.noise import AbstractNoise, Purpose, StepWords

# Enough to hide the loop, few enough that a row inside a block costs little; by the bytes of a number, since
# in float64 the loop costs more.
WORDS_PER_BLOCK = {4: 4, 8: 8}
STEPS_PER_BLOCK = {False: 2, True: 4}  # where there is no noise: on a processor, on an accelerator
WORDS_OF_JUMPS = 2


class Method(NamedTuple):
    """How a path steps: `size` steps in a block, with noise in groups of `group` steps."""

    stepper: AbstractStepper
    components: int
    group: int
    size: int
    dtype: Any
    jumps: bool

    def driving(
        self, noise: AbstractNoise | None, first: jax.Array, count: int
    ) -> list[tuple[Draw, tuple[StepWords, ...] | None]]:
        """For each step from `first`: its normals and further words, and the words of its jumps."""
        draws = [Draw(())] * count
        if noise is None:
            return [(draw, None) for draw in draws]
        draws = noise.draws(self.components, self.stepper.areas, first, count)
        if self.stepper.variates:
            words = noise.words(Purpose.TRANSITION, first, count)
            draws = [draw._replace(words=w) for draw, w in zip(draws, words, strict=True)]
        of_jumps = noise.words(Purpose.JUMPS, first, count) if self.jumps else [None] * count
        return list(zip(draws, of_jumps, strict=True))


def method_of(
    problem: AbstractODE,
    solver: Solver,
    y0: PyTree,
    grid: Grid | TracedGrid,
    noise: AbstractNoise | None,
    released: bool = False,
    undone: bool = False,
) -> Method:
    """How a run steps.

    In float32 sums are compensated: of stochastic equations where steps are many, and not where steps are
    also undone (`undone`).

    Raises `ValueError` for a stochastic problem without noise, or with more steps than it can drive, where
    the number is known; for noise in groups that do not fit a `TracedGrid`; and for many steps in float32 of
    a solver whose sums cannot be compensated."""
    stepper, dtype = stepper_for(solver), jnp.result_type(*jax.tree.leaves(y0))
    components, group, words = 0, 1, 0
    if not undone and dtype == jnp.float32 and grid.long:
        check_float32(solver)
    if not undone and dtype == jnp.float32 and (grid.long or not problem.stochastic):
        stepper = compensated(stepper)
    if problem.stochastic:
        if noise is None:
            raise ValueError(f"{type(problem).__name__} is stochastic: `noise` must be a driver, not None")
        if grid.known and grid.steps > noise.capacity:
            raise ValueError(
                f"steps: {grid.steps} exceed the {noise.capacity} that the noise can drive; use fewer"
            )
        components = len(problem.Noise._fields)
        group = noise.group(components)
        jumps = WORDS_OF_JUMPS if isinstance(problem, AbstractJumpDiffusion) else 0
        words = (components + jumps) * noise.refinement
        words *= 2 if released else 1  # a step is long, and slow to compile
    # Where more than the state is carried, normals are drawn into memory, for one group at a time.
    one_group = problem.stochastic and isinstance(stepper, AbstractCompensatedStep)
    size = group if one_group or not stepper.unrolled else block_size(group, words, dtype)
    if not grid.known and PERIOD % size:
        raise ValueError(
            f"grid: blocks of {size} steps do not divide {PERIOD}, as a TracedGrid has it; use Grid"
        )
    return Method(stepper, components, group, size, dtype, isinstance(problem, AbstractJumpDiffusion))


def block_size(group: int, words: int, dtype: np.dtype) -> int:
    """Steps in a block of about `WORDS_PER_BLOCK` words, in whole groups; a step takes `words` of them."""
    steps = WORDS_PER_BLOCK[dtype.itemsize] // words if words else STEPS_PER_BLOCK[on_accelerator()]
    return group * max(1, steps // group)


def bytes_of(tree: PyTree) -> int:
    """The bytes of all arrays in a tree, or of arrays of these shapes."""
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))


def strong(x: Any) -> Any:
    """An array that is not weakly typed, so that a scan's carry keeps its type."""
    return jnp.asarray(x, jnp.result_type(x)) if eqx.is_array_like(x) else x
