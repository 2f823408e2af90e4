from typing import Annotated, ClassVar, NamedTuple

import jax.numpy as jnp
from jaxtyping import PyTree
from simkit_solvers import AbstractExactMoments, AbstractHamiltonian, Quantity, Scalar, parameter

from simkit_physics.mechanics.energies import kinetic_energy, spring_energy


class HarmonicOscillatorState(NamedTuple):
    q: Annotated[Scalar, Quantity("length", "displacement")]
    p: Annotated[Scalar, Quantity("mass*length/time", "momentum")]


class HarmonicOscillator(AbstractHamiltonian, AbstractExactMoments):
    r"""Mass on a spring, $\dot q = p/m$, $\dot p = -k q$, of energy $H = p^2/2m + k q^2/2$.

    Solution $q_0 \cos\omega t + \frac{p_0}{m\omega} \sin\omega t$ with $\omega = \sqrt{k/m}$.
    Reference: Hairer, Lubich & Wanner (2006), Geometric Numerical Integration, doi:10.1007/3-540-30666-8.
    """

    State = HarmonicOscillatorState
    example: ClassVar[dict[str, float]] = {"m": 1.0, "k": 1.0}
    example_initial: ClassVar[dict[str, float]] = {"q": 1.0, "p": 0.0}
    example_time: ClassVar[dict[str, float]] = {"t1": 20.0, "steps": 400}
    example_solver: ClassVar[str] = "Leapfrog"

    m: Scalar = parameter("mass", "mass", above=0)
    k: Scalar = parameter("mass/time^2", "stiffness of the spring", above=0)

    def kinetic(self, p: tuple) -> Scalar:
        return kinetic_energy(self.m, *p)

    def potential(self, q: tuple) -> Scalar:
        return spring_energy(self.k, *q)

    def exact_mean(self, t: Scalar, y0: PyTree) -> PyTree:
        omega = jnp.sqrt(self.k / self.m)
        cos, sin, scale = jnp.cos(omega * t), jnp.sin(omega * t), self.m * omega
        return HarmonicOscillatorState(q=y0.q * cos + y0.p / scale * sin, p=y0.p * cos - y0.q * scale * sin)

    def exact_variance(self, t: Scalar, y0: PyTree) -> PyTree:
        return HarmonicOscillatorState(q=0 * y0.q, p=0 * y0.p)
