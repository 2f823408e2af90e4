from typing import Annotated, ClassVar, NamedTuple

from jaxtyping import PyTree
from simkit_solvers import AbstractODE, Quantity, Scalar, parameter


class BrusselatorState(NamedTuple):
    x: Annotated[Scalar, Quantity("1", "concentration of the activator")]
    y: Annotated[Scalar, Quantity("1", "concentration of the inhibitor")]


class Brusselator(AbstractODE):
    r"""Autocatalytic reaction, $\dot x = a + x^2 y - (b + 1)\,x$, $\dot y = b x - x^2 y$.

    The fixed point $(a, b/a)$ is stable for $b < 1 + a^2$; beyond it a limit cycle is. Dimensionless.
    Reference: Prigogine & Lefever (1968), Symmetry breaking instabilities in dissipative systems II,
    doi:10.1063/1.1668896.
    """

    State = BrusselatorState
    example: ClassVar[dict[str, float]] = {"a": 1.0, "b": 3.0}
    example_initial: ClassVar[dict[str, float]] = {"x": 1.0, "y": 1.0}
    example_time: ClassVar[dict[str, float]] = {"t1": 30.0, "steps": 1500}

    a: Scalar = parameter("1", "supply of the activator", above=0)
    b: Scalar = parameter("1", "supply of the reactant that turns it into the inhibitor", at_least=0)

    def drift(self, t: Scalar, y: PyTree) -> BrusselatorState:
        autocatalysis = y.x * y.x * y.y
        return BrusselatorState(x=self.a + autocatalysis - (self.b + 1) * y.x, y=self.b * y.x - autocatalysis)
