"""Hamiltonian systems written in the file by their energies, as equinox modules like those in Python."""

import dataclasses
import functools
import types
from typing import Any

import jax.numpy as jnp
from simkit_solvers.numerics.scalar import Scalar
from simkit_solvers.problems.hamiltonian import AbstractHamiltonian
from simkit_solvers.problems.problem import Roughness, parameter

from simkit.experiments.inline.inline_model import roughness, scalars
from simkit.expressions import Expression

RESERVED = frozenset({"State", "drift", "kinetic", "potential", "velocity", "force", "energy", "rough_with"})


@dataclasses.dataclass(frozen=True)
class HamiltonianText:
    """Energies in the file, compiled: of the momenta and of the positions. `parameters` become fields."""

    positions: tuple[str, ...]
    momenta: tuple[str, ...]
    kinetic: Expression
    potential: Expression
    parameters: tuple[str, ...]

    @property
    def rough(self) -> tuple[Roughness, ...]:
        """Where the forces jump: where the energies have kinks."""
        return tuple(each._replace(kink=False) for each in roughness(self.kinetic, self.potential))


@functools.lru_cache(maxsize=64)
def make_hamiltonian(text: HamiltonianText) -> type[AbstractHamiltonian]:
    """The class of a Hamiltonian system in the file; its fields are the parameters.

    The same text gives the same class, so that a program compiled for it is found again.
    """
    members: dict[str, Any] = {
        "__doc__": f"Energies written in the file.\n\nH = {text.kinetic.text} + {text.potential.text}",
        "__module__": __name__,
        "__annotations__": dict.fromkeys(text.parameters, Scalar),
        **{name: parameter("", "") for name in text.parameters},
        "State": scalars("State", (*text.positions, *text.momenta)),
        "_made_by": (make_hamiltonian, text),  # no parameter has a name with _ in front
        "rough_with": lambda self: text.rough,
        "kinetic": _energy(text.kinetic, text.momenta, text.parameters),
        "potential": _energy(text.potential, text.positions, text.parameters),
    }
    bases = (AbstractHamiltonian,)
    return types.new_class("InlineHamiltonian", bases, {}, lambda namespace: namespace.update(members))


def _energy(expression: Expression, names: tuple[str, ...], parameters: tuple[str, ...]):
    def energy(self, values):
        fields = vars(self)
        known = {name: fields[name] for name in parameters} | dict(zip(names, values, strict=True))
        return jnp.asarray(expression(known), jnp.result_type(*values))

    return energy
