r"""Boxes: free space, and periodic ones whose images fill it.

A periodic box is spanned by $a = (l_x, 0, 0)$, $b = (t_{xy}, l_y, 0)$ and $c = (t_{xz}, t_{yz}, l_z)$, as in
LAMMPS; without tilts it is orthorhombic. Reference: Allen & Tildesley (2017), Computer Simulation of Liquids,
section 1.6, doi:10.1093/oso/9780198803195.001.0001.
"""

import abc
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from simkit_solvers import Vector


class AbstractBox(eqx.Module):
    """Where particles are, and which image of a pair is the nearest one.

    Positions are arrays of jax or, on the host, of NumPy.
    Searches for neighbours measure distances in *search coordinates*, of which each has a period of its own:
    the sum or the maximum of squared gaps is at most the squared distance.

    >>> from simkit_physics import AbstractBox, FreeBox
    >>> isinstance(FreeBox(), AbstractBox)
    True
    """

    periodic: eqx.AbstractClassVar[bool]

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
        """A lower bound of the squared distance of two points whose search coordinates differ by at least
        that."""

    @property
    @abc.abstractmethod
    def widths(self) -> Vector:
        """The distances between opposite faces; infinite in free space."""

    @property
    @abc.abstractmethod
    def volume(self) -> jax.Array:
        """The volume; infinite in free space."""

    @property
    def least_width(self) -> jax.Array:
        """The least distance between opposite faces."""
        return jnp.minimum(jnp.minimum(self.widths.x, self.widths.y), self.widths.z)


class FreeBox(AbstractBox):
    """Open space.

    >>> from simkit_solvers import Vector
    >>> from simkit_physics import FreeBox
    >>> FreeBox().nearest(Vector(9.0, 0.0, 0.0)).x
    9.0
    """

    periodic: ClassVar[bool] = False

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

    @property
    def volume(self) -> jax.Array:
        return jnp.asarray(jnp.inf)


class AbstractPeriodicBox(AbstractBox):
    """A box whose images fill space.

    >>> from simkit_physics import AbstractPeriodicBox, lattice
    >>> particles, box = lattice("fcc", (3, 3, 3), density=0.5)
    >>> isinstance(box, AbstractPeriodicBox)
    True
    """

    periodic: ClassVar[bool] = True

    @abc.abstractmethod
    def fractions(self, position: Vector) -> Vector:
        """The coordinates in units of the box vectors."""

    @abc.abstractmethod
    def cartesian(self, fractions: Vector) -> Vector:
        """The position with the given coordinates in units of the box vectors."""

    def nearest(self, difference: Vector) -> Vector:
        rounded = map(_kind_of(difference).round, self.fractions(difference))
        return difference.plus(-1, self.cartesian(Vector(*rounded)))

    def wrapped(self, position: Vector) -> tuple[Vector, Vector]:
        turns = Vector(*map(_kind_of(position).floor, self.fractions(position)))
        inside = position.plus(-1, self.cartesian(turns))
        return inside, Vector(*(t.astype(jnp.int32) for t in turns))

    def unwrapped(self, position: Vector, image: Vector) -> Vector:
        return position.plus(1, self.cartesian(Vector(*(t.astype(position.x.dtype) for t in image))))

    def fixed_point(self, position: Vector) -> Vector:
        """The coordinates in units of the box vectors over 2^32, as 32-bit whole numbers.

        Their differences overflow into the nearest image by themselves. No derivative passes through them.
        """
        return Vector(*map(_last_32_bits, self.fractions(position)))

    def of_fixed_point(self, difference: Vector, dtype: DTypeLike) -> Vector:
        """The nearest image of a difference of coordinates in fixed point.

        Rounded once, at the end: with fractions and sides in float32, forces in a liquid would be off by 1.0
        to 1.5 millionths of their root mean square instead of 0.85, depending on how the sides are rounded.
        """
        exact = self.cartesian(Vector(*(c.astype(jnp.float64) * 2.0**-32 for c in difference)))
        return Vector(*(c.astype(dtype) for c in exact))


class OrthorhombicBox(AbstractPeriodicBox):
    """A periodic box with right angles and the given `sides`.

    >>> import jax.numpy as jnp
    >>> from simkit_solvers import Vector
    >>> from simkit_physics import OrthorhombicBox
    >>> box = OrthorhombicBox(Vector(10.0, 10.0, 20.0))
    >>> image = box.nearest(Vector(jnp.array([9.0]), jnp.array([0.0]), jnp.array([9.0])))
    >>> float(image.x[0]), float(image.z[0])
    (-1.0, 9.0)
    """

    sides: Vector

    def fractions(self, position: Vector) -> Vector:
        return Vector(
            *(c * (1 / side) for c, side in zip(position, _like(self.sides, position), strict=True))
        )

    def cartesian(self, fractions: Vector) -> Vector:
        return Vector(*(c * side for c, side in zip(fractions, _like(self.sides, fractions), strict=True)))

    def search_coordinates(self, position: Vector) -> Vector:
        return position

    def nearest_gap(self, difference: Vector) -> Vector:
        return self.nearest(difference)

    def least_square(self, gap: Vector) -> jax.Array:
        return gap.dot(gap)

    @property
    def widths(self) -> Vector:
        return _arrays(self.sides)

    @property
    def volume(self) -> jax.Array:
        x, y, z = _arrays(self.sides)
        return x * y * z


class TriclinicBox(AbstractPeriodicBox):
    """A periodic box with the given `sides` (l_x, l_y, l_z) and `tilts` (t_xy, t_xz, t_yz).

    >>> from simkit_physics import TriclinicBox, box_volume
    >>> from simkit_solvers import Vector
    >>> box = TriclinicBox(sides=Vector(10.0, 10.0, 10.0), tilts=Vector(5.0, 0.0, 0.0))
    >>> box_volume(box)
    1000.0
    """

    sides: Vector
    tilts: Vector

    def fractions(self, position: Vector) -> Vector:
        (lx, ly, lz), (xy, xz, yz) = _like(self.sides, position), _like(self.tilts, position)
        c = position.z * (1 / lz)
        b = (position.y - yz * c) * (1 / ly)
        return Vector((position.x - xy * b - xz * c) * (1 / lx), b, c)

    def cartesian(self, fractions: Vector) -> Vector:
        (lx, ly, lz), (xy, xz, yz) = _like(self.sides, fractions), _like(self.tilts, fractions)
        a, b, c = fractions
        return Vector(lx * a + xy * b + xz * c, ly * b + yz * c, lz * c)

    def search_coordinates(self, position: Vector) -> Vector:
        """Distances from the faces of the box."""
        widths = _like(self.widths, position)
        return Vector(*(s * w for s, w in zip(self.fractions(position), widths, strict=True)))

    def nearest_gap(self, difference: Vector) -> Vector:
        widths = _like(self.widths, difference)
        return Vector(*(d - w * jnp.round(d * (1 / w)) for d, w in zip(difference, widths, strict=True)))

    def least_square(self, gap: Vector) -> jax.Array:
        """Of the distances between parallel planes the largest, since the planes are not at right angles."""
        largest = jnp.maximum(jnp.maximum(abs(gap.x), abs(gap.y)), abs(gap.z))
        return largest**2

    @property
    def widths(self) -> Vector:
        sides, (xy, xz, yz) = _arrays(self.sides), _arrays(self.tilts)
        (lx, ly, lz), sqrt = sides, _kind_of(sides).sqrt
        along_x = sqrt((ly * lz) ** 2 + (xy * lz) ** 2 + (xy * yz - ly * xz) ** 2) / (ly * lz)
        return Vector(lx / along_x, ly * lz / sqrt(lz**2 + yz**2), lz)

    @property
    def volume(self) -> jax.Array:
        x, y, z = _arrays(self.sides)
        return x * y * z


def _kind_of(position: Vector) -> Any:
    """The functions for these arrays: `jax.numpy`, or on the host NumPy, which compiles nothing."""
    return position.x.__array_namespace__()


def _arrays(numbers: Vector) -> Vector:
    """Numbers as arrays, of jax unless they are of NumPy."""
    return Vector(*(number if hasattr(number, "dtype") else jnp.asarray(number) for number in numbers))


def _like(numbers: Vector, position: Vector) -> tuple:
    kind = _kind_of(position)
    return tuple(kind.asarray(number).astype(position.x.dtype) for number in numbers)


def _last_32_bits(fraction: jax.Array) -> jax.Array:
    """A fraction of a period over 2^32, whole periods dropped."""
    scaled = (fraction - jnp.round(fraction)) * 2.0**32
    return jnp.round(scaled).astype(jnp.int64).astype(jnp.int32)
