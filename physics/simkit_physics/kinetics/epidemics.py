from typing import Annotated, ClassVar, NamedTuple

from jaxtyping import PyTree
from simkit_solvers import AbstractReactionNetwork, Quantity, Scalar, parameter, reaction


class SIRState(NamedTuple):
    S: Annotated[Scalar, Quantity("1", "susceptible")]
    I: Annotated[Scalar, Quantity("1", "infectious")]
    R: Annotated[Scalar, Quantity("1", "recovered")]


class SIR(AbstractReactionNetwork):
    r"""Stochastic epidemic in a closed population, $S + I \to 2I$ at rate $\beta S I / N$, $I \to R$ at rate
    $\gamma I$.

    N, the size of the population, is a parameter. Each infectious one meets $\beta$ others a unit of time,
    and $R_0 = \beta/\gamma$. From few infectious ones an epidemic may die out at once, also where $R_0 > 1$.
    References: Kermack & McKendrick (1927), doi:10.1098/rspa.1927.0118; Bartlett (1949),
    doi:10.1111/j.2517-6161.1949.tb00031.x.
    """

    State = SIRState
    reactions: ClassVar = {"infection": reaction("S + I -> 2 I"), "recovery": reaction("I -> R")}
    example: ClassVar[dict[str, float]] = {"beta": 0.4, "gamma": 0.1, "N": 1000.0}
    example_initial: ClassVar[dict[str, float]] = {"S": 990.0, "I": 10.0, "R": 0.0}

    beta: Scalar = parameter("1/time", "contacts of an infectious one", at_least=0)
    gamma: Scalar = parameter("1/time", "recovery rate", at_least=0)
    N: Scalar = parameter("1", "size of the population", above=0, total=("S", "I", "R"))

    def rates(self, t: Scalar, y: PyTree) -> tuple:
        return self.beta / self.N, self.gamma


class SEIRState(NamedTuple):
    S: Annotated[Scalar, Quantity("1", "susceptible")]
    E: Annotated[Scalar, Quantity("1", "exposed, not yet infectious")]
    I: Annotated[Scalar, Quantity("1", "infectious")]
    R: Annotated[Scalar, Quantity("1", "recovered")]


class SEIR(AbstractReactionNetwork):
    r"""Stochastic epidemic with a latent period, $S + I \to E + I$ at rate $\beta S I / N$, $E \to I$ at rate
    $\sigma E$, $I \to R$ at rate $\gamma I$.

    N, the size of the population, is a parameter; $R_0 = \beta/\gamma$ as in `SIR`.
    Reference: Britton (2010), Stochastic epidemic models: a survey, doi:10.1016/j.mbs.2010.01.006.
    """

    State = SEIRState
    reactions: ClassVar = {
        "infection": reaction("S + I -> E + I"),
        "onset": reaction("E -> I"),
        "recovery": reaction("I -> R"),
    }
    example: ClassVar[dict[str, float]] = {"beta": 0.4, "sigma": 0.2, "gamma": 0.1, "N": 1000.0}
    example_initial: ClassVar[dict[str, float]] = {"S": 990.0, "E": 0.0, "I": 10.0, "R": 0.0}

    beta: Scalar = parameter("1/time", "contacts of an infectious one", at_least=0)
    sigma: Scalar = parameter("1/time", "rate of becoming infectious", at_least=0)
    gamma: Scalar = parameter("1/time", "recovery rate", at_least=0)
    N: Scalar = parameter("1", "size of the population", above=0, total=("S", "E", "I", "R"))

    def rates(self, t: Scalar, y: PyTree) -> tuple:
        return self.beta / self.N, self.sigma, self.gamma
