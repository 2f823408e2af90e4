r"""The static structure factor of a periodic box, $S(k) = \langle |\rho_k|^2 \rangle / N$.

$\rho_k = \sum_i e^{-i k \cdot x_i}$, with $k = 2\pi (n_1 \nabla s_1 + n_2 \nabla s_2 + n_3 \nabla s_3)$ where
the s are the coordinates in units of the box vectors and the n whole numbers. Of an ideal gas S = 1 at every
k. Each exponential is a product of powers of three.

Reference: Hansen & McDonald (2013), Theory of Simple Liquids, section 4.1, doi:10.1016/C2010-0-66723-X.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Complex, Float, Int
from simkit_solvers import Particles, Vector

from simkit_physics.particles.boxes import AbstractBox, AbstractPeriodicBox

PARTICLES = 512  # of a chunk, whose powers stay in cache
VECTORS = 32  # whose sums are one kernel
MOST = 10_000_000  # wave vectors to choose from
SAME = 1e-9  # relative difference of wave numbers that are one


@dataclasses.dataclass(frozen=True, eq=False)
class WaveVectors:
    """Wave vectors by their length, one of each pair k and -k.

    Sets of the same numbers are equal, so that they share a program, which holds them as constants.

    >>> from simkit_physics import lattice, wave_vectors
    >>> particles, box = lattice("fcc", (4, 4, 4), density=1.0)
    >>> vectors = wave_vectors(box, largest=2.0)
    >>> vectors.waves.shape, int(vectors.shell.max())
    ((16, 3), 3)
    """

    waves: Int[np.ndarray, "vectors 3"]  # whole numbers of waves along the box vectors
    length: Float[np.ndarray, " vectors"]
    shell: Int[np.ndarray, " vectors"]  # which of the wave numbers

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WaveVectors) and self._numbers == other._numbers

    def __hash__(self) -> int:
        return hash(self._numbers)

    @property
    def _numbers(self) -> tuple[bytes, ...]:
        return self.waves.tobytes(), self.length.tobytes(), self.shell.tobytes()

    @property
    def shells(self) -> int:
        return int(self.shell.max()) + 1

    @property
    def multiplicity(self) -> Int[np.ndarray, " shells"]:
        """How many wave vectors each wave number has, k and -k counted as two."""
        return 2 * np.bincount(self.shell)

    @property
    def wave_numbers(self) -> Float[np.ndarray, " shells"]:
        """The length of the vectors of each shell."""
        return np.bincount(self.shell, self.length) / np.bincount(self.shell)


def wave_vectors(
    box: AbstractBox, largest: float, *, resolution: float = 0.01, most: int | None = 24
) -> WaveVectors:
    """Wave vectors of the box up to a length.

    Large boxes have very many. Each wave number is longer than the one before by a fraction `resolution` at
    least, and has at most about `most` vectors, evenly chosen; with 0 and `None` all are there.

    Raises `ValueError` for a free box, and if there are no wave vectors or too many to choose from.

    >>> from simkit_physics import lattice, wave_vectors
    >>> particles, box = lattice("fcc", (4, 4, 4), density=1.0)
    >>> vectors = wave_vectors(box, largest=2.0)
    >>> len(vectors.length), float(vectors.length[0].round(2))  # the shortest is 2π over the side
    (16, 0.99)
    """
    if not isinstance(box, AbstractPeriodicBox):
        raise ValueError("S(k) needs a periodic box: a free one has no wave vectors")
    gradients = _fraction_gradients(box)
    # With a box vector a and n waves along it, k . a = 2 pi n.
    vectors = np.linalg.inv(gradients)
    ends = np.floor(largest * np.linalg.norm(vectors, axis=0) / (2 * np.pi) + SAME).astype(int)
    if np.prod(2 * ends + 1.0) > MOST:
        raise ValueError(
            f"the box has more than {MOST:,} wave vectors up to {largest:g}; take a smaller limit"
        )
    waves = np.stack(np.meshgrid(*(np.arange(-m, m + 1) for m in ends), indexing="ij"), -1).reshape(-1, 3)
    waves = waves[len(waves) // 2 + 1 :]  # those before the middle have opposite signs
    length = 2 * np.pi * np.linalg.norm(waves @ gradients, axis=1)
    inside = length <= largest * (1 + SAME)
    if not inside.any():
        least = 2 * np.pi / np.max(np.linalg.norm(vectors, axis=0))
        raise ValueError(f"the box has no wave vectors up to {largest:g}; the shortest are about {least:g}")
    order = np.argsort(length[inside], kind="stable")
    waves, length = waves[inside][order], length[inside][order]
    shell = np.cumsum(np.diff(length, prepend=length[0]) > SAME * length)
    chosen = np.concatenate(
        [
            np.flatnonzero(shell == kind)[:: _stride(shell, kind, most)]
            for kind in _spread(shell, length, resolution)
        ]
    )
    return WaveVectors(waves[chosen], length[chosen], np.unique(shell[chosen], return_inverse=True)[1])


def _spread(shell: np.ndarray, length: np.ndarray, resolution: float) -> list[int]:
    """The shells of which each is longer than the last by a fraction at least."""
    numbers = length[np.searchsorted(shell, np.arange(shell[-1] + 1))]
    chosen = [0]
    for kind, number in enumerate(numbers):
        if kind and number >= numbers[chosen[-1]] * (1 + resolution):
            chosen.append(kind)
    return chosen


def _stride(shell: np.ndarray, kind: int, most: int | None) -> int:
    half = np.searchsorted(shell, kind + 1) - np.searchsorted(shell, kind)
    return 1 if most is None else max(1, -(-2 * int(half) // most))


def density_squares(
    vectors: WaveVectors, box: AbstractPeriodicBox, particles: Particles
) -> Float[Array, " shells"]:
    r"""The mean of $|\rho_k|^2 / N$ over the vectors of each wave number.

    >>> from simkit_physics import density_squares, lattice, wave_vectors
    >>> particles, box = lattice("fcc", (4, 4, 4), density=1.0)
    >>> squares = density_squares(wave_vectors(box, largest=2.0), box, particles)
    >>> squares.round(3).tolist()  # zero, except for Bragg peaks
    [0.0, 0.0, 0.0, 0.0]
    """
    squares = jnp.abs(density_waves(vectors, box, particles)) ** 2
    sums = jax.ops.segment_sum(squares, jnp.asarray(vectors.shell), vectors.shells)
    return sums / jnp.asarray(np.bincount(vectors.shell) * particles.count, sums.dtype)


def density_waves(
    vectors: WaveVectors, box: AbstractPeriodicBox, particles: Particles
) -> Complex[Array, " vectors"]:
    r"""$\rho_k$ of all particles at each wave vector."""
    fractions = box.fractions(particles.position)
    chunks = -(-particles.places // PARTICLES)
    more = chunks * PARTICLES - particles.places
    real = jnp.pad(particles.real, (0, more)).reshape(chunks, PARTICLES)
    cut = Vector(*(jnp.pad(s, (0, more)).reshape(chunks, PARTICLES) for s in fractions))
    ends = np.abs(vectors.waves).max(0)
    groups = -(-len(vectors.waves) // VECTORS)
    rows = np.pad(vectors.waves + ends, ((0, groups * VECTORS - len(vectors.waves)), (0, 0)))
    rows = jnp.asarray(rows.reshape(groups, VECTORS, 3), jnp.int32)

    def of_chunk(total, chunk):
        s, real = chunk
        x, y, z = (_powers(c, int(n)) for c, n in zip(s, ends, strict=True))
        z = jnp.where(real, z, 0)

        def of_group(row):
            a, b, c = row.T
            return jnp.sum(x[a] * y[b] * z[c], axis=1)

        return total + lax.map(of_group, rows), None

    zero = jnp.zeros((groups, VECTORS), fractions.x.dtype)
    total, _ = lax.scan(of_chunk, lax.complex(zero, zero), (cut, real))
    return total.ravel()[: len(vectors.waves)]


def _powers(s: Float[Array, " particles"], most: int) -> Array:
    r"""$e^{-2 \pi i n s}$ for n = -most, …, most."""
    angle = -2 * jnp.pi * (s - jnp.floor(s))
    first = lax.complex(jnp.cos(angle), jnp.sin(angle))
    powers = [jnp.ones_like(first)]
    for _ in range(most):
        powers.append(powers[-1] * first)
    return jnp.stack([*(p.conj() for p in powers[:0:-1]), *powers])


def _fraction_gradients(box: AbstractPeriodicBox) -> Float[np.ndarray, "3 3"]:
    """The gradients of the coordinates in units of the box vectors, in rows."""
    unit = Vector.of(jnp.eye(3, dtype=jnp.asarray(box.widths.x).dtype))
    return np.stack([np.asarray(s, float) for s in box.fractions(unit)])
