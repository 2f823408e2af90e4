"""Programs that simulate paths and their derivatives: what they give is a number per path, to be averaged."""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from simkit_solvers.derivatives.extra_jump import extra_jump
from simkit_solvers.derivatives.integrate_along import check_released, integrate_along, integrate_along_twice
from simkit_solvers.derivatives.jump_sensitivity import finite_difference, girsanov, weak_derivative
from simkit_solvers.derivatives.smoothing import Smoothing
from simkit_solvers.grids.grid import Grid
from simkit_solvers.methods.jump.jump_method import JumpNoise
from simkit_solvers.problems.directions import Direction, Release

from simkit.derivatives.error_controlled import solved_beside
from simkit.ensemble.initial import Distribution, given_value
from simkit.ensemble.paths import PathProgram
from simkit.ensemble.simulation import Run
from simkit.observe.observer import Observer

Rows = tuple[tuple[str, int], ...]


class Moves(NamedTuple):
    """Inputs, how they move along each direction, and along pairs of directions.

    `steps` are how far to go where differences are taken, and the sizes of the targets for equations.
    """

    inputs: Run
    first: tuple[Run, ...]
    second: tuple[Run, ...] = ()
    steps: tuple[jax.Array, ...] = ()


Estimate = Callable[["DerivativeProgram", Moves, Any], tuple[jax.Array, ...]]


@dataclasses.dataclass(frozen=True)
class DerivativeProgram:
    """A function of (moves, ids): each quantity, then its derivative along each direction.

    Arrays `(rows, leaves, lanes)`, quantity by quantity, each followed by its derivatives. `estimate` gives
    those of a path: one of the functions below. `release` says where derivatives become weights.
    """

    paths: PathProgram
    rows: Rows
    estimate: Estimate
    release: Release | Smoothing | None = None

    def __call__(self, moves: Moves, ids) -> tuple[jax.Array, ...]:
        def one(moves: Moves, path):
            return self.estimate(self, moves, path)

        result = self.paths.each(one)(moves, ids)
        joined = self.estimate not in TO_BE_JOINED
        return result if joined else _centred(result, len(self.rows), len(moves.first))


@dataclasses.dataclass(frozen=True)
class SecondProgram:
    """A function of (moves, ids): for each pair (i, j) the derivative along j of that along i, by quantity.

    The estimator of the first is differentiated along the path: with `release` that is a weight times the
    value and what is left of the pathwise derivative, which may have kinks where the value has them, no more.
    """

    paths: PathProgram
    rows: Rows
    pairs: tuple[tuple[int, int], ...]
    estimate: Estimate
    release: Release | None = None

    def __call__(self, moves: Moves, ids) -> tuple[jax.Array, ...]:
        first = DerivativeProgram(self.paths, self.rows, self.estimate, self.release)

        def one(moves: Moves, path):
            result = []
            for (i, j), both in zip(self.pairs, moves.second, strict=True):

                def at(step, i=i, j=j, both=both):
                    inputs = _plus(moves.inputs, moves.first[j], step)
                    direction = _plus(moves.first[i], both, step)
                    return self.estimate(first, Moves(inputs, (direction,)), path)

                zero = jnp.zeros((), self.paths.precision)
                _, change = jax.jvp(at, (zero,), (zero + 1,))
                result.append(change[1::2])
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
            given, directions = _given(self.paths, moves, path)
            result = []
            for (i, j), both in zip(self.pairs, moves.second, strict=True):
                second = self._second(moves, i, j, both, path)
                result.append(
                    integrate_along_twice(*given, (directions[i], directions[j], second), self.smoothings)
                )
            values: list[jax.Array] = []
            for name, count in self.rows:
                for kept in result:
                    values += [kept.rows[name][-count:], kept.changes[0][name][-count:]]
                    values.append(kept.weights[0][-count:])
            return tuple(values)

        result = self.paths.each(one)(moves, ids)
        return _centred(result, len(self.rows) * len(self.pairs), 1)[1::2]

    def _second(self, moves: Moves, i: int, j: int, both: Run, path) -> Direction:
        """How the direction i changes along j: that of the numbers, and of how they make initial values."""

        def start(step):
            inputs, direction = _plus(moves.inputs, moves.first[j], step), _plus(moves.first[i], both, step)
            problem = self.paths.combined(inputs).problem
            moved = self.paths.start_moved(inputs, direction, problem, path)
            return {name: x for name, x in moved.items() if isinstance(inputs.initial[name], Distribution)}

        zero = jnp.zeros((), self.paths.precision)
        (direction,) = _directions(self.paths, moves.inputs, (both,), path)
        return direction._replace(y0=direction.y0._replace(**jax.jvp(start, (zero,), (zero + 1,))[1]))


def check_density(paths: PathProgram, inputs: Run, move: Run, release: Release | Smoothing) -> None:
    """Raises `NoDensityError` where derivatives along `move` cannot be released."""

    def checked(inputs, move, path):
        given, directions = _given(paths, Moves(inputs, (move,)), path)
        check_released(*given, directions, release)

    jax.eval_shape(checked, inputs, move, jax.ShapeDtypeStruct((), jnp.uint32))


def _given(paths: PathProgram, moves: Moves, path) -> tuple[tuple, list[Direction]]:
    """What `integrate_along` is given: the run, and the directions."""
    inputs = moves.inputs
    whole = paths.combined(inputs)
    problem, observer, grid = whole.problem, whole.observer, whole.grid
    if not isinstance(grid, Grid):
        raise TypeError("derivatives ride along the loop of a fixed grid only")
    y0, noise = paths.start(inputs, problem, path), paths.noise(inputs, problem, path)
    run = (paths.in_solvers_calculus(problem), paths.solver, y0, grid, noise, observer)
    return run, _directions(paths, inputs, moves.first, path)


def _directions(paths: PathProgram, inputs: Run, moves: tuple[Run, ...], path) -> list[Direction]:
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


def smoothed(program: DerivativeProgram, moves: Moves, path) -> tuple[jax.Array, ...]:
    """The values, their derivatives along the shifted path, and the weights: still to be joined."""
    given, directions = _given(program.paths, moves, path)
    result = integrate_along(*given, directions, program.release)
    values: list[jax.Array] = []
    for name, count in program.rows:
        values.append(result.rows[name][-count:])
        values += [change[name][-count:] for change in result.changes]
        values += [weight[-count:] for weight in result.weights]
    return tuple(values)


def along(program: DerivativeProgram, moves: Moves, path) -> tuple[jax.Array, ...]:
    """The derivatives beside the path, in one loop."""
    given, directions = _given(program.paths, moves, path)
    result = integrate_along(*given, directions, program.release)
    values: list[jax.Array] = []
    for name, count in program.rows:
        rows = result.rows[name][-count:]
        values.append(rows)
        for change, weight in zip(result.changes, result.weights, strict=True):
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


def equations(program: DerivativeProgram, moves: Moves, path) -> tuple[jax.Array, ...]:
    """The derivatives by equations of their own."""
    rows, slopes = solved_beside(program.paths, moves.inputs, moves.first, moves.steps, path)
    return tuple(each[name][-count:] for name, count in program.rows for each in (rows, *slopes))


def reverse(program: DerivativeProgram, moves: Moves, path) -> tuple[jax.Array, ...]:
    """The derivatives by one reverse pass for each quantity and row."""
    at = _at(program, moves, path)
    zeros = jnp.zeros(len(moves.first), program.paths.precision)
    values, back = jax.vjp(at, zeros)
    result: list[jax.Array] = []
    for q, value in enumerate(values):
        gradients = []
        for row in range(value.shape[0]):
            seeds = [jnp.zeros_like(x) for x in values]
            seeds[q] = seeds[q].at[row].set(1)
            gradients.append(back(tuple(seeds))[0])
        result += [value, *jnp.stack(gradients, axis=1)]
    return tuple(result)


def with_extra_jump(program: DerivativeProgram, moves: Moves, path) -> tuple[jax.Array, ...]:
    """The derivatives along the path, and beside them those of its number of jumps."""
    paths, inputs = program.paths, moves.inputs
    whole = paths.combined(inputs)
    problem, observer, grid = whole.problem, whole.observer, whole.grid
    times: list[Any] = [move.grid for move in moves.first]
    directions = tuple(
        Direction(like(problem, move.problem), t0=moved.t0, dt=moved.dt)
        for move, moved in zip(moves.first, times, strict=True)
    )
    noise: Any = paths.noise(inputs, problem, path)
    y0 = paths.start(inputs, problem, path)
    solver = paths.solver
    _, missing = extra_jump(problem, solver, y0, grid, noise, inputs.key, path, observer, directions)
    result = list(along(program, moves, path))
    width = 1 + len(directions)
    for q, (name, count) in enumerate(program.rows):
        for i, more in enumerate(missing):
            result[q * width + 1 + i] = result[q * width + 1 + i] + more[name][-count:]
    return tuple(result)


def network_of(paths: PathProgram, moves: Moves, path) -> tuple:
    """What the functions of jump processes are given, and the directions."""
    whole = paths.combined(moves.inputs)
    network, observer, grid = whole.problem, whole.observer, whole.grid
    start = {name: given_value(x, path).astype(jnp.int32) for name, x in moves.inputs.initial.items()}
    directions = tuple(
        Direction(like(network, move.problem), like(observer, move.observer)) for move in moves.first
    )
    noise = JumpNoise.of(moves.inputs.key, path)
    method = paths.solver
    return (network, method, network.State(**start), grid, noise, observer), directions


def counts(program: DerivativeProgram, moves: Moves, path) -> tuple[jax.Array, ...]:
    """The values, their derivatives with the counts held fixed, and the scores: still to be joined."""
    given, directions = network_of(program.paths, moves, path)
    result = girsanov(*given, directions).along
    values: list[jax.Array] = []
    for name, count in program.rows:
        values.append(result.rows[name][-count:])
        values += [change[name][-count:] for change in result.changes]
        values += [score[-count:] for score in result.weights]
    return tuple(values)


TO_BE_JOINED = (smoothed, counts)  # whose weights multiply values less their mean


def _centred(result: tuple[jax.Array, ...], quantities: int, directions: int) -> tuple[jax.Array, ...]:
    """Values, and their derivatives by the likelihood ratio, with values less the mean of a leaf."""
    values: list[jax.Array] = []
    width = 1 + 2 * directions
    for q in range(quantities):
        value, *rest = result[q * width : (q + 1) * width]
        lanes = value.shape[-1]
        middle = jnp.nanmean(value, axis=-1, keepdims=True)
        deviation = (value - middle) * (lanes / (lanes - 1))
        values.append(value)
        values += [rest[i] + deviation * rest[directions + i] for i in range(directions)]
    return tuple(values)


def coupled(program: DerivativeProgram, moves: Moves, path) -> tuple[jax.Array, ...]:
    """Differences of two copies of a network that fire together where they can."""
    given, directions = network_of(program.paths, moves, path)
    result = [
        finite_difference(*given, direction, step)
        for direction, step in zip(directions, moves.steps, strict=True)
    ]
    values: list[jax.Array] = []
    for name, count in program.rows:
        values.append(result[0].rows[name][-count:])
        values += [each.derivatives[0][name][-count:] for each in result]
    return tuple(values)


def one_event_more(program: DerivativeProgram, moves: Moves, path) -> tuple[jax.Array, ...]:
    """The values, and what one event more at a random time would have changed.

    The copies see the end alone, so an observable of the path, which is not derived here, is left out.
    """
    (network, method, y0, grid, _, observer), directions = network_of(program.paths, moves, path)
    if isinstance(observer, Observer):
        names = {name for name, _ in program.rows}
        observer = observer.only(names)
        directions = tuple(each._replace(observer=each.observer.only(names)) for each in directions)
    result = weak_derivative(network, method, y0, grid, moves.inputs.key, path, observer, directions)
    return tuple(
        each[name][-count:] for name, count in program.rows for each in (result.rows, *result.derivatives)
    )


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
