from typing import Annotated, ClassVar, NamedTuple

from jaxtyping import PyTree
from simkit_solvers import AbstractODE, Quantity, Scalar, parameter

from simkit_physics.mechanics.energies import kinetic_energy, momentum, spring_energy


class DampedOscillatorState(NamedTuple):
    x: Annotated[Scalar, Quantity("length", "displacement")]
    v: Annotated[Scalar, Quantity("length/time", "velocity")]


class DampedOscillator(AbstractODE):
    r"""Mass on a spring with friction, $m\ddot x + c\dot x + k x = 0$, as $\dot x = v$, $m\dot v = -kx - cv$.

    It swings where $c^2 < 4mk$, with amplitude proportional to $e^{-ct/2m}$, and creeps back otherwise. The
    energy $m v^2/2 + k x^2/2$ falls at the rate $c v^2$.
    Reference: Strogatz (2018), Nonlinear Dynamics and Chaos, doi:10.1201/9780429492563.
    """

    State = DampedOscillatorState
    example: ClassVar[dict[str, float]] = {"m": 1.0, "c": 0.2, "k": 1.0}
    example_initial: ClassVar[dict[str, float]] = {"x": 1.0, "v": 0.0}
    example_time: ClassVar[dict[str, float]] = {"t1": 30.0, "steps": 600}

    m: Scalar = parameter("mass", "mass", above=0)
    c: Scalar = parameter("mass/time", "coefficient of friction", at_least=0)
    k: Scalar = parameter("mass/time^2", "stiffness of the spring", at_least=0)

    def drift(self, t: Scalar, y: PyTree) -> DampedOscillatorState:
        return DampedOscillatorState(x=y.v, v=-(self.k * y.x + self.c * y.v) / self.m)

    def energy(self, y: DampedOscillatorState) -> Scalar:
        """Kinetic energy and that of the spring, in mass·length²/time²."""
        return kinetic_energy(self.m, momentum(self.m, y.v)) + spring_energy(self.k, y.x)
