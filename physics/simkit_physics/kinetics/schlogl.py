from typing import Annotated, ClassVar, NamedTuple

from jaxtyping import PyTree
from simkit_solvers import AbstractReactionNetwork, Quantity, Scalar, parameter, reaction


class SchloglState(NamedTuple):
    X: Annotated[Scalar, Quantity("1", "molecules")]


class Schlogl(AbstractReactionNetwork):
    r"""Schlögl's autocatalytic reactions, $A + 2X \rightleftharpoons 3X$ and $B \rightleftharpoons X$, with
    A and B held constant: two stable states, between which single molecules make the system jump.

    Propensities $c_1 X(X-1)/2$, $c_2 X(X-1)(X-2)/6$, $c_3$ and $c_4 X$; the amounts of A and B are in $c_1$
    and $c_3$. References: Schlögl (1972), doi:10.1007/BF01379769; Cao, Gillespie & Petzold (2006),
    doi:10.1063/1.2159468 (these numbers).
    """

    State = SchloglState
    reactions: ClassVar = {
        "autocatalysis": reaction("2 X -> 3 X"),
        "reversal": reaction("3 X -> 2 X"),
        "supply": reaction("0 -> X"),
        "decay": reaction("X -> 0"),
    }
    example: ClassVar[dict[str, float]] = {"c1": 0.03, "c2": 1e-4, "c3": 200.0, "c4": 3.5}
    example_initial: ClassVar[dict[str, float]] = {"X": 250.0}

    c1: Scalar = parameter("1/time", "rate of 2 X -> 3 X, with the amount of A", at_least=0)
    c2: Scalar = parameter("1/time", "rate of 3 X -> 2 X", at_least=0)
    c3: Scalar = parameter("1/time", "rate of B -> X, with the amount of B", at_least=0)
    c4: Scalar = parameter("1/time", "rate of X -> B", at_least=0)

    def rates(self, t: Scalar, y: PyTree) -> tuple:
        return self.c1, self.c2, self.c3, self.c4
