from typing import Annotated, ClassVar, NamedTuple

import jax.numpy as jnp
from jaxtyping import PyTree
from simkit_solvers import (
    AbstractExactMoments,
    AbstractExactTransition,
    AbstractSDE,
    Quantity,
    Scalar,
    StepWords,
    mean_decay,
    parameter,
)


class OrnsteinUhlenbeckState(NamedTuple):
    X: Annotated[Scalar, Quantity("[X]", "position")]


class OrnsteinUhlenbeckNoise(NamedTuple):
    W: Scalar


class OrnsteinUhlenbeck(AbstractSDE, AbstractExactMoments, AbstractExactTransition):
    r"""Mean-reverting Gaussian process, $dX = \theta(\mu - X)\,dt + \sigma\,dW$.

    Additive noise, so Itô = Stratonovich. Mean $\mu + (X_0 - \mu) e^{-\theta t}$, variance
    $\sigma^2 (1 - e^{-2\theta t}) / 2\theta$, stationary distribution $N(\mu, \sigma^2 / 2\theta)$; Brownian
    motion at $\theta = 0$. $[X]$ is whatever unit X has.
    Reference: Uhlenbeck & Ornstein (1930), doi:10.1103/PhysRev.36.823.
    """

    State = OrnsteinUhlenbeckState
    Noise = OrnsteinUhlenbeckNoise
    calculus = "any"
    noise_kind = "additive"
    example: ClassVar[dict[str, float]] = {"theta": 2.0, "mu": 1.0, "sigma": 0.5}
    example_initial: ClassVar[dict[str, float]] = {"X": 3.0}

    theta: Scalar = parameter("1/time", "reversion rate", at_least=0)
    mu: Scalar = parameter("[X]", "long-run mean")
    sigma: Scalar = parameter("[X]/time^0.5", "volatility", at_least=0)

    def drift(self, t: Scalar, y: PyTree) -> OrnsteinUhlenbeckState:
        return OrnsteinUhlenbeckState(X=self.theta * (self.mu - y.X))

    def noise(self, t: Scalar, y: PyTree, dW: PyTree) -> OrnsteinUhlenbeckState:
        return OrnsteinUhlenbeckState(X=self.sigma * dW.W)

    def transition(
        self, t: Scalar, h: Scalar, y: PyTree, dW: PyTree, words: StepWords
    ) -> OrnsteinUhlenbeckState:
        spread = self.sigma * jnp.sqrt(mean_decay(2 * self.theta * h))
        return OrnsteinUhlenbeckState(X=self.exact_mean(h, y).X + spread * dW.W)

    def exact_mean(self, t: Scalar, y0: PyTree) -> PyTree:
        return OrnsteinUhlenbeckState(X=y0.X - (y0.X - self.mu) * -jnp.expm1(-self.theta * t))

    def exact_variance(self, t: Scalar, y0: PyTree) -> PyTree:
        return OrnsteinUhlenbeckState(X=self.sigma**2 * t * mean_decay(2 * self.theta * t))
