from typing import Annotated, ClassVar, NamedTuple

from jaxtyping import PyTree
from simkit_solvers import AbstractReactionNetwork, Quantity, Scalar, parameter, reaction


class LotkaVolterraState(NamedTuple):
    prey: Annotated[Scalar, Quantity("1", "prey")]
    predator: Annotated[Scalar, Quantity("1", "predators")]


class LotkaVolterra(AbstractReactionNetwork):
    r"""Lotka's reactions, $Y_1 \to 2Y_1$ at rate $c_1 Y_1$, $Y_1 + Y_2 \to 2Y_2$ at rate $c_2 Y_1 Y_2$ and
    $Y_2 \to 0$ at rate $c_3 Y_2$, with prey $Y_1$ and predators $Y_2$.

    The rate equation is that of Lotka and Volterra, whose orbits are closed; the jump process drifts outwards
    until one of the two dies out.
    References: Lotka (1920), doi:10.1021/ja01453a010; Gillespie (1977), doi:10.1021/j100540a008.
    """

    State = LotkaVolterraState
    reactions: ClassVar = {
        "birth": reaction("prey -> 2 prey"),
        "predation": reaction("prey + predator -> 2 predator"),
        "death": reaction("predator -> 0"),
    }
    example: ClassVar[dict[str, float]] = {"c1": 1.0, "c2": 0.005, "c3": 0.6}
    example_initial: ClassVar[dict[str, float]] = {"prey": 120.0, "predator": 200.0}

    c1: Scalar = parameter("1/time", "birth rate of prey", at_least=0)
    c2: Scalar = parameter("1/time", "rate at which one predator takes one prey", at_least=0)
    c3: Scalar = parameter("1/time", "death rate of predators", at_least=0)

    def rates(self, t: Scalar, y: PyTree) -> tuple:
        return self.c1, self.c2, self.c3
