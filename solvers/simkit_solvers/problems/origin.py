"""A problem seen from a state: a solver integrates the difference from it."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from simkit_solvers.numerics.scalar import Scalar, scalars
from simkit_solvers.problems.langevin import AbstractUnderdampedLangevin
from simkit_solvers.problems.problem import AbstractODE, AbstractSDE, Calculus, NoiseKind, features_of


class ODEFrom(AbstractODE):
    r"""$du/dt = f(t, o + u)$, from the origin $o$."""

    original: AbstractODE
    origin: tuple
    State: type = eqx.field(static=True)

    def drift(self, t, y):
        return self.original.drift(t, _sum(self.origin, y))


class SDEFrom(AbstractSDE):
    r"""$du = f(t, o + u)\,dt + g(t, o + u)\,dW$, from the origin $o$."""

    original: AbstractSDE
    origin: tuple
    State: type = eqx.field(static=True)
    Noise: type = eqx.field(static=True)
    calculus: Calculus = eqx.field(static=True)
    noise_kind: NoiseKind = eqx.field(static=True)

    def drift(self, t, y):
        return self.original.drift(t, _sum(self.origin, y))

    def noise(self, t, y, dW):
        return self.original.noise(t, _sum(self.origin, y), dW)


class LangevinFrom(AbstractUnderdampedLangevin):
    r"""An underdamped Langevin problem from the positions $o$: those of a free particle, and the rest.

    A free particle has the velocity of the beginning and feels neither force nor noise. The rest starts from
    nothing, in the force at $o$ plus both positions. Solvers that are linear in positions and velocities, as
    all for these problems are, give the path as the sum of the two.
    """

    original: AbstractUnderdampedLangevin
    origin: tuple
    gamma: Scalar
    u: Scalar
    State: type = eqx.field(static=True)
    Noise: type = eqx.field(static=True)

    @staticmethod
    def of(problem: AbstractUnderdampedLangevin, positions: tuple) -> "LangevinFrom":
        """The problem from some positions."""
        sizes = (2 * len(each._fields) for each in (problem.State, problem.Noise))
        state, noise = (scalars("Both", tuple(f"x{i}" for i in range(size))) for size in sizes)
        numbers: Any = {"gamma": problem.gamma, "u": problem.u}
        return LangevinFrom(original=problem, origin=positions, State=state, Noise=noise, **numbers)

    def grad_f(self, q):
        rest, free = q[: len(q) // 2], q[len(q) // 2 :]
        moved = tuple(jax.tree.map(jnp.add, free, rest))
        force = self.original.grad_f(tuple(_sum(self.origin, moved)))
        return *force, *(jnp.zeros_like(x) for x in free)


SeenFrom = ODEFrom | SDEFrom


def seen_from(problem: AbstractODE, origin: PyTree) -> AbstractODE:
    """The problem for the differences of a state from `origin`, a `State`."""
    kind: Any = SDEFrom if problem.stochastic else ODEFrom
    return kind(original=problem, origin=origin, **features_of(problem))


def scale_of(problem: AbstractODE, y: PyTree) -> PyTree:
    """A state of typical size: `y` itself, or the origin where `y` is a difference from it."""
    return problem.origin if isinstance(problem, SeenFrom) else y


def _sum(origin, y):
    return jax.tree.map(jnp.add, origin, y)
