"""What an observable of molecular dynamics is: an observer of the loop whose accumulators become numbers with
errors.
"""

import abc
from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Int, PyTree
from simkit_solvers import AbstractParticleObserver, Particles, ParticleTotals, TotalsSeries


class AbstractMeasurement(AbstractParticleObserver):
    """An observable that is measured every `every` steps.

    `init`, `update` and `due` run in the compiled loop. The accumulators are arrays whose size does not grow
    with the run, and the same bits however the run is cut into chunks: a later chunk goes on with those of
    the one before. `result` runs on the host.
    """

    every: eqx.AbstractVar[int]

    def due(self, step: Int[Array, ""]) -> Bool[Array, ""]:
        return step % jnp.uint32(self.every) == 0

    @abc.abstractmethod
    def result(self, accumulators: Sequence[PyTree]) -> Any:
        """Estimates from the accumulators of one replica or more, which have seen equally many steps.

        All times are in units of the interval between two measurements, unless `interval` is a field.
        """


class Measurements(AbstractParticleObserver):
    """Several observers by name, each with an interval of its own."""

    observers: Mapping[str, AbstractMeasurement | TotalsSeries]

    def init(self, particles: Particles) -> dict[str, PyTree]:
        return {name: each.init(particles) for name, each in self.observers.items()}

    def due(self, step: Int[Array, ""]) -> Bool[Array, ""]:
        due = jnp.asarray(False)
        for each in self.observers.values():
            due |= each.due(step)
        return due

    def update(
        self, accumulator: PyTree, particles: Particles, totals: ParticleTotals, step: Int[Array, ""]
    ) -> dict[str, PyTree]:
        def updated(each: AbstractParticleObserver, own: PyTree) -> PyTree:
            # A loop of no or one iteration: a `cond` would copy the accumulators, which may be large.
            times = each.due(step).astype(jnp.int32)
            return lax.fori_loop(0, times, lambda _, a: each.update(a, particles, totals, step), own)

        return {name: updated(each, accumulator[name]) for name, each in self.observers.items()}


def one_by_one(accumulators: PyTree) -> list[PyTree]:
    """The accumulators of each replica, of those that have an axis of replicas in front."""
    count = jax.tree.leaves(accumulators)[0].shape[0]
    return [jax.tree.map(lambda a, i=i: a[i], accumulators) for i in range(count)]
