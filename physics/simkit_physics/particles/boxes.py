r"""Boxes: free space, and periodic ones whose images fill it.

A periodic box is spanned by $a = (l_x, 0, 0)$, $b = (t_{xy}, l_y, 0)$ and $c = (t_{xz}, t_{yz}, l_z)$, as in
LAMMPS; without tilts it is orthorhombic. Reference: Allen & Tildesley (2017), Computer Simulation of Liquids,
section 1.6, doi:10.1093/oso/9780198803195.001.0001.
"""

import abc

import equinox as eqx
import jax
import jax.numpy as jnp
from simkit_solvers import Vector


class AbstractBox(eqx.Module):
    """Where particles are, and which image of a pair is the nearest one.

    Searches for neighbours measure distances in *search coordinates*, of which each has a period of its own:
    the sum or the maximum of squared gaps is at most the squared distance.
    """

    @abc.abstractmethod
    def nearest(self, difference: Vector) -> Vector:
        """The nearest image of a difference, if that is shorter than half the least width of the box."""

    @abc.abstractmethod
    def wrapped(self, position: Vector) -> tuple[Vector, Vector]:
        """The positions inside the box, and how many box vectors were taken off (32-bit whole numbers)."""

    @abc.abstractmethod
    def unwrapped(self, position: Vector, image: Vector) -> Vector:
        """The positions on the paths without the box: `image` box vectors are added."""

    @abc.abstractmethod
    def search_coordinates(self, position: Vector) -> Vector:
        """Coordinates in units of length in which a search for neighbours measures gaps."""

    @abc.abstractmethod
    def nearest_gap(self, difference: Vector) -> Vector:
        """Differences of search coordinates, each to its nearest image."""

    @abc.abstractmethod
    def least_square(self, gap: Vector) -> jax.Array:
        """A lower bound of the squared distance of two points whose search coordinates differ by at least that."""

    @property
    @abc.abstractmethod
    def widths(self) -> Vector:
        """The distances between opposite faces; infinite in free space."""

    @property
    def volume(self) -> jax.Array:
        """The volume; infinite in free space."""
        return self.widths.x * self.widths.y * self.widths.z


def _to_nearest(difference: jax.Array, period: jax.Array) -> jax.Array:
    return difference - period * jnp.round(difference * (1 / period))


class FreeBox(AbstractBox):
    """Open space."""

    def nearest(self, difference: Vector) -> Vector:
        return difference

    def wrapped(self, position: Vector) -> tuple[Vector, Vector]:
        return position, Vector(*(jnp.zeros(jnp.shape(c), jnp.int32) for c in position))

    def unwrapped(self, position: Vector, image: Vector) -> Vector:
        return position

    def search_coordinates(self, position: Vector) -> Vector:
        return position

    def nearest_gap(self, difference: Vector) -> Vector:
        return difference

    def least_square(self, gap: Vector) -> jax.Array:
        return gap.dot(gap)

    @property
    def widths(self) -> Vector:
        return Vector(*(jnp.asarray(jnp.inf),) * 3)


class OrthorhombicBox(AbstractBox):
    """A periodic box with right angles and the given `sides`."""

    sides: Vector

    def nearest(self, difference: Vector) -> Vector:
        return Vector(*map(_to_nearest, difference, self._sides(difference)))

    def wrapped(self, position: Vector) -> tuple[Vector, Vector]:
        turns = [jnp.floor(c / side) for c, side in zip(position, self._sides(position), strict=True)]
        inside = (c - side * t for c, side, t in zip(position, self._sides(position), turns, strict=True))
        return Vector(*inside), Vector(*(t.astype(jnp.int32) for t in turns))

    def unwrapped(self, position: Vector, image: Vector) -> Vector:
        pieces = zip(position, self._sides(position), image, strict=True)
        return Vector(*(c + side * turns.astype(c.dtype) for c, side, turns in pieces))

    def search_coordinates(self, position: Vector) -> Vector:
        return position

    def nearest_gap(self, difference: Vector) -> Vector:
        return self.nearest(difference)

    def least_square(self, gap: Vector) -> jax.Array:
        return gap.dot(gap)

    @property
    def widths(self) -> Vector:
        return self.sides

    def _sides(self, like: Vector) -> tuple:
        return tuple(side.astype(like.x.dtype) for side in self.sides)


class TriclinicBox(AbstractBox):
    """A periodic box with the given `sides` (l_x, l_y, l_z) and `tilts` (t_xy, t_xz, t_yz)."""

    sides: Vector
    tilts: Vector

    def nearest(self, difference: Vector) -> Vector:
        s = self._fractions(difference)
        return self._cartesian(Vector(*(c - jnp.round(c) for c in s)))

    def wrapped(self, position: Vector) -> tuple[Vector, Vector]:
        turns = Vector(*map(jnp.floor, self._fractions(position)))
        shift = self._cartesian(turns)
        return position.plus(-1, shift), Vector(*(t.astype(jnp.int32) for t in turns))

    def unwrapped(self, position: Vector, image: Vector) -> Vector:
        return position.plus(1, self._cartesian(Vector(*(t.astype(position.x.dtype) for t in image))))

    def search_coordinates(self, position: Vector) -> Vector:
        """Distances from the faces of the box."""
        widths = self._like(self.widths, position)
        return Vector(*(s * w for s, w in zip(self._fractions(position), widths, strict=True)))

    def nearest_gap(self, difference: Vector) -> Vector:
        return Vector(*map(_to_nearest, difference, self._like(self.widths, difference)))

    def least_square(self, gap: Vector) -> jax.Array:
        """Of the distances between parallel planes the largest, since the planes are not at right angles."""
        largest = jnp.maximum(jnp.maximum(abs(gap.x), abs(gap.y)), abs(gap.z))
        return largest**2

    @property
    def widths(self) -> Vector:
        (lx, ly, lz), (xy, xz, yz) = self.sides, self.tilts
        along_x = jnp.sqrt((ly * lz) ** 2 + (xy * lz) ** 2 + (xy * yz - ly * xz) ** 2) / (ly * lz)
        return Vector(lx / along_x, ly * lz / jnp.sqrt(lz**2 + yz**2), lz)

    @property
    def volume(self) -> jax.Array:
        return self.sides.x * self.sides.y * self.sides.z

    def _fractions(self, position: Vector) -> Vector:
        """The coordinates in units of the box vectors."""
        (lx, ly, lz), (xy, xz, yz) = self._like(self.sides, position), self._like(self.tilts, position)
        c = position.z / lz
        b = (position.y - yz * c) / ly
        return Vector((position.x - xy * b - xz * c) / lx, b, c)

    def _cartesian(self, fractions: Vector) -> Vector:
        (lx, ly, lz), (xy, xz, yz) = self._like(self.sides, fractions), self._like(self.tilts, fractions)
        a, b, c = fractions
        return Vector(lx * a + xy * b + xz * c, ly * b + yz * c, lz * c)

    def _like(self, numbers: Vector, position: Vector) -> tuple:
        return tuple(number.astype(position.x.dtype) for number in numbers)
