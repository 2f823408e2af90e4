"""Programs that simulate paths and their derivatives: what they give is a number per path, to be averaged."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from simkit_solvers.derivatives.smoothing import Smoothing
from simkit_solvers.numerics.scalar import Scalar
from simkit_solvers.problems.directions import DifferentiatedRows, Release

from simkit.ensemble.paths import PathProgram
from simkit.ensemble.simulation import Run

Rows = tuple[tuple[str, int], ...]


class Moves(NamedTuple):
    """Inputs, how they move along each direction, and along pairs of directions.

    `steps` are how far to go where differences are computed, and the sizes of the targets for equations.
    `sides` are the inputs a step above and a step below each target, with all that follows from its value.
    """

    inputs: Run
    first: tuple[Run, ...]
    second: tuple[Run, ...] = ()
    steps: tuple[jax.Array, ...] = ()
    sides: tuple[tuple[Run, Run], ...] = ()


class Contribution(NamedTuple):
    """What a path contributes to a quantity and its derivatives.

    The contribution to a derivative is the change and, where there are weights, the value times the weight.
    """

    value: jax.Array
    changes: tuple[jax.Array, ...]
    weights: tuple[jax.Array, ...]

    @staticmethod
    def of(result: DifferentiatedRows, name: str, count: int) -> "Contribution":
        """The contribution of one path to the last rows of a quantity: no derivatives where it has failed."""
        value = result.rows[name][-count:]
        changes = tuple(jnp.where(jnp.isfinite(value), x[name][-count:], jnp.nan) for x in result.changes)
        return Contribution(value, changes, tuple(x[-count:] for x in result.weights))

    @property
    def derivatives(self) -> Sequence[jax.Array]:
        """The derivatives of many paths, `(rows, leaves, lanes)`, with values less the mean of a leaf."""
        if not self.weights:
            return self.changes
        lanes = self.value.shape[-1]
        middle = jnp.nanmean(self.value, axis=-1, keepdims=True)
        deviation = (self.value - middle) * (lanes / (lanes - 1))
        return [x + deviation * weight for x, weight in zip(self.changes, self.weights, strict=True)]


PathEstimator = Callable[["DerivativeProgram", Moves, Any], DifferentiatedRows]


@dataclasses.dataclass(frozen=True)
class DerivativeProgram:
    """A function of (moves, ids): each quantity, then its derivative along each direction.

    Arrays `(rows, leaves, lanes)`, quantity by quantity, each followed by its derivatives. `estimate` gives
    the derivatives of a path, with weights only where these multiply values less their mean. `release` says
    where derivatives become weights.
    """

    paths: PathProgram
    rows: Rows
    estimate: PathEstimator
    release: Release | Smoothing | None = None

    def __call__(self, moves: Moves, ids) -> tuple[jax.Array, ...]:
        def one(moves: Moves, path):
            result = self.estimate(self, moves, path)
            return [Contribution.of(result, name, count) for name, count in self.rows]

        result = self.paths.each(one)(moves, ids)
        return tuple(x for each in result for x in (each.value, *each.derivatives))


def plus(inputs: Run, move: Run, step: Scalar) -> Any:
    """`inputs` plus `step` times `move`, where a None in either is nothing to add."""

    def leaf(x, change):
        if change is None:
            return x
        return step * change if x is None else x + step * change

    key = inputs.key
    moved = jax.tree.map(leaf, inputs._replace(key=None), move, is_leaf=lambda x: x is None)
    return moved._replace(key=key)


def like(tree: Any, move: Any) -> Any:
    """`move` in the structure of `tree`, None where it has nothing."""
    empty = jax.tree.map(lambda _: None, tree)
    return eqx.combine(move, empty, is_leaf=lambda x: x is None)
