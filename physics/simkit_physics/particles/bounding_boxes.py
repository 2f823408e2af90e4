"""Bounding boxes of clusters and blocks, and the gaps between them."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from simkit_solvers import Vector

from simkit_physics.particles.boxes import AbstractBox
from simkit_physics.particles.clusters import by_cluster


class Bounds(NamedTuple):
    """Bounding boxes in search coordinates; those without particles are nowhere."""

    centre: Vector
    half: Vector

    def at(self, index: jax.Array) -> "Bounds":
        return jax.tree.map(lambda a: a[index], self)


def of_clusters(search: Vector, real: jax.Array) -> Bounds:
    """The bounding box of each cluster."""
    inside = by_cluster(real)
    low = Vector(*(jnp.where(inside, by_cluster(c), jnp.inf).min(1) for c in search))
    high = Vector(*(jnp.where(inside, by_cluster(c), -jnp.inf).max(1) for c in search))
    return _box_between(low, high)


def of_blocks(clusters: Bounds) -> Bounds:
    """The bounding box of each block, from its clusters; or of each chunk, from its blocks."""
    low = Vector(*((c - h).reshape(-1, 8).min(1) for c, h in zip(*clusters, strict=True)))
    high = Vector(*((c + h).reshape(-1, 8).max(1) for c, h in zip(*clusters, strict=True)))
    return _box_between(low, high)


def _box_between(low: Vector, high: Vector) -> Bounds:
    """An empty one has a half width of minus infinity, so that its gaps are infinite."""
    some = [h >= l for l, h in zip(low, high, strict=True)]
    centre = Vector(*(jnp.where(s, (l + h) / 2, 0) for s, l, h in zip(some, low, high, strict=True)))
    half = Vector(*(jnp.where(s, (h - l) / 2, -jnp.inf) for s, l, h in zip(some, low, high, strict=True)))
    return Bounds(centre, half)


def gap2(box: AbstractBox, a: Bounds, b: Bounds) -> jax.Array:
    """A lower bound of the squared distance between particles of two bounding boxes."""
    difference = box.nearest_gap(a.centre.plus(-1, b.centre))
    pieces = zip(difference, a.half, b.half, strict=True)
    return box.least_square(Vector(*(jnp.maximum(jnp.abs(d) - (h + k), 0) for d, h, k in pieces)))
