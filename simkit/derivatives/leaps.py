"""The error of leaps in derivatives: the same estimator on coupled paths with leaps of several lengths.

Estimators of one derivative have different biases. Two copies that fire together leap together too, a score
holds the lengths of its leaps, and differences see them change: each is a derivative of the method's own bias
or lacks a part of it. So each has coupled paths of its own (`coupled_leaps`): of the network of both copies,
with the scores of all paths, or at all points of the differences.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from simkit_solvers.derivatives.jump_sensitivity import coupled_copies
from simkit_solvers.loops.coupled_leaps import coupled_leaps
from simkit_solvers.methods.registry import info_of

from simkit.derivatives.chunks import workers_of_levels
from simkit.derivatives.derivative_program import Moves, PathEstimator
from simkit.derivatives.differentiated_run import DifferentiatedRun
from simkit.derivatives.network_derivatives import copies, network_and_directions, scores
from simkit.ensemble.chunks import Chunk, Chunks, leaf_by_leaf
from simkit.ensemble.over_chunks import concatenated
from simkit.ensemble.paths import PathProgram, path_program
from simkit.ensemble.programs import Request, compiled
from simkit.ensemble.simulation import Run, Simulation
from simkit.ensemble.step_bias.coupled_steps import MOST_BIAS_PATHS, PART_OF_WORK
from simkit.ensemble.step_bias.leap_bias import LONGER, SHORTER, LeapProgram, coupled_paths
from simkit.machine.on_each_device import local_devices


@dataclasses.dataclass(frozen=True)
class Leaps:
    """Derivatives on coupled paths with the leaps of a run, and others `factors` times as long.

    The program is called with each of `given`, and `combined` makes of the results the values of each
    derivative's estimator by path, `(1 + factors, paths)`.
    """

    simulation: Simulation
    program: Callable
    given: Sequence[Any]
    combined: Callable[[list[Any]], list[np.ndarray]]
    factors: tuple[float, ...] = LONGER

    @property
    def shorter(self) -> "Leaps":
        """This comparison with leaps half and a quarter as long."""
        return dataclasses.replace(self, factors=SHORTER)

    @property
    def paths(self) -> int:
        """The number of paths that a fraction of the work of the run allows."""
        return coupled_paths(self.simulation.paths, self.factors, PART_OF_WORK, MOST_BIAS_PATHS)

    @property
    def plan(self) -> Chunks:
        """The chunks of these paths."""
        return leaf_by_leaf(self.paths)

    @property
    def request(self) -> Request:
        """The program, for a leaf of the paths."""
        lengths = jnp.asarray((1.0, *self.factors), jnp.float64)
        return Request(self.program, ((self.given[0], lengths), self.plan.ids()), local_devices(1))

    def values(self) -> list[np.ndarray]:
        """The values of each derivative's estimator."""
        (program,), _ = compiled(self.request)
        (_, lengths), _ = self.request.arguments

        def work(given: Any, chunk: Chunk) -> Any:
            return jax.tree.map(_by_path, program((given, lengths), chunk.ids))

        workers = workers_of_levels(self.simulation)
        return self.combined(concatenated(work, self.given, self.plan, workers))


@dataclasses.dataclass(frozen=True)
class LeapDerivatives:
    """A function of ((moves, factors), ids): numbers of each coupled path, `(factors, leaves, lanes)`.

    The differences of copies by direction and name. With `scored` the values by name, and for each direction
    the score, followed by the derivatives of the values with the counts held fixed.
    """

    paths: PathProgram
    names: tuple[str, ...]
    scored: bool

    def __call__(self, given, ids):
        return self.paths.each(self._scored if self.scored else self._copies)(given, ids)

    def _copies(self, given, path) -> tuple:
        moves, factors = given
        _, method, y0, grid, _, _ = self.paths.prepared(moves.inputs, path)
        result = []
        for sides, step in zip(copies(self.paths, moves, path), moves.steps, strict=True):
            pair, watch = coupled_copies(sides)
            start = pair.paired(y0, y0)
            ends = coupled_leaps(pair, method, factors, start, grid, moves.inputs.key, path, watch).ends
            high, low = ends["first"], ends["second"]
            result += [(high[name] - low[name]) / (2 * step.astype(jnp.float64)) for name in self.names]
        return tuple(result)

    def _scored(self, given, path) -> tuple:
        moves, factors = given
        (network, method, y0, grid, _, observer), directions = network_and_directions(self.paths, moves, path)
        key = moves.inputs.key
        leaps = coupled_leaps(network, method, factors, y0, grid, key, path, observer, directions)
        result = [leaps.ends[name] for name in self.names]
        for score, explicit in zip(leaps.scores, leaps.explicit, strict=True):
            result += [score, *(explicit[name] for name in self.names)]
        return tuple(result)


def leaps_of_derivatives(
    run: DifferentiatedRun, estimate: PathEstimator, moves: Moves, pairs: Sequence[tuple[str, int]]
) -> Leaps | None:
    """The leaps of copies or scores, for pairs of a quantity and a move; None where paths do not leap."""
    if not info_of(run.simulation.solver).leaps:
        return None
    names = list(dict.fromkeys(name for name, _ in pairs))
    by_move = _scored if estimate is scores else _differences

    def combined(result: list[tuple[np.ndarray, ...]]) -> list[np.ndarray]:
        each = by_move(result[0], len(names))
        return [each[i][names.index(name)] for name, i in pairs]

    program = LeapDerivatives(_program(run), tuple(names), estimate is scores)
    return Leaps(run.simulation, program, (moves,), combined)


def leaps_of_differences(
    run: DifferentiatedRun, given: Sequence[Run], weights: Sequence[float], names: Sequence[str]
) -> Leaps | None:
    """The leaps of differences of the runs with the inputs `given`; None where paths do not leap."""
    if not info_of(run.simulation.solver).leaps:
        return None

    def combined(result: list[dict[str, np.ndarray]]) -> list[np.ndarray]:
        pairs = list(zip(weights, result, strict=True))
        return [sum((w * ends[name] for w, ends in pairs), np.zeros(1)) for name in names]

    return Leaps(run.simulation, LeapProgram(_program(run)), given, combined)


def _program(run: DifferentiatedRun) -> PathProgram:
    """The program of the run's paths."""
    return path_program(run.simulation, run.simulation.grid)[0]


def _by_path(array) -> np.ndarray:
    return np.asarray(array).reshape(len(array), -1)


def _differences(result: Sequence[np.ndarray], names: int) -> list[Sequence[np.ndarray]]:
    """The differences by direction and name."""
    return [result[i : i + names] for i in range(0, len(result), names)]


def _scored(result: Sequence[np.ndarray], names: int) -> list[list[np.ndarray]]:
    """The likelihood ratio by direction and name, values less their mean."""
    values, rest = result[:names], result[names:]
    with np.errstate(invalid="ignore"):
        centred = [(x - np.nanmean(x, 1, keepdims=True)) * (x.shape[1] / (x.shape[1] - 1)) for x in values]
    return [
        [x * score + held for x, held in zip(centred, explicit, strict=True)]
        for score, *explicit in _differences(rest, 1 + names)
    ]
