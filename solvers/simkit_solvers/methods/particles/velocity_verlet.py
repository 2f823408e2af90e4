"""The velocity Verlet method."""

from typing import ClassVar

from jaxtyping import PyTree

from simkit_solvers.methods.particles.particle_method import (
    AbstractParticleMethod,
    ParticleStep,
    drift,
    free_momenta,
    kick,
    option,
)
from simkit_solvers.problems.motion import MotionUnits
from simkit_solvers.problems.particles import Particles, Vector


class VelocityVerlet(AbstractParticleMethod):
    r"""Velocity Verlet, Newton's equations at constant energy:

    $$p' = p_n + \tfrac h2 F(q_n),\quad q_{n+1} = q_n + h\,p'/m,\quad p_{n+1} = p' + \tfrac h2 F(q_{n+1}).$$

    Order 2, symplectic and reversible; one force a step. The energy fluctuates by $O(h^2)$ about a constant
    where the forces are smooth. Samples NVE with $3N - 3$ degrees of freedom, where `momentum_is_conserved`,
    else $3N$. Stable on a spring of frequency $\omega$ for $h\omega < 2$.
    Reference: Swope, Andersen, Berens & Wilson (1982), A computer simulation method for the calculation of
    equilibrium constants for the formation of physical clusters of molecules, doi:10.1063/1.442716.

    >>> from simkit_solvers import VelocityVerlet
    >>> VelocityVerlet().ensemble, VelocityVerlet().degrees_of_freedom(100)
    ('NVE', 297)
    """

    ensemble: ClassVar = "NVE"

    momentum_is_conserved: bool = option("", "whether forces act between particles only", True)

    def init(self, particles: Particles, units: MotionUnits) -> PyTree:
        return ()

    def first(
        self, particles: Particles, force: Vector, memory: PyTree, step: ParticleStep
    ) -> tuple[Particles, PyTree]:
        particles = kick(particles, force, 0.5 * step.dt, step.units)
        return drift(particles, step.dt), memory

    def second(
        self, particles: Particles, force: Vector, memory: PyTree, step: ParticleStep
    ) -> tuple[Particles, PyTree]:
        return kick(particles, force, 0.5 * step.dt, step.units), memory

    def degrees_of_freedom(self, count: int) -> int:
        return free_momenta(count, self.momentum_is_conserved)
