"""Sensitivity equations of ordinary equations on adaptive steps, solved together with the state.

To the same tolerances, since the steps that the state alone needs may be too long for them.
"""

from typing import Any

import jax
import jax.numpy as jnp
from simkit_solvers.derivatives.forward_sensitivity import forward_sensitivities
from simkit_solvers.methods.registry import info_of
from simkit_solvers.numerics.tangents import as_tangent
from simkit_solvers.problems.directions import DifferentiatedRows, Direction
from simkit_solvers.problems.schedule import schedule_of

from simkit.derivatives.derivative_program import DerivativeProgram, Moves, like
from simkit.ensemble.simulation import Run, Simulation


def has_equations(simulation: Simulation, move: Run) -> bool:
    """Whether a derivative has an equation to be solved together with the run's.

    Not where the target moves the times themselves, nor for a problem with a schedule, whose derivatives jump
    at its events.
    """
    plain = schedule_of(simulation.problem) is None and not jax.tree.leaves(move.grid)
    return simulation.stepping.exact_by == "tolerances" and plain


def sensitivity_equations(program: DerivativeProgram, moves: Moves, path: jax.Array) -> DifferentiatedRows:
    """The derivatives by equations of their own.

    `moves.steps` are the sizes of the targets: what is solved for is their product with the derivative, which
    is of the size of the variables, as `atol` is. An explicit solver steps through all equations as one
    system. For an implicit one, whose work grows as the cube of the variables, each direction and the state
    are a system.
    """
    paths, inputs, sizes = program.paths, moves.inputs, moves.steps
    problem, solver, y0, grid, _, observer = paths.prepared(inputs, path)
    dtype = jnp.dtype(paths.precision)

    def tangent(tree, move, size):
        return jax.tree.map(lambda x: size * x, as_tangent(tree, like(tree, move), dtype))

    def start_moved(move):
        moved = paths.start_moved(inputs, move, problem, path)
        return problem.State(**{name: moved.get(name) for name in y0._fields})

    directions = [
        Direction(
            tangent(problem, move.problem, size),
            tangent(observer, move.observer, size),
            tangent(y0, start_moved(move), size),
        )
        for move, size in zip(moves.first, sizes, strict=True)
    ]

    def solved(*directions) -> tuple[dict[str, Any], tuple[dict[str, Any], ...]]:
        run = forward_sensitivities(problem, solver, y0, grid, observer, directions)
        return run.rows, run.derivatives

    if info_of(solver).stiff:
        stacked = jax.tree.map(lambda *x: jnp.stack(x), *directions)
        rows, (slopes,) = jax.vmap(solved)(stacked)
        rows = jax.tree.map(lambda x: x[0], rows)
        each = [jax.tree.map(lambda x, i=i: x[i], slopes) for i in range(len(directions))]
    else:
        rows, each = solved(*directions)
    pairs = zip(each, sizes, strict=True)
    return DifferentiatedRows(
        rows, tuple(jax.tree.map(lambda x, s=s: x / s, slope) for slope, s in pairs), ()
    )
