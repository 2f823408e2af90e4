import abc
import itertools
from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import PyTree
from simkit_solvers import AbstractHamiltonian, Parameter, Quantity, Scalar

from simkit_physics.mechanics.energies import gravitational_energy, kinetic_energy
from simkit_physics.sized import AbstractSized, ModelParts, indexed, with_size


class AbstractPlanarBodies(AbstractHamiltonian):
    r"""Bodies in a plane under each other's gravity, softened at distances of the order of $\varepsilon$:

    $$H = \sum_i \frac{|p_i|^2}{2m_i} - \sum_{i<j} \frac{G m_i m_j}{\sqrt{|q_i - q_j|^2 + \varepsilon^2}}.$$

    `State` names x and y of each body in turn, then the components of the momenta in the same order. Energy,
    momentum and angular momentum are conserved.
    Reference: Aarseth (2003), Gravitational N-Body Simulations, doi:10.1017/CBO9780511535246.
    """

    G: eqx.AbstractVar[Scalar]

    @abc.abstractmethod
    def masses(self) -> tuple[Scalar, ...]:
        """The mass of each body."""

    @abc.abstractmethod
    def softening_length(self) -> Scalar:
        r"""$\varepsilon$, zero for Newton's law."""

    def kinetic(self, p: tuple) -> Scalar:
        bodies = zip(self.masses(), p[::2], p[1::2], strict=True)
        return sum(kinetic_energy(m, px, py) for m, px, py in bodies)

    def potential(self, q: tuple) -> Scalar:
        bodies = zip(self.masses(), q[::2], q[1::2], strict=True)
        soft = self.softening_length() ** 2
        return sum(
            gravitational_energy(self.G, m1, m2, jnp.sqrt((x1 - x2) ** 2 + (y1 - y2) ** 2 + soft))
            for (m1, x1, y1), (m2, x2, y2) in itertools.combinations(bodies, 2)
        )

    def angular_momentum(self, y: PyTree) -> Scalar:
        r"""$\sum_i x_i p_{y,i} - y_i p_{x,i}$, in mass·length²/time."""
        half = len(y) // 2
        q, p = tuple(y[:half]), tuple(y[half:])
        return sum(x * py - y * px for x, y, px, py in zip(q[::2], q[1::2], p[::2], p[1::2], strict=True))


class AbstractNBody(AbstractPlanarBodies, AbstractSized):
    """Bodies with masses `m1`, `m2`, … and one softening length; see `NBody`.

    Reference: Aarseth (2003), Gravitational N-Body Simulations, doi:10.1017/CBO9780511535246.
    """

    sizes: ClassVar[tuple[int, int]] = (2, 16)

    softening: eqx.AbstractVar[Scalar]

    @classmethod
    def parts(cls, size: int) -> ModelParts:
        numbers = range(1, size + 1)
        places = [(i, axis) for i in numbers for axis in ("x", "y")]
        variables = {f"{axis}{i}": Quantity("length", f"{axis} of body {i}") for i, axis in places}
        variables |= {
            f"p{axis}{i}": Quantity("mass*length/time", f"momentum of body {i} along {axis}")
            for i, axis in places
        }
        parameters = {
            "G": Parameter("length^3/(mass*time^2)", "constant of gravitation", at_least=0),
            "softening": Parameter("length", "softening length", above=0),
        }
        masses = {f"m{i}": Parameter("mass", f"mass of body {i}", above=0) for i in numbers}
        return ModelParts(variables, (), parameters | masses)

    def masses(self) -> tuple[Scalar, ...]:
        return tuple(vars(self)[name] for name in indexed("m", range(1, len(self.State._fields) // 4 + 1)))

    def softening_length(self) -> Scalar:
        return self.softening


@with_size(4)
class NBody(AbstractNBody):
    r"""Four bodies in a plane under their softened gravity, of energy

    $$H = \sum_i \frac{|p_i|^2}{2m_i} - \sum_{i<j} \frac{G m_i m_j}{\sqrt{|q_i - q_j|^2 + \varepsilon^2}}.$$

    The softening $\varepsilon$ keeps the force finite where bodies meet, so that steps of one length do. The
    example is a sun with three planets. In YAML `size` gives another number of bodies, from 2 to 16, whose
    masses may be a list: `model: {type: NBody, size: 2, G: 1, softening: 0.05, m: [1.0, 0.01]}`.
    Reference: Aarseth (2003), Gravitational N-Body Simulations, doi:10.1017/CBO9780511535246.
    """

    example: ClassVar[dict[str, float]] = {
        "G": 1.0,
        "softening": 0.05,
        "m1": 1.0,
        "m2": 0.01,
        "m3": 0.03,
        "m4": 0.001,
    }
    example_initial: ClassVar[dict[str, float]] = {
        "x1": 0.0,
        "y1": 0.0,
        "x2": 0.7,
        "y2": 0.0,
        "x3": -1.5,
        "y3": 0.0,
        "x4": 0.0,
        "y4": 2.4,
        "px1": 0.00065,
        "py1": 0.0125,
        "px2": 0.0,
        "py2": 0.012,
        "px3": 0.0,
        "py3": -0.0245,
        "px4": -0.00065,
        "py4": 0.0,
    }
    example_time: ClassVar[dict[str, float]] = {"t1": 40.0, "steps": 4000}
    example_solver: ClassVar[str] = "Leapfrog"
