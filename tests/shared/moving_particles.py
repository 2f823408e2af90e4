"""Particles whose motion is known at every step, and observers that watch it."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
from simkit_solvers import Particles, ParticleTotals, Tensor, Vector, kinetic_tensor


def no_totals(particles: Particles, potential=0.0, virial=0.0) -> ParticleTotals:
    """The totals of particles with a given potential energy and trace of the virial."""
    kinetic = kinetic_tensor(particles)
    zero = jnp.zeros((), jnp.float64)
    third = jnp.asarray(virial / 3, jnp.float64)
    energy = jnp.asarray(potential, jnp.float64)
    whole = energy + 0.5 * kinetic.trace
    return ParticleTotals(energy, Tensor(third, third, third, zero, zero, zero), kinetic, whole)


def watched(observer, motion, steps: int, chunks=None):
    """The accumulators after `motion(step)`, which gives particles and totals, at steps 0 to `steps`."""

    @jax.jit
    def chunk(accumulator, first, last):
        def step(k, accumulator):
            number = k.astype(jnp.uint32)
            particles, totals = motion(k)
            times = observer.due(number).astype(jnp.int32)
            return jax.lax.fori_loop(
                0, times, lambda _, a: observer.update(a, particles, totals, number), accumulator
            )

        return jax.lax.fori_loop(first, last, step, accumulator)

    accumulator = observer.init(motion(jnp.int64(0))[0])
    ends = [*range(0, steps + 1, chunks or steps + 1), steps + 1]
    for first, last in itertools.pairwise(ends):
        accumulator = chunk(accumulator, jnp.int64(first), jnp.int64(last))
    return accumulator


def table_motion(rows: np.ndarray, momenta: np.ndarray | None = None, totals=None, **options):
    """A motion through the rows `(steps, particles, 3)` of a table."""
    rows = jnp.asarray(rows)
    momenta = jnp.zeros_like(rows) if momenta is None else jnp.asarray(momenta)
    first = Particles.of(rows[0], momenta[0], **options)

    def motion(k):
        particles = first.moved(Vector.of(rows[k])).pushed(Vector.of(momenta[k]))
        return particles, no_totals(particles) if totals is None else totals(k, particles)

    return motion
