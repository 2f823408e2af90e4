"""The one loop: a `lax.scan` over blocks of unrolled steps, with an integer clock.

Blocks have one length and lie on one grid, whatever is saved: block b is the steps `b * size`, …, so that a
step is always compiled in the same place of the same block. Where steps are compiled elsewhere, the compiler
may contract other products and sums to fused multiply-adds, and the last bit differs. A row that falls inside
a block is reached from the block's start, by steps for this row alone.
"""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from simkit_solvers.grids.grid import NO_STEP, Grid, TracedGrid
from simkit_solvers.loops.blocks import Method, bytes_of, method_of, strong
from simkit_solvers.loops.checkpoints import Nesting, nested_scan, nesting
from simkit_solvers.loops.compensated import AbstractCompensatedStep
from simkit_solvers.loops.path_run import AbstractRun, PathRun, once, path_run
from simkit_solvers.loops.reverse_pass import REVERSE_BYTES
from simkit_solvers.methods.switched import Solver
from simkit_solvers.numerics.kernels import by_itself, floats_by_themselves, own_number, zeros
from simkit_solvers.numerics.packing import Paired, packing
from simkit_solvers.numerics.platforms import on_accelerator
from simkit_solvers.numerics.scopes import STEPS
from simkit_solvers.numerics.tangents import differentiable
from simkit_solvers.numerics.tree_where import tree_where
from simkit_solvers.problems.observe import AbstractObserver
from simkit_solvers.problems.problem import AbstractODE
from simkit_solvers.random.noise import LONG_DRAW, AbstractNoise


def integrate(
    problem: AbstractODE,
    solver: Solver,
    y0: PyTree,
    grid: Grid | TracedGrid,
    noise: AbstractNoise | None,
    observer: AbstractObserver,
    memory: float = REVERSE_BYTES,
) -> dict[str, Any]:
    """One path of `problem` from `y0` over `grid`: what `observer` keeps at each saved row, stacked.

    Step k runs over local time (0, dt) with the problem shifted to `t0 + k dt`. Times and coefficients take
    the dtype of `y0`. `noise` is the path's driver; an ordinary differential equation takes `None`. Under
    `vmap` over paths every field becomes one vector and each block one fused kernel. Differentiable in both
    modes. In reverse mode each block is recomputed rather than stored, and where what is carried from block
    to block takes more than `memory` bytes for this path, so is that, by loops inside loops (`nesting`). The
    jumps of an `AbstractJumpDiffusion` come after each step. Over a `TracedGrid` results have the bits
    of the same `Grid`, one compiled program does for many numbers of steps, and derivatives are in forward
    mode only.

    A scheduled problem takes each step with the parameters of that step; its events happen at the ends of
    steps, and a row there has the state after them.
    Raises `ValueError` when a stochastic problem comes without noise or takes more steps than it can drive,
    and for events that are not at the end of a step.

    >>> from simkit_physics import GBM
    >>> from simkit_solvers import CounterNoise, EulerMaruyama, Grid, States, integrate, seed_key
    >>> noise = CounterNoise.of(seed_key(1), 0)
    >>> grid = Grid(t0=0.0, dt=0.1, steps=10, every=5)
    >>> model = GBM(mu=0.05, sigma=0.2)
    >>> rows = integrate(model, EulerMaruyama(), GBM.State(S=100.0), grid, noise, States())
    >>> rows["S"].shape, float(rows["S"][0])
    ((3,), 100.0)
    """
    return integrate_run(problem, solver, y0, grid, noise, observer, memory=memory)


def integrate_run(
    problem: AbstractODE,
    solver: Solver,
    y0: PyTree,
    grid: Grid | TracedGrid,
    noise: AbstractNoise | None,
    observer: AbstractObserver,
    moving: Callable[[PathRun], AbstractRun] | None = None,
    released: bool = False,
    memory: float = REVERSE_BYTES,
) -> Any:
    """As `integrate`, for the run that `moving` makes of the plain one: one that carries derivatives too.

    `released` is whether its steps are differentiated with respect to their normals.
    """
    method = method_of(problem, solver, y0, grid, noise, released=released)
    plain = path_run(problem, method, grid, noise, observer)
    run = plain if moving is None else moving(plain)
    start = jax.tree.map(strong, run.start(y0))
    if run.carries_derivatives:
        shapes = jax.eval_shape(lambda: method.driving(run.noise, jnp.uint32(0), method.group)[0])
        run, start = run.prepared(start, *zeros(shapes))
        start = jax.tree.map(lambda x: own_number(x, run.noise), start)
    return _Loop.of(run, method, grid, start, memory).all_rows(run, start)


_recomputed = functools.partial(jax.checkpoint, prevent_cse=False)


@dataclasses.dataclass(frozen=True, eq=False)
class _Loop:
    """The loop over rows and, between two of them, over blocks of steps.

    What is traced is passed to its methods: `numbers` are the arrays of the run, of which the rest are the
    `constants`, and `carry` what the run carries, packed. With `in_memory` normals are drawn into memory.
    """

    method: Method
    grid: Grid | TracedGrid
    constants: Any
    pack: Callable
    unpack: Callable
    in_memory: bool
    size: int
    memory: float

    @staticmethod
    def of(run: AbstractRun, method: Method, grid, start: PyTree, memory: float) -> "_Loop":
        """The loop of a run that carries `start` at its beginning."""
        pack, unpack = packing(start)
        # XLA's CPU compiler makes a kernel of each array that is carried, and would draw the normals in all.
        kernels = len(jax.tree.leaves(jax.eval_shape(pack, start)))
        long = run.carries_derivatives or isinstance(method.stepper, AbstractCompensatedStep)
        long = long or (run.noise is not None and run.noise.refinement >= LONG_DRAW)
        in_memory = long and run.noise is not None and kernels > 1
        size = method.group if in_memory else method.size
        constants = eqx.filter(run, eqx.is_array, inverse=True)
        return _Loop(method, grid, constants, pack, unpack, in_memory, size, memory)

    def all_rows(self, run: AbstractRun, start: PyTree) -> PyTree:
        """The values saved at each saved row, stacked."""
        numbers, start = eqx.filter(run, eqx.is_array), self.pack(start)
        end, counted, between = self.whole_blocks(numbers, start)
        end = self.rest(numbers, end, counted)
        # The first row is always computed here, and that of the loop dropped: its bits would depend on how
        # many rows there are.
        nothing = jax.tree.map(lambda x: jnp.zeros(x.shape[1:], x.dtype), between)

        def row(carry, k):
            always = run.dt == run.dt
            return by_itself(always, lambda c: self.row(numbers, c, k), lambda c: nothing, carry)

        first, last = row(start, jnp.uint32(0)), row(end, jnp.asarray(self.steps))
        return jax.tree.map(lambda a, b, c: jnp.concatenate([a[None], b[1:], c[None]]), first, between, last)

    def whole_blocks(self, numbers, start) -> tuple[PyTree, jax.Array, PyTree]:
        """What `trajectory` gives, differentiable in both modes where the number of steps is known."""

        def plain(numbers, start):
            loops = Nesting((self.grid.rows - 1,), (self.blocks,), True)
            return self.trajectory(self.branch, numbers, start, loops)

        if not self.grid.known:
            return plain(numbers, start)
        return differentiable(plain, self.for_derivatives, numbers, start)

    def for_derivatives(self, numbers, start):
        """What `trajectory` gives, in a form that forward and reverse derivatives can go through."""
        run = eqx.combine(numbers, self.constants).per_path()
        numbers = eqx.filter(run, eqx.is_array)
        numbers = numbers.with_problem(Paired.of(numbers.problem))
        loops = nesting(self.grid.rows - 1, self.blocks, self.memory / bytes_of(start))
        return self.trajectory(_recomputed(self.selection), numbers, start, loops)

    def trajectory(self, block: Callable, numbers, start, loops: Nesting) -> tuple[PyTree, jax.Array, PyTree]:
        """The carry after the last whole block, the number of blocks in a row, and all rows but the last.

        `block` is the kind of block. Loops may be longer than they need to: their last rows and blocks are
        then none. The blocks of a row are counted, as a number that the compiler does not know.
        """
        between, at_row = self.grid.rows - 1, _recomputed(self.at_row)
        padded = math.prod(loops.rows) > between

        def row_then_blocks(state, r):
            # The row first: it reads what the loop carries; after the steps it would compute them again.
            k = r * self.every
            here = state[0], k, k + self.every
            if padded:
                # A row that is none is the first one, as a block that is not needed is in `selection`.
                here = tree_where(r < jnp.uint32(between), here, (jax.lax.stop_gradient(start), 0, 0))
            carry, at, end = here
            saved = self.row(numbers, at_row(numbers, carry, at), at)
            if self.grid.known and self.grid.steps < self.size:
                return state, saved

            @jax.named_scope(STEPS)
            def one_block(state, b):
                carry, counted = state
                first = k - k % jnp.uint32(self.size) + b * jnp.uint32(self.size)
                return (block(numbers, carry, start, first, end), counted + jnp.uint32(1)), None

            # Two in an iteration where blocks are short: the second writes where the first has read; no
            # copies.
            begin = state[0], jnp.uint32(0)
            return nested_scan(one_block, begin, loops.blocks, 2 if self.in_memory else 1)[0], saved

        if not loops.merged:
            row_then_blocks = _recomputed(row_then_blocks)
        (end, counted), rows = nested_scan(row_then_blocks, (start, jnp.uint32(0)), loops.rows)
        return end, counted, jax.tree.map(lambda x: x[:between], rows) if padded else rows

    def branch(self, numbers, carry, start, first, end):
        """The block from step `first`, if it ends no later than `end`."""
        needed = first + jnp.uint32(self.size) <= end
        if on_accelerator():  # which waits for the host wherever there is a branch
            return tree_where(needed, self.block(numbers, carry, first, self.size), carry)
        return jax.lax.cond(needed, lambda c: self.block(numbers, c, first, self.size), lambda c: c, carry)

    def selection(self, numbers, carry, start, first, end):
        """What `branch` gives, without one: in reverse mode it would copy all that it reads, at every block.

        A block that is not needed is the one from `start`, at step 0, again: steps that the problem admits,
        whose derivatives are finite, since in reverse mode nothing times infinity would be NaN.
        """
        needed = first + jnp.uint32(self.size) <= end
        begin = tree_where(needed, carry, jax.lax.stop_gradient(start))
        first = tree_where(needed, first, jnp.uint32(0))
        return tree_where(needed, self.block(numbers, begin, first, self.size, backwards=True), carry)

    def block(self, numbers, carry, first, count: int, backwards: bool = False):
        """`count` unrolled steps from step `first`, where a group starts."""
        run, carry = self._run(numbers), self.unpack(carry)
        in_memory = (self.in_memory or backwards) and run.noise is not None
        driving = (self._normals_in_memory if in_memory else self._driving)(run, first, count)
        step = self._method(type(run).step)
        for i, (draw, words) in enumerate(driving):
            carry = step(run, carry, first + jnp.uint32(i), draw, words)
        return self.pack(carry)

    def row(self, numbers, carry, k):
        """The values saved at step `k`."""
        run = self._run(numbers)
        return self._method(type(run).row)(run, self.unpack(carry), k)

    def at_row(self, numbers, carry, k):
        """The carry at step `k` from that at the start of its block."""
        grid, group, size = self.grid, self.method.group, self.size
        if grid.phase % size == 0 or grid.rows == 2:  # of two rows the first is of no block, and dropped
            return carry
        half = group * -(-size // (2 * group))  # of a block, in whole groups

        def hop(carry, first, count, counts: range):
            ways = [lambda c, n=n: self.block(numbers, c, first, n) for n in counts]
            return jax.lax.switch(count // jnp.uint32(counts.step), ways, carry)

        within = k % jnp.uint32(size)
        short = within % jnp.uint32(half)
        carry = hop(carry, k - within, within - short, range(0, size, half))
        return hop(carry, k - short, short, range(0, half, math.gcd(grid.phase, half)))

    def rest(self, numbers, carry, counted):
        """The carry at the last step, from that at the end of the last whole block."""
        rest = self.grid.phase * (self.grid.rows - 1) % self.size
        if not rest:
            return carry

        def finish(carry):
            return self.block(numbers, carry, self.steps - jnp.uint32(rest), rest)

        if self.grid.known and self.grid.steps <= self.size:
            return finish(carry)
        # In one kernel with the loop they would be computed again for each saved quantity.
        return by_itself(counted == jnp.asarray(self.blocks, jnp.uint32), finish, lambda c: c, carry)

    def _method(self, method: Callable) -> Callable:
        """A method of the run; of a run that carries derivatives traced once, since its steps are long."""
        return functools.partial(once, method) if self.constants.carries_derivatives else method

    def _run(self, numbers) -> Any:
        if isinstance(numbers.problem, Paired):
            numbers = numbers.with_problem(numbers.problem.unpacked())
        return eqx.combine(numbers, self.constants)

    def _driving(self, run, first, count: int) -> list:
        return self.method.driving(run.noise, first, count)

    def _normals_in_memory(self, run, first, count: int) -> list:
        """What `_driving` gives, compiled by itself: else each kernel of the steps would draw the normals.

        No step has the number `NO_STEP`; the compiler does not know that, even where `run` is constants.
        """
        return floats_by_themselves(first != jnp.uint32(NO_STEP), lambda: self._driving(run, first, count))

    # Not arrays where they are known: a rule of derivatives may not close over what jit traces.
    @property
    def every(self) -> Any:
        """Steps from row to row."""
        return np.uint32(self.grid.every) if self.grid.known else self.grid.every

    @property
    def steps(self) -> Any:
        """The number of steps."""
        return np.uint32(self.grid.steps) if self.grid.known else self.grid.steps

    @property
    def blocks(self) -> Any:
        """Blocks from row to row."""
        return self.grid.blocks(self.size)
