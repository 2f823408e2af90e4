"""The numbers in a problem by their names in the source."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike
from simkit_solvers.problems.problem import AbstractODE

INSIDE = frozenset({"original", "schedule", "parameters", "quantities"})  # of a problem made of another


def labelled_numbers(problem: AbstractODE, dtype: DTypeLike) -> tuple[list[str], list[jax.Array], Any]:
    """The floating-point leaves of a problem: their names, as arrays, and how to put them back.

    A leaf inside a parameter, such as a value of a curve, has the parameter's name; a constant that an event
    reads is `constant NAME`, and other numbers of the first event are `event 1`.
    """
    numbers, others = eqx.partition(problem, _is_real)
    result, structure = jax.tree_util.tree_flatten_with_path(numbers)
    names = [_name(path) for path, _ in result]
    arrays = [jnp.asarray(leaf, dtype) for _, leaf in result]

    def rebuilt(leaves):
        return eqx.combine(jax.tree.unflatten(structure, leaves), others)

    return names, arrays, rebuilt


def _is_real(leaf) -> bool:
    known = isinstance(leaf, float | np.floating | np.ndarray | jax.Array)
    return known and jnp.issubdtype(jnp.result_type(leaf), jnp.floating)


def _name(path) -> str:
    parts = [str(getattr(part, "name", getattr(part, "key", getattr(part, "idx", part)))) for part in path]
    own = [part for part in parts if part not in INSIDE]
    if own[:1] == ["events"]:
        return f"constant {own[-1]}" if "constants" in own else f"event {int(own[1]) + 1}"
    return own[0] if own else ".".join(parts)
