"""The one loop: a `lax.scan` over blocks of unrolled steps, with an integer clock.

Noise words come two at a time, so consecutive steps share them in groups of one or two. A saved row may fall
inside a group; then the rows repeat with the period at which row and group meet (two rows at most), and the
scan runs over such periods, so that the phase of every step within its group is known when compiling.
"""

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from simkit_solvers.grid import Grid
from simkit_solvers.noise import AbstractNoise, Draw
from simkit_solvers.observe import AbstractObserver
from simkit_solvers.problem import AbstractODE, AbstractSDE
from simkit_solvers.step import stepper_for

WORDS_PER_BLOCK = 8  # enough to hide the loop, few enough to compile in half a second


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
    modes; in reverse mode each block is recomputed rather than stored.
    Raises `ValueError` when a stochastic problem comes without noise or takes more steps than it can drive.
    """
    stochastic = isinstance(problem, AbstractSDE)
    if stochastic and noise is None:
        raise ValueError(f"{type(problem).__name__} is stochastic: `noise` must be a driver, not None")
    if stochastic and grid.steps > noise.capacity:
        raise ValueError(
            f"steps: {grid.steps} exceed the {noise.capacity} that the noise can drive; use fewer"
        )
    dtype = jnp.result_type(*jax.tree.leaves(y0))
    problem = _per_path(problem, noise)
    t0, dt = jnp.asarray(grid.t0, dtype), jnp.asarray(grid.dt, dtype)
    components = len(problem.Noise._fields) if stochastic else 0
    group = noise.group(components) if stochastic else 1
    stepper = stepper_for(solver)

    def time(k):
        return t0 + k.astype(dtype) * dt

    def steps(carry, first, phase, count):
        """`count` unrolled steps from step `first`, which is the `phase`-th of its group."""
        y, state, acc = carry
        draws = [Draw(())] * count
        if stochastic:
            draws = noise.draws(components, stepper.areas, first, phase, count)
        for i, draw in enumerate(draws):
            k = first + jnp.uint32(i)
            y, state = stepper.step(problem, time(k), dt, y, draw, state)
            acc = observer.update(problem, acc, k + jnp.uint32(1), time(k + jnp.uint32(1)), y, dt)
        return y, state, acc

    def block(carry, first, phase, count):
        def unpacked(packed, k):
            return pack(steps(unpack(packed), k, phase, count))

        return jax.checkpoint(unpacked, prevent_cse=False)(carry, first)

    size = (
        _block_size(grid, group, components * noise.refinement if stochastic else 1)
        if stepper.unrolled
        else group
    )

    def advance(carry, first, phase, count):
        """`count` steps: up to the next group, then whole blocks, then the rest."""
        head = min(-phase % group, count)
        if head:
            carry = block(carry, first, phase, head)
            first = first + jnp.uint32(head)
        blocks, tail = divmod(count - head, size)
        if blocks:

            def body(c, b):
                return block(c, first + b * jnp.uint32(size), 0, size), None

            carry = jax.lax.scan(body, carry, jnp.arange(blocks, dtype=jnp.uint32))[0]
            first = first + jnp.uint32(blocks * size)
        return block(carry, first, 0, tail) if tail else carry

    def row(carry, k):
        y, _, acc = unpack(carry)
        return observer.row(problem, acc, time(k), y)

    def rows(carry, first, count):
        """`count` rows from step `first`, the start of a group, each `every` steps after the one before."""
        kept = []
        for r in range(count):
            start = first + jnp.uint32(r * grid.every)
            carry = advance(carry, start, r * grid.every % group, grid.every)
            kept.append(row(carry, start + jnp.uint32(grid.every)))
        return carry, jax.tree.map(lambda *x: jnp.stack(x), *kept)

    zero = jnp.uint32(0)
    carry = y0, stepper.init(problem, t0, dt, y0), observer.init(problem, t0, y0)
    carry = jax.tree.map(_strong, carry)
    pack, unpack = _packing(carry)
    carry = pack(carry)
    first = jax.tree.map(lambda x: jnp.asarray(x)[None], row(carry, zero))

    per_period = math.lcm(grid.every, group) // grid.every
    periods, left = divmod(grid.rows - 1, per_period)
    parts = [first]
    if periods > 1:
        length = jnp.uint32(per_period * grid.every)
        carry, kept = jax.lax.scan(
            lambda c, p: rows(c, p * length, per_period), carry, jnp.arange(periods, dtype=jnp.uint32)
        )
        parts.append(jax.tree.map(lambda x: x.reshape((-1, *x.shape[2:])), kept))
    else:
        left += periods * per_period
        periods = 0
    if left:
        carry, kept = rows(carry, jnp.uint32(periods * per_period * grid.every), left)
        parts.append(kept)
    return jax.tree.map(lambda *x: jnp.concatenate(x), *parts)


def _block_size(grid: Grid, group: int, words: int) -> int:
    """Steps in an unrolled block of about `WORDS_PER_BLOCK` words: the number that leaves the shortest rests.

    What is left before a saved row is compiled once more beside the block.
    """
    target = max(group, WORDS_PER_BLOCK // words)
    whole = grid.every - grid.every % group
    sizes = range(max(group, target // 2 // group * group), max(group, target * 5 // 4) + 1, group)
    return min(sizes, key=lambda size: (whole % size, -size))


def _per_path(problem, noise):
    """The same problem, each parameter a number of this path's own, which `vmap` turns into a vector.

    XLA undoes it in the plain run. In reverse mode a parameter shared by all paths would cost a reduction
    over the paths at every use; a path's own accumulates along the path, and the paths are summed once.
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
