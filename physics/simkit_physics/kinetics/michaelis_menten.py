from typing import Annotated, ClassVar, NamedTuple

from jaxtyping import PyTree
from simkit_solvers import AbstractReactionNetwork, Quantity, Scalar, parameter, reaction


class MichaelisMentenState(NamedTuple):
    E: Annotated[Scalar, Quantity("1", "free enzyme")]
    S: Annotated[Scalar, Quantity("1", "substrate")]
    ES: Annotated[Scalar, Quantity("1", "enzyme with substrate")]
    P: Annotated[Scalar, Quantity("1", "product")]


class MichaelisMenten(AbstractReactionNetwork):
    r"""Enzyme kinetics, $E + S \rightleftharpoons ES \to E + P$.

    Propensities $k_1 E S$, $k_{-1} ES$ and $k_2 ES$; $E + ES$ and $S + ES + P$ do not change. The rates are
    for counts: over a volume V, $k_1$ is the usual constant over V.
    References: Michaelis & Menten (1913), translated in doi:10.1021/bi201284u; Rao & Arkin (2003),
    doi:10.1063/1.1545446.
    """

    State = MichaelisMentenState
    reactions: ClassVar = {
        "binding": reaction("E + S -> ES"),
        "release": reaction("ES -> E + S"),
        "conversion": reaction("ES -> E + P"),
    }
    example: ClassVar[dict[str, float]] = {"k1": 0.01, "k_1": 0.1, "k2": 0.5}
    example_initial: ClassVar[dict[str, float]] = {"E": 20.0, "S": 200.0, "ES": 0.0, "P": 0.0}

    k1: Scalar = parameter("1/time", "binding rate of one enzyme and one substrate", at_least=0)
    k_1: Scalar = parameter("1/time", "rate at which substrate is released", at_least=0)
    k2: Scalar = parameter("1/time", "rate at which product is made", at_least=0)

    def rates(self, t: Scalar, y: PyTree) -> tuple:
        return self.k1, self.k_1, self.k2
