"""The derivatives of one path of an ordinary or a stochastic equation, by each method."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from simkit_solvers.derivatives.extra_jump import extra_jump
from simkit_solvers.derivatives.integrate_with_tangents import check_released, integrate_with_tangents
from simkit_solvers.derivatives.smoothing import Smoothing
from simkit_solvers.grids.grid import Grid, TracedGrid
from simkit_solvers.problems.directions import DifferentiatedRows, Direction, Release

from simkit.derivatives.derivative_program import DerivativeProgram, Moves, like, plus
from simkit.ensemble.paths import PathProgram
from simkit.ensemble.simulation import Run


def check_density(paths: PathProgram, inputs: Run, move: Run, release: Release | Smoothing) -> None:
    """Raises `NoDensityError` where derivatives along `move` cannot be released."""

    def checked(inputs, move, path):
        given, directions = run_and_directions(paths, Moves(inputs, (move,)), path)
        check_released(*given, directions, release)

    jax.eval_shape(checked, inputs, move, jax.ShapeDtypeStruct((), jnp.uint32))


def run_and_directions(paths: PathProgram, moves: Moves, path: jax.Array) -> tuple[tuple, list[Direction]]:
    """The run and the directions as the arguments of `integrate_with_tangents`."""
    if not isinstance(paths.run.grid, Grid | TracedGrid):
        raise TypeError("tangents are carried in the loop of a fixed grid only")
    return paths.prepared(moves.inputs, path), directions_of(paths, moves.inputs, moves.first, path)


def directions_of(
    paths: PathProgram, inputs: Run, moves: tuple[Run, ...], path: jax.Array
) -> list[Direction]:
    """How each move changes the arguments of the run of one path."""
    run = paths.combined(inputs)
    problem, observer = run.problem, run.observer
    directions = []
    for move in moves:
        change = eqx.filter_jvp(paths.in_solvers_calculus, (problem,), (like(problem, move.problem),))[1]
        start = paths.start_moved(inputs, move, problem, path)
        start = problem.State(**{name: start.get(name) for name in problem.State._fields})
        moved: Any = move.grid
        directions.append(Direction(change, like(observer, move.observer), start, moved.t0, moved.dt))
    return directions


def smoothed(program: DerivativeProgram, moves: Moves, path: jax.Array) -> DifferentiatedRows:
    """The values, their derivatives along the shifted path, and the weights."""
    given, directions = run_and_directions(program.paths, moves, path)
    return integrate_with_tangents(*given, directions, program.release)


def with_tangents(program: DerivativeProgram, moves: Moves, path: jax.Array) -> DifferentiatedRows:
    """The tangents of the path, carried with it in one loop; with a release the weights times the values."""
    result = smoothed(program, moves, path)
    rows = {name: result.rows[name][-count:] for name, count in program.rows}
    changes: tuple[dict[str, Any], ...] = tuple({} for _ in moves.first)
    for name, count in program.rows:
        for own, change, weight in zip(changes, result.changes, result.weights, strict=True):
            released = 0.0 if program.release is None else rows[name] * weight[-count:]
            own[name] = change[name][-count:] + released
    return DifferentiatedRows(rows, changes, ())


def forward_mode(program: DerivativeProgram, moves: Moves, path: jax.Array) -> DifferentiatedRows:
    """The derivatives by one forward pass each."""
    at = _quantities(program, moves, path)
    zeros = jnp.zeros(len(moves.first), program.paths.precision)
    passes = [jax.jvp(at, (zeros,), (unit,)) for unit in jnp.eye(len(moves.first), dtype=zeros.dtype)]
    return _by_name(program, passes[0][0], [change for _, change in passes])


def forward_of(paths: PathProgram) -> Callable[[DerivativeProgram, Moves, jax.Array], DifferentiatedRows]:
    """How derivatives go forward with such paths: with the steps of a fixed grid, else by passes."""
    return with_tangents if paths.run.grid.known else forward_mode


def reverse_mode(program: DerivativeProgram, moves: Moves, path: jax.Array) -> DifferentiatedRows:
    """The derivatives by one reverse pass for each quantity and row."""
    zeros = jnp.zeros(len(moves.first), program.paths.precision)
    values, back = jax.vjp(_quantities(program, moves, path), zeros)
    gradients = []
    for q, value in enumerate(values):
        rows = []
        for row in range(value.shape[0]):
            seeds = [jnp.zeros_like(x) for x in values]
            seeds[q] = seeds[q].at[row].set(1)
            rows.append(back(tuple(seeds))[0])
        gradients.append(jnp.stack(rows, axis=1))
    return _by_name(program, values, list(zip(*gradients, strict=True)))


def with_extra_jump(program: DerivativeProgram, moves: Moves, path: jax.Array) -> DifferentiatedRows:
    """The tangents of the path, and in addition the derivatives by way of its number of jumps."""
    paths, inputs = program.paths, moves.inputs
    problem = paths.combined(inputs).problem
    times: list[Any] = [move.grid for move in moves.first]
    directions = tuple(
        Direction(like(problem, move.problem), t0=moved.t0, dt=moved.dt)
        for move, moved in zip(moves.first, times, strict=True)
    )
    _, solver, y0, grid, noise, observer = paths.prepared(inputs, path)
    _, missing = extra_jump(problem, solver, y0, grid, noise, inputs.key, path, observer, directions)
    result = with_tangents(program, moves, path)
    pairs = zip(result.changes, missing, strict=True)
    changes = tuple({name: x + more[name] for name, x in change.items()} for change, more in pairs)
    return result._replace(changes=changes)


def _quantities(program: DerivativeProgram, moves: Moves, path: jax.Array) -> Callable:
    """The quantities as functions of how far to go along each direction."""

    def at(steps):
        inputs = moves.inputs
        for i, move in enumerate(moves.first):
            inputs = plus(inputs, move, steps[i])
        rows = program.paths.one_path(inputs, path)
        return tuple(rows[name][-count:] for name, count in program.rows)

    return at


def _by_name(program: DerivativeProgram, values, changes) -> DifferentiatedRows:
    named = [dict(zip((name for name, _ in program.rows), each, strict=True)) for each in (values, *changes)]
    return DifferentiatedRows(named[0], tuple(named[1:]), ())
