from typing import Annotated, ClassVar, NamedTuple

from simkit_solvers import AbstractHamiltonian, Quantity, Scalar, parameter

from simkit_physics.mechanics.energies import kinetic_energy, spring_energy


class HenonHeilesState(NamedTuple):
    x: Annotated[Scalar, Quantity("1", "position in the plane of the galaxy")]
    y: Annotated[Scalar, Quantity("1", "position across")]
    px: Annotated[Scalar, Quantity("1", "momentum in the plane")]
    py: Annotated[Scalar, Quantity("1", "momentum across")]


class HenonHeiles(AbstractHamiltonian):
    r"""A star in a galaxy, of energy $\frac12(p_x^2 + p_y^2 + x^2 + y^2) + \lambda\,(x^2 y - y^3/3)$.

    For $\lambda = 1$ most orbits are regular below the energy 1/12 and chaotic near 1/6, from where on they
    may escape. Dimensionless.
    Reference: Hénon & Heiles (1964), The applicability of the third integral of motion, doi:10.1086/109234.
    """

    State = HenonHeilesState
    example: ClassVar[dict[str, float]] = {"coupling": 1.0}
    example_initial: ClassVar[dict[str, float]] = {"x": 0.0, "y": 0.1, "px": 0.5, "py": 0.0}
    example_time: ClassVar[dict[str, float]] = {"t1": 200.0, "steps": 4000}
    example_solver: ClassVar[str] = "Yoshida4"

    coupling: Scalar = parameter("1", "coupling λ of the two oscillators")

    def kinetic(self, p: tuple) -> Scalar:
        return kinetic_energy(1.0, *p)

    def potential(self, q: tuple) -> Scalar:
        x, y = q
        bowl = spring_energy(1.0, x) + spring_energy(1.0, y)
        return bowl + self.coupling * (x * x * y - y * y * y / 3)
