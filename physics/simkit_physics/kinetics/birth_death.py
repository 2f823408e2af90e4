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


class BirthDeathState(NamedTuple):
    X: Annotated[Scalar, Quantity("1", "individuals")]


class BirthDeath(AbstractReactionNetwork, AbstractExactMoments):
    r"""Linear birth–death process, $X \to 2X$ at rate $\lambda X$ and $X \to 0$ at rate $\mu X$.

    The mean is $X_0 e^{(\lambda-\mu) t}$, the variance $X_0 (\lambda + \mu) e^{(\lambda-\mu) t}
    \int_0^t e^{(\lambda-\mu) s}\,ds$. The population dies out in the end unless $\lambda > \mu$.
    Reference: Evans, Gillespie & Wilkinson (2008), The SBML discrete stochastic models test suite,
    doi:10.1093/bioinformatics/btm566.
    """

    State = BirthDeathState
    reactions: ClassVar = {"birth": reaction("X -> 2 X"), "death": reaction("X -> 0")}
    example: ClassVar[dict[str, float]] = {"birth_rate": 0.1, "death_rate": 0.11}
    example_initial: ClassVar[dict[str, float]] = {"X": 100.0}

    birth_rate: Scalar = parameter("1/time", "births of an individual", at_least=0)
    death_rate: Scalar = parameter("1/time", "death rate of an individual", at_least=0)

    def rates(self, t: Scalar, y: PyTree) -> tuple:
        return self.birth_rate, self.death_rate

    def exact_mean(self, t: Scalar, y0: PyTree) -> PyTree:
        return BirthDeathState(X=y0.X * jnp.exp((self.birth_rate - self.death_rate) * t))

    def exact_variance(self, t: Scalar, y0: PyTree) -> PyTree:
        growth = (self.birth_rate - self.death_rate) * t
        turnover = (self.birth_rate + self.death_rate) * t * mean_decay(-growth)
        return BirthDeathState(X=y0.X * jnp.exp(growth) * turnover)
