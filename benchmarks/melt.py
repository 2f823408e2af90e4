"""The melt of LAMMPS's bench/in.lj by simkit: 4 atoms in each of `cells` cubed, velocity Verlet."""

import dataclasses
import functools

import equinox as eqx
import jax
import jax.numpy as jnp
from simkit_physics import LennardJones, Plain, enlarged, forces_for, lattice, with_velocities
from simkit_solvers import (
    ParticleBAOAB,
    ParticleDynamics,
    ParticleNoise,
    Vector,
    VelocityVerlet,
    copied_to,
    seed_key,
    shared_among,
    simulate_particles,
)

import simkit

DENSITY, TEMPERATURE, CUTOFF, DT = 0.8442, 1.44, 2.5, 0.005
KERNEL_SKIN, EVERY = 0.3, 20  # in.lj's
SKINS = (0.3, 0.4, 0.5, 0.6)
VELOCITY_VERLET, BATH = VelocityVerlet(), ParticleBAOAB(temperature=TEMPERATURE, friction=1.0)


def melt(cells: int, precision: str, skin: float | None = None):
    """Forces and particles of the start of in.lj."""
    particles, box = lattice("fcc", (cells,) * 3, density=DENSITY)
    particles = with_velocities(particles, TEMPERATURE, seed_key(87287))
    potential = Plain(LennardJones(epsilon=1.0, sigma=1.0), CUTOFF)
    return forces_for(particles, box, potential, precision, skin=skin)


def run_from_start(cells: int, steps: int, precision="float64", skin=None, method=VELOCITY_VERLET):
    """The particles of the start, and a run of `steps` steps, whose lists are as large as it needs."""
    forces, particles = melt(cells, precision, skin)
    dynamics = ParticleDynamics(forces, method, DT, ParticleNoise.of(seed_key(1)))
    return particles, simulate_particles(dynamics, dynamics.start(particles), steps, enlarge=enlarged)


def checked(cells: int, steps: int, precision: str, method=VELOCITY_VERLET, devices=()):
    """The product: a run from the start, whose lists are renewed before they could miss a pair."""
    particles, run = run_from_start(cells, steps, precision, method=method)
    dynamics = run.dynamics
    state = dynamics.start(particles.padded(run.state.particles.places))
    return lambda: simulate_particles(dynamics, state, steps, devices=devices).state


def unchecked(cells: int, steps: int, precision: str, devices=()):
    """The kernel: lists of in.lj's skin as often as there, whether they serve or not."""
    forces, particles = melt(cells, precision, KERNEL_SKIN)
    run = functools.partial(_unchecked, every=EVERY, blocks=steps // EVERY)
    while not bool(run(forces, particles)[1]):
        capacities = forces.capacities
        larger = type(capacities)(*(-(-5 * n // 32) * 8 for n in capacities))
        forces = dataclasses.replace(forces, capacities=larger)
    if not devices:
        return lambda: run(forces, particles)
    arrays, rest = eqx.partition((forces, particles), eqx.is_array)
    shared = jax.jit(shared_among(devices, lambda arrays: run(*eqx.combine(arrays, rest))))
    arrays = jax.device_put(arrays, copied_to(devices))
    return lambda: shared(arrays)


@eqx.filter_jit
def _unchecked(forces, particles, every: int, blocks: int):
    def block(_, carry):
        particles, complete = carry
        particles, listed = forces.arranged(particles)

        def step(_, carry):
            particles, force = carry
            half = particles.momentum.plus(0.5 * DT, force)
            particles = particles.moved(particles.position.plus(DT, half))  # of masses 1
            force = forces.forces(particles, listed)
            return particles.pushed(half.plus(0.5 * DT, force)), force

        first = forces.forces(particles, listed)
        particles, _ = jax.lax.fori_loop(0, every, step, (particles, first))
        return particles, complete & forces.complete(listed)

    return jax.lax.fori_loop(0, blocks, block, (particles, jnp.asarray(True)))


def many_systems(systems: int, steps: int, precision: str):
    """Systems of 256 atoms in one program: velocity Verlet over all pairs."""
    forces, particles = melt(4, precision)

    @jax.jit
    def run(momenta):
        def of_one(momentum):
            def step(_, carry):
                particles, force = carry
                half = particles.momentum.plus(0.5 * DT, force)
                particles = particles.moved(particles.position.plus(DT, half))
                force = forces.forces(particles, listed)
                return particles.pushed(half.plus(0.5 * DT, force)), force

            start, listed = forces.arranged(particles.pushed(momentum))
            return jax.lax.fori_loop(0, steps, step, (start, forces.forces(start, listed)))[0].position

        return jax.vmap(of_one)(momenta)

    scale = jnp.linspace(0.9, 1.1, systems)
    momenta = Vector(*(scale[:, None] * c for c in particles.momentum))
    return lambda: run(momenta)


def replicas(paths: int, steps: int):
    """Seconds of replicas of 256 atoms by `simkit.run`, measured every 50 steps, without compilation."""
    experiment = {
        "system": {
            "lattice": {"type": "fcc", "cells": 4, "density": DENSITY},
            "velocities": {"temperature": TEMPERATURE},
        },
        "potential": {"type": "LennardJones", "epsilon": 1.0, "sigma": 1.0, "cutoff": CUTOFF},
        "time": {"dt": DT, "steps": steps},
        "ensemble": {"paths": paths, "seed": 1, "threads": 1},
        "save": {"every": 50},
        "observe": {"T": "temperature"},
    }
    return lambda: float(simkit.run(experiment).attrs["elapsed_s"])
