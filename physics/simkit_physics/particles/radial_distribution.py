r"""The radial distribution function of a periodic box.

With $n_{ab}$ pairs of the species a and b at distances in a bin, whose spherical shell has the volume v,
$g_{ab} = n_{ab} V / (N_a N_b v)$, and $g_{aa} = 2 n_{aa} V / (N_a^2 v)$. Of an ideal gas $g_{ab}$ is 1 and
$g_{aa}$ is $1 - 1/N_a$ in every bin. The coordination number, of b around an a, is the running sum of $n_{ab}
/ N_a$ or $2 n_{aa} / N_a$.

Reference: Allen & Tildesley (2017), Computer Simulation of Liquids, section 8.2,
doi:10.1093/oso/9780198803195.001.0001.
"""

import itertools
from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from simkit_solvers import Particles

from simkit_physics.particles.boxes import AbstractBox
from simkit_physics.particles.clusters import ClusterGrid
from simkit_physics.particles.near_pairs import Tile, over_near_pairs


def species_pairs(species: int) -> list[tuple[int, int]]:
    """The pairs of species in the order of the counts: (0, 0), (0, 1), …, (1, 1), …

    >>> from simkit_physics import species_pairs
    >>> species_pairs(2)
    [(0, 0), (0, 1), (1, 1)]
    """
    return list(itertools.combinations_with_replacement(range(species), 2))


def pair_counts(
    grid: ClusterGrid,
    box: AbstractBox,
    particles: Particles,
    largest: Float[Array, ""] | float,
    bins: int,
    species: int = 1,
) -> Int[Array, "pairs bins"]:
    """How many pairs of each two species have their distance in each of the equal bins from 0 to `largest`.

    Each pair counts once. Bin k holds the distances from k up to k + 1 bin widths. `grid` is
    `block_grid(box, particles)`.

    >>> from simkit_physics import block_grid, lattice, pair_counts
    >>> particles, box = lattice("fcc", (4, 4, 4), density=1.0)
    >>> counts = pair_counts(block_grid(box, particles), box, particles, largest=1.2, bins=2)
    >>> counts.tolist()  # six times the number of particles
    [[0, 1536]]
    """
    kinds = len(species_pairs(species))
    scale = bins / jnp.asarray(largest, particles.position.x.dtype)

    def add(counts, tile: Tile):
        r2, a, b = tile
        inside = r2 < largest * largest
        bin_ = jnp.minimum(jnp.sqrt(jnp.where(inside, r2, 0)) * scale, bins - 1).astype(jnp.int32)
        if species > 1:
            low, high = jnp.minimum(a, b).astype(jnp.int32), jnp.maximum(a, b).astype(jnp.int32)
            bin_ += bins * (low * species - low * (low - 1) // 2 + high - low)
        return counts.at[jnp.where(inside, bin_, kinds * bins)].add(1, mode="promise_in_bounds")

    blank = jnp.zeros(kinds * bins + 1, jnp.int32)  # the last one counts what is too far
    counts = over_near_pairs(grid, box, particles, largest, add, blank)
    return counts[:-1].reshape(kinds, bins)


def pair_normalisation(volume: float, of_species: Sequence[int], largest: float, bins: int) -> np.ndarray:
    """What turns the mean counts of a configuration into g, `(pairs, bins)`; NaN for a pair of one species
    that has no particles.

    >>> from simkit_physics import pair_normalisation
    >>> pair_normalisation(volume=100.0, of_species=[100], largest=2.0, bins=2).shape
    (1, 2)
    """
    edges = np.linspace(0, largest, bins + 1)
    shells = 4 / 3 * np.pi * np.diff(edges**3)
    with np.errstate(divide="ignore", invalid="ignore"):
        factors = [
            (2 if a == b else 1) / np.float64(of_species[a] * of_species[b])
            for a, b in species_pairs(len(of_species))
        ]
    return volume * np.array(factors)[:, None] / shells


def check_radial_range(box: AbstractBox, largest: float) -> None:
    """`ValueError` if distances up to `largest` are not those of nearest images, or the box is free.

    >>> from simkit_physics import check_radial_range, lattice
    >>> particles, box = lattice("fcc", (4, 4, 4), density=1.0)
    >>> check_radial_range(box, 3.0)  # less than half a side
    """
    least = min(float(w) for w in box.widths)
    if not np.isfinite(least):
        raise ValueError("g(r) needs a periodic box: in a free one there is no density to compare with")
    if not 0 < largest <= least / 2 * (1 + 1e-12):
        raise ValueError(
            f"the range of g(r) must be at most half the least width of the box, {least / 2:g}, got "
            f"{largest:g}; shorten it, or take a larger system"
        )
