"""The one loop: a `lax.scan` over blocks of unrolled steps, with an integer clock.

Noise words come two at a time, so consecutive steps share them in groups of one or two. Where a saved row
falls inside a group, a block draws one step more and picks by where in its group it starts.
"""

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

    size = (
        _block_size(grid, group, components * noise.refinement if stochastic else 1)
        if stepper.unrolled
        else group
    )
    aligned = grid.every % group == 0 and size % group == 0

    def draws(first, count):
        """The draws of `count` steps from `first`, which may lie anywhere in its group."""
        if not stochastic:
            return [Draw(())] * count
        if aligned:
            return noise.draws(components, stepper.areas, first, 0, count)
        late = first % jnp.uint32(group)
        found = noise.draws(components, stepper.areas, first - late, 0, count + group - 1)
        return [
            jax.tree.map(lambda *choice: _pick(late, choice), *found[i : i + group]) for i in range(count)
        ]

    def block(carry, first, count):
        """`count` unrolled steps from step `first`."""

        def unpacked(packed, first):
            y, state, acc = unpack(packed)
            for i, draw in enumerate(draws(first, count)):
                k = first + jnp.uint32(i)
                y, state = stepper.step(problem, time(k), dt, y, draw, state)
                acc = observer.update(problem, acc, k + jnp.uint32(1), time(k + jnp.uint32(1)), y, dt)
            return pack((y, state, acc))

        return jax.checkpoint(unpacked, prevent_cse=False)(carry, first)

    def advance(carry, first):
        """The steps of one row from step `first`: whole blocks, then the rest."""
        blocks, tail = divmod(grid.every, size)

        def body(c, b):
            return block(c, first + b * jnp.uint32(size), size), None

        carry = jax.lax.scan(body, carry, jnp.arange(blocks, dtype=jnp.uint32))[0]
        return block(carry, first + jnp.uint32(blocks * size), tail) if tail else carry

    def row(carry, k):
        y, _, acc = unpack(carry)
        return observer.row(problem, acc, time(k), y)

    def body(carry, r):
        # The row first: it reads what the loop carries; after the steps it would compute them again.
        k = r * jnp.uint32(grid.every)
        return advance(carry, k), row(carry, k)

    carry = y0, stepper.init(problem, t0, dt, y0), observer.init(problem, t0, y0)
    carry = jax.tree.map(_strong, carry)
    pack, unpack = _packing(carry)
    carry, kept = jax.lax.scan(body, pack(carry), jnp.arange(grid.rows - 1, dtype=jnp.uint32))
    last = row(carry, jnp.uint32(grid.steps))
    return jax.tree.map(lambda x, y: jnp.concatenate([x, jnp.asarray(y)[None]]), kept, last)


def _pick(index, choice):
    """The `index`-th of a few arrays."""
    picked = choice[0]
    for i, other in enumerate(choice[1:], 1):
        picked = jnp.where(index == jnp.uint32(i), other, picked)
    return picked


def _block_size(grid: Grid, group: int, words: int) -> int:
    """Steps in an unrolled block of about `WORDS_PER_BLOCK` words: a divisor of the steps to a saved row.

    In whole groups if there is such a divisor, and `WORDS_PER_BLOCK` with a rest if there is none at all.
    """
    target = max(1, WORDS_PER_BLOCK // words)
    divisors = [n for n in range(-(-target // 2), 2 * target) if grid.every % n == 0]
    whole = [n for n in divisors if n % group == 0]
    return min(whole or divisors or [min(target, grid.every)], key=lambda n: abs(n - target))


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
