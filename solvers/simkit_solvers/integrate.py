"""The one loop: a `lax.scan` over blocks of unrolled steps, with an integer clock.

Blocks have one length and lie on one grid, whatever is saved: block b is the steps `b * size`, …, so that a
step is always compiled in the same place of the same block. Where steps are compiled elsewhere, the compiler
may contract other products and sums to fused multiply-adds, and the last bit differs. A row that falls inside
a block is reached from the block's start, by steps that are taken for this row alone.
"""

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from simkit_solvers.checkpoints import Nesting, nested_scan, nesting
from simkit_solvers.grid import Grid
from simkit_solvers.jump_diffusion import AbstractJumpDiffusion, with_jumps
from simkit_solvers.noise import AbstractNoise, Draw, Purpose
from simkit_solvers.observe import AbstractObserver
from simkit_solvers.problem import AbstractODE, AbstractSDE
from simkit_solvers.schedule import Schedule, as_solved, prepared, schedule_of, within
from simkit_solvers.step import AbstractStepper, stepper_for

# Enough to hide the loop, few enough that a row inside a block costs little; by the bytes of a number, since
# in float64 the loop costs more.
WORDS_PER_BLOCK = {4: 4, 8: 8}
STEPS_PER_BLOCK = 2  # the same, where there is no noise
WORDS_OF_JUMPS = 2
REVERSE_BYTES = 2**14  # a thousand blocks of two float64 variables


def integrate(
    problem: AbstractODE,
    solver,
    y0,
    grid: Grid,
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
    jumps of an `AbstractJumpDiffusion` are taken after each step.

    A scheduled problem takes each step with the parameters of that step; its events happen at the ends of
    steps, and a row there has the state after them.
    Raises `ValueError` when a stochastic problem comes without noise or takes more steps than it can drive,
    and for events that are not at the end of a step.
    """
    stepper, components, group, size, dtype = _method(problem, solver, y0, grid, noise)
    jumps = isinstance(problem, AbstractJumpDiffusion)
    if not components:
        noise = None
    t0, dt = jnp.asarray(grid.t0, dtype), jnp.asarray(grid.dt, dtype)
    run = _Run(prepared(problem), stepper, observer, noise, t0, dt)
    schedule = schedule_of(problem)
    tables = () if schedule is None else _event_steps(schedule, grid)
    numbers, others = eqx.partition(run, eqx.is_array)

    def whole(numbers):
        if isinstance(numbers.problem, _Paired):
            numbers = numbers._replace(problem=numbers.problem.apart())
        return eqx.combine(numbers, others)

    def steps(numbers, carry, first, count):
        """`count` unrolled steps from step `first`, where a group starts."""
        run = whole(numbers)
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

    turns = _turns(grid, size)
    half = group * -(-size // (2 * group))  # of a block, in whole groups

    def row(numbers, carry, k):
        run = whole(numbers)
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
            k = r * jnp.uint32(grid.every)
            first, end = k - k % jnp.uint32(size), k + jnp.uint32(grid.every)
            if filled:
                # A row that is none is the first one, as a block that is not needed is in `selection`.
                real = r < jnp.uint32(between)
                shown = jax.tree.map(lambda c, s: jnp.where(real, c, s), carry, jax.lax.stop_gradient(start))
                kept = row(numbers, at_row(numbers, shown, jnp.where(real, k, 0)), jnp.where(real, k, 0))
                end = jnp.where(real, end, 0)
            else:
                kept = row(numbers, at_row(numbers, carry, k), k)
            if grid.steps < size:
                return (carry, counted), kept

            def turn(state, b):
                carry, counted = state
                carry = block(numbers, carry, start, first + b * jnp.uint32(size), end)
                return (carry, counted + jnp.uint32(1)), None

            return nested_scan(turn, (carry, jnp.uint32(0)), loops.blocks)[0], kept

        if not loops.joined:
            body = jax.checkpoint(body, prevent_cse=False)
        (end, counted), rows = nested_scan(body, (start, jnp.uint32(0)), loops.rows)
        return end, counted, jax.tree.map(lambda x: x[:between], rows) if filled else rows

    @jax.custom_jvp
    def run_loop(numbers, start):
        return loop(branch, numbers, start, Nesting((grid.rows - 1,), (turns,), True))

    @run_loop.defjvp
    def _(primals, tangents):
        def differentiable(numbers, start):
            numbers = numbers._replace(problem=_Paired.of(_per_path(numbers.problem, numbers.noise)))
            return loop(selection, numbers, start, nesting(grid.rows - 1, turns, memory / _bytes_of(start)))

        return jax.jvp(differentiable, primals, tangents)

    start = _start(run, y0, tables)
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


class ReversePass(NamedTuple):
    """What the reverse pass of a loop keeps for one path, beside a few vectors of working memory."""

    loops: Nesting
    carry_bytes: int

    @property
    def bytes(self) -> int:
        """All carries that are kept at a time."""
        return self.loops.carries * self.carry_bytes

    @property
    def sweeps(self) -> int:
        """How often each step is taken, before its derivative: the run itself among them."""
        return self.loops.levels + 1


def reverse_pass(
    problem: AbstractODE,
    solver,
    y0,
    grid: Grid,
    noise: AbstractNoise | None,
    observer: AbstractObserver,
    memory: float = REVERSE_BYTES,
) -> ReversePass:
    """What the reverse pass of `integrate` with the same arguments will keep; nothing is computed.

    Takes arrays or their shapes, and raises what `integrate` raises.
    """

    def carried(problem, y0, noise, observer):
        method = _method(problem, solver, y0, grid, noise)
        t0, dt = (jnp.asarray(x, method.dtype) for x in (grid.t0, grid.dt))
        schedule = schedule_of(problem)
        tables = () if schedule is None else _event_steps(schedule, grid)
        return _start(_Run(prepared(problem), method.stepper, observer, noise, t0, dt), y0, tables)

    start = eqx.filter_eval_shape(carried, problem, y0, noise, observer)
    size = _method(problem, solver, y0, grid, noise).size
    carry_bytes = _bytes_of(start)
    return ReversePass(nesting(grid.rows - 1, _turns(grid, size), memory / carry_bytes), carry_bytes)


class _Method(NamedTuple):
    """How steps are taken: `size` of them in a block, of noise in groups of `group` steps."""

    stepper: AbstractStepper
    components: int
    group: int
    size: int
    dtype: Any


def _method(problem, solver, y0, grid: Grid, noise: AbstractNoise | None) -> _Method:
    stepper, dtype = stepper_for(solver), jnp.result_type(*jax.tree.leaves(y0))
    components, group, words = 0, 1, 0
    if isinstance(problem, AbstractSDE):
        if noise is None:
            raise ValueError(f"{type(problem).__name__} is stochastic: `noise` must be a driver, not None")
        if grid.steps > noise.capacity:
            raise ValueError(
                f"steps: {grid.steps} exceed the {noise.capacity} that the noise can drive; use fewer"
            )
        components = len(problem.Noise._fields)
        group = noise.group(components)
        jumps = WORDS_OF_JUMPS if isinstance(problem, AbstractJumpDiffusion) else 0
        words = (components + jumps) * noise.refinement
    size = _block_size(group, words, dtype) if stepper.unrolled else group
    return _Method(stepper, components, group, size, dtype)


def _turns(grid: Grid, size: int) -> int:
    # At least two: the compiler takes a loop of one apart and mixes it with what is around.
    return max(2, -(-grid.every // size))


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


def _start(run: _Run, y0, tables):
    """What is carried into the first step: state, the solver's own, accumulators."""
    first, schedule = run.after(jnp.uint32(0)), schedule_of(run.problem)
    if schedule is not None:
        due = [jnp.bool_(0 in table) for table in tables]
        y0 = _with_events(schedule, due, first, run.t0, y0)
    start = y0, run.stepper.init(as_solved(first), run.t0, run.dt, y0), run.observer.init(first, run.t0, y0)
    return jax.tree.map(_strong, start)


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


def _block_size(group: int, words: int, dtype) -> int:
    """Steps in a block of about `WORDS_PER_BLOCK` words, in whole groups; a step takes `words` of them."""
    steps = WORDS_PER_BLOCK[dtype.itemsize] // words if words else STEPS_PER_BLOCK
    return group * max(1, steps // group)


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


class _Paired(eqx.Module):
    """The numbers of a problem, its parameters in pairs.

    In reverse mode the loop carries the derivative with respect to each, and makes a kernel of each array.
    """

    packed: Any
    unpack: Callable = eqx.field(static=True)

    @classmethod
    def of(cls, numbers):
        pack, unpack = _packing(numbers)
        return cls(pack(numbers), unpack)

    def apart(self):
        return self.unpack(self.packed)


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


def _bytes_of(tree) -> int:
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))


def _strong(x):
    """An array that is not weakly typed, so that a scan's carry keeps its type."""
    return jnp.asarray(x, jnp.result_type(x)) if eqx.is_array_like(x) else x
