"""Hamiltonian systems written in the file by their energies."""

import dataclasses
from typing import Any

import jax.numpy as jnp
from simkit_solvers.problems.hamiltonian import AbstractHamiltonian
from simkit_solvers.problems.problem import Discontinuity

from simkit.experiments.inline.model_text import AbstractText, discontinuities_of
from simkit.expressions import Expression


@dataclasses.dataclass(frozen=True)
class HamiltonianText(AbstractText):
    """Energies in the file: of the momenta and of the positions."""

    positions: tuple[str, ...]
    momenta: tuple[str, ...]
    kinetic: Expression
    potential: Expression
    parameters: tuple[str, ...]

    @property
    def name(self) -> str:
        """What its class is called."""
        return "InlineHamiltonian"

    @property
    def base(self) -> type[AbstractHamiltonian]:
        """The kind of problem."""
        return AbstractHamiltonian

    @property
    def variables(self) -> tuple[str, ...]:
        """Positions, then momenta."""
        return (*self.positions, *self.momenta)

    @property
    def discontinuities(self) -> tuple[Discontinuity, ...]:
        """Where the forces jump: where the energies have kinks."""
        return tuple(each._replace(kink=False) for each in discontinuities_of(self.kinetic, self.potential))

    @property
    def description(self) -> str:
        """The Hamiltonian."""
        return f"Energies written in the file.\n\nH = {self.kinetic.text} + {self.potential.text}"

    def members(self, state: type) -> dict[str, Any]:
        """The energies."""
        return {
            "kinetic": _energy(self.kinetic, self.momenta, self.parameters),
            "potential": _energy(self.potential, self.positions, self.parameters),
        }


def _energy(expression: Expression, names: tuple[str, ...], parameters: tuple[str, ...]):
    def energy(self, values):
        fields = vars(self)
        known = {name: fields[name] for name in parameters} | dict(zip(names, values, strict=True))
        return jnp.asarray(expression(known), jnp.result_type(*values))

    return energy
