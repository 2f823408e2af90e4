"""What is watched while particles move, without storing their paths."""

import abc
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, PyTree

from simkit_solvers.problems.motion import ParticleTotals
from simkit_solvers.problems.particles import PairTotals, Particles, Tensor


class AbstractParticleObserver(eqx.Module):
    """What accumulates along a trajectory: a loop calls `update` at whole steps that are due, once at each.

    Positions, momenta and totals are those of the same time. Particles come in any order; `identity` says
    which is which. An observer of several things with intervals of their own is due when one of them is, and
    updates the others' accumulators by `jax.lax.cond`.

    >>> from simkit_solvers import AbstractParticleObserver, TotalsSeries
    >>> issubclass(TotalsSeries, AbstractParticleObserver)
    True
    """

    @abc.abstractmethod
    def init(self, particles: Particles) -> PyTree:
        """The accumulators before the first step: arrays, or nothing."""

    @abc.abstractmethod
    def due(self, step: Int[Array, ""]) -> Bool[Array, ""]:
        """Whether it has to see step number `step`, a `uint32`."""

    @abc.abstractmethod
    def update(
        self, accumulator: PyTree, particles: Particles, totals: ParticleTotals, step: Int[Array, ""]
    ) -> PyTree:
        """The accumulators after it has seen a step."""


class TotalsRows(NamedTuple):
    """Totals at successive steps. `seen` counts all of them, also those for which there was no row left."""

    seen: jax.Array
    step: jax.Array
    totals: ParticleTotals


class TotalsSeries(AbstractParticleObserver):
    """Keeps the totals of every `every`-th step, `rows` of them, with as many `changes` as a run computes.

    >>> import jax.numpy as jnp
    >>> from simkit_solvers import TotalsSeries
    >>> series = TotalsSeries(every=10, rows=5)
    >>> bool(series.due(jnp.uint32(20))), bool(series.due(jnp.uint32(25)))
    (True, False)
    """

    every: int
    rows: int = eqx.field(static=True)
    changes: int = eqx.field(static=True, default=0)

    def init(self, particles: Particles) -> TotalsRows:
        def blank(*more: int):  # an array of its own each: they may be donated
            return jnp.zeros((self.rows, *more), particles.position.x.dtype)

        def tensor(*more: int):
            return Tensor(*(blank(*more) for _ in Tensor._fields))

        n = self.changes
        changes = PairTotals(blank(n), tensor(n)) if n else ()
        totals = ParticleTotals(blank(), tensor(), tensor(), blank(), changes)
        return TotalsRows(jnp.uint32(0), jnp.zeros(self.rows, jnp.uint32), totals)

    def due(self, step: Int[Array, ""]) -> Bool[Array, ""]:
        return step % jnp.uint32(self.every) == 0

    def update(
        self, accumulator: TotalsRows, particles: Particles, totals: ParticleTotals, step: Int[Array, ""]
    ) -> TotalsRows:
        row = accumulator.seen

        def put(rows, value):
            return rows.at[row].set(value, mode="drop")

        return TotalsRows(
            row + jnp.uint32(1),
            put(accumulator.step, step),
            jax.tree.map(put, accumulator.totals, totals),
        )
