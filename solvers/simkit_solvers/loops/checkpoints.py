r"""Reverse passes in little memory: nested loops of which only the starts are stored.

A reverse pass needs what a loop carried at each of its N iterations. A loop of $N_1$ iterations around one of
$N_2$, of which only the beginnings are stored, stores $N_1 + N_2$ carries in place of $N_1 N_2$ and computes
each iteration once more; d loops store about $d\,N^{1/d}$ carries and compute each iteration d times before
its derivative. `nesting` finds the fewest loops that fit.
Reference: Griewank (1992), Achieving logarithmic growth of temporal and spatial complexity in reverse
automatic differentiation, doi:10.1080/10556789208805505.
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

MOST_LEVELS = 6  # 10^9 blocks in 190 carries
WINDOW = 0.2  # how far a length may be from the best one where fewer iterations are wasted


@dataclasses.dataclass(frozen=True)
class Nesting:
    """Loops over rows, and over the blocks of a row: the lengths of each, outermost first.

    With `merged` the innermost loop over rows keeps all that the outermost loop over blocks carries, and
    nothing between the two is computed again.
    """

    rows: tuple[int, ...]
    blocks: tuple[Any, ...]
    merged: bool

    @property
    def levels(self) -> int:
        """How often a block is computed before its derivative needs it once more."""
        return len(self.rows) + len(self.blocks) - self.merged

    @property
    def carries(self) -> int:
        """The most that are stored at a time."""
        between = self.rows[-1] * (self.blocks[0] + 1) if self.merged else self.rows[-1] + self.blocks[0]
        return sum(self.rows[:-1]) + between + sum(self.blocks[1:])

    @property
    def iterations(self) -> int:
        """Blocks computed in one sweep, including those that pad the loops."""
        return math.prod(self.rows) * math.prod(self.blocks)


def nesting(rows: int, blocks: int, most: float) -> Nesting:
    """The fewest loops over `rows` times `blocks` that keep at most `most` carries, else those with fewest.

    Of as many loops, those with fewer iterations that only pad, then those with fewer carries.
    """
    best = Nesting((rows,), (blocks,), True)
    for levels in range(1, MOST_LEVELS + 1):
        possible = list(_with(levels, rows, blocks))
        fitting = [each for each in possible if each.carries <= most]
        if fitting:
            return min(fitting, key=lambda each: (each.iterations, each.carries))
        best = min([best, *possible], key=lambda each: each.carries)
    return best


def _with(levels: int, rows: int, blocks: int) -> Iterator[Nesting]:
    if levels == 1:
        yield Nesting((rows,), (blocks,), True)
    else:
        weights = [1] * (levels - 1)
        yield Nesting(_lengths(rows, (*weights, blocks + 1)), (blocks,), True)
        yield Nesting((rows,), _lengths(blocks, (rows, *weights)), True)
    for outer in range(1, levels):
        yield Nesting(_lengths(rows, (1,) * outer), _lengths(blocks, (1,) * (levels - outer)), False)


def _lengths(count: int, weights: tuple[int, ...]) -> tuple[int, ...]:
    """Lengths whose product is at least `count`, with little more, and whose weighted sum is small."""
    if len(weights) == 1:
        return (count,)
    best = (count * math.prod(weights)) ** (1 / len(weights)) / weights[0]
    least, most = max(1, round(best * (1 - WINDOW))), max(1, round(best * (1 + WINDOW)))
    first = min(range(least, most + 1), key=lambda n: (n * -(-count // n), abs(n - best)))
    return (first, *_lengths(-(-count // first), weights[1:]))


def nested_scan(body: Callable, init: PyTree, lengths: tuple[int, ...], unroll: int = 1) -> tuple[Any, Any]:
    """`jax.lax.scan` of `body(carry, i)` over i = 0, … (uint32), as many as the product of `lengths`.

    Loops inside loops: in reverse mode what the inner ones carry is computed again from its beginning. The
    innermost has `unroll` of these in one iteration. A single length may be traced, where nothing is stored.
    """
    if isinstance(lengths[0], jax.Array):
        zero = jnp.zeros_like(lengths[0])
        return jax.lax.fori_loop(zero, lengths[0], lambda i, carry: body(carry, i)[0], init), None
    numbers = jnp.arange(lengths[0], dtype=jnp.uint32)
    if len(lengths) == 1:
        return jax.lax.scan(body, init, numbers, unroll=unroll)
    inside = jnp.uint32(math.prod(lengths[1:]))

    @functools.partial(jax.checkpoint, prevent_cse=False)
    def outer(carry, i):
        return nested_scan(lambda c, j: body(c, i * inside + j), carry, lengths[1:], unroll)

    end, stacked = jax.lax.scan(outer, init, numbers)
    return end, jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), stacked)
