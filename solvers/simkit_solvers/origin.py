"""A problem seen from a state: what a solver integrates is the difference from there."""

import equinox as eqx
import jax
import jax.numpy as jnp

from simkit_solvers.problem import AbstractODE, AbstractSDE, Calculus, NoiseKind


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


SeenFrom = ODEFrom | SDEFrom


def seen_from(problem: AbstractODE, origin) -> AbstractODE:
    """The problem for the differences of a state from `origin`, a `State`."""
    if isinstance(problem, AbstractSDE):
        return SDEFrom(
            original=problem,
            origin=origin,
            State=problem.State,
            Noise=problem.Noise,
            calculus=problem.calculus,
            noise_kind=problem.noise_kind,
        )
    return ODEFrom(original=problem, origin=origin, State=problem.State)


def scale_of(problem: AbstractODE, y):
    """A state of the size of what is solved: `y` itself, or the origin from which it is seen."""
    return problem.origin if isinstance(problem, SeenFrom) else y


def _sum(origin, y):
    return jax.tree.map(jnp.add, origin, y)
