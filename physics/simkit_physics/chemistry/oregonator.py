from typing import Annotated, ClassVar, NamedTuple

from jaxtyping import PyTree
from simkit_solvers import AbstractODE, Quantity, Scalar, parameter


class OregonatorState(NamedTuple):
    x: Annotated[Scalar, Quantity("1", "bromous acid")]
    y: Annotated[Scalar, Quantity("1", "bromide")]
    z: Annotated[Scalar, Quantity("1", "oxidized catalyst")]


class Oregonator(AbstractODE):
    r"""The Belousov–Zhabotinsky reaction in three variables:

    $$\dot x = s\,(y + x\,(1 - q x - y)),\qquad \dot y = (z - (1 + x)\,y)/s,\qquad \dot z = w\,(x - z).$$

    A relaxation oscillation of concentrations that span five decades; stiff. Dimensionless, time in units of
    about a second. The example has the period 302.86.
    References: Field & Noyes (1974), Oscillations in chemical systems IV, doi:10.1063/1.1681288; Hairer &
    Wanner (1996), Solving Ordinary Differential Equations II, doi:10.1007/978-3-642-05221-7.
    """

    State = OregonatorState
    example: ClassVar[dict[str, float]] = {"s": 77.27, "q": 8.375e-6, "w": 0.161}
    example_initial: ClassVar[dict[str, float]] = {"x": 1.0, "y": 2.0, "z": 3.0}
    example_time: ClassVar[dict[str, float]] = {"t1": 360.0, "rtol": 1e-6, "atol": 1e-8}
    example_solver: ClassVar[str] = "Rodas5P"

    s: Scalar = parameter("1", "ratio of the time scales of acid and bromide", above=0)
    q: Scalar = parameter("1", "rate at which the acid reacts with itself", at_least=0)
    w: Scalar = parameter("1", "rate at which the catalyst is reduced", at_least=0)

    def drift(self, t: Scalar, y: PyTree) -> OregonatorState:
        return OregonatorState(
            x=self.s * (y.y + y.x * (1 - self.q * y.x - y.y)),
            y=(y.z - (1 + y.x) * y.y) / self.s,
            z=self.w * (y.x - y.z),
        )
