from typing import Annotated, ClassVar, NamedTuple

from simkit_solvers import Quantity, Scalar, parameter

from simkit_physics.mechanics.n_body import AbstractPlanarBodies


class FigureEightState(NamedTuple):
    x1: Annotated[Scalar, Quantity("length", "position of the first body")]
    y1: Annotated[Scalar, Quantity("length", "position of the first body across")]
    x2: Annotated[Scalar, Quantity("length", "position of the second body")]
    y2: Annotated[Scalar, Quantity("length", "position of the second body across")]
    x3: Annotated[Scalar, Quantity("length", "position of the third body")]
    y3: Annotated[Scalar, Quantity("length", "position of the third body across")]
    px1: Annotated[Scalar, Quantity("mass*length/time", "momentum of the first body")]
    py1: Annotated[Scalar, Quantity("mass*length/time", "momentum of the first body across")]
    px2: Annotated[Scalar, Quantity("mass*length/time", "momentum of the second body")]
    py2: Annotated[Scalar, Quantity("mass*length/time", "momentum of the second body across")]
    px3: Annotated[Scalar, Quantity("mass*length/time", "momentum of the third body")]
    py3: Annotated[Scalar, Quantity("mass*length/time", "momentum of the third body across")]


class FigureEight(AbstractPlanarBodies):
    r"""Three equal bodies that chase each other along a figure eight, under Newton's law; their energy is

    $$H = \sum_i \frac{|p_i|^2}{2m} - \sum_{i<j} \frac{G m^2}{|q_i - q_j|}.$$

    From the initial values of the example, with $G = m = 1$, the motion has the period 6.32591398292621, the
    energy −1.28714199563186 and no angular momentum. It is stable: small changes of them do not destroy it.
    Infinite where two bodies meet.
    Reference: Chenciner & Montgomery (2000), A remarkable periodic solution of the three-body problem in the
    case of equal masses, doi:10.2307/2661357.
    """

    State = FigureEightState
    example: ClassVar[dict[str, float]] = {"G": 1.0, "m": 1.0}
    example_initial: ClassVar[dict[str, float]] = {
        "x1": 0.97000435669734,
        "y1": -0.243087531535823,
        "x2": -0.97000435669734,
        "y2": 0.243087531535823,
        "x3": 0.0,
        "y3": 0.0,
        "px1": 0.4662036857205145,
        "py1": 0.4323657304604605,
        "px2": 0.4662036857205145,
        "py2": 0.4323657304604605,
        "px3": -0.932407371441029,
        "py3": -0.864731460921031,
    }
    example_time: ClassVar[dict[str, float]] = {"t1": 6.32591398292621, "steps": 1000}
    example_solver: ClassVar[str] = "Yoshida4"

    G: Scalar = parameter("length^3/(mass*time^2)", "constant of gravitation", at_least=0)
    m: Scalar = parameter("mass", "mass of each body", above=0)

    def masses(self) -> tuple[Scalar, ...]:
        return self.m, self.m, self.m

    def softening_length(self) -> Scalar:
        return 0.0
