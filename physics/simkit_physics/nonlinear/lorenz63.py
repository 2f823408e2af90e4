from typing import Annotated, ClassVar, NamedTuple

from jaxtyping import PyTree
from simkit_solvers import AbstractODE, Quantity, Scalar, parameter


class Lorenz63State(NamedTuple):
    x: Annotated[Scalar, Quantity("1", "strength of the convection")]
    y: Annotated[Scalar, Quantity("1", "temperature difference of rising and falling air")]
    z: Annotated[Scalar, Quantity("1", "bend of the temperature profile")]


class Lorenz63(AbstractODE):
    r"""Convection of air, $\dot x = \sigma(y - x)$, $\dot y = x(\rho - z) - y$, $\dot z = xy - \beta z$.

    With the parameters of the example the motion is chaotic, and its largest Lyapunov exponent is 0.9056.
    Dimensionless.
    References: Lorenz (1963), Deterministic nonperiodic flow, Journal of the Atmospheric Sciences 20,
    130–141; Sprott (2003), Chaos and Time-Series Analysis, Oxford University Press; Viswanath (2004), The
    fractal property of the Lorenz attractor, doi:10.1016/j.physd.2003.10.006.
    """

    State = Lorenz63State
    example: ClassVar[dict[str, float]] = {"sigma": 10.0, "rho": 28.0, "beta": 2.6666666666666665}
    example_initial: ClassVar[dict[str, float]] = {"x": 1.0, "y": 1.0, "z": 20.0}
    example_time: ClassVar[dict[str, float]] = {"t1": 20.0, "steps": 4000}

    sigma: Scalar = parameter("1", "Prandtl number", at_least=0)
    rho: Scalar = parameter("1", "Rayleigh number over its critical value", at_least=0)
    beta: Scalar = parameter("1", "shape of the convection cell", at_least=0)

    def drift(self, t: Scalar, y: PyTree) -> Lorenz63State:
        return Lorenz63State(
            x=self.sigma * (y.y - y.x), y=y.x * (self.rho - y.z) - y.y, z=y.x * y.y - self.beta * y.z
        )
