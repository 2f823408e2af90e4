"""A configuration on the host, and how densely its particles stand."""

import math
from typing import NamedTuple

import jax
import numpy as np
from simkit_solvers import Particles

from simkit_physics.particles.boxes import AbstractBox


class Snapshot(NamedTuple):
    """Positions inside the box and in search coordinates, `(particles, 3)`, in the order of the numbers."""

    position: np.ndarray
    coordinates: np.ndarray
    widths: np.ndarray
    volume: float

    @classmethod
    def of(cls, particles: Particles, box: AbstractBox) -> "Snapshot":
        particles, box = jax.tree.map(np.asarray, (particles, box))  # with NumPy nothing is compiled
        position = box.wrapped(particles.by_identity().position)[0]
        coordinates = np.stack(box.search_coordinates(position), axis=1)
        return cls(np.stack(position, axis=1), coordinates, np.stack(box.widths), float(box.volume))

    @property
    def extent(self) -> float:
        """The largest difference of two coordinates."""
        return float(np.ptp(self.position, axis=0).max())


class Density(NamedTuple):
    """How many particles there are in a unit of volume, where they are: typically and at most.

    `extents` are those of the region that holds most of them, in search coordinates.
    """

    typical: float
    largest: float
    extents: tuple[float, float, float]

    @classmethod
    def of(cls, snapshot: Snapshot, length: float) -> "Density":
        """The density in cubes of at least this side."""
        periodic = math.isfinite(snapshot.volume)
        squeezed = math.prod(map(float, snapshot.widths)) / float(snapshot.volume) if periodic else 1.0
        low, high = np.percentile(snapshot.coordinates, [2, 98], axis=0)
        a, b, c = np.maximum((high - low) / 0.96, 1e-3 * length).tolist()
        side, counts = length, np.ones(1)
        for _ in range(4):  # cubes with 30 particles on average distinguish density from chance
            x, y, z = (snapshot.coordinates // side).astype(np.int64).T
            # One number a cell: rows are counted ten times slower.
            _, counts = np.unique((x << 42) ^ (y << 21) ^ z, return_counts=True)
            mean = float((counts**2).sum() / counts.sum())
            if mean > 25:
                break
            side = min(side * (30 / mean) ** (1 / 3), max(a, b, c))
        volume = side**3 / squeezed
        return cls(float((counts**2).sum() / counts.sum()) / volume, float(counts.max()) / volume, (a, b, c))
