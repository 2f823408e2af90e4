r"""Derivatives of ordinary equations and their error, which is that of steps alone.

On adaptive steps they are solved for beside the state, to the same tolerances, since the steps that the state
alone needs may be too long for them. How far they are off is measured: by the same program with tolerances a
tenth as large, or on steps of fixed length by one with twice as many.
"""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from simkit_solvers.derivatives.forward_sensitivity import forward_sensitivities
from simkit_solvers.grids.grid import Grid
from simkit_solvers.loops.compensated import loses_float32
from simkit_solvers.methods.registry import info_of
from simkit_solvers.numerics.tangents import as_tangent
from simkit_solvers.problems.directions import Direction
from simkit_solvers.problems.observe import AbstractObserver
from simkit_solvers.problems.problem import AbstractSDE
from simkit_solvers.problems.schedule import schedule_of

from simkit.ensemble.paths import PathProgram
from simkit.ensemble.simulation import Run, Simulation
from simkit.observe.observer import Observer

TIGHTER = 0.1  # tolerances, of the run that shows the error: its own is an order of magnitude less
RESOLUTIONS = 8  # no tolerance is finer than so many units in the last place


def is_ordinary_and_adaptive(simulation: Simulation) -> bool:
    """Whether tolerances are what decides how exact the paths of a run are."""
    return simulation.grid.tolerances is not None and not isinstance(simulation.problem, AbstractSDE)


def with_half_steps(simulation: Simulation) -> Simulation | None:
    """The same run with twice as many steps, where steps of fixed length decide how exact its paths are."""
    grid, whole = simulation.grid, simulation.bind
    if grid.steps is None or isinstance(simulation.problem, AbstractSDE) or whole is None:
        return None
    if loses_float32(simulation.solver, simulation.precision, 2 * grid.steps):
        return None

    def bind(*given):
        bound = whole(*given)
        return bound._replace(observer=_on_half_steps(bound.observer), grid=_halved(bound.grid))

    observer = _on_half_steps(simulation.observer)
    return dataclasses.replace(simulation, grid=_halved(grid), observer=observer, bind=bind)


def _halved(grid: Any) -> Grid:
    return Grid(grid.t0, grid.dt / 2, 2 * grid.steps, 2 * grid.every)


def _on_half_steps(observer: AbstractObserver) -> AbstractObserver:
    """What looks at every step looks at all of the new ones; other dates stay."""
    finer = observer.refined(2)
    if not isinstance(observer, Observer) or not isinstance(finer, Observer):
        return finer
    pairs = zip(observer.observables, finer.observables, strict=True)
    looking = tuple(dataclasses.replace(new, every=new.every if old.every else None) for old, new in pairs)
    return dataclasses.replace(finer, observables=looking)


def has_equations(simulation: Simulation, move: Run) -> bool:
    """Whether a derivative has an equation to be solved beside the run's.

    Not where the target moves the times themselves, nor for a problem with a schedule, whose derivatives jump
    at its events.
    """
    plain = schedule_of(simulation.problem) is None and not jax.tree.leaves(move.grid)
    return is_ordinary_and_adaptive(simulation) and plain


def solved_beside(
    paths: PathProgram, inputs: Run, moves: tuple[Run, ...], sizes: tuple[jax.Array, ...], path
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The rows of one path by name, and their derivatives along each move.

    `sizes` are those of the targets: what is solved for is their product with the derivative, which is of the
    size of the variables, as `atol` is. An explicit solver steps through all equations as one system. For an
    implicit one, whose work grows as the cube of the variables, each direction is a system with the state.
    """
    whole = paths.combined(inputs)
    problem, observer, grid = whole.problem, whole.observer, whole.grid
    solver, y0 = paths.solver, paths.start(inputs, problem, path)
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

    if info_of(solver).stiff:
        stacked = jax.tree.map(lambda *x: jnp.stack(x), *directions)
        rows, (slopes,) = jax.vmap(solved)(stacked)
        rows = jax.tree.map(lambda x: x[0], rows)
        each = [jax.tree.map(lambda x, i=i: x[i], slopes) for i in range(len(directions))]
    else:
        rows, each = solved(*directions)
    return rows, [
        jax.tree.map(lambda x, s=size: x / s, slope) for slope, size in zip(each, sizes, strict=True)
    ]


def with_tighter_tolerances(inputs: Run, precision: str) -> Run:
    """The inputs of the same program for the run that shows the error."""
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
