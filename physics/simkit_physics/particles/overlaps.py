"""Particles at the same place, which no potential can separate."""

import math
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


SAME = 1e-4  # of the cutoff: particles that are nearer are at the same place
CELL = 400  # distances that are searched for: few particles of a fluid share a cell or are near its faces
OFFSET = 0.123  # of a cell, so that the planes of a crystal in the box are not faces


def closest_overlap(snapshot: Snapshot, box: AbstractBox, least: float) -> Overlap | None:
    """The closest two particles that are nearer than `least`, None if no two are."""
    coordinates, periods = snapshot.coordinates, None
    if box.periodic:
        periods = snapshot.widths
        coordinates = coordinates % periods
        coordinates[coordinates >= periods] = 0  # by rounding
    candidates = _candidates(coordinates, periods, least)
    if len(candidates) < 2:
        return None
    from scipy.spatial import KDTree

    position, coordinates = snapshot.position[candidates], coordinates[candidates]
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
    one, two = sorted((int(candidates[near[k]]), int(candidates[other[k]])))
    return Overlap(one, two, float(distances[k])) if distances[k] < least else None


def _candidates(coordinates: np.ndarray, periods: np.ndarray | None, least: float) -> np.ndarray:
    """Particles that may be nearer than `least` to another: in one cell with it, or near a face of theirs."""
    scaled = coordinates / (CELL * least) + OFFSET
    cells = np.floor(scaled)
    beyond = scaled - cells
    margin = 1.001 / CELL  # more than rounding takes
    chosen = np.any((beyond < margin) | (beyond > 1 - margin), axis=1)
    if periods is not None:
        chosen |= np.any((coordinates < least) | (coordinates > periods - least), axis=1)
    x, y, z = (cells % 2**21).astype(np.int64).T
    keys = (x << 42) ^ (y << 21) ^ z
    order = np.argsort(keys)
    same = np.diff(keys[order]) == 0
    chosen[order[1:][same]] = chosen[order[:-1][same]] = True
    return np.flatnonzero(chosen)


def coincident(snapshot: Snapshot, box: AbstractBox, length: float) -> Overlap | None:
    """Two particles at the same place, on the scale of a length, such as the cutoff."""
    return closest_overlap(
        snapshot, box, SAME * (length if math.isfinite(length) else snapshot.extent or 1.0)
    )


def check_no_overlap(snapshot: Snapshot, box: AbstractBox, length: float) -> None:
    """Raise `ValueError`, which names the pair and its distance, if two particles are at the same place."""
    overlap = coincident(snapshot, box, length)
    if overlap is not None:
        raise ValueError(
            f"particles {overlap.one} and {overlap.other} (counted from 0) are at the same place: their "
            f"distance is {overlap.distance:.3g}; move one of them or leave it out"
        )
