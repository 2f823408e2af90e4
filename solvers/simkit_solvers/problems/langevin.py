"""Langevin problems, which have their own solvers."""

import abc

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import PyTree

from simkit_solvers.numerics.scalar import Scalar
from simkit_solvers.problems.problem import AbstractSDE, halves


class AbstractLangevin(AbstractSDE):
    """A Langevin problem in a potential, with friction `gamma` and inverse mass `u`, scalars > 0."""

    calculus = "any"
    noise_kind = "additive"

    gamma: eqx.AbstractVar[Scalar]
    u: eqx.AbstractVar[Scalar]

    @abc.abstractmethod
    def grad_f(self, q: tuple) -> tuple:
        r"""$\nabla f(q)$, the gradient of the potential."""


class AbstractUnderdampedLangevin(AbstractLangevin):
    r"""Underdamped Langevin dynamics in the potential $f$ with friction $\gamma$ and inverse mass $u$,

    $$dq = p\,dt,\qquad dp = -\gamma p\,dt - u\nabla f(q)\,dt + \sqrt{2\gamma u}\,dW.$$

    `State` names the positions first, then the velocities in the same order; `Noise` has one component for
    each velocity. `gamma` and `u` are scalars > 0, `grad_f` takes a tuple of positions and returns $\nabla f$
    as a tuple; drift and noise follow from these. The stationary density is proportional to
    $\exp(-f(q) - |p|^2 / 2u)$. `BAOAB`, `ALIGN`, `ShOULD` and `QUICSORT` solve nothing else; every solver for
    additive noise fits as well. A model's calculus is `any` and its noise `additive`.
    Reference: Foster, Lyons & Oberhauser (2021), The shifted ODE method for underdamped Langevin MCMC,
    doi:10.48550/arXiv.2101.03446.

    >>> from simkit_physics import DoubleWellLangevin
    >>> model = DoubleWellLangevin(gamma=1.0, u=0.5, b=1.0, a=1.0)
    >>> model.drift(0.0, model.State(x=1.0, v=2.0))
    DoubleWellLangevinState(x=2.0, v=-2.0)
    """

    def drift(self, t: Scalar, y: PyTree) -> PyTree:
        r"""$(p, -\gamma p - u \nabla f(q))$."""
        q, p = halves(y)
        force = [-self.gamma * v - self.u * g for v, g in zip(p, self.grad_f(q), strict=True)]
        return self.State(*p, *force)

    def noise(self, t: Scalar, y: PyTree, dW: PyTree) -> PyTree:
        r"""$(0, \sqrt{2\gamma u}\,dW)$."""
        size = jnp.sqrt(2 * self.gamma * self.u)
        q, _ = halves(y)
        return self.State(*(jnp.zeros_like(x) for x in q), *(size * w for w in dW))


class AbstractOverdampedLangevin(AbstractLangevin):
    r"""Overdamped Langevin dynamics in the potential $f$ with friction $\gamma$ and inverse mass $u$,

    $$dq = -\frac{u}{\gamma} \nabla f(q)\,dt + \sqrt{2u / \gamma}\,dW,$$

    the limit of `AbstractUnderdampedLangevin` for strong friction, also called Brownian dynamics: the
    coefficient of diffusion is $u/\gamma$. With a potential energy $U$ at temperature $T$ and mass $m$,
    $f = U/k_B T$ and $u = k_B T/m$. `State` names the positions, `Noise` has one component for each. `gamma`
    and `u` are scalars > 0, `grad_f` takes a tuple of positions and returns $\nabla f$ as a tuple; drift and
    noise follow from these. The stationary density is proportional to $\exp(-f(q))$. A model's calculus is
    `any` and its noise `additive`.
    Reference: Leimkuhler & Matthews (2013), Rational construction of stochastic numerical methods for
    molecular sampling, doi:10.1093/amrx/abs010.

    >>> from simkit_physics import DoubleWell
    >>> model = DoubleWell(gamma=1.0, u=0.5, b=1.0, a=1.0)
    >>> model.drift(0.0, model.State(x=1.0))  # at a minimum
    DoubleWellState(x=-0.0)
    """

    def drift(self, t: Scalar, y: PyTree) -> PyTree:
        r"""$-(u/\gamma) \nabla f(q)$."""
        mobility = self.u / self.gamma
        return self.State(*(-mobility * g for g in self.grad_f(tuple(y))))

    def noise(self, t: Scalar, y: PyTree, dW: PyTree) -> PyTree:
        r"""$\sqrt{2u/\gamma}\,dW$."""
        size = jnp.sqrt(2 * self.u / self.gamma)
        return self.State(*(size * w for w in dW))
