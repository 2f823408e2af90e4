from typing import Annotated, ClassVar, NamedTuple

from jaxtyping import PyTree
from simkit_solvers import AbstractODE, Quantity, Scalar, parameter


class FitzHughNagumoState(NamedTuple):
    v: Annotated[Scalar, Quantity("1", "membrane potential")]
    w: Annotated[Scalar, Quantity("1", "recovery")]


class FitzHughNagumo(AbstractODE):
    r"""Excitable nerve in two variables, $\dot v = v - v^3/3 - w + I$, $\dot w = \epsilon\,(v + a - b w)$.

    Without a current it rests, and answers a kick that is strong enough with one spike; with a current of
    0.33 to 1.42, for the example's other parameters, it fires for ever. Dimensionless.
    References: FitzHugh (1961), Impulses and physiological states in theoretical models of nerve membrane,
    doi:10.1016/S0006-3495(61)86902-6; Nagumo, Arimoto & Yoshizawa (1962), doi:10.1109/JRPROC.1962.288235.
    """

    State = FitzHughNagumoState
    example: ClassVar[dict[str, float]] = {"a": 0.7, "b": 0.8, "epsilon": 0.08, "I": 0.5}
    example_initial: ClassVar[dict[str, float]] = {"v": -1.0, "w": -0.5}
    example_time: ClassVar[dict[str, float]] = {"t1": 200.0, "steps": 2000}

    a: Scalar = parameter("1", "offset of the recovery")
    b: Scalar = parameter("1", "strength of the recovery's own decay", at_least=0)
    epsilon: Scalar = parameter("1", "ratio of the time scales", above=0)
    I: Scalar = parameter("1", "current put in")

    def drift(self, t: Scalar, y: PyTree) -> FitzHughNagumoState:
        return FitzHughNagumoState(
            v=y.v - y.v * y.v * y.v / 3 - y.w + self.I, w=self.epsilon * (y.v + self.a - self.b * y.w)
        )
