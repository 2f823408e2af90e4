from typing import Annotated, ClassVar, NamedTuple

from jaxtyping import PyTree
from simkit_solvers import AbstractODE, Quantity, Scalar, parameter


class HIRESState(NamedTuple):
    y1: Annotated[Scalar, Quantity("1", "phytochrome in the red-absorbing form")]
    y2: Annotated[Scalar, Quantity("1", "phytochrome in the far-red-absorbing form")]
    y3: Annotated[Scalar, Quantity("1", "red-absorbing form bound to the receptor X")]
    y4: Annotated[Scalar, Quantity("1", "far-red-absorbing form bound to the receptor X")]
    y5: Annotated[Scalar, Quantity("1", "red-absorbing form bound to the receptor X'")]
    y6: Annotated[Scalar, Quantity("1", "far-red-absorbing form bound to the receptor X'")]
    y7: Annotated[Scalar, Quantity("1", "the latter with the enzyme E")]
    y8: Annotated[Scalar, Quantity("1", "enzyme E")]


class HIRES(AbstractODE):
    r"""High irradiance responses of a plant's growth to light, eight reactants:

    $$\begin{aligned}
    \dot y_1 &= -k_1 y_1 + k_2 y_2 + k_6 y_3 + o, &
    \dot y_5 &= -(k_5 + k_1) y_5 + k_2 (y_6 + y_7), \\
    \dot y_2 &= k_1 y_1 - (k_2 + k_3) y_2, &
    \dot y_6 &= k_4 y_4 + k_1 y_5 - k_2 y_6 + k_m y_7 - k_p y_6 y_8, \\
    \dot y_3 &= -(k_6 + k_1) y_3 + k_2 y_4 + k_5 y_5, &
    \dot y_7 &= k_p y_6 y_8 - (k_2 + k_m + k_s) y_7, \\
    \dot y_4 &= k_3 y_2 + k_1 y_3 - (k_2 + k_4) y_4, &
    \dot y_8 &= -\dot y_7.
    \end{aligned}$$

    Stiff; the enzyme, free or bound, is conserved: $y_7 + y_8$.
    References: Hairer & Wanner (1996), Solving Ordinary Differential Equations II,
    doi:10.1007/978-3-642-05221-7; Mazzia & Magherini (2008), Test Set for Initial Value Problem Solvers.
    """

    State = HIRESState
    example: ClassVar[dict[str, float]] = {
        "k1": 1.71,
        "k2": 0.43,
        "k3": 8.32,
        "k4": 0.69,
        "k5": 0.035,
        "k6": 8.32,
        "kp": 280.0,
        "km": 0.69,
        "ks": 0.69,
        "o": 0.0007,
    }
    example_initial: ClassVar[dict[str, float]] = {
        "y1": 1.0,
        "y2": 0.0,
        "y3": 0.0,
        "y4": 0.0,
        "y5": 0.0,
        "y6": 0.0,
        "y7": 0.0,
        "y8": 0.0057,
    }
    example_time: ClassVar[dict[str, float]] = {"t1": 321.8122, "rtol": 1e-6, "atol": 1e-9}
    example_solver: ClassVar[str] = "Kvaerno5"

    k1: Scalar = parameter("1/time", "rate of conversion to far-red by light", at_least=0)
    k2: Scalar = parameter("1/time", "rate of conversion back by light", at_least=0)
    k3: Scalar = parameter("1/time", "rate of binding to X", at_least=0)
    k4: Scalar = parameter("1/time", "rate of conversion of X to X'", at_least=0)
    k5: Scalar = parameter("1/time", "rate of conversion of X' to X", at_least=0)
    k6: Scalar = parameter("1/time", "rate of release from X", at_least=0)
    kp: Scalar = parameter("1/time", "rate of binding of the enzyme", at_least=0)
    km: Scalar = parameter("1/time", "rate of its release", at_least=0)
    ks: Scalar = parameter("1/time", "rate of release with decay", at_least=0)
    o: Scalar = parameter("1/time", "rate of synthesis", at_least=0)

    def drift(self, t: Scalar, y: PyTree) -> HIRESState:
        bind = self.kp * y.y6 * y.y8 - (self.k2 + self.km + self.ks) * y.y7
        return HIRESState(
            y1=-self.k1 * y.y1 + self.k2 * y.y2 + self.k6 * y.y3 + self.o,
            y2=self.k1 * y.y1 - (self.k2 + self.k3) * y.y2,
            y3=-(self.k6 + self.k1) * y.y3 + self.k2 * y.y4 + self.k5 * y.y5,
            y4=self.k3 * y.y2 + self.k1 * y.y3 - (self.k2 + self.k4) * y.y4,
            y5=-(self.k5 + self.k1) * y.y5 + self.k2 * (y.y6 + y.y7),
            y6=self.k4 * y.y4 + self.k1 * y.y5 - self.k2 * y.y6 + self.km * y.y7 - self.kp * y.y6 * y.y8,
            y7=bind,
            y8=-bind,
        )
