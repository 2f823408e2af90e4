"""Programs that simulate paths and their second derivatives."""

import dataclasses

import jax
import jax.numpy as jnp
from simkit_solvers.derivatives.integrate_with_tangents import integrate_with_second_tangents
from simkit_solvers.derivatives.smoothing import Smoothing
from simkit_solvers.problems.directions import Direction, Release

from simkit.derivatives.derivative_program import (
    Contribution,
    DerivativeProgram,
    Moves,
    PathEstimator,
    Rows,
    plus,
)
from simkit.derivatives.path_derivatives import directions_of, run_and_directions
from simkit.distributions.distribution import AbstractDrawn
from simkit.ensemble.paths import PathProgram
from simkit.ensemble.simulation import Run


@dataclasses.dataclass(frozen=True)
class SecondProgram:
    """A function of (moves, ids): for each pair (i, j) the derivative along j of that along i, by quantity.

    The estimator of the first is differentiated along the path: with `release` that is a weight times the
    value and what is left of the pathwise derivative, which may have kinks where the value has them, no more.
    """

    paths: PathProgram
    rows: Rows
    pairs: tuple[tuple[int, int], ...]
    estimate: PathEstimator
    release: Release | None = None

    def __call__(self, moves: Moves, ids) -> tuple[jax.Array, ...]:
        first = DerivativeProgram(self.paths, self.rows, self.estimate, self.release)

        def one(moves: Moves, path):
            result = []
            for (i, j), both in zip(self.pairs, moves.second, strict=True):

                def at(step, i=i, j=j, both=both):
                    inputs = plus(moves.inputs, moves.first[j], step)
                    direction = plus(moves.first[i], both, step)
                    value = self.estimate(first, Moves(inputs, (direction,)), path)
                    return [Contribution.of(value, name, count) for name, count in self.rows]

                zero = jnp.zeros((), self.paths.precision)
                _, change = jax.jvp(at, (zero,), (zero + 1,))
                result.append([each.changes[0] for each in change])
            return tuple(each for quantity in zip(*result, strict=True) for each in quantity)

        return self.paths.each(one)(moves, ids)


@dataclasses.dataclass(frozen=True)
class SmoothedSecondProgram:
    """A function of (moves, ids): for each pair (i, j) the second derivative, by quantity.

    The estimate of the first derivative is smoothed once more, where it jumps itself: where the values do.
    """

    paths: PathProgram
    rows: Rows
    pairs: tuple[tuple[int, int], ...]
    smoothings: tuple[Smoothing, Smoothing]

    def __call__(self, moves: Moves, ids) -> tuple[jax.Array, ...]:
        def one(moves: Moves, path):
            given, directions = run_and_directions(self.paths, moves, path)
            result = []
            for (i, j), both in zip(self.pairs, moves.second, strict=True):
                three = directions[i], directions[j], self._second(moves, i, j, both, path)
                result.append(integrate_with_second_tangents(*given, three, self.smoothings))
            return [Contribution.of(each, name, count) for name, count in self.rows for each in result]

        return tuple(x for each in self.paths.each(one)(moves, ids) for x in each.derivatives)

    def _second(self, moves: Moves, i: int, j: int, both: Run, path) -> Direction:
        """How the direction i changes along j: that of the numbers, and of how they make initial values."""

        def start(step):
            inputs, direction = plus(moves.inputs, moves.first[j], step), plus(moves.first[i], both, step)
            problem = self.paths.combined(inputs).problem
            moved = self.paths.start_moved(inputs, direction, problem, path)
            return {name: x for name, x in moved.items() if isinstance(inputs.initial[name], AbstractDrawn)}

        zero = jnp.zeros((), self.paths.precision)
        (direction,) = directions_of(self.paths, moves.inputs, (both,), path)
        return direction._replace(y0=direction.y0._replace(**jax.jvp(start, (zero,), (zero + 1,))[1]))
