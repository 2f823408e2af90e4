from typing import Annotated, ClassVar, NamedTuple

from jaxtyping import PyTree
from simkit_solvers import AbstractODE, Quantity, Scalar, parameter


class VanDerPolState(NamedTuple):
    x: Annotated[Scalar, Quantity("1", "displacement")]
    v: Annotated[Scalar, Quantity("1", "velocity")]


class VanDerPol(AbstractODE):
    r"""Oscillator that feeds itself, $\ddot x = \mu (1 - x^2)\,\dot x - x$.

    Solved as $\dot x = v$, $\dot v = \mu(1 - x^2)\,v - x$. All motion but rest ends on one limit cycle, of
    amplitude near 2 and period 6.6633 at $\mu = 1$; for large $\mu$ the period is about $(3 - 2\ln 2)\,\mu$
    and the equation stiff. Dimensionless.
    Reference: van der Pol (1926), On relaxation-oscillations, doi:10.1080/14786442608564127.
    """

    State = VanDerPolState
    example: ClassVar[dict[str, float]] = {"mu": 1.0}
    example_initial: ClassVar[dict[str, float]] = {"x": 0.1, "v": 0.0}
    example_time: ClassVar[dict[str, float]] = {"t1": 40.0, "steps": 2000}

    mu: Scalar = parameter("1", "strength of the feedback", at_least=0)

    def drift(self, t: Scalar, y: PyTree) -> VanDerPolState:
        return VanDerPolState(x=y.v, v=self.mu * (1 - y.x * y.x) * y.v - y.x)
