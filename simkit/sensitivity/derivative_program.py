"""Programs that simulate paths and their derivatives: what they give is a number per path, to be averaged."""

import dataclasses
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from simkit_solvers.directions import Direction, Release
from simkit_solvers.grid import Grid
from simkit_solvers.integrate import integrate_along

from simkit.paths import Inputs, PathProgram

Rows = tuple[tuple[str, int], ...]


class Moves(NamedTuple):
    """Inputs, how they move along each direction, and along pairs of directions."""

    inputs: Inputs
    first: tuple[Inputs, ...]
    second: tuple[Inputs, ...] = ()


@dataclasses.dataclass(frozen=True)
class DerivativeProgram:
    """A function of (moves, ids): each quantity, then its derivative along each direction.

    Arrays `(rows, leaves, lanes)`, quantity by quantity, each followed by its derivatives. `kind` is
    `along` (derivatives ride along the loop of a fixed grid, released into weights where `release` says so),
    `forward` (any grid) or `reverse`.
    """

    paths: PathProgram
    rows: Rows
    kind: Literal["along", "forward", "reverse"]
    release: Release | None = None

    def __call__(self, moves: Moves, ids) -> tuple[jax.Array, ...]:
        kinds = {"along": along, "forward": forward, "reverse": reverse}

        def one(moves: Moves, path):
            return kinds[self.kind](self, moves, path)

        return self.paths.each(one)(moves, ids)


@dataclasses.dataclass(frozen=True)
class SecondProgram:
    """A function of (moves, ids): for each pair (i, j) the derivative along j of that along i, by quantity.

    The estimator of the first is differentiated along the path: with `release` that is a weight times the
    value and what is left of the pathwise derivative, which may have kinks where the value has them, no more.
    """

    paths: PathProgram
    rows: Rows
    pairs: tuple[tuple[int, int], ...]
    kind: Literal["along", "forward"]
    release: Release | None = None

    def __call__(self, moves: Moves, ids) -> tuple[jax.Array, ...]:
        first = DerivativeProgram(self.paths, self.rows, self.kind, self.release)
        estimate = along if self.kind == "along" else forward

        def one(moves: Moves, path):
            found = []
            for (i, j), both in zip(self.pairs, moves.second, strict=True):

                def at(step, i=i, j=j, both=both):
                    inputs = _plus(moves.inputs, moves.first[j], step)
                    direction = _plus(moves.first[i], both, step)
                    return estimate(first, Moves(inputs, (direction,)), path)

                zero = jnp.zeros((), self.paths.precision)
                _, change = jax.jvp(at, (zero,), (zero + 1,))
                found.append(change[1::2])
            return tuple(each for quantity in zip(*found, strict=True) for each in quantity)

        return self.paths.each(one)(moves, ids)


def along(program: DerivativeProgram, moves: Moves, path) -> tuple[jax.Array, ...]:
    """The derivatives beside the path, in one loop."""
    paths, inputs = program.paths, moves.inputs
    problem, observer, grid = paths.combined(inputs)
    if not isinstance(grid, Grid):
        raise TypeError("derivatives ride along the loop of a fixed grid only")
    solved = paths.in_solvers_calculus(problem)
    y0 = paths.start(inputs, problem, path)
    directions = []
    for move in moves.first:
        change = eqx.filter_jvp(paths.in_solvers_calculus, (problem,), (like(problem, move.problem),))[1]
        start = problem.State(**{name: move.initial.get(name) for name in y0._fields})
        observed = like(observer, move.observer)
        moved: Any = move.grid
        directions.append(Direction(change, observed, start, moved.t0, moved.dt))
    noise = paths.noise(inputs, problem, path)
    found = integrate_along(
        solved, paths.parts.tree[3], y0, grid, noise, observer, directions, program.release
    )
    values: list[jax.Array] = []
    for name, count in program.rows:
        rows = found.rows[name][-count:]
        values.append(rows)
        for change, weight in zip(found.changes, found.weights, strict=True):
            released = 0.0 if program.release is None else rows * weight[-count:]
            values.append(change[name][-count:] + released)
    return tuple(values)


def forward(program: DerivativeProgram, moves: Moves, path) -> tuple[jax.Array, ...]:
    """The derivatives by one forward pass each."""
    at = _at(program, moves, path)
    zeros = jnp.zeros(len(moves.first), program.paths.precision)
    passes = [jax.jvp(at, (zeros,), (unit,)) for unit in jnp.eye(len(moves.first), dtype=zeros.dtype)]
    values = passes[0][0]
    return tuple(x for q, value in enumerate(values) for x in (value, *(change[q] for _, change in passes)))


def reverse(program: DerivativeProgram, moves: Moves, path) -> tuple[jax.Array, ...]:
    """The derivatives by one reverse pass for each quantity and row."""
    at = _at(program, moves, path)
    zeros = jnp.zeros(len(moves.first), program.paths.precision)
    values, back = jax.vjp(at, zeros)
    found: list[jax.Array] = []
    for q, value in enumerate(values):
        gradients = []
        for row in range(value.shape[0]):
            seeds = [jnp.zeros_like(x) for x in values]
            seeds[q] = seeds[q].at[row].set(1)
            gradients.append(back(tuple(seeds))[0])
        found += [value, *jnp.stack(gradients, axis=1)]
    return tuple(found)


def _at(program: DerivativeProgram, moves: Moves, path) -> Callable:
    """The quantities as functions of how far to go along each direction."""

    def at(steps):
        inputs = moves.inputs
        for i, move in enumerate(moves.first):
            inputs = _plus(inputs, move, steps[i])
        rows = program.paths.one_path(inputs, path)
        return tuple(rows[name][-count:] for name, count in program.rows)

    return at


def _plus(inputs: Any, move: Any, step) -> Any:
    """The numbers so far along a direction; where both are None, and where it does not move, as they are."""

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
