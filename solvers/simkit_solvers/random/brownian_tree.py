"""A Brownian path on binary trees: each interval of a coarse grid can be halved, and its halves again."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, UInt32

from simkit_solvers.random.draws import Draw, split
from simkit_solvers.random.generator import Stream, Words, block, stream_key
from simkit_solvers.random.noise import CounterNoise
from simkit_solvers.random.normal import standard_normal, standard_normal_float64

MOST_LEVELS = 30  # so that 2**level is a positive int32
FEWEST_LEVELS = 20


class BrownianTree(eqx.Module):
    r"""The normals of every interval $[(i/2^l) H, ((i + 1)/2^l) H]$ of each coarse interval of length H.

    Coarse intervals draw as the steps of a fixed grid do. The halves of an interval follow from its own
    normals and fresh ones by `split`, and the fresh ones are a pure function of key, path and the interval's
    place: its coarse interval, and its number $2^l + i$ in the tree. So a path is the same, up to rounding,
    however deep and in which order the tree is descended; with areas, inside the coarse intervals, it is
    another than without.

    >>> import jax.numpy as jnp
    >>> from simkit_solvers import BrownianTree, seed_key
    >>> tree = BrownianTree.of(seed_key(1), path=0)
    >>> whole = tree.root(components=1, areas=0, interval=jnp.uint32(0))
    >>> left, right = tree.halves(whole, jnp.uint32(0), level=jnp.uint32(0), index=jnp.uint32(0))
    >>> bool(jnp.isclose((left.W[0] + right.W[0]) / 2**0.5, whole.W[0]))
    True
    """

    roots: CounterNoise
    bridge: Words

    @staticmethod
    def of(key: Words, path: UInt32[Array, ""] | int, float64: bool = False) -> "BrownianTree":
        """The tree of one path id under a key; normals are drawn in float32 unless `float64` is set."""
        return BrownianTree(CounterNoise.of(key, path, float64), stream_key(key, path, Stream.TREE))

    def levels(self, components: int, areas: int) -> int:
        """How often an interval can be halved before two places would share a counter.

        `ValueError` where it would be fewer than 20 times, because there are too many components.
        """
        levels = 32 - math.ceil(math.log2(self._blocks(components, areas)))
        if levels < FEWEST_LEVELS:
            raise ValueError(
                f"noise: {components} components leave a tree of {levels} levels, fewer than "
                f"{FEWEST_LEVELS}; give steps of equal length"
            )
        return min(levels, MOST_LEVELS)

    def root(self, components: int, areas: int, interval: jax.Array) -> Draw:
        """The normals of a coarse interval, a `uint32` that may be traced."""
        group = self.roots.group(components)
        within = interval % jnp.uint32(group)
        draws = self.roots.draws(components, areas, interval - within, group)
        if group == 1:
            return draws[0]
        return Draw(
            *(
                tuple(jnp.where(within == 0, x, y) for x, y in zip(*pair, strict=True))
                for pair in zip(*draws, strict=True)
            )
        )

    def halves(
        self, whole: Draw, interval: jax.Array, level: jax.Array, index: jax.Array
    ) -> tuple[Draw, Draw]:
        """The normals of the two halves of the interval that has the normals `whole`.

        It is number `index` of $2^l$ with l = `level`, below `levels`; all three places are `uint32`.
        """
        sizes = [len(kind) for kind in whole]
        count = sum(sizes)
        blocks = self._blocks(sizes[0], bool(whole.H) + bool(whole.K))
        first = ((jnp.uint32(1) << level) + index) * jnp.uint32(blocks)
        words = [block(self.bridge, interval, first + jnp.uint32(i)) for i in range(blocks)]
        if self.roots.float64:
            normals = [standard_normal_float64(pair) for pair in words]
        else:
            normals = [standard_normal(word) for pair in words for word in pair]
        dtype = whole.W[0].dtype
        fresh = [x.astype(dtype) for x in normals[:count]]
        W, H = sizes[0], sizes[0] + sizes[1]
        return split(whole, Draw(tuple(fresh[:W]), tuple(fresh[W:H]), tuple(fresh[H:])))

    def _blocks(self, components: int, areas: int) -> int:
        """Blocks of two words for the fresh normals of one interval."""
        normals = components * (areas + 1)
        return normals if self.roots.float64 else -(-normals // 2)
