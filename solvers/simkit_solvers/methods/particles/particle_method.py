"""What a method of molecular dynamics is: a step in two parts, between which the forces are computed."""

import abc
from typing import Any, ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PyTree

from simkit_solvers.grids.grid import NO_STEP
from simkit_solvers.numerics.kernels import by_itself, zeros
from simkit_solvers.numerics.scalar import Scalar
from simkit_solvers.problems.curve import AbstractTimeFunction
from simkit_solvers.problems.motion import MotionUnits, newtonian_course, velocity
from simkit_solvers.problems.particles import Course, Particles, Vector
from simkit_solvers.problems.problem import Parameter
from simkit_solvers.random.generator import Words
from simkit_solvers.random.particle_noise import ParticleNoise

Ensemble = Literal["NVE", "NVT", "configurations", "none"]


class ParticleStep(eqx.Module):
    """One step: its number, the time at its start, its length, the units and the random numbers.

    `t` and `dt` are scalars.

    >>> import jax.numpy as jnp
    >>> from simkit_solvers import MotionUnits, ParticleStep
    >>> step = ParticleStep(jnp.uint32(0), jnp.float32(0.0), jnp.float32(0.01), MotionUnits(), noise=None)
    >>> float(step.thermal_energy(1.5))
    1.5
    """

    number: Int[Array, ""]
    t: jax.Array
    dt: jax.Array
    units: MotionUnits
    noise: ParticleNoise | None

    def middle(self, value: "Scalar | AbstractTimeFunction") -> jax.Array:
        """The value in the middle of the step of an option that may change with time."""
        if isinstance(value, AbstractTimeFunction):
            return value(self.t + 0.5 * self.dt).astype(self.t.dtype)
        return jnp.asarray(value, self.t.dtype)

    def thermal_energy(self, temperature: "Scalar | AbstractTimeFunction") -> jax.Array:
        r"""$k_B T$ in the middle of the step."""
        return self.units.boltzmann * self.middle(temperature)

    def normals(self, particles: Particles) -> Vector:
        """Three standard normals for each particle, 0 in empty places; `ValueError` without noise."""
        return self._normals(particles, self.number)

    def next_normals(self, particles: Particles) -> Vector:
        """The normals of the next step."""
        return self._normals(particles, self.number + jnp.uint32(1))

    def words(self, place: int) -> Words:
        """Two random words that belong to no particle; `ValueError` without noise."""
        return self._noise.words(self.number, place)

    def _normals(self, particles: Particles, number: jax.Array) -> Vector:
        noise = self._noise

        def drawn() -> tuple[jax.Array, ...]:
            return noise.normals(number, particles.identity)

        shapes = jax.eval_shape(drawn)
        # In the step, momenta, positions and energies would each draw them again: 1 ms for 32 000 particles.
        normals = by_itself(number != jnp.uint32(NO_STEP), drawn, lambda: zeros(shapes))
        return Vector(*(jnp.where(particles.real, z.astype(self.dt.dtype), 0) for z in normals))

    @property
    def _noise(self) -> ParticleNoise:
        if self.noise is None:
            raise ValueError("this method draws random numbers: give `noise`, ParticleNoise.of(key, path)")
        return self.noise


class AbstractParticleMethod(eqx.Module):
    """A method of molecular dynamics, whose fields are its options.

    A step is `first`, the forces at the new positions, `second`. In between, a loop may sort the particles
    and renew the list of neighbours; so `memory`, what a method keeps from step to step, has nothing that
    belongs to single particles. Only `first` changes positions. `ensemble` says what the method samples:
    `NVE`, `NVT`, `configurations` (of NVT, where momenta mean nothing), or `none`.

    >>> from simkit_solvers import PARTICLE_METHODS, AbstractParticleMethod
    >>> all(issubclass(method, AbstractParticleMethod) for method in PARTICLE_METHODS.values())
    True
    """

    ensemble: ClassVar[Ensemble]
    random: ClassVar[bool] = False
    conserves_along_a_curve: ClassVar[bool] = True  # its quantity, while the temperature changes

    @abc.abstractmethod
    def init(self, particles: Particles, units: MotionUnits) -> PyTree:
        """The memory before the first step: arrays, or nothing."""

    @abc.abstractmethod
    def first(
        self, particles: Particles, force: Vector, memory: PyTree, step: ParticleStep
    ) -> tuple[Particles, PyTree]:
        """The part of the step up to its new positions, with the forces at the old ones."""

    @abc.abstractmethod
    def second(
        self, particles: Particles, force: Vector, memory: PyTree, step: ParticleStep
    ) -> tuple[Particles, PyTree]:
        """The rest of the step, with the forces at the new positions."""

    @abc.abstractmethod
    def degrees_of_freedom(self, count: int) -> int:
        r"""f of `count` particles, of which $\langle 2K \rangle = f k_B T$; 0 where momenta mean nothing."""

    def given_energy(self, particles: Particles, memory: PyTree, step: ParticleStep) -> jax.Array:
        """What has to be added to the energy to make the conserved quantity; 0 where that is the energy."""
        return jnp.zeros((), particles.position.x.dtype)

    def course(self, particles: Particles, force: Vector, step: ParticleStep) -> Course | None:
        """Where particles are going, if that can be told from their momenta and forces."""
        return newtonian_course(particles, force, step.units)

    def for_cutoff(self, cutoff: float) -> "AbstractParticleMethod":
        """The method for forces that end at a cutoff, where that decides options that were not given."""
        return self


def option(
    unit: str,
    description: str,
    default: Any = ...,
    *,
    above: float | None = None,
    at_least: float | None = None,
    below: float | None = None,
    at_most: float | None = None,
) -> Any:
    """An option of a method, with its unit, description and range, and its default where it has one."""
    metadata = {"parameter": Parameter(unit, description, above, at_least, below, at_most)}
    if default is ...:
        return eqx.field(metadata=metadata)
    static = isinstance(default, bool | int)
    return eqx.field(metadata=metadata, default=default, static=static)


def kick(particles: Particles, force: Vector, h: jax.Array, units: MotionUnits) -> Particles:
    r"""B, what the forces do in a time h: $p \mathrel{+}= F h$."""
    return particles.pushed(particles.momentum.plus(h / units.kinetic, force))


def drift(particles: Particles, h: jax.Array) -> Particles:
    r"""A, free flight for a time h: $q \mathrel{+}= p h/m$."""
    return particles.moved(particles.position.plus(h, velocity(particles)))


def free_momenta(count: int, momentum_is_conserved: bool) -> int:
    """Degrees of freedom of `count` particles: three less where the total momentum is conserved."""
    return 3 * count - 3 if momentum_is_conserved and count > 1 else 3 * count
