"""The one loop: a `lax.scan` over blocks of unrolled steps, with an integer clock.

Blocks have one length and lie on one grid, whatever is saved: block b is the steps `b * size`, …, so that a
step is always compiled in the same place of the same block. Where steps are compiled elsewhere, the compiler
may contract other products and sums to fused multiply-adds, and the last bit differs. A row that falls inside
a block is reached from the block's start, by steps that are taken for this row alone.
"""

import functools
import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from simkit_solvers.grids.grid import Grid, TracedGrid
from simkit_solvers.loops.blocks import bytes_of, method_of, strong, turns_of
from simkit_solvers.loops.checkpoints import Nesting, nested_scan, nesting
from simkit_solvers.loops.compensated import AbstractCompensatedStep
from simkit_solvers.loops.path_run import PathRun, event_steps, row_once, stepped_once
from simkit_solvers.loops.reverse_pass import REVERSE_BYTES
from simkit_solvers.numerics.packing import Paired, packing
from simkit_solvers.numerics.scopes import STEPS
from simkit_solvers.problems.jump_diffusion import AbstractJumpDiffusion
from simkit_solvers.problems.observe import AbstractObserver
from simkit_solvers.problems.problem import AbstractODE
from simkit_solvers.problems.schedule import prepared, schedule_of
from simkit_solvers.random.noise import AbstractNoise, Draw, Purpose

NO_STEP = 2**32 - 1


def integrate(
    problem: AbstractODE,
    solver,
    y0,
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
    jumps of an `AbstractJumpDiffusion` are taken after each step. Over a `TracedGrid` results have the bits
    of the same `Grid`, one compiled program does for many numbers of steps, and derivatives are in forward
    mode only.

    A scheduled problem takes each step with the parameters of that step; its events happen at the ends of
    steps, and a row there has the state after them.
    Raises `ValueError` when a stochastic problem comes without noise or takes more steps than it can drive,
    and for events that are not at the end of a step.
    """
    return integrate_run(problem, solver, y0, grid, noise, observer, memory=memory)


def integrate_run(
    problem: AbstractODE,
    solver,
    y0,
    grid: Grid | TracedGrid,
    noise: AbstractNoise | None,
    observer: AbstractObserver,
    moving: Callable[[PathRun], Any] | None = None,
    released: bool = False,
    memory: float = REVERSE_BYTES,
) -> Any:
    """As `integrate`, of the run that `moving` makes of the plain one: one that carries derivatives too.

    It has the methods of `PathRun`, and `settled`. `released` is whether its steps are differentiated by
    their normals.
    """
    stepper, components, group, size, dtype = method_of(problem, solver, y0, grid, noise, released=released)
    jumps = isinstance(problem, AbstractJumpDiffusion)
    if not components:
        noise = None
    stochastic = noise is not None
    t0, dt = jnp.asarray(grid.t0, dtype), jnp.asarray(grid.dt, dtype)
    known = isinstance(grid, Grid)
    # Not arrays where they are known: a rule of derivatives may not close over what jit traces.
    every, last_step = (np.uint32(x) if known else x for x in (grid.every, grid.steps))
    plain = PathRun(prepared(problem), stepper, observer, noise, t0, dt)
    run: Any = plain if moving is None else moving(plain)
    schedule = schedule_of(problem)
    tables = () if schedule is None else event_steps(schedule, grid)
    numbers, others = eqx.partition(run, eqx.is_array)

    def whole(numbers):
        if isinstance(_problem(numbers), Paired):
            numbers = _with_problem(numbers, _problem(numbers).apart())
        return eqx.combine(numbers, others)

    def driven(run, first, count):
        return driven_by(run, stepper, components, jumps, first, count)

    def drawn_apart(run, first, count):
        """The same, its normals in memory: drawn in a branch, always taken, out of which nothing is fused.

        There is no step of this number, which the compiler does not know, also where `run` is constants.
        """

        def normals():
            return eqx.filter(driven(run, first, count), eqx.is_inexact_array)

        shapes = jax.eval_shape(normals)
        pack, unpack = packing(shapes)
        none = zeros(jax.eval_shape(pack, shapes))
        drawn = unpack(jax.lax.cond(first != jnp.uint32(NO_STEP), lambda: pack(normals()), lambda: none))
        kinds = jax.eval_shape(lambda: driven(run, first, count))
        others = jax.tree.structure(kinds) != jax.tree.structure(shapes)
        return eqx.combine(drawn, driven(run, first, count)) if others else drawn

    def steps(numbers, carry, first, count, backwards=False):
        """`count` unrolled steps from step `first`, where a group starts."""
        run, carried = whole(numbers), unpack(carry)
        driving = (drawn_apart if apart or backwards else driven)(run, first, count)
        for i, (draw, words) in enumerate(driving):
            k = first + jnp.uint32(i)
            if moving is None:
                carried = run.step(carried, k, draw, words, tables)
            else:
                carried = stepped_once(run, carried, k, draw, words, tables)
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
        return chosen(steps(numbers, begin, chosen(first, jnp.uint32(0)), size, stochastic), carry)

    def row(numbers, carry, k):
        run = whole(numbers)
        return run.row(unpack(carry), k) if moving is None else row_once(run, unpack(carry), k)

    @functools.partial(jax.checkpoint, prevent_cse=False)
    def at_row(numbers, carry, k):
        """The carry at step `k` from that at the start of its block."""
        if grid.phase % size == 0 or grid.rows == 2:  # of two rows the first is of no block, and dropped
            return carry

        def hop(carry, first, count, counts):
            ways = [lambda c, n=n: steps(numbers, c, first, n) for n in counts]
            return jax.lax.switch(count // jnp.uint32(counts.step), ways, carry)

        within = k % jnp.uint32(size)
        short = within % jnp.uint32(half)
        carry = hop(carry, k - within, within - short, range(0, size, half))
        return hop(carry, k - short, short, range(0, half, math.gcd(grid.phase, half)))

    def loop(block, numbers, start, loops):
        """The carry at the end of the last whole block, `turns`, and the rows but the last.

        `block` is the kind of block. The turns are counted here, as a number that the compiler does not know.
        Loops may be longer than they need to: their last rows and blocks are then none.
        """
        between = grid.rows - 1
        filled = math.prod(loops.rows) > between

        def body(state, r):
            # The row first: it reads what the loop carries; after the steps it would compute them again.
            carry, counted = state
            k = r * every
            first, end = k - k % jnp.uint32(size), k + every
            if filled:
                # A row that is none is the first one, as a block that is not needed is in `selection`.
                real = r < jnp.uint32(between)
                shown = jax.tree.map(lambda c, s: jnp.where(real, c, s), carry, jax.lax.stop_gradient(start))
                kept = row(numbers, at_row(numbers, shown, jnp.where(real, k, 0)), jnp.where(real, k, 0))
                end = jnp.where(real, end, 0)
            else:
                kept = row(numbers, at_row(numbers, carry, k), k)
            if known and grid.steps < size:
                return (carry, counted), kept

            @jax.named_scope(STEPS)
            def turn(state, b):
                carry, counted = state
                carry = block(numbers, carry, start, first + b * jnp.uint32(size), end)
                return (carry, counted + jnp.uint32(1)), None

            # Two in a turn where blocks are short: the second writes where the first has read; no copies.
            return nested_scan(turn, (carry, jnp.uint32(0)), loops.blocks, 2 if apart else 1)[0], kept

        if not loops.joined:
            body = jax.checkpoint(body, prevent_cse=False)
        (end, counted), rows = nested_scan(body, (start, jnp.uint32(0)), loops.rows)
        return end, counted, jax.tree.map(lambda x: x[:between], rows) if filled else rows

    def plain_loop(numbers, start):
        return loop(branch, numbers, start, Nesting((grid.rows - 1,), (turns,), True))

    run_loop = jax.custom_jvp(plain_loop)

    @run_loop.defjvp
    def _(primals, tangents):
        def differentiable(numbers, start):
            numbers = eqx.filter(eqx.combine(numbers, others).per_path(), eqx.is_array)
            numbers = _with_problem(numbers, Paired.of(_problem(numbers)))
            return loop(selection, numbers, start, nesting(grid.rows - 1, turns, memory / bytes_of(start)))

        return jax.jvp(differentiable, primals, tangents)

    start = jax.tree.map(strong, run.start(y0, tables))
    if moving is not None:
        step = jax.eval_shape(lambda: driven(run, jnp.uint32(0), group)[0])  # its types do
        run, start = run.settled(start, *zeros(step), tables)
        numbers, others = eqx.partition(run, eqx.is_array)
        start = start if noise is None else _own(start, noise)
    pack, unpack = packing(start)
    start = pack(start)
    # XLA's CPU compiler makes a kernel of each array that is carried, and would draw the normals in all.
    more = moving is not None or isinstance(stepper, AbstractCompensatedStep)
    apart = more and stochastic and len(jax.tree.leaves(start)) > 1
    if apart:
        size = group
    turns = turns_of(grid, size)
    half = group * -(-size // (2 * group))  # of a block, in whole groups
    end, counted, between = (run_loop if known else plain_loop)(numbers, start)
    rest = grid.phase * (grid.rows - 1) % size
    if rest:

        def finish(carry):
            return steps(numbers, carry, last_step - jnp.uint32(rest), rest)

        if not known or grid.steps > size:
            # Always taken, unknown to the compiler, which would take these steps anew for each quantity kept.
            end = jax.lax.cond(counted == jnp.asarray(turns, jnp.uint32), finish, lambda c: c, end)
        else:
            end = finish(end)
    # The first row is always taken here, and the loop's dropped, lest its bits depend on how many there are.
    # Each in a branch, always taken: beside the other rows the compiler may contract it in other ways.
    always = dt == dt
    nothing = jax.tree.map(lambda x: jnp.zeros(x.shape[1:], x.dtype), between)

    def alone(carry, k):
        return jax.lax.cond(always, lambda c: row(numbers, c, k), lambda c: nothing, carry)

    first = alone(start, jnp.uint32(0))
    last = alone(end, jnp.asarray(last_step))
    return jax.tree.map(_in_order, first, between, last)


def driven_by(run, stepper, components: int, jumps: bool, first, count: int) -> list:
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


def zeros(shapes):
    return jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)


def _own(tree, noise: AbstractNoise):
    """Numbers of this path's own, lest `vmap` trace the loop once more to learn which become so in a step."""
    word = jnp.ravel(next(leaf for leaf in jax.tree.leaves(noise) if eqx.is_array(leaf)))[0]
    return jax.tree.map(lambda x: jnp.where(word == word, x, x), tree)


def _in_order(first, between, last):
    """All rows of one kept value; the loop's first one is not taken."""
    return jnp.concatenate([jnp.asarray(first)[None], between[1:], jnp.asarray(last)[None]])


def _problem(run):
    return run.problem if isinstance(run, PathRun) else _problem(run.run)


def _with_problem(run, problem):
    if isinstance(run, PathRun):
        return run._replace(problem=problem)
    return run._replace(run=_with_problem(run.run, problem))
