"""Noise of particles as a pure function of (key, path, step, identity, component).

The order in which particles are stored changes nothing: each draws by its number.
"""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, UInt32

from simkit_solvers.random.generator import Stream, Words, block, stream_key
from simkit_solvers.random.normal import standard_normal, standard_normal_float64

MOST_PARTICLES = 2**30  # of which each needs up to four numbers of 32 bits


class ParticleNoise(eqx.Module):
    """The random numbers of one system of particles: three normals a particle and step, and those of all.

    Normals are drawn in float32 unless `float64` is set. `ParticleNoise.of(key, path)` is that of one path.

    >>> import jax.numpy as jnp
    >>> from simkit_solvers import ParticleNoise, seed_key
    >>> noise = ParticleNoise.of(seed_key(1))
    >>> kicks = noise.normals(jnp.uint32(0), jnp.arange(5, dtype=jnp.uint32))
    >>> len(kicks), kicks[0].shape
    (3, (5,))
    """

    kicks: Words
    common: Words
    float64: bool = eqx.field(static=True, default=False)

    @staticmethod
    def of(key: Words, path: UInt32[Array, ""] | int = 0, float64: bool = False) -> "ParticleNoise":
        """The noise of one path id under a key."""
        streams = Stream.INCREMENTS, Stream.VARIATES
        return ParticleNoise(*(stream_key(key, path, stream) for stream in streams), float64)

    def normals(
        self, step: Int[Array, ""], identity: Int[Array, " places"]
    ) -> tuple[Float[Array, " places"], Float[Array, " places"], Float[Array, " places"]]:
        """Three standard normals for each particle in step number `step`, a `uint32`.

        `ValueError` for more particles than there are counters.
        """
        if identity.shape[0] > MOST_PARTICLES:
            raise ValueError(f"noise: serves up to {MOST_PARTICLES} particles, got {identity.shape[0]}")
        number = identity.astype(jnp.uint32)
        if self.float64:
            places = (jnp.uint32(4) * number + jnp.uint32(i) for i in range(3))
            x, y, z = (standard_normal_float64(block(self.kicks, step, place)) for place in places)
            return x, y, z
        first = block(self.kicks, step, jnp.uint32(4) * number)
        second = block(self.kicks, step, jnp.uint32(4) * number + jnp.uint32(1))
        return standard_normal(first.a), standard_normal(first.b), standard_normal(second.a)

    def words(self, step: Int[Array, ""], place: int) -> Words:
        """Two random words in step number `step` that belong to no particle; `place` numbers their uses."""
        return block(self.common, step, jnp.uint32(place))
