"""What prices have in common that jump between the steps of a geometric Brownian motion."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import PyTree
from simkit_solvers import (
    AbstractExactMoments,
    AbstractExactTransition,
    AbstractJumpDiffusion,
    Scalar,
    StepWords,
)


class AbstractJumpingPrice(AbstractJumpDiffusion, AbstractExactMoments, AbstractExactTransition):
    r"""A price with $dS = (\mu - \lambda k) S\,dt + \sigma S\,dW + (e^z - 1) S_-\,dN$ and $k = E[e^z] - 1$.

    A model gives the distribution of z, `marks`. The mean is $S_0 e^{\mu t}$ and the variance
    $S_0^2 e^{2\mu t} (e^{(\sigma^2 + \lambda E[(e^z - 1)^2])\,t} - 1)$.
    """

    calculus = "ito"
    noise_kind = "scalar"
    jumps_commute = True

    mu: eqx.AbstractVar[Scalar]
    sigma: eqx.AbstractVar[Scalar]
    lam: eqx.AbstractVar[Scalar]

    def drift(self, t: Scalar, y: PyTree) -> PyTree:
        return self.State(S=self._between_jumps(t) * y.S)

    def noise(self, t: Scalar, y: PyTree, dW: PyTree) -> PyTree:
        return self.State(S=self.sigma * y.S * dW.W)

    def intensity(self, t: Scalar, y: PyTree) -> Scalar:
        return self.lam

    def jump(self, t: Scalar, y: PyTree, z: Scalar) -> PyTree:
        return self.State(S=y.S * jnp.exp(z))

    def transition(self, t: Scalar, h: Scalar, y: PyTree, dW: PyTree, words: StepWords) -> PyTree:
        rate = self._between_jumps(t) - 0.5 * self.sigma**2
        return self.State(S=y.S * jnp.exp(rate * h + self.sigma * dW.W))

    def exact_mean(self, t: Scalar, y0: PyTree) -> PyTree:
        return self.State(S=y0.S * jnp.exp(self.mu * t))

    def exact_variance(self, t: Scalar, y0: PyTree) -> PyTree:
        rate = self.sigma**2 + self.lam * self.marks(t).squared_return()
        return self.State(S=y0.S**2 * jnp.exp(2 * self.mu * t) * jnp.expm1(rate * t))

    def _between_jumps(self, t):
        """The rate at which the price grows between jumps."""
        return self.mu - self.lam * self.marks(t).mean_return()
