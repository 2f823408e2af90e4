"""What turns the rows of many paths into what is kept of them."""

import abc
from collections.abc import Iterable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

Rows = tuple[tuple[str, int], ...]
Array = np.ndarray | jax.Array


def as_rows(rows: Mapping[str, int] | Iterable[tuple[str, int]]) -> Rows:
    """How many rows each quantity has, in a hashable form."""
    return tuple((str(name), int(count)) for name, count in dict(rows).items())


class AbstractReducer(eqx.Module):
    """A statistic of an ensemble, gathered leaf by leaf.

    A leaf is a block of replicates (usually paths) of fixed length. `update` runs inside `jit` with 64-bit
    types enabled and reduces each leaf on its own; `merge` runs on the host. Leaves arrive in order, in
    groups of any size, and the result has the same bits for every grouping. Entries where `valid` is False
    contribute nothing, whatever they hold.

    `rows` says how many rows each quantity has: one per saved time, or one where only the end is kept.
    """

    rows: eqx.AbstractVar[Rows]

    @abc.abstractmethod
    def update(self, values: Mapping[str, jax.Array], valid: jax.Array) -> Any:
        """Reduce `values[name]`, `(rows, leaves, length)`, under the mask `valid`, `(leaves, length)`."""

    @abc.abstractmethod
    def init(self) -> Any:
        """The state that has seen nothing."""

    @abc.abstractmethod
    def merge(self, state: Any, partial: Any) -> Any:
        """The state after the next leaves, whose `update` was `partial`."""

    @abc.abstractmethod
    def finish(self, state: Any) -> dict[str, np.ndarray]:
        """The statistics by name."""


def stacked(values: Mapping[str, jax.Array], rows: Rows) -> jax.Array:
    """The quantities below one another as one float64 array `(sum of rows, leaves, length)`.

    One array keeps the compiled program as small for ten quantities as for one.
    """
    if not jax.config.jax_enable_x64:  # pyright: ignore[reportAttributeAccessIssue]
        raise ValueError("reducers sum in float64: run them inside `with jax.enable_x64(True):`")
    for name, count in rows:
        if values[name].shape[0] != count:
            raise ValueError(f"{name}: expected {count} rows, got an array of shape {values[name].shape}")
    return jnp.concatenate([values[name].astype(jnp.float64) for name, _ in rows])


def by_name(array: np.ndarray, rows: Rows) -> dict[str, np.ndarray]:
    """Cut an array whose leading axis is that of `stacked` back into quantities."""
    ends = np.cumsum([count for _, count in rows])
    return {name: array[end - count : end] for (name, count), end in zip(rows, ends, strict=True)}
