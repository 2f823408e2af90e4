"""The result of a run of particles, in NumPy."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int
from simkit_solvers import (
    AbstractParticleMethod,
    AbstractTimeFunction,
    Particles,
    ParticleTotals,
    Tensor,
)

from simkit.md.quantities import Measured
from simkit.md.saved_state import SavedState
from simkit.md.simulation import ParticleSimulation


@dataclasses.dataclass(frozen=True)
class ReplicaResult:
    """One replica: totals at the measured steps, the accumulators of functions such as g(r), and its end.

    `forces` are those of a single point, by number of the particle. `renewals` is how often the list of
    neighbours was renewed, `fewest_steps` the fewest steps that one served, and `chosen` what was chosen for
    the forces. `last` are the particles at the end, in the order of their numbers, `state` is all that is
    needed to go on from there, and `clock` the number of the last step. `minimised` has the largest force on
    a particle at the end of each stage that minimises.
    """

    steps: Int[np.ndarray, " rows"]
    totals: ParticleTotals
    accumulators: Mapping[str, Any]
    renewals: int
    fewest_steps: int
    chosen: Mapping[str, int | float | str]
    last: Particles
    state: SavedState
    clock: int
    forces: Float[np.ndarray, "particles 3"] | None
    minimised: Mapping[str, float] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class ParticleResult:
    """All replicas, what was chosen for the forces, how long it took, and what the run says of its start."""

    simulation: ParticleSimulation
    replicas: tuple[ReplicaResult, ...]
    observers: Mapping[str, Any]
    forces: Mapping[str, int | float | str]
    elapsed_s: float
    compile_s: float
    start: str

    @property
    def steps(self) -> Int[np.ndarray, " rows"]:
        """The steps that were measured, counted from the start of the run."""
        return self.replicas[0].steps

    @property
    def measured(self) -> Measured:
        """The totals of all replicas, arrays (paths, rows), and what turns them into quantities."""
        system = self.simulation.system
        energy, pressure = system.tail
        totals = jax.tree.map(lambda *each: np.stack(each), *(one.totals for one in self.replicas))
        if not system.freedom:
            temperatures = bath_temperatures(system.run.method, self.steps * system.run.dt)
            each = jnp.broadcast_to(
                system.count * system.units.boltzmann * temperatures, totals.potential.shape
            )
            ideal = Tensor(each, each, each, *(jnp.zeros_like(each),) * 3)
            totals = totals._replace(kinetic=jax.tree.map(np.asarray, ideal))
        return Measured(
            totals,
            atoms=system.count,
            volume=system.volume,
            degrees=system.freedom,
            boltzmann=system.units.boltzmann,
            pressure=system.units.pressure,
            tail_energy=energy,
            tail_pressure=pressure,
        )


def bath_temperatures(
    method: AbstractParticleMethod, times: Float[np.ndarray, " rows"]
) -> Float[np.ndarray, " rows"]:
    """The temperature of the bath at these times of the run, for a method that has one."""
    temperature = getattr(method, "temperature", np.nan)
    if isinstance(temperature, AbstractTimeFunction):
        return np.asarray(jax.vmap(temperature)(jnp.asarray(times)))
    return np.full(np.shape(times), float(temperature))
