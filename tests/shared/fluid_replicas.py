"""Replicas of a small Lennard-Jones fluid, all in one compiled program, and what is measured of them."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats
from simkit_physics import LennardJones, ListedForces, Shifted, forces_for, lattice
from simkit_solvers import (
    AbstractParticleMethod,
    ParticleDynamics,
    ParticleNoise,
    Particles,
    ParticleState,
    Vector,
    run_chunk,
    seed_key,
)

from simkit.md.observables import Measurements, one_by_one

DENSITY, CUTOFF = 0.75, 2.5


def fluid_at(density: float = DENSITY, cells: int = 3, truncation=Shifted, precision="float64"):
    """Forces and particles of a fluid on its lattice, of 4 `cells`^3 particles."""
    particles, box = lattice("fcc", (cells,) * 3, density=density)
    potential = truncation(LennardJones(epsilon=1.0, sigma=1.0), CUTOFF)
    return forces_for(particles, box, potential, precision)


def thermal_momenta(replicas: int, count: int, temperature: float, seed: int = 0) -> jax.Array:
    """Momenta of unit masses at a temperature, without drift, (replicas, particles, 3)."""
    rows = np.random.default_rng(seed).standard_normal((replicas, count, 3))
    rows -= rows.mean(1, keepdims=True)
    return jnp.asarray(rows * np.sqrt(temperature * (count - 1) / (rows**2).sum((1, 2), keepdims=True) * 3))


class Replicas:
    """Systems that differ by their momenta and their noise, which one program moves."""

    def __init__(self, forces: Any, method: AbstractParticleMethod, dt: float, observers: Measurements):
        self.forces, self.method, self.dt, self.observers = forces, method, dt, observers
        self._run = jax.jit(self._all)

    def started(self, particles: Particles, momenta: jax.Array) -> ParticleState:
        """States with an axis of replicas in front, all with the same positions."""
        momenta = jnp.pad(momenta, ((0, 0), (0, particles.places - momenta.shape[1]), (0, 0)))
        return self._start(particles, jax.vmap(Vector.of)(momenta), None)

    def continued(self, particles: Particles, momenta: Vector) -> ParticleState:
        """The same from positions of their own."""
        return self._start(particles, momenta, 0)

    def _start(self, particles: Particles, momenta: Vector, axis: int | None) -> ParticleState:
        dynamics = self._dynamics(jnp.uint32(0))
        start = jax.vmap(lambda own, p: dynamics.start(own.pushed(p)), (axis, 0))
        return jax.jit(start)(particles, momenta)

    def run(self, states: ParticleState, steps: int) -> tuple[ParticleState, list[dict[str, Any]]]:
        """The states after so many steps, and the accumulators of each replica."""
        paths = jnp.arange(states.step.shape[0], dtype=jnp.uint32)
        states, accumulators = self._run(paths, states, jnp.uint32(steps))
        assert bool(states.complete.all() & states.bounded.all())
        return states, one_by_one(accumulators)

    def _dynamics(self, path: jax.Array) -> ParticleDynamics:
        return ParticleDynamics(self.forces, self.method, self.dt, ParticleNoise.of(seed_key(1), path))

    def _all(self, paths, states, steps):
        if isinstance(self.forces, ListedForces):  # lists of each are renewed at steps of its own
            return jax.lax.map(lambda one: self._one(*one, steps), (paths, states))
        return jax.vmap(self._one, (0, 0, None))(paths, states, steps)

    def _one(self, path, state, steps):
        observers = self.observers
        return run_chunk(self._dynamics(path), state, steps, observers, observers.init(state.particles))


def scores(estimates: list[Any], pick=lambda value: value) -> np.ndarray:
    """z-scores of each replica's estimate against the mean of all; a few may not know their error."""
    values = np.array([float(pick(each.value)) for each in estimates])
    errors = np.array([float(pick(each.stderr)) for each in estimates])
    known = np.isfinite(errors)
    assert known.mean() > 0.8, estimates[np.flatnonzero(~known)[0]].reason
    return ((values - values.mean()) / errors)[known]


def honest(z: np.ndarray, alpha: float = 1e-4) -> bool:
    """Whether the variance of z-scores about their mean is that of as many standard normals, 1."""
    low, high = stats.chi2(len(z) - 1).ppf([alpha / 2, 1 - alpha / 2]) / (len(z) - 1)
    return bool(low < z.var(ddof=1) < high)
