r"""Quasi-random Brownian noise: scrambled Sobol' points, in the order of a Brownian bridge.

The Brownian path of a run is a tree. Node 0 is its end; the others halve intervals, the longest first, until
what is left are single steps. A node's normal is the inverse of the normal distribution at one coordinate of
the path's point, and the first coordinates, which Sobol' points fill best, make the largest part of the path.

The bits of a coordinate are scrambled from the highest one downwards, each in dependence on those above it.
The scrambling is a hash (Laine & Karras 2011, with constants by Vegdahl) of the reversed bits; its seed is a
word of the counter-based generator, one for each scrambling and coordinate.

A block of `group` steps is found from the root without a memory of others. With $n$ steps in $B$ blocks of $g
= 8$ (of several noises fewer) it takes $1 + \lceil\log_2 B\rceil + g - 1$ coordinates, which is 11 in 8 steps
for $n = 64$. A coordinate takes $2m$ integer operations for the Sobol' point of index $i < 2^m$, 34 for the
scrambling, 40 for the normal and 3 for the bridge, and for its seed, with one noise, the half or the whole of
a block of the generator, which is 110. What depends on the step alone is the same for all paths.

Over all 2^32 seeds a coordinate's first 16 bits are exactly uniform, and its mean is so to 5e-11.

References: Sobol' (1967), On the distribution of points in a cube and the approximate evaluation of
integrals, doi:10.1016/0041-5553(67)90144-9; Owen (1997), Scrambled net variance for integrals of smooth
functions, doi:10.1214/aos/1031594731; Laine & Karras (2011), Stratified sampling for stochastic transparency,
doi:10.1111/j.1467-8659.2011.01978.x; Glasserman (2003), Monte Carlo Methods in Financial Engineering,
section 5.5, doi:10.1007/978-0-387-21617-1.
"""

import functools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, UInt32

from simkit_solvers.random.draws import Draw
from simkit_solvers.random.generator import Stream, Words, block, stream_key
from simkit_solvers.random.noise import (
    LONG_DRAW,
    AbstractNoise,
    CounterNoise,
    Purpose,
    StepWords,
    check_steps,
)
from simkit_solvers.random.normal import standard_normal, standard_normal_float64

MOST_DIMENSIONS = 21201  # for which SciPy has direction numbers
LONGEST_GROUP = 8


class SobolNoise(AbstractNoise):
    """The normals of `steps` steps from scrambled Sobol' points: of smooth functions, means with less noise.

    Path p is point p % points of the scrambling p // points. A path by itself has the law of independent
    noise, and scramblings are independent of each other: the spread of their means tells the error. Areas and
    words are from `own`, the path's counter noise. A normal has 32 bits, also where `float64` is set. With
    `ends_only` just the ends of Brownian motions are on points, each then in a stratum of its own, and all
    else is independent.

    Raises `ValueError` unless `points` is a power of two up to 2^31 and `steps` is positive; drawing does for
    more normals on points than there are dimensions, 21201.

    >>> import jax
    >>> import jax.numpy as jnp
    >>> from simkit_solvers import SobolNoise, seed_key
    >>> def square_of_the_end(path):
    ...     noise = SobolNoise.of(seed_key(1), path, steps=4, points=1024)
    ...     return sum(draw.W[0] / 2 for draw in noise.draws(components=1, areas=0, first=0, count=4)) ** 2
    >>> squares = jax.jit(jax.vmap(square_of_the_end))(jnp.arange(1024, dtype=jnp.uint32))
    >>> bool(abs(jnp.mean(squares) - 1) < 0.01)  # of independent paths the standard error is 0.04
    True
    """

    seeds: Words
    point: UInt32[Array, ""]
    own: CounterNoise
    steps: int = eqx.field(static=True)
    points: int = eqx.field(static=True)
    inside: Words | None = None  # the path's own words, of what is not on points

    def __check_init__(self):
        if self.points not in (2**m for m in range(32)):
            raise ValueError(f"points: must be a power of two from 1 to 2**31, got {self.points}")
        if self.steps < 1:
            raise ValueError(f"steps: must be at least 1, got {self.steps}")

    @staticmethod
    def of(
        key: Words,
        path: UInt32[Array, ""] | int,
        steps: int,
        points: int,
        float64: bool = False,
        ends_only: bool = False,
    ) -> "SobolNoise":
        """The noise of one path id under a key, for a run of `steps` steps."""
        own = CounterNoise.of(key, path, float64)
        seeds = stream_key(key, path // points, Stream.SOBOL)
        inside = stream_key(key, path, Stream.INSIDE_STRATA) if ends_only else None
        return SobolNoise(seeds, jnp.uint32(path % points), own, steps, points, inside)

    @staticmethod
    def dimensions(steps: int, components: int) -> int:
        """The coordinates of a path's point: one for each node of its tree and component of the noise."""
        group = _group(steps, components)
        return -(-steps // group) * group * components

    @property
    def refinement(self) -> int:
        return LONG_DRAW  # blocks of the loop are then one of the points', drawn once for all kernels

    @property
    def capacity(self) -> int:
        return self.steps

    def group(self, components: int) -> int:
        return _group(self.steps, components)

    def draws(self, components: int, areas: int, first: UInt32[Array, ""] | int, count: int) -> list[Draw]:
        check_steps(self, components, first, count)
        group = self.group(components)
        start = jnp.uint32(first) // jnp.uint32(group)
        blocks = (self._block(components, start + jnp.uint32(i)) for i in range(-(-count // group)))
        normals = [W for steps in blocks for W in steps][:count]
        own = self.own.draws(components, areas, first, count)
        return [draw._replace(W=W) for draw, W in zip(own, normals, strict=True)]

    def words(
        self, purpose: Purpose, first: UInt32[Array, ""] | int, count: int
    ) -> list[tuple[StepWords, ...]]:
        return self.own.words(purpose, first, count)

    def _block(self, components: int, number: UInt32[Array, ""]) -> list[tuple]:
        """The normals of the steps of block `number`, zero after the last step.

        Nodes are numbered level by level: 1 to B - 1 halve intervals of blocks, from B on intervals in
        a block. Level l of the former divides the B blocks at the whole parts of B i / 2^l.
        """
        group = self.group(components)
        blocks = -(-self.steps // group)
        levels = (blocks - 1).bit_length()
        path = _Coordinates(self, components)

        def steps_before(place: UInt32[Array, ""]) -> UInt32[Array, ""]:
            return jnp.minimum(place, jnp.uint32(self.steps))

        sums = tuple(self.steps**0.5 * z for z in path.ends())
        leaf = (((number + 1) << levels) - 1) // jnp.uint32(blocks)
        for level in range(levels):
            i = leaf >> (levels - level)
            low, middle, high = (((2 * i + k) * jnp.uint32(blocks)) >> (level + 1) for k in range(3))
            node = jnp.uint32(1 << level) + jnp.minimum(i, low - i)
            ends = (steps_before(place * jnp.uint32(group)) for place in (low, middle, high))
            share, deviation = _bridge(*ends, path.dtype)
            right = number >= middle
            share, deviation = jnp.where(right, 1 - share, share), jnp.where(right, -deviation, deviation)
            sums = tuple(share * s + deviation * z for s, z in zip(sums, path.normals(node), strict=True))
        parts, size = [sums], group
        while size > 1:
            halves, base = [], (jnp.uint32(blocks) + number) * jnp.uint32(len(parts))
            for i, part in enumerate(parts):
                start = number * jnp.uint32(group) + jnp.uint32(i * size)
                ends = (steps_before(start + jnp.uint32(k)) for k in (0, size // 2, size))
                share, deviation = _bridge(*ends, path.dtype)
                normals = path.normals(base, i)
                left = tuple(share * s + deviation * z for s, z in zip(part, normals, strict=True))
                halves += [left, tuple(s - x for s, x in zip(part, left, strict=True))]
            parts, size = halves, size // 2
        return parts


class _Coordinates:
    """The normals of the tree's nodes: of each, one for each component, in adjacent dimensions."""

    def __init__(self, noise: SobolNoise, components: int):
        self.noise, self.components = noise, components
        self.bits = noise.points.bit_length() - 1
        dimensions = noise.dimensions(noise.steps, components) if noise.inside is None else components
        self.directions = jnp.asarray(_directions(dimensions, self.bits))
        self.dtype = jnp.float64 if noise.own.float64 else jnp.float32
        # All bits of a word are those of the point's bit.
        self.masks = [-((noise.point >> k) & 1) for k in range(self.bits)]

    def ends(self) -> tuple:
        """The normals of node 0."""
        return self._on_points(jnp.uint32(0), 0)

    def normals(self, base: UInt32[Array, ""], offset: int = 0) -> tuple:
        """The normals of another node, `base + offset`; `base` must be even where the offset is not 0."""
        if self.noise.inside is None:
            return self._on_points(base, offset)
        words = self._words(self.noise.inside, base, offset)
        return tuple(_normal(word, self.noise.own.float64) for word in words)

    def _on_points(self, base: UInt32[Array, ""], offset: int) -> tuple:
        node = base + jnp.uint32(offset)
        return tuple(
            _normal(scrambled(self._coordinate(node, c), seed), self.noise.own.float64)
            for c, seed in enumerate(self._words(self.noise.seeds, base, offset))
        )

    def _words(self, key: Words, base: UInt32[Array, ""], offset: int) -> list[UInt32[Array, ""]]:
        """Two nodes share blocks of the generator if a node has an odd number of words."""
        nodes = 1 + self.components % 2
        family, place = (base + jnp.uint32(offset - offset % nodes)) // jnp.uint32(nodes), offset % nodes
        pairs = nodes * self.components // 2
        words = [word for k in range(pairs) for word in block(key, family, k)]
        own = words[place * self.components :][: self.components]
        if nodes == 1 or offset:
            return own
        odd = base % 2 == 1
        return [jnp.where(odd, *pair) for pair in zip(words[self.components :], own, strict=True)]

    def _coordinate(self, node: UInt32[Array, ""], component: int) -> UInt32[Array, ""]:
        """The bits of a coordinate in reverse."""
        row = jax.lax.dynamic_index_in_dim(
            self.directions, node * jnp.uint32(self.components) + jnp.uint32(component), keepdims=False
        )
        bits = jnp.uint32(0)
        for k, mask in enumerate(self.masks):
            bits = bits ^ (row[k] & mask)
        return bits


def _group(steps: int, components: int) -> int:
    """The steps of a block: fewer of several noises, which would take long to compile."""
    most = max(LONGEST_GROUP >> (max(components, 1) - 1).bit_length(), 2)
    return min(most, 1 << (steps - 1).bit_length())


@jax.jit  # traced once rather than at every call
def scrambled(reverse: UInt32[Array, "..."], seed: UInt32[Array, "..."]) -> UInt32[Array, "..."]:
    """A coordinate's 32 bits, scrambled from the highest downwards; its own are given in reverse."""
    x = reverse
    x = x ^ x * jnp.uint32(0x3D20ADEA)
    x = x + seed
    x = x * (seed >> 16 | 1)
    x = x ^ x * jnp.uint32(0x05526C56)
    x = x ^ x * jnp.uint32(0x53A22864)
    return _reversed(x)


def _reversed(x: Any) -> Any:
    """The bits of `uint32` words in reverse order."""
    masks = (1, 0x55555555), (2, 0x33333333), (4, 0x0F0F0F0F), (8, 0x00FF00FF)
    for shift, mask in masks:
        x = ((x >> np.uint32(shift)) & np.uint32(mask)) | ((x & np.uint32(mask)) << np.uint32(shift))
    return (x >> np.uint32(16)) | (x << np.uint32(16))


@functools.partial(jax.jit, static_argnums=1)
def _normal(word: UInt32[Array, "..."], float64: bool) -> Float[Array, "..."]:
    """A standard normal that increases with the word."""
    positive = word >> 31
    tail = word ^ -positive  # 31 bits
    if not float64:
        return standard_normal(tail << 1 | (1 - positive))
    return standard_normal_float64(Words(tail << 1 | 1, 1 - positive))  # the middle of the word's cell


def _bridge(
    low: UInt32[Array, ""], middle: UInt32[Array, ""], high: UInt32[Array, ""], dtype: Any
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """The left half's share of an interval's sum, and its deviation from that; 0 where there is no step."""
    left, right = ((x - y).astype(jnp.int32).astype(dtype) for x, y in ((middle, low), (high, middle)))
    share = left / jnp.maximum(left + right, 1)
    return share, jnp.sqrt(share * right)


@functools.lru_cache(maxsize=16)
def _directions(dimensions: int, bits: int) -> np.ndarray:
    """The direction numbers of each dimension, bits in reverse: the points whose index has one bit.

    SciPy's points are in the order of the Gray code, where that of index 2^k has the number 2^(k+1) - 1.
    """
    if dimensions > MOST_DIMENSIONS:
        raise ValueError(
            f"steps: their normals need {dimensions} dimensions, and Sobol' points have up to"
            f" {MOST_DIMENSIONS}; use fewer steps or fewer noises"
        )
    from scipy.stats import qmc  # takes long to import

    points = qmc.Sobol(dimensions, scramble=False, bits=32)
    columns = [np.zeros((0, dimensions))]
    for k in range(bits):
        points.fast_forward(2 ** (k + 1) - 1 - points.num_generated)
        columns.append(points.random(1) * 2.0**32)
    return np.ascontiguousarray(_reversed(np.concatenate(columns).astype(np.uint32)).T)
