r"""Derivatives of ordinary equations on adaptive steps: solved for beside the state, to the same tolerances.

The steps that the state alone needs may be too long for its derivatives. How far these are off is measured:
the same program runs once more with tolerances a tenth as large.
"""

from typing import Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
from simkit_solvers.adaptive_grid import AdaptiveGrid
from simkit_solvers.directions import Direction
from simkit_solvers.forward_sensitivity import forward_sensitivities
from simkit_solvers.problem import AbstractSDE
from simkit_solvers.rosenbrock import AbstractRosenbrock
from simkit_solvers.schedule import schedule_of
from simkit_solvers.tangents import as_tangent

from simkit.paths import Inputs, PathProgram
from simkit.simulation import Simulation

TIGHTER = 0.1  # tolerances, of the run that tells the error: its own is an order of magnitude less
RESOLUTIONS = 8  # no tolerance is finer than so many units in the last place


def is_ordinary_and_adaptive(simulation: Simulation) -> bool:
    """Whether tolerances are what decides how exact the paths of a run are."""
    return isinstance(simulation.grid, AdaptiveGrid) and not isinstance(simulation.problem, AbstractSDE)


def has_equations(simulation: Simulation, move: Inputs) -> bool:
    """Whether a derivative has an equation to be solved beside the run's.

    Not where the target moves the times themselves, nor for a problem with a schedule, whose derivatives jump
    at its events.
    """
    plain = schedule_of(simulation.problem) is None and not jax.tree.leaves(move.grid)
    return is_ordinary_and_adaptive(simulation) and plain


def solved_beside(
    paths: PathProgram, inputs: Inputs, moves: tuple[Inputs, ...], sizes: tuple[jax.Array, ...], path
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The rows of one path by name, and their derivatives along each move.

    `sizes` are those of the targets: what is solved for is their product with the derivative, which is of the
    size of the variables, as `atol` is. An explicit solver steps through all equations as one system. For an
    implicit one, whose work grows as the cube of the variables, each direction is a system with the state.
    """
    problem, observer, grid = paths.combined(inputs)
    solver, y0 = paths.parts.tree[3], paths.start(inputs, problem, path)
    dtype = jnp.dtype(paths.precision)

    def tangent(tree, move, size):
        empty = jax.tree.map(lambda _: None, tree)
        whole = eqx.combine(move, empty, is_leaf=lambda x: x is None)
        return jax.tree.map(lambda x: size * x, as_tangent(tree, whole, dtype))

    def start_moved(move):
        moved = paths.start_moved(inputs, move, problem, path)
        return problem.State(**{name: moved.get(name) for name in y0._fields})

    directions = [
        Direction(
            tangent(problem, move.problem, size),
            tangent(observer, move.observer, size),
            tangent(y0, start_moved(move), size),
        )
        for move, size in zip(moves, sizes, strict=True)
    ]

    def solved(*directions):
        run = forward_sensitivities(problem, solver, y0, grid, observer, directions)
        return run.rows, run.derivatives

    if isinstance(solver, diffrax.AbstractImplicitSolver | AbstractRosenbrock):
        stacked = jax.tree.map(lambda *x: jnp.stack(x), *directions)
        rows, (slopes,) = jax.vmap(solved)(stacked)
        rows = jax.tree.map(lambda x: x[0], rows)
        each = [jax.tree.map(lambda x, i=i: x[i], slopes) for i in range(len(directions))]
    else:
        rows, each = solved(*directions)
    return rows, [
        jax.tree.map(lambda x, s=size: x / s, slope) for slope, size in zip(each, sizes, strict=True)
    ]


def with_tighter_tolerances(inputs: Inputs, precision: str) -> Inputs:
    """The inputs of the same program for the run that tells the error."""
    tolerances: Any = inputs.grid
    finest = RESOLUTIONS * float(jnp.finfo(precision).eps)
    tighter = eqx.tree_at(
        lambda t: (t.rtol, t.atol),
        tolerances.tolerances,
        (
            jnp.maximum(TIGHTER * tolerances.tolerances.rtol, jnp.asarray(finest, precision)),
            TIGHTER * tolerances.tolerances.atol,
        ),
    )
    return inputs._replace(grid=eqx.tree_at(lambda g: g.tolerances, tolerances, tighter))
