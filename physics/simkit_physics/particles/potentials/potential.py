"""What a pair potential is."""

import abc
from typing import Any, ClassVar, Self

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from simkit_physics.particles.potentials.pair_tables import (
    PairParameter,
    check_tables,
    of_species_pair,
    pair_parameters,
    species_in,
)
from simkit_physics.particles.potentials.tails import numerical_tail


class AbstractPotential(eqx.Module):
    r"""A pair potential $u$, whose energy is a function of the squared distance $r^2$.

    Fields made by `parameter` are numbers or symmetric tables `(species, species)`. `energy` alone is
    necessary: the slope is its derivative. `example` are valid numbers, used by the tests and the
    documentation, in reduced units.

    Raises `ValueError` for a table that is not symmetric and for a number outside its range.

    >>> from simkit_physics import AbstractPotential
    >>> from simkit_solvers import Scalar, parameter
    >>> class InverseSquare(AbstractPotential):
    ...     A: Scalar = parameter("energy*length^2", "strength, >= 0", at_least=0.0)
    ...     example = {"A": 1.0}
    ...
    ...     def energy(self, r2):
    ...         return self.A / r2
    >>> InverseSquare(A=2.0).energy(4.0), float(InverseSquare(A=2.0).slope(4.0))  # at r = 2
    (0.5, -0.125)
    """

    example: ClassVar[dict[str, float]] = {}

    @abc.abstractmethod
    def energy(self, r2: Any) -> Any:
        r"""$u(r)$ at $r^2$, elementwise, in JAX's functions."""

    def slope(self, r2: Any) -> Any:
        r"""$du/d(r^2) = u'(r)/2r$: the force on a particle is -2 times that times the vector to it."""
        return jax.jvp(self.energy, (r2,), (jnp.ones_like(r2),))[1]

    def tail_integral(self, cutoff: PairParameter) -> Any:
        r"""$\int_{r_c}^\infty u(r)\,r^2\,dr$ of each pair of species, numerically unless it is known.

        Raises `ValueError` where it diverges.
        """
        return numerical_tail(type(self).__name__, self.energy, cutoff)

    @property
    def natural_cutoff(self) -> PairParameter:
        """The distance at which the potential ends by itself; infinite, if it does not."""
        return float("inf")

    @property
    def species(self) -> int:
        """How many species the tables of parameters are for; 1 without tables."""
        return species_in(jax.tree.leaves(self._parameters()))

    def of_pair(self, a: Array, b: Array) -> Self:
        """This potential with the parameters of pairs of the species `a` and `b`, in each lane."""
        parameters = self._parameters()
        if self.species == 1:
            return self
        values = jax.tree.map(lambda table: of_species_pair(table, a, b), parameters)
        names = list(parameters)
        return eqx.tree_at(lambda p: [getattr(p, n) for n in names], self, [values[n] for n in names])

    def _parameters(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in pair_parameters(self)}

    def __check_init__(self) -> None:
        tables: dict[str, Any] = {}
        for name, value in self._parameters().items():
            tables |= value if isinstance(value, dict) else {name: value}
        check_tables(type(self).__name__, tables, pair_parameters(self))
