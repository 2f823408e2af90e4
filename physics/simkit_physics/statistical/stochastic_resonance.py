from typing import Annotated, ClassVar, NamedTuple

import jax.numpy as jnp
from jaxtyping import PyTree
from simkit_solvers import AbstractSDE, Quantity, Scalar, parameter


class StochasticResonanceState(NamedTuple):
    x: Annotated[Scalar, Quantity("1", "position")]


class StochasticResonanceNoise(NamedTuple):
    W: Scalar


class StochasticResonance(AbstractSDE):
    r"""Driven particle in a double well, $dx = (x - x^3 + A\cos\Omega t)\,dt + \sqrt{2D}\,dW$.

    Additive noise, so Itô = Stratonovich. The wells at ±1 have the depth 1/4. The drive alone is too weak to
    carry the particle across while $A < 2/\sqrt{27}$; noise helps it, best where the time between two
    passages, $\sqrt2\,\pi e^{1/4D}$ without a drive and for small D, is half a period of the drive.
    Dimensionless.
    Reference: Gammaitoni, Hänggi, Jung & Marchesoni (1998), Stochastic resonance,
    doi:10.1103/RevModPhys.70.223.
    """

    State = StochasticResonanceState
    Noise = StochasticResonanceNoise
    calculus = "any"
    noise_kind = "additive"
    example: ClassVar[dict[str, float]] = {"A": 0.25, "Omega": 0.05, "D": 0.08}
    example_initial: ClassVar[dict[str, float]] = {"x": -1.0}
    example_time: ClassVar[dict[str, float]] = {"t1": 400.0, "steps": 8000}

    A: Scalar = parameter("1", "amplitude of the drive", at_least=0)
    Omega: Scalar = parameter("1", "angular frequency of the drive", at_least=0)
    D: Scalar = parameter("1", "intensity of the noise", above=0)

    def drift(self, t: Scalar, y: PyTree) -> StochasticResonanceState:
        return StochasticResonanceState(x=y.x - y.x * y.x * y.x + self.A * jnp.cos(self.Omega * t))

    def noise(self, t: Scalar, y: PyTree, dW: PyTree) -> StochasticResonanceState:
        return StochasticResonanceState(x=jnp.sqrt(2 * self.D) * dW.W)
