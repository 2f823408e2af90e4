r"""Levels of ever shorter steps that give derivatives of means along with the means.

Where a value changes continuously with a parameter along its path, the derivative of the mean is the mean of
the path's derivative, and so on each grid of a level:

$$\partial_\theta E[P_L] = E[\partial_\theta P_0] + \sum_{l=1}^{L} E[\partial_\theta(P_l - P_{l-1})].$$

Both grids of a level have the same Brownian motion. Reference: Burgos & Giles (2012), Computing Greeks using
multilevel path simulation, doi:10.1007/978-3-642-27440-4_13.
"""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from simkit_solvers.numerics.delegated import delegated

from simkit.derivatives.derivative_program import DerivativeProgram, Moves
from simkit.derivatives.path_derivatives import with_tangents
from simkit.derivatives.targets import Target, changes
from simkit.ensemble.paths import path_program, with_traced_steps
from simkit.ensemble.simulation import Run, Simulation
from simkit.errors import NumericalError
from simkit.multilevel.levels import AbstractLevels, weak_orders
from simkit.multilevel.step_levels import StepLevels, StepProgram


def derivative_name(quantity: str, label: str) -> str:
    """What the derivative of a quantity is called among the figures of levels."""
    return f"{quantity} by {label}"


@dataclasses.dataclass(frozen=True)
class DerivativeLevels(AbstractLevels):
    """Levels of a simulation that give the means of `quantities` and their derivatives in each target.

    No quantity may jump as a target moves: there is one end of a path alone. The derivatives of those in
    `kinked` jump.
    """

    quantities: tuple[str, ...]
    targets: tuple[Target, ...]
    kinked: tuple[tuple[str, str], ...]  # a quantity, and the label of a target
    unit = "step"

    @functools.cached_property
    def _steps(self) -> StepLevels:
        return StepLevels(self.simulation, one_end=True)

    most = delegated("_steps")
    precision = delegated("_steps")
    steps = delegated("_steps")
    costs = delegated("_steps")
    grids = delegated("_steps")

    @functools.cached_property
    def orders(self):
        known = weak_orders(self.simulation)
        named = {q: [derivative_name(q, each.label) for each in self.targets] for q in self.quantities}
        return {name: known[q] for q, names in named.items() for name in (q, *names)}

    @property
    def derivatives(self):
        return {
            derivative_name(q, each.label): (q, each.label) in self.kinked
            for q in self.quantities
            for each in self.targets
        }

    def program(self, grids, level):
        programs, moves = zip(*map(self._moving, grids), strict=True)
        coarse = tuple(each.draws_per_step > 1 for each in grids)
        return StepProgram((*self.orders,), programs, coarse), moves

    def _moving(self, own: Simulation) -> "tuple[PathDerivatives, Moves]":
        """The program of a grid, and its inputs."""
        paths, inputs = path_program(own, with_traced_steps(own, own.grid))
        first = tuple(_on_grid_of(inputs, move) for move in changes(own, self.targets)[0])
        rows = tuple((name, 1) for name in self.quantities)
        program = DerivativeProgram(paths, rows, with_tangents)
        return PathDerivatives((*self.orders,), program), Moves(inputs, first)

    def failure(self, grids, level, path):
        error = self._steps.failure(grids, level, path)
        if "not finite" not in str(error).split(".")[0]:
            return error
        return NumericalError(
            f"path {path} of level {level}: the values are finite and a derivative is not. Set `ensemble: "
            "{failures: exclude}`, or leave ensemble.method out"
        )


def _on_grid_of(inputs: Run, move: Run) -> Run:
    """How inputs move, with the times of a grid of the same kind: else each number of steps had a program."""
    moved: Any = move.grid
    return move._replace(grid=dataclasses.replace(inputs.grid, t0=moved.t0, dt=moved.dt))


@dataclasses.dataclass(frozen=True)
class PathDerivatives:
    """A function of (moves, ids): each quantity at the end and its derivatives, by name."""

    names: Sequence[str]
    program: DerivativeProgram

    def __call__(self, moves: Moves, ids: np.ndarray) -> dict[str, jax.Array]:
        return dict(zip(self.names, self.program(moves, ids), strict=True))
