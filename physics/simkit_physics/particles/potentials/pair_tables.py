"""Parameters of pairs: one number for all, or a symmetric table over species."""

import dataclasses
import itertools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from simkit_solvers import Parameter

PairParameter = float | jax.Array

MOST_SELECTED = 4  # species, up to which selects are faster than gathers: lanes are vectors


def of_species_pair(table: PairParameter, a: jax.Array, b: jax.Array) -> PairParameter:
    """The entries of a symmetric table for pairs of the species `a` and `b`; a number is its own entry."""
    if jnp.ndim(table) == 0:
        return table
    table = jnp.asarray(table)
    species = len(table)
    if species > MOST_SELECTED:
        return jnp.take(table.ravel(), a * species + b, mode="clip")
    low, high = jnp.minimum(a, b), jnp.maximum(a, b)
    pair = high * (high + 1) // 2 + low if species > 2 else a + b
    entries = [table[i, j] for i in range(species) for j in range(i + 1)]
    value = entries[0]
    for k, entry in enumerate(entries[1:], 1):
        value = jnp.where(pair == k, entry, value)
    return value


def species_in(tables: list[Any]) -> int:
    """The number of species of the largest table, 1 if all are numbers."""
    return max((len(table) for table in tables if jnp.ndim(table) == 2), default=1)


def check_tables(owner: str, tables: dict[str, Any], ranges: dict[str, Parameter]) -> None:
    """Raise `ValueError` unless each is a number or a symmetric table, all of one size and in their ranges.

    Traced values pass: their range was checked where they were numbers.
    """
    sizes = {name: np.shape(table) for name, table in tables.items() if np.ndim(table)}
    for name, shape in sizes.items():
        place = f"{owner}.{name}"
        if len(shape) != 2 or shape[0] != shape[1] or not hasattr(tables[name], "dtype"):
            raise ValueError(f"{place}: must be a number or an array (species, species), got {shape}")
    for (one, shape), (other, second) in itertools.pairwise(sizes.items()):
        if shape != second:
            raise ValueError(f"{owner}: {one} is for {shape[0]} species and {other} for {second[0]}")
    for name, table in tables.items():
        if not isinstance(table, Tracer):
            _check_numbers(f"{owner}.{name}", np.asarray(table), ranges.get(name))


def _check_numbers(place: str, table: np.ndarray, spec: Parameter | None) -> None:
    if table.ndim and not np.array_equal(table, table.T):
        raise ValueError(f"{place}: the table must be symmetric, got {table.tolist()}")
    for value in table.ravel().tolist():
        if spec is not None and not spec.admits(value):
            raise ValueError(f"{place}: must be {spec.range or 'a number'}, got {value:g}")


def pair_parameters(module: eqx.Module | type[eqx.Module]) -> dict[str, Parameter]:
    """The fields of a potential or a truncation that are parameters of pairs."""
    return {f.name: f.metadata["parameter"] for f in dataclasses.fields(module) if "parameter" in f.metadata}
