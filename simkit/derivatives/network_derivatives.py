"""The derivatives of one path of a reaction network, by each method."""

import jax
from simkit_solvers.derivatives.jump_sensitivity import (
    Copy,
    difference_of_copies,
    girsanov,
    weak_derivative,
)
from simkit_solvers.problems.directions import DifferentiatedRows, Direction

from simkit.derivatives.derivative_program import DerivativeProgram, Moves, like
from simkit.ensemble.paths import PathProgram
from simkit.observe.observer import Observer


def network_and_directions(
    paths: PathProgram, moves: Moves, path: jax.Array
) -> tuple[tuple, tuple[Direction, ...]]:
    """The run and the directions as the arguments of the functions of jump processes."""
    run = network, *_, observer = paths.prepared(moves.inputs, path)
    directions = tuple(
        Direction(like(network, move.problem), like(observer, move.observer)) for move in moves.first
    )
    return run, directions


def copies(paths: PathProgram, moves: Moves, path: jax.Array) -> list[list[Copy]]:
    """Network and observer a step above each target, and a step below."""
    prepared = ([paths.prepared(inputs, path) for inputs in sides] for sides in moves.sides)
    return [[(network, observer) for network, *_, observer in sides] for sides in prepared]


def scores(program: DerivativeProgram, moves: Moves, path: jax.Array) -> DifferentiatedRows:
    """The values, their derivatives with the counts held fixed, and the scores."""
    given, directions = network_and_directions(program.paths, moves, path)
    return girsanov(*given, directions).differentiated_rows


def coupled_differences(program: DerivativeProgram, moves: Moves, path: jax.Array) -> DifferentiatedRows:
    """Differences of two copies of a network that fire together where they can."""
    _, method, y0, grid, noise, _ = program.paths.prepared(moves.inputs, path)
    pairs = zip(copies(program.paths, moves, path), moves.steps, strict=True)
    result = [difference_of_copies(sides, method, y0, grid, noise, step) for sides, step in pairs]
    return DifferentiatedRows(result[0].rows, tuple(each.derivatives[0] for each in result), ())


def one_more_event(program: DerivativeProgram, moves: Moves, path: jax.Array) -> DifferentiatedRows:
    """The values, and what one more event at a random time would have changed.

    The copies see the end alone, so an observable of the path, which is not derived here, is left out.
    """
    run, directions = network_and_directions(program.paths, moves, path)
    network, method, y0, grid, _, observer = run
    if isinstance(observer, Observer):
        names = {name for name, _ in program.rows}
        observer = observer.only(names)
        directions = tuple(each._replace(observer=each.observer.only(names)) for each in directions)
    result = weak_derivative(network, method, y0, grid, moves.inputs.key, path, observer, directions)
    return DifferentiatedRows(result.rows, result.derivatives, ())
