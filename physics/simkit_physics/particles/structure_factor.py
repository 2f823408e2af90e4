r"""The static structure factor at the wave vectors of a periodic box, $S(k) = \langle |\rho_k|^2 \rangle /
N$.

$\rho_k = \sum_i e^{-i k \cdot x_i}$, with $k = 2\pi (n_1 \nabla s_1 + n_2 \nabla s_2 + n_3 \nabla s_3)$ where
the s are the coordinates in units of the box vectors. Of an ideal gas S = 1 at every k. The exponentials of
each coordinate are powers of the first, and the sums over particles a product of matrices.

Reference: Hansen & McDonald (2013), Theory of Simple Liquids, section 4.1, doi:10.1016/C2010-0-66723-X.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int
from simkit_solvers import Particles, Vector

from simkit_physics.particles.boxes import AbstractBox

PARTICLES = 512  # of a chunk: the products of its exponentials stay in cache
SAME = 1e-9  # relative difference of wave numbers that are one


@dataclasses.dataclass(
    frozen=True, eq=False
)  # an identity of its own, so that a module can hold it as static
class WaveVectors:
    """Half of the wave vectors up to a length (of k and -k one), and the shells of equal length.

    `most` are the largest numbers of waves along the box vectors.
    """

    waves: np.ndarray  # (vectors, 3) whole numbers
    length: np.ndarray  # of each vector
    shell: np.ndarray  # of each vector
    most: tuple[int, int, int]

    @property
    def shells(self) -> int:
        return int(self.shell.max()) + 1

    @property
    def multiplicity(self) -> Int[np.ndarray, " shells"]:
        """How many wave vectors each shell has, k and -k counted as two."""
        return 2 * np.bincount(self.shell)

    @property
    def wave_numbers(self) -> Float[np.ndarray, " shells"]:
        """The length of the vectors of each shell."""
        return np.bincount(self.shell, self.length) / np.bincount(self.shell)


def wave_vectors(box: AbstractBox, largest: float) -> WaveVectors:
    """All wave vectors of the box up to a length; `ValueError` for a free box or if there are none."""
    sides = np.array([float(w) for w in box.widths])
    if not np.all(np.isfinite(sides)):
        raise ValueError("S(k) needs a periodic box: a free one has no wave vectors")
    gradients = _fraction_gradients(box)
    # |k . a| = 2 pi n with a the box vector, and 1 / width = |grad s|.
    vectors = np.linalg.inv(gradients)
    most = tuple(int(m) for m in np.floor(largest * np.linalg.norm(vectors, axis=0) / (2 * np.pi) + 1e-9))
    grids = np.meshgrid(*(np.arange(-m, m + 1) for m in most), indexing="ij")
    waves = np.stack([g.ravel() for g in grids], axis=1)
    half = waves[
        len(waves) // 2 + 1 :
    ]  # the vectors before the middle are those after it, with opposite signs
    length = 2 * np.pi * np.linalg.norm(half @ gradients, axis=1)
    inside = length <= largest * (1 + SAME)
    if not inside.any():
        least = 2 * np.pi / np.max(np.linalg.norm(vectors, axis=0))
        raise ValueError(f"the box has no wave vectors up to {largest:g}; the shortest are about {least:g}")
    order = np.argsort(length[inside], kind="stable")
    waves, length = half[inside][order], length[inside][order]
    shell = np.cumsum(np.diff(length, prepend=length[0]) > SAME * length)
    return WaveVectors(waves, length, shell, most)


def density_squares(vectors: WaveVectors, box: AbstractBox, particles: Particles) -> Float[Array, " shells"]:
    r"""The mean of $|\rho_k|^2 / N$ over the wave vectors of each shell."""
    squares = jnp.abs(density_waves(vectors, box, particles)) ** 2
    sums = jax.ops.segment_sum(squares, jnp.asarray(vectors.shell), vectors.shells)
    return sums / jnp.asarray(np.bincount(vectors.shell) * particles.count, sums.dtype)


def density_waves(vectors: WaveVectors, box: AbstractBox, particles: Particles) -> Array:
    r"""$\rho_k$ of all particles, at each wave vector, complex."""
    fractions = _fractions(box, particles.position)
    chunks = -(-particles.places // PARTICLES)
    more = chunks * PARTICLES - particles.places
    real = jnp.pad(particles.real, (0, more)).reshape(chunks, PARTICLES)
    cut = Vector(*(jnp.pad(s, (0, more)).reshape(chunks, PARTICLES) for s in fractions))
    n1, n2, n3 = vectors.most

    def of_chunk(total, chunk):
        s, real = chunk
        x, y, z = (_powers(c, n) for c, n in zip(s, vectors.most, strict=True))
        z = jnp.where(real, z, 0)
        x = x[n1:]  # n1 >= 0: the others are conjugates
        xy = (x[:, None] * y[None]).reshape(-1, PARTICLES)
        return total + xy @ z.T, None

    shape = ((n1 + 1) * (2 * n2 + 1), 2 * n3 + 1)
    blank = jnp.zeros(shape, jnp.result_type(fractions.x.dtype, jnp.complex64))
    total, _ = lax.scan(of_chunk, blank, (cut, real))
    a, b, c = vectors.waves.T
    return total.reshape(n1 + 1, 2 * n2 + 1, 2 * n3 + 1)[a, b + n2, c + n3]


def _powers(s: Float[Array, " particles"], most: int) -> Array:
    r"""$e^{-2 \pi i n s}$ for n = -most, …, most."""
    angle = -2 * jnp.pi * (s - jnp.floor(s))
    first = lax.complex(jnp.cos(angle), jnp.sin(angle))
    powers = [jnp.ones_like(first)]
    for _ in range(most):
        powers.append(powers[-1] * first)
    return jnp.stack([*(p.conj() for p in powers[:0:-1]), *powers])


def _fractions(box: AbstractBox, position: Vector) -> Vector:
    """The coordinates in units of the box vectors."""
    widths = (w.astype(position.x.dtype) for w in box.widths)
    return Vector(*(c / w for c, w in zip(box.search_coordinates(position), widths, strict=True)))


def _fraction_gradients(box: AbstractBox) -> Float[np.ndarray, "3 3"]:
    """The gradient of each of these coordinates, in rows."""
    unit = Vector.of(jnp.eye(3, dtype=jnp.asarray(box.widths.x).dtype))
    return np.stack([np.asarray(s, float) for s in _fractions(box, unit)])
