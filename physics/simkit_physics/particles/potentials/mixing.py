r"""Mixing rules: from the parameters of each species to tables of pairs.

Reference: Allen & Tildesley (2017), Computer Simulation of Liquids, section 1.4.2,
doi:10.1093/oso/9780198803195.001.0001.
"""

from collections.abc import Mapping, Sequence
from typing import Literal

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from simkit_solvers import Parameter

from simkit_physics.particles.potentials.pair_tables import PairParameter, pair_parameters
from simkit_physics.particles.potentials.potential import AbstractPotential

Rule = Literal["lorentz_berthelot", "geometric"]
Table = Float[Array, "species species"]


def arithmetic_means(values: Sequence[float]) -> Table:
    """(a + b)/2 for each pair.

    >>> from simkit_physics import arithmetic_means
    >>> arithmetic_means([1.0, 3.0]).tolist()
    [[1.0, 2.0], [2.0, 3.0]]
    """
    v = np.asarray(values, float)
    return jnp.asarray((v[:, None] + v) / 2)


def geometric_means(values: Sequence[float]) -> Table:
    r"""$\sqrt{ab}$ for each pair.

    Raises `ValueError` for negative numbers.

    >>> from simkit_physics import geometric_means
    >>> geometric_means([1.0, 4.0]).tolist()
    [[1.0, 2.0], [2.0, 4.0]]
    """
    v = np.asarray(values, float)
    if np.any(v < 0):
        raise ValueError(f"geometric mixing: takes numbers >= 0, got {v.tolist()}")
    return jnp.asarray(np.sqrt(v[:, None] * v))


def products_of_pairs(values: Sequence[float]) -> Table:
    """ab for each pair, of charges.

    >>> from simkit_physics import products_of_pairs
    >>> products_of_pairs([1.0, -2.0]).tolist()
    [[1.0, -2.0], [-2.0, 4.0]]
    """
    v = np.asarray(values, float)
    return jnp.asarray(v[:, None] * v)


def table_of_pairs(species: int, pairs: Mapping[tuple[int, int], float]) -> Table:
    """The table of the numbers of each pair (a, b), which is the pair (b, a).

    Raises `ValueError` for a pair that is missing, unknown, or given twice.

    >>> from simkit_physics import table_of_pairs
    >>> table_of_pairs(2, {(0, 0): 1.0, (0, 1): 1.5, (1, 1): 0.5}).tolist()
    [[1.0, 1.5], [1.5, 0.5]]
    """
    table = np.full((species, species), np.nan)
    for (a, b), value in pairs.items():
        if not (0 <= a < species and 0 <= b < species):
            raise ValueError(f"pair ({a}, {b}): species are numbered from 0 to {species - 1}")
        if not np.isnan(table[a, b]):
            raise ValueError(f"pair ({a}, {b}): given twice")
        table[a, b] = table[b, a] = value
    missing = [(int(a), int(b)) for a, b in np.argwhere(np.isnan(table)) if a <= b]
    if missing:
        raise ValueError(f"pair {missing[0]}: has no parameters; give them for each pair of species")
    return jnp.asarray(table)


def mixed_parameters(
    potential: type[AbstractPotential], rule: Rule, parameters: Mapping[str, float | Sequence[float]]
) -> dict[str, PairParameter]:
    """The parameters of a potential, with a table for each that is given by species; a number stays one.

    Energies and strengths mix geometrically. Lengths do so under `geometric`, and arithmetically under
    `lorentz_berthelot`.

    Raises `ValueError` for lists of different lengths, and for a parameter that no rule mixes: also if its
    numbers are equal, where they may have either sign, as products of charges.

    >>> from simkit_physics import LennardJones, mixed_parameters
    >>> mixed = mixed_parameters(LennardJones, "lorentz_berthelot", {"epsilon": [1.0, 4.0], "sigma": 1.0})
    >>> mixed["epsilon"].tolist(), mixed["sigma"]
    ([[1.0, 2.0], [2.0, 4.0]], 1.0)
    """
    lengths = {len(values) for values in parameters.values() if not isinstance(values, int | float)}
    if len(lengths) > 1:
        raise ValueError(
            f"{potential.__name__}: parameters for {min(lengths)} and for {max(lengths)} species"
        )
    specs = pair_parameters(potential)
    return {
        name: values
        if isinstance(values, int | float)
        else _mixed(f"{potential.__name__}.{name}", specs[name], rule, values)
        for name, values in parameters.items()
    }


def _mixed(place: str, spec: Parameter, rule: Rule, values: Sequence[float]) -> PairParameter:
    said_by_like_pairs = len(values) == 1 or not spec.admits(-1.0)  # unlike charges may differ in sign
    if len(set(values)) == 1 and said_by_like_pairs:
        return values[0]
    if spec.unit == "length":
        return arithmetic_means(values) if rule == "lorentz_berthelot" else geometric_means(values)
    if spec.unit == "energy" or spec.unit.startswith("energy*length^"):
        return geometric_means(values)
    raise ValueError(f"{place}: no rule mixes numbers in {spec.unit}; give one for each pair of species")
