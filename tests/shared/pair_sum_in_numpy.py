"""Sums over pairs and images in plain NumPy, and configurations of every density to compare with."""

import itertools
from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from simkit_physics import (
    FreeBox,
    LennardJones,
    OrthorhombicBox,
    Plain,
    TriclinicBox,
)
from simkit_solvers import Vector

COMPONENTS = ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))

# Three species, of which each pair has parameters and a cutoff of its own.
EPSILON = np.array([[1.0, 1.5, 0.7], [1.5, 0.5, 1.1], [0.7, 1.1, 0.9]])
SIGMA = np.array([[1.0, 0.8, 0.9], [0.8, 0.88, 1.05], [0.9, 1.05, 0.95]])
CUTOFFS = np.array([[2.5, 2.0, 2.3], [2.0, 2.2, 2.4], [2.3, 2.4, 1.9]])


def one_species(cutoff: float = 2.5) -> Plain:
    return Plain(LennardJones(epsilon=1.0, sigma=1.0), cutoff)


def several_species(count: int = 3) -> Plain:
    part = slice(count), slice(count)
    potential = LennardJones(epsilon=jnp.asarray(EPSILON[part]), sigma=jnp.asarray(SIGMA[part]))
    return Plain(potential, jnp.asarray(CUTOFFS[part]))


class PlainSums(NamedTuple):
    """Sums over pairs, and the same of the absolute values of all terms."""

    force: np.ndarray  # (particles, 3)
    energy: float
    virial: np.ndarray  # (6,)
    force_terms: np.ndarray
    energy_terms: float
    virial_terms: np.ndarray


def edges(box) -> np.ndarray | None:
    """The box vectors, one a row."""
    if isinstance(box, FreeBox):
        return None
    matrix = np.diag([float(c) for c in box.sides])
    if isinstance(box, TriclinicBox):
        matrix[1, 0], matrix[2, 0], matrix[2, 1] = (float(c) for c in box.tilts)
    return matrix


class Law(NamedTuple):
    """What pairs of species do: their cutoffs, (species, species), and energy and its derivative by r."""

    cutoffs: np.ndarray
    of: Callable[[np.ndarray, int, np.ndarray], tuple[np.ndarray, np.ndarray]]


def lennard_jones(cutoffs: np.ndarray, epsilon: np.ndarray, sigma: np.ndarray) -> Law:
    def of(r, a, b):
        e, x = epsilon[a, b], (sigma[a, b] / r) ** 6
        return 4 * e * (x**2 - x), -24 * e * (2 * x**2 - x) / r

    return Law(cutoffs, of)


def plain_sums(
    rows: np.ndarray,
    box,
    species=None,
    cutoff: float | None = None,
    some: np.ndarray | None = None,
    law: Law | None = None,
) -> PlainSums:
    """Sums over all pairs and images; forces of `some` particles only, if they are given.

    Without a `law` those of Lennard-Jones, of one species with a `cutoff`, else of the three above. Pairs
    within 1e-9 of a cutoff, where rounding decides, are refused.
    """
    species = np.zeros(len(rows), int) if species is None else np.asarray(species)
    matrix = edges(box)
    if law is None:
        one = np.ones((1, 1))
        law = (
            lennard_jones(CUTOFFS, EPSILON, SIGMA)
            if cutoff is None
            else lennard_jones(cutoff * one, one, one)
        )
    shifts = _shifts(matrix, law.cutoffs.max())
    some = np.arange(len(rows)) if some is None else some
    force, force_terms = np.zeros((len(some), 3)), np.zeros((len(some), 3))
    energy, virial, energy_terms, virial_terms = 0.0, np.zeros(6), 0.0, np.zeros(6)
    for k, i in enumerate(some):
        near = rows[i] - rows
        if matrix is not None:
            near = near - np.round(near @ np.linalg.inv(matrix)) @ matrix
        rc = law.cutoffs[species[i], species]
        for shift in shifts:
            d = near + shift
            r = np.sqrt((d**2).sum(1))
            if not shift.any():
                r[i] = np.inf
            assert np.abs(r - rc).min() > 1e-9
            inside = r < rc
            d, r = d[inside], r[inside]
            u, slope = law.of(r, species[i], species[inside])
            f = (-slope / r)[:, None] * d
            force[k] += f.sum(0)
            force_terms[k] += np.abs(f).sum(0)
            energy += 0.5 * u.sum()
            energy_terms += 0.5 * np.abs(u).sum()
            products = np.stack([d[:, a] * f[:, b] for a, b in COMPONENTS])
            virial += 0.5 * products.sum(1)
            virial_terms += 0.5 * np.abs(products).sum(1)
    return PlainSums(force, energy, virial, force_terms, energy_terms, virial_terms)


def _shifts(matrix: np.ndarray | None, cutoff: float) -> list[np.ndarray]:
    """The vectors to all images that the cutoff may reach from the nearest one."""
    if matrix is None:
        return [np.zeros(3)]
    widths = 1 / np.linalg.norm(np.linalg.inv(matrix), axis=0)
    most = [range(-n, n + 1) for n in np.ceil(cutoff / widths - 0.5).clip(0).astype(int)]
    return [np.array(n) @ matrix for n in itertools.product(*most)]


def assert_same_sums(force, totals, expected: PlainSums, within: float = 1e-11) -> None:
    """Forces, energy and virial agree to `within` of the sums of absolute terms."""
    rows = np.stack([np.asarray(c) for c in force], 1)
    largest = np.maximum(expected.force_terms, expected.force_terms.max() * 1e-6)
    assert np.abs((rows - expected.force) / np.maximum(largest, 1e-300)).max() < within
    assert abs(float(totals.energy) - expected.energy) <= within * expected.energy_terms
    assert (
        np.abs(np.asarray(totals.virial) - expected.virial) <= within * expected.virial_terms + 1e-300
    ).all()


def cube(side: float) -> OrthorhombicBox:
    return OrthorhombicBox(Vector(*(jnp.asarray(side),) * 3))


def bricks(x: float, y: float, z: float) -> OrthorhombicBox:
    return OrthorhombicBox(Vector(*map(jnp.asarray, (x, y, z))))


def skewed(x: float, y: float, z: float) -> TriclinicBox:
    """A box with strong tilts of either sign."""
    tilts = Vector(*map(jnp.asarray, (0.45 * x, -0.3 * x, 0.4 * y)))
    return TriclinicBox(Vector(*map(jnp.asarray, (x, y, z))), tilts)


def scattered(count: int, extents, seed: int = 0, spacing: float = 0.85) -> np.ndarray:
    """Particles at random places of a region, from the corner (0, 0, 0), none nearer than about 0.5
    spacings."""
    rng = np.random.default_rng(seed)
    cells = np.maximum((np.asarray(extents) / spacing).astype(int), 1)
    assert cells.prod() >= count
    chosen = rng.permutation(cells.prod())[:count]
    corners = np.stack(np.unravel_index(chosen, cells), 1)
    return (corners + 0.5 + 0.5 * (rng.random((count, 3)) - 0.5)) * np.asarray(extents) / cells


def droplet(count: int, centre, seed: int = 0, spacing: float = 0.95) -> np.ndarray:
    """A ball of particles in vacuum."""
    radius = spacing * (count * 3 / (4 * np.pi)) ** (1 / 3) + 1.5 * spacing
    n = int(np.ceil(radius / spacing))
    lattice = spacing * np.stack(np.meshgrid(*[np.arange(-n, n + 1)] * 3, indexing="ij"), -1).reshape(-1, 3)
    nearest = lattice[np.argsort((lattice**2).sum(1), kind="stable")[:count]]
    rng = np.random.default_rng(seed)
    return nearest + 0.2 * spacing * (rng.random((count, 3)) - 0.5) + np.asarray(centre)
