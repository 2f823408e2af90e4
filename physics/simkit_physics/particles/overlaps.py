"""Particles at the same place, which no potential can separate."""

from typing import NamedTuple

import jax
import numpy as np
from simkit_solvers import Vector

from simkit_physics.particles.boxes import AbstractBox
from simkit_physics.particles.density import Snapshot


class Overlap(NamedTuple):
    """Two particles, by their numbers, and their distance."""

    one: int
    other: int
    distance: float


def closest_overlap(snapshot: Snapshot, box: AbstractBox, least: float) -> Overlap | None:
    """The closest two particles that are nearer than `least`, None if no two are."""
    from scipy.spatial import KDTree

    position, coordinates, periods = snapshot.position, snapshot.coordinates, None
    if len(position) < 2:
        return None
    if box.periodic:
        periods = snapshot.widths
        coordinates = coordinates % periods
        coordinates[coordinates >= periods] = 0  # by rounding
    # Search coordinates differ by at most the distance, so that who is near is near in each of them.
    tree = KDTree(coordinates, boxsize=periods, compact_nodes=False, balanced_tree=False)
    gaps, nearest = map(np.asarray, tree.query(coordinates, k=2, p=np.inf, distance_upper_bound=least))
    near = np.flatnonzero(np.isfinite(gaps[:, 1]))
    if not len(near):
        return None
    other = np.where(nearest[near, 0] == near, nearest[near, 1], nearest[near, 0])
    on_host = jax.tree.map(np.asarray, box)
    difference = on_host.nearest(Vector(*(position[near] - position[other]).T))
    distances = np.sqrt(sum(c**2 for c in difference))
    k = int(np.argmin(distances))
    one, two = sorted((int(near[k]), int(other[k])))
    return Overlap(one, two, float(distances[k])) if distances[k] < least else None


def check_no_overlap(snapshot: Snapshot, box: AbstractBox, least: float) -> None:
    """Raise `ValueError`, which names the pair and its distance, if two particles are nearer than `least`."""
    overlap = closest_overlap(snapshot, box, least)
    if overlap is not None:
        raise ValueError(
            f"particles {overlap.one} and {overlap.other} are at the same place: their distance is "
            f"{overlap.distance:.3g}; move one of them or leave it out"
        )
