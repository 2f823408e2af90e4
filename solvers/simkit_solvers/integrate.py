"""The one loop: a `lax.scan` over blocks of unrolled steps, with an integer clock.

Blocks have one length and lie on one grid, whatever is saved: block b is the steps `b * size`, …, so that a
step is always compiled in the same place of the same block. Where steps are compiled elsewhere, the compiler
may contract other products and sums to fused multiply-adds, and the last bit differs. A row that falls inside
a block is reached from the block's start, by steps that are taken for this row alone.
"""

import functools
import math
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from simkit_solvers.grid import Grid
from simkit_solvers.jump_diffusion import AbstractJumpDiffusion, with_jumps
from simkit_solvers.noise import AbstractNoise, Draw, Purpose
from simkit_solvers.observe import AbstractObserver
from simkit_solvers.problem import AbstractODE, AbstractSDE
from simkit_solvers.schedule import Schedule, as_solved, prepared, schedule_of, within
from simkit_solvers.scopes import STEPS
from simkit_solvers.step import AbstractStepper, stepper_for

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
    components = 0
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
    dtype = jnp.result_type(*jax.tree.leaves(y0))
    group, size = steps_per_block(problem, stepper, noise, dtype)
    t0, dt = jnp.asarray(grid.t0, dtype), jnp.asarray(grid.dt, dtype)
    run = _Run(prepared(problem), stepper, observer, noise, t0, dt)
    schedule = schedule_of(problem)
    tables = () if schedule is None else _event_steps(schedule, grid)
    numbers, others = eqx.partition(run, eqx.is_array)

    def steps(numbers, carry, first, count):
        """`count` unrolled steps from step `first`, where a group starts."""
        run = eqx.combine(numbers, others)
        y, state, acc = unpack(carry)
        draws = [Draw(())] * count
        if run.noise is not None:
            draws = run.noise.draws(components, stepper.areas, first, count)
            if stepper.variates:
                words = run.noise.words(Purpose.TRANSITION, first, count)
                draws = [draw._replace(words=w) for draw, w in zip(draws, words, strict=True)]
        happening = run.noise.words(Purpose.JUMPS, first, count) if jumps and run.noise is not None else []
        for i, draw in enumerate(draws):
            k = first + jnp.uint32(i)
            during = run.after(k)
            y, state = run.stepper.step(as_solved(during), run.time(k), run.dt, y, draw, state)
            if jumps:
                y = with_jumps(during, run.time(k), run.dt, y, happening[i])
            k = k + jnp.uint32(1)
            acc = run.observer.update(during, acc, k, run.time(k), y, run.dt)
            if schedule is not None:
                due = [_is_in(k, table) for table in tables]
                y, state, acc = _turned(run, k, due, during, y, state, acc)
        return pack((y, state, acc))

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
        run = eqx.combine(numbers, others)
        y, _, acc = unpack(carry)
        return run.observer.row(run.after(k), acc, run.time(k), y)

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

            @jax.named_scope(STEPS)
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
            run = eqx.combine(numbers, others)
            run = run._replace(problem=_per_path(run.problem, run.noise))
            return loop(selection, eqx.filter(run, eqx.is_array), start)

        return jax.jvp(differentiable, primals, tangents)

    at_start = run.after(jnp.uint32(0))
    if schedule is not None:
        due = [jnp.bool_(0 in table) for table in tables]
        y0 = _with_events(schedule, due, at_start, t0, y0)
    start = y0, stepper.init(as_solved(at_start), t0, dt, y0), observer.init(at_start, t0, y0)
    start = jax.tree.map(_strong, start)
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


class _Run(NamedTuple):
    """What a step reads beside the carry."""

    problem: Any
    stepper: AbstractStepper
    observer: AbstractObserver
    noise: AbstractNoise | None
    t0: jax.Array
    dt: jax.Array

    def time(self, k):
        return self.t0 + k.astype(self.t0.dtype) * self.dt

    def after(self, k):
        """The problem over the step that begins at step `k`."""
        if schedule_of(self.problem) is None:
            return self.problem
        return within(self.problem, self.time(k), self.time(k) + self.dt)


def _event_steps(schedule: Schedule, grid: Grid) -> list[np.ndarray]:
    """The steps after which each event happens."""
    tables = []
    for event in schedule.events:
        steps = (event if event.steps is not None else event.on(grid)).steps_of(grid.steps)
        if steps is None:
            raise ValueError(
                f"steps: {grid.steps} do not meet all times of an event, as {event.of} did; choose a multiple"
            )
        tables.append(np.asarray(steps, np.uint32))
    return tables


def _is_in(k, table: np.ndarray):
    return jnp.any(k == jnp.asarray(table))


def _with_events(schedule: Schedule, due, problem, t, y):
    """The state after the events that are due, one after the other."""
    for event, now in zip(schedule.events, due, strict=True):
        y = event.applied(now, problem, t, y)
    return y


def _turned(run: _Run, k, due, before, y, state, acc):
    """State, solver's state and accumulators as the step from `k` on finds them.

    `before` is the problem over the step that ended. A solver that carries something starts afresh where a
    parameter jumps or an event happens.
    """
    t, after = run.time(k), run.after(k)
    schedule: Any = schedule_of(run.problem)
    new = _with_events(schedule, due, after, t, y)
    acc = run.observer.changed(acc, k, t, (before, y), (after, new))
    if jax.tree.leaves(state):
        afresh = schedule.moved(t - 0.5 * run.dt, t + 0.5 * run.dt)
        for now in due:
            afresh = afresh | now
        begun = run.stepper.init(as_solved(after), t, run.dt, new)
        state = jax.tree.map(
            lambda b, s: jnp.where(afresh, jnp.asarray(b, s.dtype), s) if eqx.is_array(s) else s, begun, state
        )
    return new, state, acc


def _in_order(first, between, last):
    """All rows of one kept value; the loop's first one is not taken."""
    return jnp.concatenate([jnp.asarray(first)[None], between[1:], jnp.asarray(last)[None]])


def steps_per_block(
    problem: AbstractODE, stepper: AbstractStepper, noise: AbstractNoise | None, dtype
) -> tuple[int, int]:
    """How many steps share random words, and how many are compiled as one block, in whole groups of these.

    A block takes about `WORDS_PER_BLOCK` random words.
    """
    group, words = 1, 0
    if isinstance(problem, AbstractSDE) and noise is not None:
        components = len(problem.Noise._fields)
        group = noise.group(components)
        jumps = isinstance(problem, AbstractJumpDiffusion)
        words = (components + (WORDS_OF_JUMPS if jumps else 0)) * noise.refinement
    if not stepper.unrolled:
        return group, group
    steps = WORDS_PER_BLOCK[dtype.itemsize] // words if words else STEPS_PER_BLOCK
    return group, group * max(1, steps // group)


def _per_path(problem, noise):
    """The same problem, each parameter a number of this path's own, which `vmap` turns into a vector.

    In reverse mode a parameter shared by all paths would cost a reduction over the paths at every use; a
    path's own accumulates along the path, and the paths are summed once.
    """
    words = [leaf for leaf in jax.tree.leaves(noise) if eqx.is_array(leaf)]
    if not words:
        return problem
    word = jnp.ravel(words[0])[0]
    same = word == word
    return jax.tree.map(
        lambda p: jax.lax.select(same, p, p) if eqx.is_inexact_array(p) and p.shape == () else p, problem
    )


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
