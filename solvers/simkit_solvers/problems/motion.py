"""How fast particles move: velocities, kinetic energy, temperature, and what a system sums up to."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from simkit_solvers.numerics.scalar import Scalar
from simkit_solvers.problems.particles import Course, PairTotals, Particles, Tensor, Vector


class MotionUnits(NamedTuple):
    r"""Two constants of a system of units; both are 1 in reduced units.

    `boltzmann` is $k_B$, in energy per temperature. `kinetic` is the energy of one unit of mass times
    velocity squared: with the momentum $p = mv$ the kinetic energy is `kinetic` $\cdot\,p^2/2m$, and
    $\dot p = F/$`kinetic`.

    >>> from simkit_solvers import MotionUnits, Particles, kinetic_energy
    >>> metal = MotionUnits(boltzmann=8.617333e-5, kinetic=1.0364269e-4)  # eV, Å, ps, g/mol
    >>> particles = Particles.of([[0.0, 0.0, 0.0]], momentum=[[39.95, 0.0, 0.0]], mass=39.95)
    >>> round(float(kinetic_energy(particles, metal)), 5)
    0.00207
    """

    boltzmann: Scalar = 1.0
    kinetic: Scalar = 1.0


REDUCED = MotionUnits()


class ParticleTotals(NamedTuple):
    r"""Sums over a system at a whole step, all energies.

    `virial` is that of `PairTotals`, and `kinetic` the tensor $\sum_i m_i v_{i,a} v_{i,b}$, whose trace is
    twice the kinetic energy. `conserved` is what the exact dynamics of the method would keep constant: the
    energy, with a thermostat the energy less what that has given. `changes` are those of `PairTotals`.
    `potential` and `conserved` are scalars, as is each component of a tensor.

    >>> from simkit_solvers import Particles, ParticleTotals, Tensor, kinetic_tensor
    >>> particles = Particles.of([[0.0, 0.0, 0.0]], momentum=[[2.0, 0.0, 0.0]])
    >>> virial = Tensor(xx=0.0, yy=0.0, zz=0.0, xy=0.0, xz=0.0, yz=0.0)
    >>> totals = ParticleTotals(-1.0, virial, kinetic_tensor(particles), conserved=1.0)
    >>> float(totals.kinetic.trace)
    4.0
    """

    potential: jax.Array
    virial: Tensor
    kinetic: Tensor
    conserved: jax.Array
    changes: PairTotals | tuple[()] = ()

    @property
    def kinetic_energy(self) -> jax.Array:
        return 0.5 * self.kinetic.trace

    @property
    def energy(self) -> jax.Array:
        return self.potential + self.kinetic_energy


def inverse_mass(particles: Particles) -> Float[Array, " places"]:
    """1/m, and 0 in empty places, which so never move."""
    return jnp.where(particles.real, 1 / jnp.where(particles.real, particles.mass, 1), 0)


def velocity(particles: Particles) -> Vector:
    """Momentum over mass.

    >>> from simkit_solvers import Particles, velocity
    >>> particles = Particles.of([[0.0, 0.0, 0.0]], momentum=[[2.0, 0.0, 0.0]], mass=4.0)
    >>> velocity(particles).x.tolist()
    [0.5]
    """
    return particles.momentum.times(inverse_mass(particles))


def newtonian_course(particles: Particles, force: Vector, units: MotionUnits) -> Course:
    """Where Newton's equations lead, until forces have turned velocities: root mean square velocity over
    acceleration."""
    v = velocity(particles)
    a = force.times(inverse_mass(particles) / units.kinetic)
    squares = jnp.sum(a.dot(a))
    return Course(v, a, jnp.sqrt(jnp.sum(v.dot(v)) / jnp.maximum(squares, jnp.finfo(squares.dtype).tiny)))


def kinetic_energy(particles: Particles, units: MotionUnits = REDUCED) -> Float[Array, ""]:
    """The kinetic energy of all particles.

    >>> from simkit_solvers import Particles, kinetic_energy
    >>> particles = Particles.of([[0.0, 0.0, 0.0]], momentum=[[2.0, 0.0, 0.0]])
    >>> float(kinetic_energy(particles))
    2.0
    """
    p = particles.momentum
    return 0.5 * units.kinetic * jnp.sum(p.dot(p) * inverse_mass(particles))


def kinetic_tensor(particles: Particles, units: MotionUnits = REDUCED) -> Tensor:
    r"""$\sum_i m_i v_{i,a} v_{i,b}$, as energies.

    >>> from simkit_solvers import Particles, kinetic_tensor
    >>> particles = Particles.of([[0.0, 0.0, 0.0]], momentum=[[2.0, 1.0, 0.0]])
    >>> tensor = kinetic_tensor(particles)
    >>> float(tensor.xx), float(tensor.xy)
    (4.0, 2.0)
    """
    p, v = particles.momentum, velocity(particles)
    pairs = ((p.x, v.x), (p.y, v.y), (p.z, v.z), (p.x, v.y), (p.x, v.z), (p.y, v.z))
    return Tensor(*(units.kinetic * jnp.sum(a * b) for a, b in pairs))


def total_momentum(particles: Particles) -> Vector:
    """The momentum of the whole system, three numbers.

    >>> from simkit_solvers import Particles, total_momentum
    >>> momenta = [[2.0, 0.0, 0.0], [-2.0, 1.0, 0.0]]
    >>> particles = Particles.of([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]], momenta)
    >>> [float(component) for component in total_momentum(particles)]
    [0.0, 1.0, 0.0]
    """
    return Vector(*(jnp.sum(jnp.where(particles.real, c, 0)) for c in particles.momentum))
