"""Random positions without overlaps, a pure function of (key, path, number of the particle)."""

from typing import Any

import jax
import numpy as np
from simkit_solvers import Particles, Stream, Vector, Words, block, stream_key

from simkit_physics.particles.boxes import AbstractBox
from simkit_physics.particles.configurations import POSITION_BLOCKS, particles_at_rest

ATTEMPTS = 1000


def random_positions(
    count: int, box: AbstractBox, distance: float, key: Words, path: int = 0, *, mass: float = 1.0
) -> Particles:
    """Particles at random in a periodic box, no two of them nearer than `distance`.

    They are placed where they find room, in rounds: all without a place draw one, and of two that are too
    near the one with the larger number draws again. Spheres of that diameter fill at most 38 % of space.

    Raises `ValueError` for a box without a volume, and where particles find no room.

    >>> from simkit_physics import OrthorhombicBox, random_positions
    >>> from simkit_solvers import Vector, seed_key
    >>> box = OrthorhombicBox(Vector(6.0, 6.0, 6.0))
    >>> particles = random_positions(20, box, distance=1.0, key=seed_key(1))
    >>> particles.position.x.shape
    (20,)
    """
    vectors = _box_vectors(box)
    if distance > float(min(box.widths)):
        raise ValueError(f"random: distance {distance:g} is larger than the box")
    stream = stream_key(jax.tree.map(np.asarray, key), path, Stream.INITIAL)
    fractions, missing = np.zeros((count, 3)), np.arange(count)
    for attempt in range(ATTEMPTS):
        fractions[missing] = _fractions(stream, count, attempt)[missing]
        placed = np.ones(count, bool)
        placed[missing] = False
        if distance > 0:
            a, b = _near_pairs(fractions, vectors, np.asarray(box.widths), distance)
            missing = np.unique(np.where(placed[a] | (~placed[b] & (b > a)), b, a)) if len(a) else a
        if distance <= 0 or not len(missing):
            return particles_at_rest(fractions @ vectors, mass)
    raise ValueError(
        f"random: {len(missing)} of {count} particles found no place {distance:g} from the others in "
        f"{ATTEMPTS} attempts; take a smaller distance and minimise, or a lattice"
    )


def _fractions(stream: Words, count: int, attempt: int) -> np.ndarray:
    """Random positions of all particles in fractions of the box vectors."""
    numbers = np.arange(count, dtype=np.uint32)
    places = (POSITION_BLOCKS + 2 * attempt, POSITION_BLOCKS + 2 * attempt + 1)
    first, second = (block(stream, numbers, place) for place in places)
    return (np.stack([first.a, first.b, second.a], axis=1) + 0.5) * 2.0**-32


def _box_vectors(box: AbstractBox) -> np.ndarray:
    """The box vectors, one a row."""
    if not np.all(np.isfinite(np.asarray(box.widths))):
        raise ValueError("random: open space has no volume; give a periodic box")
    zeros, units = np.zeros((3, 3)), np.eye(3, dtype=np.int32)
    at: Any = jax.tree.map(np.asarray, box)  # with NumPy nothing is compiled
    place: Any = Vector
    return at.unwrapped(place(*zeros), place(*units)).rows()


def _near_pairs(fractions, vectors, widths, distance) -> tuple[np.ndarray, np.ndarray]:
    """The pairs nearer than the distance, over the periodic boundaries too."""
    from scipy.spatial import KDTree

    margin = distance / widths
    owners, copies = np.arange(len(fractions)), fractions
    for axis in range(3):
        low, high = copies[:, axis] < margin[axis], copies[:, axis] > 1 - margin[axis]
        step = np.eye(3)[axis]
        owners = np.concatenate([owners, owners[low], owners[high]])
        copies = np.concatenate([copies, copies[low] + step, copies[high] - step])
    pairs = KDTree(copies @ vectors).query_pairs(distance, output_type="ndarray")
    a, b = owners[pairs].T
    different = a != b
    return a[different], b[different]
