"""The one loop: a `lax.scan` over blocks of unrolled steps, with an integer clock.

Blocks have one length and lie on one grid, whatever is saved: block b is the steps `b * size`, …, so that a
step is always compiled in the same place of the same block. Where steps are compiled elsewhere, the compiler
may contract other products and sums to fused multiply-adds, and the last bit differs. A row that falls inside
a block is reached from the block's start, by steps that are taken for this row alone.
"""

import functools
import math
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from simkit_solvers.directions import Along, Direction, Release
from simkit_solvers.grid import Grid
from simkit_solvers.jump_diffusion import AbstractJumpDiffusion
from simkit_solvers.moving_run import MovingRun
from simkit_solvers.noise import AbstractNoise, Draw, Purpose
from simkit_solvers.observe import AbstractObserver
from simkit_solvers.path_run import PathRun, event_steps
from simkit_solvers.problem import AbstractODE, AbstractSDE
from simkit_solvers.schedule import prepared, schedule_of
from simkit_solvers.step import stepper_for

# Enough to hide the loop, few enough that a row inside a block costs little; by the bytes of a number, since
# in float64 the loop costs more.
WORDS_PER_BLOCK = {4: 4, 8: 8}
STEPS_PER_BLOCK = 2  # the same, where there is no noise
WORDS_OF_JUMPS = 2


def integrate(
    problem: AbstractODE,
    solver,
    y0,
    grid: Grid,
    noise: AbstractNoise | None,
    observer: AbstractObserver,
) -> dict[str, Any]:
    """One path of `problem` from `y0` over `grid`: what `observer` keeps at each saved row, stacked.

    Step k runs over local time (0, dt) with the problem shifted to `t0 + k dt`. Times and coefficients take
    the dtype of `y0`. `noise` is the path's driver; an ordinary differential equation takes `None`. Under
    `vmap` over paths every field becomes one vector and each block one fused kernel. Differentiable in both
    modes; in reverse mode each block is recomputed rather than stored. The jumps of an
    `AbstractJumpDiffusion` are taken after each step.

    A scheduled problem takes each step with the parameters of that step; its events happen at the ends of
    steps, and a row there has the state after them.
    Raises `ValueError` when a stochastic problem comes without noise or takes more steps than it can drive,
    and for events that are not at the end of a step.
    """
    return _integrate(problem, solver, y0, grid, noise, observer)


def integrate_along(
    problem: AbstractODE,
    solver,
    y0,
    grid: Grid,
    noise: AbstractNoise | None,
    observer: AbstractObserver,
    directions: Sequence[Direction],
    release: Release | None = None,
) -> Along:
    """One path as by `integrate`, and its derivatives along directions, in one loop.

    With `release`, derivatives become weights (`simkit_solvers.directions`): the derivative of the mean of a
    kept value f is then that of `f * weight + change`. Without, the weights are zeros. A path costs about
    half as much again for each direction; differentiate the result once more for second derivatives.
    Raises `ValueError` as `integrate`.
    """
    return _integrate(problem, solver, y0, grid, noise, observer, tuple(directions), release)


def _integrate(
    problem: AbstractODE,
    solver,
    y0,
    grid: Grid,
    noise: AbstractNoise | None,
    observer: AbstractObserver,
    directions: tuple[Direction, ...] | None = None,
    release: Release | None = None,
) -> Any:
    components, group, words = 0, 1, 0
    stepper, jumps = stepper_for(solver), isinstance(problem, AbstractJumpDiffusion)
    if not isinstance(problem, AbstractSDE):
        noise = None
    elif noise is None:
        raise ValueError(f"{type(problem).__name__} is stochastic: `noise` must be a driver, not None")
    elif grid.steps > noise.capacity:
        raise ValueError(
            f"steps: {grid.steps} exceed the {noise.capacity} that the noise can drive; use fewer"
        )
    else:
        components = len(problem.Noise._fields)
        group = noise.group(components)
        words = (components + (WORDS_OF_JUMPS if jumps else 0)) * noise.refinement
        words *= 1 if release is None else 2  # a step is long, and takes long to compile
    dtype = jnp.result_type(*jax.tree.leaves(y0))
    size = _block_size(group, words, dtype) if stepper.unrolled else group
    t0, dt = jnp.asarray(grid.t0, dtype), jnp.asarray(grid.dt, dtype)
    plain = PathRun(prepared(problem), stepper, observer, noise, t0, dt)
    run = plain if directions is None else MovingRun.along(plain, problem, directions, release)
    schedule = schedule_of(problem)
    tables = () if schedule is None else event_steps(schedule, grid)
    numbers, others = eqx.partition(run, eqx.is_array)

    def driven(run, first, count):
        """For each step what drives it: normals and further words, and the words of its jumps."""
        draws = [Draw(())] * count
        if run.noise is None:
            return [(draw, None) for draw in draws]
        draws = run.noise.draws(components, stepper.areas, first, count)
        if stepper.variates:
            words = run.noise.words(Purpose.TRANSITION, first, count)
            draws = [draw._replace(words=w) for draw, w in zip(draws, words, strict=True)]
        happening = run.noise.words(Purpose.JUMPS, first, count) if jumps else [None] * count
        return list(zip(draws, happening, strict=True))

    def steps(numbers, carry, first, count):
        """`count` unrolled steps from step `first`, where a group starts."""
        run, carried = eqx.combine(numbers, others), unpack(carry)
        for i, (draw, words) in enumerate(driven(run, first, count)):
            carried = run.step(carried, first + jnp.uint32(i), draw, words, tables)
        return pack(carried)

    def branch(numbers, carry, start, first, end):
        """The block from step `first`, if it ends no later than `end`; `start` is for `selection`."""
        needed = first + jnp.uint32(size) <= end
        return jax.lax.cond(needed, lambda c: steps(numbers, c, first, size), lambda c: c, carry)

    @functools.partial(jax.checkpoint, prevent_cse=False)
    def selection(numbers, carry, start, first, end):
        """The same without a branch, which in reverse mode would copy all that it reads, at every block.

        `start` is the carry at step 0.
        """
        needed = first + jnp.uint32(size) <= end

        def chosen(one, other):
            return jax.tree.map(lambda x, y: jnp.where(needed, x, y), one, other)

        # A block that is not needed is the first one again: steps that the problem admits, whose derivatives
        # are finite, since in reverse mode nothing times infinity would be NaN.
        begin = chosen(carry, jax.lax.stop_gradient(start))
        return chosen(steps(numbers, begin, chosen(first, jnp.uint32(0)), size), carry)

    # At least two turns: the compiler takes a loop of one apart and mixes it with what is around.
    turns = max(2, -(-grid.every // size))
    half = group * -(-size // (2 * group))  # of a block, in whole groups

    def row(numbers, carry, k):
        return eqx.combine(numbers, others).row(unpack(carry), k)

    @functools.partial(jax.checkpoint, prevent_cse=False)
    def at_row(numbers, carry, k):
        """The carry at step `k` from that at the start of its block."""
        if grid.every % size == 0:
            return carry

        def hop(carry, first, count, counts):
            ways = [lambda c, n=n: steps(numbers, c, first, n) for n in counts]
            return jax.lax.switch(count // jnp.uint32(counts.step), ways, carry)

        within = k % jnp.uint32(size)
        short = within % jnp.uint32(half)
        carry = hop(carry, k - within, within - short, range(0, size, half))
        return hop(carry, k - short, short, range(0, half, math.gcd(grid.every, half)))

    def loop(block, numbers, start):
        """The carry at the end of the last whole block, `turns`, and the rows but the last.

        `block` is the kind of block. The turns are counted here, as a number that the compiler does not know.
        """

        def body(state, r):
            # The row first: it reads what the loop carries; after the steps it would compute them again.
            carry, counted = state
            k = r * jnp.uint32(grid.every)
            kept = row(numbers, at_row(numbers, carry, k), k)
            if grid.steps < size:
                return (carry, counted), kept
            first, end = k - k % jnp.uint32(size), k + jnp.uint32(grid.every)

            def turn(state, b):
                carry, counted = state
                carry = block(numbers, carry, start, first + b * jnp.uint32(size), end)
                return (carry, counted + jnp.uint32(1)), None

            again = carry, jnp.uint32(0)
            return jax.lax.scan(turn, again, jnp.arange(turns, dtype=jnp.uint32))[0], kept

        begin = start, jnp.uint32(0)
        (end, counted), rows = jax.lax.scan(body, begin, jnp.arange(grid.rows - 1, dtype=jnp.uint32))
        return end, counted, rows

    @jax.custom_jvp
    def run_loop(numbers, start):
        return loop(branch, numbers, start)

    @run_loop.defjvp
    def _(primals, tangents):
        def differentiable(numbers, start):
            run = eqx.combine(numbers, others).per_path()
            return loop(selection, eqx.filter(run, eqx.is_array), start)

        return jax.jvp(differentiable, primals, tangents)

    start = jax.tree.map(_strong, run.start(y0, tables))
    if isinstance(run, MovingRun):
        run, start = run.settled(start, *driven(run, jnp.uint32(0), group)[0], tables)
        numbers, others = eqx.partition(run, eqx.is_array)
    pack, unpack = _packing(start)
    start = pack(start)
    end, counted, between = run_loop(numbers, start)
    rest = grid.steps % size
    if rest:

        def finish(carry):
            return steps(numbers, carry, jnp.uint32(grid.steps - rest), rest)

        if grid.steps > size:
            # Always taken, unknown to the compiler, which would take these steps anew for each quantity kept.
            end = jax.lax.cond(counted == jnp.uint32(turns), finish, lambda c: c, end)
        else:
            end = finish(end)
    # The first row is always taken here, and the loop's dropped, lest its bits depend on how many there are.
    # Each in a branch, always taken: beside the other rows the compiler may contract it in other ways.
    always = dt == dt
    nothing = jax.tree.map(lambda x: jnp.zeros(x.shape[1:], x.dtype), between)

    def alone(carry, k):
        return jax.lax.cond(always, lambda c: row(numbers, c, k), lambda c: nothing, carry)

    first = alone(start, jnp.uint32(0))
    last = alone(end, jnp.uint32(grid.steps))
    return jax.tree.map(_in_order, first, between, last)


def _in_order(first, between, last):
    """All rows of one kept value; the loop's first one is not taken."""
    return jnp.concatenate([jnp.asarray(first)[None], between[1:], jnp.asarray(last)[None]])


def _block_size(group: int, words: int, dtype) -> int:
    """Steps in a block of about `WORDS_PER_BLOCK` words, in whole groups; a step takes `words` of them."""
    steps = WORDS_PER_BLOCK[dtype.itemsize] // words if words else STEPS_PER_BLOCK
    return group * max(1, steps // group)


def _packing(carry):
    """How the scan's carry is laid out: real scalars of one dtype in pairs, as complex numbers.

    XLA's CPU compiler makes one kernel of each array that a loop body gives, and recomputes in each whatever
    they share, the noise above all; a pair in one complex array is one kernel.
    """
    leaves, tree = jax.tree.flatten(carry)
    by_dtype: dict[Any, list[int]] = {}
    for i, leaf in enumerate(leaves):
        if leaf.shape == () and leaf.dtype in (jnp.float32, jnp.float64):
            by_dtype.setdefault(leaf.dtype, []).append(i)
    pairs = [tuple(where[i : i + 2]) for where in by_dtype.values() for i in range(0, len(where) - 1, 2)]
    paired = {i for pair in pairs for i in pair}

    def pack(carry):
        leaves = jax.tree.leaves(carry)
        return [jax.lax.complex(leaves[i], leaves[j]) for i, j in pairs], [
            leaf for i, leaf in enumerate(leaves) if i not in paired
        ]

    def unpack(packed):
        numbers, rest = packed
        found = dict(zip((i for i in range(len(leaves)) if i not in paired), rest, strict=True))
        for (i, j), z in zip(pairs, numbers, strict=True):
            found[i], found[j] = jnp.real(z), jnp.imag(z)
        return jax.tree.unflatten(tree, [found[i] for i in range(len(leaves))])

    return pack, unpack


def _strong(x):
    """An array that is not weakly typed, so that a scan's carry keeps its type."""
    return jnp.asarray(x, jnp.result_type(x)) if eqx.is_array_like(x) else x
