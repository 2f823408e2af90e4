"""Systems of particles: what an integrator of molecular dynamics advances, and the forces it asks for."""

import abc
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, Int

from simkit_solvers.numerics.kernels import zeros


class Vector(NamedTuple):
    """A vector for each particle: one array a coordinate, the layout that vector units and GPUs want.

    Each is an array `(places,)`, and a scalar in a single vector such as the sides of a box.

    >>> import jax.numpy as jnp
    >>> from simkit_solvers import Vector
    >>> velocities = Vector.of(jnp.array([[1.0, 0.0, 0.0], [0.0, 2.0, 0.0]]))
    >>> velocities.y.tolist(), velocities.dot(velocities).tolist()
    ([0.0, 2.0], [1.0, 4.0])
    """

    x: jax.Array
    y: jax.Array
    z: jax.Array

    @classmethod
    def of(cls, rows: Any) -> "Vector":
        """The vectors in the rows of an array `(particles, 3)`."""
        return cls(*jnp.asarray(rows).T)

    def rows(self) -> Float[Array, "particles 3"]:
        return self.x.__array_namespace__().stack(self, axis=1)

    def dot(self, other: "Vector") -> jax.Array:
        """The scalar product, particle by particle."""
        return self.x * other.x + self.y * other.y + self.z * other.z

    def plus(self, factor: jax.Array | float, other: "Vector") -> "Vector":
        """self + factor * other."""
        return Vector(*(a + factor * b for a, b in zip(self, other, strict=True)))

    def times(self, factor: jax.Array | float) -> "Vector":
        return Vector(*(factor * a for a in self))


class Particles(eqx.Module):
    """Positions, momenta and what belongs to each particle, in any order.

    `image` counts how often a particle has left the periodic box through each side: its path without the box
    is `position` plus that many box vectors. `identity` numbers the particles from 0; numbers from `count` on
    are empty places, which have no neighbours and do not move.

    >>> from simkit_solvers import Particles
    >>> particles = Particles.of([[0.0, 0.0, 0.0], [1.2, 0.0, 0.0]], mass=2.0)
    >>> particles.count, particles.mass.tolist()
    (2, [2.0, 2.0])
    >>> particles.padded(8).mass.shape  # with six empty places
    (8,)
    """

    position: Vector
    momentum: Vector
    image: Vector
    mass: Float[Array, " places"]
    species: Int[Array, " places"]
    identity: Int[Array, " places"]
    count: int = eqx.field(static=True)

    @classmethod
    def of(
        cls,
        position: Float[ArrayLike, "particles 3"],
        momentum: Float[ArrayLike, "particles 3"] | None = None,
        mass: Float[ArrayLike, " particles"] | float = 1.0,
        species: Int[ArrayLike, " particles"] | int = 0,
    ) -> "Particles":
        """Particles at the rows of `position`, numbered in this order, at rest unless `momentum` is given.

        Raises `ValueError` unless positions are three floating-point numbers a particle.
        """
        position = jnp.asarray(position)
        if position.ndim != 2 or position.shape[1] != 3 or not jnp.issubdtype(position.dtype, jnp.floating):
            raise ValueError(
                f"position: must be floating-point numbers in the shape (particles, 3), got {position.dtype} "
                f"in the shape {position.shape}"
            )
        count, dtype = len(position), position.dtype
        momentum = jnp.zeros_like(position) if momentum is None else jnp.asarray(momentum, dtype)
        return cls(
            position=Vector.of(position),
            momentum=Vector.of(jnp.broadcast_to(momentum, position.shape)),
            image=Vector(*(jnp.zeros(count, jnp.int32),) * 3),
            mass=jnp.broadcast_to(jnp.asarray(mass, dtype), (count,)),
            species=jnp.broadcast_to(jnp.asarray(species, jnp.int32), (count,)),
            identity=jnp.arange(count, dtype=jnp.int32),
            count=count,
        )

    @property
    def places(self) -> int:
        """How many places there are, the empty ones among them."""
        return self.identity.shape[0]

    def padded(self, places: int) -> "Particles":
        """These particles with empty places behind them, `places` in all.

        Raises `ValueError` if there are more places already.
        """
        more = places - self.places
        if more < 0:
            raise ValueError(f"{self.places} places do not fit into {places}: pass `particles.by_identity()`")
        if not more:
            return self

        def longer(leaf: jax.Array, value: int) -> jax.Array:
            kind = leaf.__array_namespace__()  # of NumPy on the host, where nothing is to be compiled
            return kind.concatenate([leaf, kind.full(more, value, leaf.dtype)])

        padded = jax.tree.map(lambda leaf: longer(leaf, 0), self)
        kind = self.identity.__array_namespace__()
        numbers = kind.arange(self.places, places, dtype=self.identity.dtype)
        identity = kind.concatenate([self.identity, numbers])
        # A mass of one, so that nothing is divided by 0.
        return eqx.tree_at(lambda p: (p.mass, p.identity), padded, (longer(self.mass, 1), identity))

    @property
    def real(self) -> Bool[Array, " places"]:
        """Which places hold a particle."""
        return self.identity < self.count

    def moved(self, position: Vector) -> "Particles":
        return eqx.tree_at(lambda p: p.position, self, position)

    def pushed(self, momentum: Vector) -> "Particles":
        return eqx.tree_at(lambda p: p.momentum, self, momentum)

    def in_order(self, order: Int[Array, " places"]) -> "Particles":
        """These particles in another order."""
        return jax.tree.map(lambda leaf: leaf[order], self)

    def by_identity(self) -> "Particles":
        """The particles in the order of their numbers, without empty places."""
        return jax.tree.map(lambda leaf: leaf[: self.count], self.in_order(self.identity.argsort()))


class Tensor(NamedTuple):
    """A symmetric tensor, in LAMMPS's order of its components.

    Each component is a scalar, or an array of any shape for several tensors.

    >>> from simkit_solvers import Tensor
    >>> Tensor(xx=1.0, yy=2.0, zz=3.0, xy=0.0, xz=0.0, yz=0.0).trace
    6.0
    """

    xx: jax.Array
    yy: jax.Array
    zz: jax.Array
    xy: jax.Array
    xz: jax.Array
    yz: jax.Array

    @property
    def trace(self) -> jax.Array:
        return self.xx + self.yy + self.zz


class PairTotals(NamedTuple):
    r"""What a sum over all pairs gives besides the forces.

    `energy` is the potential energy and `virial` $W_{ab} = \sum_{i<j} r_{ij,a} f_{ij,b}$, with
    $r_{ij} = x_i - x_j$ and the force $f_{ij}$ on i: positive where particles repel each other. `changes` are
    the same along changes of the parameters, with an axis of these in front, where a run asks for them.
    Without it, `energy` and each component of `virial` are scalars.

    >>> from simkit_physics import FreeBox, LennardJones, Plain, complete_list, forces_for
    >>> from simkit_solvers import PairTotals, Particles
    >>> pair = Particles.of([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    >>> potential = Plain(LennardJones(epsilon=1.0, sigma=1.0), 2.5)
    >>> forces, pair = forces_for(pair, FreeBox(), potential, precision="float32")
    >>> forces, pair, listed = complete_list(forces, pair)
    >>> force, totals = forces.totals(pair, listed)
    >>> isinstance(totals, PairTotals), round(float(totals.virial.xx), 3)
    (True, 24.0)
    """

    energy: jax.Array
    virial: Tensor
    changes: "PairTotals | tuple[()]" = ()


class Course(NamedTuple):
    """How particles move at present, which says for a time `lasts` where they are going.

    `lasts` is a scalar; each component of the vectors is an array `(places,)`.

    >>> import jax.numpy as jnp
    >>> from simkit_solvers import Course, Vector
    >>> velocity = Vector.of(jnp.ones((2, 3)))
    >>> course = Course(velocity, acceleration=Vector.of(jnp.zeros((2, 3))), lasts=jnp.float32(0.1))
    >>> course.velocity.x.shape
    (2,)
    """

    velocity: Vector
    acceleration: Vector
    lasts: jax.Array


class AbstractForces(eqx.Module):
    """The forces of a system: an equinox module, whose leaves are the parameters of the potentials.

    Forces are computed with a *list*, which `arranged` makes of a configuration and which serves as long as
    `serves` says. Forces that need no list have one that always serves.

    >>> import jax.numpy as jnp
    >>> from simkit_solvers import AbstractForces, Particles, PairTotals, Tensor, Vector
    >>> class Springs(AbstractForces):
    ...     strength: float
    ...
    ...     def arranged(self, particles, course=None):
    ...         return particles, ()
    ...
    ...     def serves(self, listed, position):
    ...         return jnp.asarray(True)
    ...
    ...     def complete(self, listed):
    ...         return jnp.asarray(True)
    ...
    ...     def forces(self, particles, listed):
    ...         return Vector(*(-self.strength * x for x in particles.position))
    ...
    ...     def totals(self, particles, listed):
    ...         energy = 0.5 * self.strength * jnp.sum(particles.position.dot(particles.position))
    ...         return self.forces(particles, listed), PairTotals(energy, Tensor(*[jnp.zeros(())] * 6))
    >>> particles = Particles.of([[1.0, 0.0, 0.0]])
    >>> Springs(2.0).forces(particles, ()).x.tolist()
    [-2.0]
    """

    @abc.abstractmethod
    def arranged(self, particles: Particles, course: Course | None = None) -> tuple[Particles, Any]:
        """The particles in the order that the forces want, wrapped into the box, and their list.

        It serves the positions of the particles, and longer if it is made for where their `course` leads.
        """

    def unlisted(self, particles: Particles) -> Any:
        """Zeros in the shape of a list, which serve nothing."""
        return zeros(jax.eval_shape(lambda p: self.arranged(p)[1], particles))

    @abc.abstractmethod
    def serves(self, listed: Any, position: Vector) -> Bool[Array, ""]:
        """Whether the list holds all pairs that interact at these positions."""

    @abc.abstractmethod
    def complete(self, listed: Any) -> Bool[Array, ""]:
        """Whether everything that the list must hold has found a place in it."""

    @abc.abstractmethod
    def forces(self, particles: Particles, listed: Any) -> Vector:
        """The force on each particle; zero in empty places."""

    @abc.abstractmethod
    def totals(self, particles: Particles, listed: Any) -> tuple[Vector, PairTotals]:
        """The forces, the energy and the virial."""
