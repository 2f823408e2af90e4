"""The contract of a statistic: from the rows of many paths to figures, under a name in `STATISTICS`."""

import abc
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

Rows = tuple[tuple[str, int], ...]
Array = np.ndarray | jax.Array


class Label(NamedTuple):
    """How datasets show a figure: its long name, the power of the quantity's unit, dimensions but time."""

    text: str  # with {} for the quantity's own description
    power: int = 1
    dims: tuple[str, ...] = ()


def as_rows(rows: Mapping[str, int] | Iterable[tuple[str, int]]) -> Rows:
    """How many rows each quantity has, in a hashable form."""
    return tuple((str(name), int(count)) for name, count in dict(rows).items())


class AbstractReducer(eqx.Module):
    """A statistic of an ensemble, accumulated leaf by leaf.

    A leaf is a block of replicates (usually paths) of fixed length. `update` runs inside `jit` with 64-bit
    types enabled and reduces each leaf on its own; the thread that called it calls `on_host`; `merge` and
    `join` run in one thread. Leaves arrive in order, in groups of any size, or in states that other processes
    have merged, and the result has the same bits for every grouping. Entries where `valid` is False
    contribute nothing, whatever they hold.

    `rows` says how many rows each quantity has: one per saved time, or one of those evaluated at the end
    only. A reducer entered by `@statistic` has a `name`, and its `labels` are those of the figures that
    datasets have of each quantity.
    """

    name: eqx.AbstractClassVar[str]
    labels: ClassVar[Mapping[str, Label]] = {}
    rows: eqx.AbstractVar[Rows]

    @abc.abstractmethod
    def update(self, values: Mapping[str, jax.Array], valid: jax.Array) -> Any:
        """Reduce `values[name]`, `(rows, leaves, length)`, under the mask `valid`, `(leaves, length)`."""

    @abc.abstractmethod
    def init(self, leaf: int = 0) -> Any:
        """The state that has seen nothing, before the leaf of this number."""

    def on_host(self, partial: Any) -> Any:
        """What `merge` takes of what `update` gave: work that threads share, if there is any."""
        return partial

    @abc.abstractmethod
    def merge(self, state: Any, partial: Any) -> Any:
        """The state after the next leaves, of which `on_host` gave `partial`."""

    @abc.abstractmethod
    def join(self, state: Any, later: Any) -> Any:
        """The state after the leaves of two, of which `later` begins where the other ends."""

    @abc.abstractmethod
    def finish(self, state: Any) -> dict[str, np.ndarray]:
        """The figures by name; one with a label as `<quantity>_<figure>`, `(rows, …)`."""


STATISTICS: dict[str, type[AbstractReducer]] = {}
Kind = TypeVar("Kind", bound=type[AbstractReducer])


def statistic(kind: Kind) -> Kind:
    """Enter a reducer under its name: every run then has its figures, in datasets, files and tables of CSV.

    Its fields are among `rows` and `quantiles`, the levels. Raises `ValueError` if another statistic has a
    figure of the same name.
    """
    others = (each for name, each in STATISTICS.items() if name != kind.name)
    for label in {label for each in others for label in each.labels} & {*kind.labels}:
        raise ValueError(f"{kind.name}: there is a statistic with a figure {label!r} already; rename it")
    STATISTICS[kind.name] = kind
    return kind


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
