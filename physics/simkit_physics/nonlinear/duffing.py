from typing import Annotated, ClassVar, NamedTuple

import jax.numpy as jnp
from jaxtyping import PyTree
from simkit_solvers import AbstractODE, Quantity, Scalar, parameter


class DuffingState(NamedTuple):
    x: Annotated[Scalar, Quantity("1", "displacement")]
    v: Annotated[Scalar, Quantity("1", "velocity")]


class Duffing(AbstractODE):
    r"""Driven oscillator, $\ddot x + \delta\dot x + \alpha x + \beta x^3 = \gamma\cos\omega t$.

    Solved as $\dot x = v$, $\dot v = \gamma\cos\omega t - \delta v - \alpha x - \beta x^3$. For $\alpha < 0 <
    \beta$ it has two wells, between which the example jumps at no regular times. Dimensionless.
    References: Duffing (1918), Erzwungene Schwingungen bei veränderlicher Eigenfrequenz, Vieweg; Holmes
    (1979), A nonlinear oscillator with a strange attractor, doi:10.1098/rsta.1979.0068.
    """

    State = DuffingState
    example: ClassVar[dict[str, float]] = {
        "delta": 0.3,
        "alpha": -1.0,
        "beta": 1.0,
        "gamma": 0.5,
        "omega": 1.2,
    }
    example_initial: ClassVar[dict[str, float]] = {"x": 1.0, "v": 0.0}
    example_time: ClassVar[dict[str, float]] = {"t1": 100.0, "steps": 10_000}

    delta: Scalar = parameter("1", "friction", at_least=0)
    alpha: Scalar = parameter("1", "linear stiffness")
    beta: Scalar = parameter("1", "cubic stiffness")
    gamma: Scalar = parameter("1", "amplitude of the drive")
    omega: Scalar = parameter("1", "angular frequency of the drive")

    def drift(self, t: Scalar, y: PyTree) -> DuffingState:
        spring = (self.alpha + self.beta * y.x * y.x) * y.x
        return DuffingState(x=y.v, v=self.gamma * jnp.cos(self.omega * t) - self.delta * y.v - spring)
