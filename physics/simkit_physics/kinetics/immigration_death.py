from typing import Annotated, ClassVar, NamedTuple

import jax.numpy as jnp
from jaxtyping import PyTree
from simkit_solvers import (
    AbstractExactMoments,
    AbstractReactionNetwork,
    Quantity,
    Scalar,
    mean_decay,
    parameter,
    reaction,
)


class ImmigrationDeathState(NamedTuple):
    X: Annotated[Scalar, Quantity("1", "molecules")]


class ImmigrationDeath(AbstractReactionNetwork, AbstractExactMoments):
    r"""Molecules arrive and decay, $0 \to X$ at rate $\alpha$ and $X \to 0$ at rate $\mu X$.

    From $X_0$ molecules the mean is $X_0 e + \frac\alpha\mu (1 - e)$ with $e = e^{-\mu t}$ and the variance
    $X_0 e (1 - e) + \frac\alpha\mu (1 - e)$; from none the distribution is Poisson at all times.
    Reference: Wilkinson (2018), Stochastic Modelling for Systems Biology, doi:10.1201/9781351000918.
    """

    State = ImmigrationDeathState
    reactions: ClassVar = {"immigration": reaction("0 -> X"), "death": reaction("X -> 0")}
    example: ClassVar[dict[str, float]] = {"alpha": 10.0, "mu": 0.1}
    example_initial: ClassVar[dict[str, float]] = {"X": 20.0}

    alpha: Scalar = parameter("1/time", "molecules that arrive", at_least=0)
    mu: Scalar = parameter("1/time", "decay rate of a molecule", at_least=0)

    def rates(self, t: Scalar, y: PyTree) -> tuple:
        return self.alpha, self.mu

    def exact_mean(self, t: Scalar, y0: PyTree) -> PyTree:
        remaining = jnp.exp(-self.mu * t)
        return ImmigrationDeathState(X=y0.X * remaining + self.alpha * t * mean_decay(self.mu * t))

    def exact_variance(self, t: Scalar, y0: PyTree) -> PyTree:
        remaining = jnp.exp(-self.mu * t)
        lost = -jnp.expm1(-self.mu * t)
        return ImmigrationDeathState(X=y0.X * remaining * lost + self.alpha * t * mean_decay(self.mu * t))
