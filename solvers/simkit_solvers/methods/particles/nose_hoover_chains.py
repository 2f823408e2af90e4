"""Nosé–Hoover chains: a thermostat by equations of motion."""

from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from simkit_solvers.methods.particles.particle_method import (
    AbstractParticleMethod,
    ParticleStep,
    drift,
    free_momenta,
    kick,
    option,
)
from simkit_solvers.numerics.scalar import Scalar
from simkit_solvers.problems.curve import AbstractTimeFunction
from simkit_solvers.problems.motion import MotionUnits, kinetic_energy
from simkit_solvers.problems.particles import Particles, Vector

# Suzuki and Yoshida's composition of order 4.
_ENDS = 1 / (2 - 2 ** (1 / 3))
WEIGHTS = (_ENDS, 1 - 2 * _ENDS, _ENDS)


class ThermostatChain(NamedTuple):
    r"""The thermostats of a chain: their positions $\eta_j$ and velocities $\xi_j = \dot\eta_j$."""

    eta: Float[Array, " thermostats"]
    xi: Float[Array, " thermostats"]


class NoseHooverChains(AbstractParticleMethod):
    r"""Nosé–Hoover chains of M thermostats, by Martyna and Tuckerman's splitting. With f degrees of freedom,

    $$\dot q = p/m,\quad \dot p = F - \xi_1 p,\quad \dot\eta_j = \xi_j,\quad
    \dot\xi_j = G_j - \xi_j \xi_{j+1},$$
    $$G_1 = \frac{2K - f k_B T}{Q_1},\quad G_j = \frac{Q_{j-1}\xi_{j-1}^2 - k_B T}{Q_j},\quad
    Q_1 = f k_B T \tau^2,\quad Q_j = k_B T \tau^2.$$

    The chain moves for half a step, then the particles by velocity Verlet for a step, then the chain again;
    order 2, reversible, one force a step. Samples NVT with $f = 3N - 3$, where `momentum_is_conserved`, else
    $f = 3N$. Conserves $H + \sum_j Q_j \xi_j^2/2 + k_B T (f \eta_1 + \sum_{j>1} \eta_j)$ up to $O(h^2)$, at
    constant temperature. Remove any drift of the whole system first; `relaxation_time` is the period of the
    thermostat over $2\pi$, 20 steps or more.
    Reference: Martyna, Tuckerman, Tobias & Klein (1996), Explicit reversible integrators for extended systems
    dynamics, doi:10.1080/00268979600100761.

    >>> from simkit_solvers import NoseHooverChains
    >>> thermostat = NoseHooverChains(temperature=1.0, relaxation_time=0.2)
    >>> thermostat.ensemble, thermostat.degrees_of_freedom(100)
    ('NVT', 297)
    """

    ensemble: ClassVar = "NVT"
    conserves_along_a_curve: ClassVar = False

    temperature: Scalar | AbstractTimeFunction = option(
        "temperature", "temperature of the heat bath", above=0
    )
    relaxation_time: Scalar = option("time", "time in which the thermostats relax", above=0)
    thermostats: int = option("", "number of thermostats in the chain", 3, at_least=1)
    substeps: int = option("", "number of substeps of the chain in half a step", 1, at_least=1)
    momentum_is_conserved: bool = option("", "whether forces act between particles only", True)

    def init(self, particles: Particles, units: MotionUnits) -> ThermostatChain:
        dtype = particles.position.x.dtype
        return ThermostatChain(jnp.zeros(self.thermostats, dtype), jnp.zeros(self.thermostats, dtype))

    def first(
        self, particles: Particles, force: Vector, memory: ThermostatChain, step: ParticleStep
    ) -> tuple[Particles, ThermostatChain]:
        particles, memory = self._half_step_of_chain(particles, memory, step)
        particles = kick(particles, force, 0.5 * step.dt, step.units)
        return drift(particles, step.dt), memory

    def second(
        self, particles: Particles, force: Vector, memory: ThermostatChain, step: ParticleStep
    ) -> tuple[Particles, ThermostatChain]:
        particles = kick(particles, force, 0.5 * step.dt, step.units)
        return self._half_step_of_chain(particles, memory, step)

    def degrees_of_freedom(self, count: int) -> int:
        return free_momenta(count, self.momentum_is_conserved)

    def given_energy(
        self, particles: Particles, memory: ThermostatChain, step: ParticleStep
    ) -> Float[Array, ""]:
        kT, Q = step.thermal_energy(self.temperature), self._masses(particles, step)
        f = self.degrees_of_freedom(particles.count)
        motion = 0.5 * sum(mass * xi * xi for mass, xi in zip(Q, memory.xi, strict=True))
        return motion + kT * (f * memory.eta[0] + jnp.sum(memory.eta[1:]))

    def _masses(self, particles: Particles, step: ParticleStep) -> list[jax.Array]:
        """The masses Q of the thermostats."""
        unit = step.thermal_energy(self.temperature) * step.middle(self.relaxation_time) ** 2
        return [self.degrees_of_freedom(particles.count) * unit] + [unit] * (self.thermostats - 1)

    def _half_step_of_chain(
        self, particles: Particles, chain: ThermostatChain, step: ParticleStep
    ) -> tuple[Particles, ThermostatChain]:
        """The thermostats move for half a step, and scale the momenta."""
        kT, Q, last = (
            step.thermal_energy(self.temperature),
            self._masses(particles, step),
            self.thermostats - 1,
        )
        f = self.degrees_of_freedom(particles.count)
        eta, xi = list(chain.eta), list(chain.xi)
        twice_K, scale = 2 * kinetic_energy(particles, step.units), jnp.ones_like(kT)

        def push(j, d):
            """Thermostat j moves for half of a time d, with its neighbours held."""
            G = (twice_K - f * kT if j == 0 else Q[j - 1] * xi[j - 1] ** 2 - kT) / Q[j]
            held = jnp.exp(-0.25 * d * xi[j + 1]) if j < last else 1
            xi[j] = (xi[j] * held + 0.5 * d * G) * held

        for weight in WEIGHTS * self.substeps:
            d = (0.5 * weight / self.substeps) * step.dt
            for j in range(last, -1, -1):
                push(j, d)
            factor = jnp.exp(-d * xi[0])
            scale, twice_K = scale * factor, twice_K * factor * factor
            eta = [position + d * velocity for position, velocity in zip(eta, xi, strict=True)]
            for j in range(last + 1):
                push(j, d)
        return particles.pushed(particles.momentum.times(scale)), ThermostatChain(
            jnp.stack(eta), jnp.stack(xi)
        )
