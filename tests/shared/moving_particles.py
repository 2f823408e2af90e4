"""Particles whose motion is known at every step, and observers that watch it."""

import itertools
from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree
from simkit_physics import OrthorhombicBox
from simkit_solvers import Particles, ParticleTotals, Tensor, Vector, kinetic_tensor


def cube(side: float) -> OrthorhombicBox:
    return OrthorhombicBox(Vector(*(jnp.asarray(float(side)),) * 3))


def no_totals(particles: Particles, potential=0.0, virial=0.0) -> ParticleTotals:
    """The totals of particles with a given potential energy and trace of the virial."""
    kinetic = kinetic_tensor(particles)
    zero = jnp.zeros((), jnp.float64)
    third = jnp.asarray(virial / 3, jnp.float64)
    energy = jnp.asarray(potential, jnp.float64)
    whole = energy + 0.5 * kinetic.trace
    return ParticleTotals(energy, Tensor(third, third, third, zero, zero, zero), kinetic, whole)


class Motion(NamedTuple):
    """Particles and totals at each step: `at(data, step)`."""

    data: PyTree
    at: Callable

    def __call__(self, step):
        return self.at(self.data, step)


@eqx.filter_jit
def _chunk(observer, at, data, accumulator, first, last):
    def step(k, accumulator):
        number = k.astype(jnp.uint32)
        particles, totals = at(data, k)
        times = observer.due(number).astype(jnp.int32)
        return jax.lax.fori_loop(
            0, times, lambda _, a: observer.update(a, particles, totals, number), accumulator
        )

    return jax.lax.fori_loop(first, last, step, accumulator)


def watched(observer, motion: Motion, steps: int, chunks=None):
    """The accumulators after steps 0 to `steps` of a motion, in chunks of so many steps."""
    accumulator = observer.init(motion(0)[0])
    ends = [*range(0, steps + 1, chunks or steps + 1), steps + 1]
    for first, last in itertools.pairwise(ends):
        accumulator = _chunk(observer, *motion[::-1], accumulator, jnp.int64(first), jnp.int64(last))
    return accumulator


def _at_row(data, k):
    first, rows, momenta = data
    particles = first.moved(Vector.of(rows[k])).pushed(Vector.of(momenta[k]))
    return particles, no_totals(particles)


def table_motion(rows: np.ndarray, momenta: np.ndarray | None = None, totals=None, **options) -> Motion:
    """A motion through the rows `(steps, particles, 3)` of a table, with `totals(step, particles)`."""
    rows = jnp.asarray(rows)
    momenta = jnp.zeros_like(rows) if momenta is None else jnp.asarray(momenta)
    data = Particles.of(rows[0], momenta[0], **options), rows, momenta
    if totals is None:
        return Motion(data, _at_row)

    def at(data, k):
        particles, _ = _at_row(data, k)
        return particles, totals(k, particles)

    return Motion(data, at)
