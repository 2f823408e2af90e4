"""Stochastic velocity rescaling: a thermostat that moves the kinetic energy alone."""

from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from simkit_solvers.methods.particles.particle_method import (
    AbstractParticleMethod,
    ParticleStep,
    free_momenta,
    kick,
    option,
)
from simkit_solvers.methods.particles.velocity_verlet import VelocityVerlet
from simkit_solvers.numerics.scalar import Scalar
from simkit_solvers.problems.curve import AbstractTimeFunction
from simkit_solvers.problems.motion import MotionUnits, kinetic_energy
from simkit_solvers.problems.particles import Particles, Vector
from simkit_solvers.random.normal import standard_normal
from simkit_solvers.random.variates import gamma

NORMAL, OTHERS = range(2)  # uses of random words


class StochasticVelocityRescaling(AbstractParticleMethod):
    r"""Stochastic velocity rescaling: velocity Verlet, then all momenta times $\alpha$,

    $$\alpha^2 = c + (1 - c) \frac{\bar K}{f K} \sum_{i=1}^f R_i^2
    + 2 R_1 \sqrt{c\,(1 - c) \frac{\bar K}{f K}},\qquad c = e^{-h/\tau},\quad \bar K = \tfrac12 f k_B T,$$

    an exact step of $dK = (\bar K - K)\,dt/\tau + 2\sqrt{K \bar K/f\tau}\,dW$. The $R_i$ are standard normal.
    Samples NVT with $f = 3N - 3$ degrees of freedom, where `momentum_is_conserved`, else $f = 3N$; order 2,
    one force a step. Conserves, up to $O(h^2)$, the energy less what the rescaling has given. Momenta that
    are all zero stay so. Remove any drift of the whole system first.
    Reference: Bussi, Donadio & Parrinello (2007), Canonical sampling through velocity rescaling,
    doi:10.1063/1.2408420; the sign of $\alpha$: Bussi & Parrinello (2008), doi:10.1016/j.cpc.2008.01.006.

    >>> from simkit_solvers import StochasticVelocityRescaling
    >>> thermostat = StochasticVelocityRescaling(temperature=1.0, relaxation_time=0.2)
    >>> thermostat.ensemble, thermostat.degrees_of_freedom(100)
    ('NVT', 297)
    """

    ensemble: ClassVar = "NVT"
    random: ClassVar = True

    temperature: Scalar | AbstractTimeFunction = option(
        "temperature", "temperature of the heat bath", above=0
    )
    relaxation_time: Scalar = option("time", "time in which the kinetic energy relaxes", above=0)
    momentum_is_conserved: bool = option("", "whether forces act between particles only", True)

    def init(self, particles: Particles, units: MotionUnits) -> Float[Array, ""]:
        """The energy that the thermostat has given."""
        return jnp.zeros((), particles.position.x.dtype)

    def first(
        self, particles: Particles, force: Vector, memory: Float[Array, ""], step: ParticleStep
    ) -> tuple[Particles, Float[Array, ""]]:
        return VelocityVerlet().first(particles, force, memory, step)

    def second(
        self, particles: Particles, force: Vector, memory: Float[Array, ""], step: ParticleStep
    ) -> tuple[Particles, Float[Array, ""]]:
        particles = kick(particles, force, 0.5 * step.dt, step.units)
        K = kinetic_energy(particles, step.units)
        factor = self._factor(K, self.degrees_of_freedom(particles.count), step)
        given = (factor * factor - 1) * K
        return particles.pushed(particles.momentum.times(factor)), memory + given

    def degrees_of_freedom(self, count: int) -> int:
        return free_momenta(count, self.momentum_is_conserved)

    def given_energy(
        self, particles: Particles, memory: Float[Array, ""], step: ParticleStep
    ) -> Float[Array, ""]:
        return -memory

    def _factor(self, K: jax.Array, f: int, step: ParticleStep) -> jax.Array:
        r"""$\alpha$; 1 where nothing moves."""
        moving = K > 0
        c = jnp.exp(-step.dt / step.middle(self.relaxation_time))
        spread = (1 - c) * 0.5 * step.thermal_energy(self.temperature) / jnp.where(moving, K, 1)
        R = standard_normal(step.words(NORMAL).a).astype(K.dtype)
        others = 2 * gamma(step.words(OTHERS), jnp.asarray(0.5 * (f - 1), K.dtype))
        root = jnp.sqrt(c) + jnp.sqrt(spread) * R
        size = jnp.sqrt(root * root + spread * others)
        return jnp.where(moving, jnp.where(root < 0, -size, size), 1)
