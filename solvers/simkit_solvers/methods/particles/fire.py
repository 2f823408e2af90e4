"""FIRE: minimisation by molecular dynamics that never goes uphill for long."""

import dataclasses
import math
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from simkit_solvers.methods.particles.particle_method import AbstractParticleMethod, ParticleStep, option
from simkit_solvers.numerics.scalar import Scalar
from simkit_solvers.problems.motion import MotionUnits, inverse_mass, velocity
from simkit_solvers.problems.particles import Particles, Vector

GENTLE_MOVE = 0.05  # cutoffs, in a step


class Descent(NamedTuple):
    """The present step length in units of `dt`, the weight of the force, and the steps downhill in a row."""

    length: Float[Array, ""]
    weight: Float[Array, ""]
    downhill: Int[Array, ""]
    started: Bool[Array, ""]


class FIRE(AbstractParticleMethod):
    r"""FIRE 2.0, the fast inertial relaxation engine, with semi-implicit Euler steps:

    $$v' = v_n + \tfrac{h}{m} F(q_n),\quad v_{n+1} = (1 - \alpha) v' + \alpha |v'|\,F/|F|,\quad
    q_{n+1} = q_n + h v_{n+1}.$$

    While the power $F \cdot v$ is positive, h grows by `growth` and $\alpha$ falls by `fall` at every step,
    after `delay` of them. When it is negative, the particles go back by $hv/2$ and stop, h is multiplied by
    `cut` and $\alpha$ is as at first. h is `dt` at first and stays between `shortest` and `longest` times
    that. Where a particle would go further than `furthest`, all velocities are scaled down. Samples nothing:
    it goes to a minimum of the energy, until the force is small (`minimise_particles`). Starts from rest;
    momenta mean nothing.
    Reference: Guénolé, Nöhring, Vaid, Houllé, Xie, Prakash & Bitzek (2020), Assessment and optimization of
    the fast inertial relaxation engine (FIRE) for energy minimization in atomistic simulations and its
    implementation in LAMMPS, doi:10.1016/j.commatsci.2020.109584.

    >>> from simkit_solvers import FIRE
    >>> FIRE().for_cutoff(2.5).furthest
    0.125
    """

    ensemble: ClassVar = "none"

    furthest: Scalar = option("length", "longest way of a particle in one step", jnp.inf, above=0)
    growth: Scalar = option("", "factor of the step length after a step downhill", 1.1, at_least=1)
    cut: Scalar = option("", "factor of the step length when the energy rises", 0.5, above=0, below=1)
    weight: Scalar = option("", "weight of the direction of the force at first", 0.25, above=0, at_most=1)
    fall: Scalar = option("", "factor of that weight after a step downhill", 0.99, above=0, at_most=1)
    delay: int = option("", "number of steps downhill before the step length grows", 20, at_least=0)
    longest: Scalar = option("", "longest step over dt", 10.0, at_least=1)
    shortest: Scalar = option("", "shortest step over dt", 0.02, above=0, at_most=1)

    def init(self, particles: Particles, units: MotionUnits) -> Descent:
        dtype = particles.position.x.dtype
        weight = jnp.asarray(self.weight, dtype)
        return Descent(jnp.ones((), dtype), weight, jnp.int32(0), jnp.asarray(False))

    def first(
        self, particles: Particles, force: Vector, memory: Descent, step: ParticleStep
    ) -> tuple[Particles, Descent]:
        v = velocity(particles).times(memory.started.astype(step.dt.dtype))
        falling = jnp.sum(force.dot(v)) >= 0
        memory = self._after(falling, memory)
        h, weight = memory.length * step.dt, memory.weight
        back = particles.position.plus(jnp.where(falling, 0, -0.5 * h), v)
        v = _kicked(particles, v.times(falling.astype(h.dtype)), force, h, step.units)
        size = _norm(v) / jnp.maximum(_norm(force), jnp.finfo(h.dtype).tiny)
        v = v.times(1 - weight).plus(weight * size, force)
        longest = h * jnp.maximum(jnp.sqrt(jnp.max(v.dot(v))), jnp.finfo(h.dtype).tiny)
        v = v.times(jnp.minimum(1, step.middle(self.furthest) / longest))
        momentum = Vector(*(particles.mass * c for c in v))
        return particles.moved(back.plus(h, v)).pushed(momentum), memory

    def second(
        self, particles: Particles, force: Vector, memory: Descent, step: ParticleStep
    ) -> tuple[Particles, Descent]:
        return particles, memory

    def degrees_of_freedom(self, count: int) -> int:
        return 0

    def course(self, particles: Particles, force: Vector, step: ParticleStep) -> None:
        return None  # momenta mean nothing

    def for_cutoff(self, cutoff: float) -> "FIRE":
        """`furthest` is a twentieth of the cutoff, unless it was given."""
        if not math.isinf(float(self.furthest)):
            return self
        return dataclasses.replace(self, furthest=GENTLE_MOVE * cutoff)

    def _after(self, falling: jax.Array, memory: Descent) -> Descent:
        """Step length and weight of a step on which the energy falls, or rises."""
        dtype = memory.length.dtype
        long = falling & (memory.downhill > self.delay)
        growth, cut, fall, weight, longest, shortest = (
            jnp.asarray(number, dtype)
            for number in (self.growth, self.cut, self.fall, self.weight, self.longest, self.shortest)
        )
        grown = jnp.where(long, jnp.minimum(memory.length * growth, longest), memory.length)
        return Descent(
            jnp.where(falling, grown, jnp.maximum(memory.length * cut, shortest)),
            jnp.where(falling, jnp.where(long, memory.weight * fall, memory.weight), weight),
            jnp.where(falling, memory.downhill + 1, 0),
            jnp.asarray(True),
        )


def _kicked(particles: Particles, v: Vector, force: Vector, h: jax.Array, units: MotionUnits) -> Vector:
    """The velocities after the forces have acted for a time h."""
    rate = inverse_mass(particles) * (h / units.kinetic)
    return Vector(*(c + rate * f for c, f in zip(v, force, strict=True)))


def _norm(vector: Vector) -> jax.Array:
    return jnp.sqrt(jnp.sum(vector.dot(vector)))
