from typing import Annotated, ClassVar, NamedTuple

from jaxtyping import PyTree
from simkit_solvers import AbstractODE, Quantity, Scalar, parameter


class RobertsonState(NamedTuple):
    y1: Annotated[Scalar, Quantity("1", "fraction of the reactant")]
    y2: Annotated[Scalar, Quantity("1", "fraction of the intermediate")]
    y3: Annotated[Scalar, Quantity("1", "fraction of the product")]


class Robertson(AbstractODE):
    r"""Autocatalytic reaction with rates nine decades apart:

    $$\dot y_1 = -k_1 y_1 + k_3 y_2 y_3,\qquad \dot y_2 = k_1 y_1 - k_3 y_2 y_3 - k_2 y_2^2,\qquad
      \dot y_3 = k_2 y_2^2.$$

    Very stiff; the intermediate is of order $10^{-5}$ and needs an `atol` far below. The sum is conserved.
    References: Robertson (1966), The solution of a set of reaction rate equations, in Numerical Analysis: An
    Introduction, Academic Press; Hairer & Wanner (1996), Solving Ordinary Differential Equations II,
    doi:10.1007/978-3-642-05221-7.
    """

    State = RobertsonState
    example: ClassVar[dict[str, float]] = {"k1": 0.04, "k2": 3e7, "k3": 1e4}
    example_initial: ClassVar[dict[str, float]] = {"y1": 1.0, "y2": 0.0, "y3": 0.0}
    example_time: ClassVar[dict[str, float]] = {"t1": 40.0, "rtol": 1e-6, "atol": 1e-10}
    example_solver: ClassVar[str] = "Rodas5P"

    k1: Scalar = parameter("1/time", "rate of decay of the reactant", at_least=0)
    k2: Scalar = parameter("1/time", "rate at which the intermediate reacts with itself", at_least=0)
    k3: Scalar = parameter("1/time", "rate at which it returns, with the product's help", at_least=0)

    def drift(self, t: Scalar, y: PyTree) -> RobertsonState:
        forth, on, back = self.k1 * y.y1, self.k2 * y.y2 * y.y2, self.k3 * y.y2 * y.y3
        return RobertsonState(y1=back - forth, y2=forth - back - on, y3=on)
