"""What leaps leave in derivatives: the same estimator on coupled paths with leaps of several lengths.

Estimators of one derivative do not share their bias. Two copies that fire together leap together too, a score
holds the lengths of its leaps, and differences see them change: each is a derivative of the method's own bias
or lacks a part of it. So each has coupled paths of its own (`coupled_leaps`): of the network of both copies,
with the scores of all paths, or at all points of the differences.
"""

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from simkit_solvers.derivatives.jump_sensitivity import coupled_copies
from simkit_solvers.loops.coupled_leaps import coupled_leaps
from simkit_solvers.methods.registry import info_of

from simkit.derivatives.derivative_program import Estimate, Moves, counts, network_of
from simkit.derivatives.estimator import Selection
from simkit.derivatives.facts import Facts
from simkit.ensemble.chunks import LEAF, path_ids
from simkit.ensemble.paths import PathProgram, path_program
from simkit.ensemble.programs import Request
from simkit.ensemble.simulation import Run, Simulation
from simkit.ensemble.step_bias.coupled_steps import MOST_BIAS_PATHS, PART_OF_WORK
from simkit.ensemble.step_bias.leap_bias import LONGER, SHORTER, LeapProgram, coupled_paths
from simkit.ensemble.work import in_order, workers_on
from simkit.machine.on_each_device import local_devices

Values = dict[Selection, np.ndarray]


@dataclasses.dataclass(frozen=True)
class Leaps:
    """Derivatives on coupled paths with the leaps of a run, and others `factors` times as long.

    The program is called with each of `given`, and `combined` makes of what it gives the estimator on each
    path, `(1 + factors, paths)`.
    """

    simulation: Simulation
    program: Callable
    given: Sequence[Any]
    combined: Callable[[list[Any]], Values]
    factors: tuple[float, ...] = LONGER

    @property
    def shorter(self) -> "Leaps":
        """The same with leaps half and a quarter as long."""
        return dataclasses.replace(self, factors=SHORTER)

    @property
    def paths(self) -> int:
        """As many as a part of the work of the run allows."""
        return coupled_paths(self.simulation.paths, self.factors, PART_OF_WORK, MOST_BIAS_PATHS)

    @property
    def request(self) -> Request:
        """The program, for a leaf of the paths."""
        lengths = jnp.asarray((1.0, *self.factors), jnp.float64)
        ids = path_ids(0, 1, min(LEAF, self.paths))
        return Request(self.program, ((self.given[0], lengths), ids), local_devices(1))

    def values(self, run: Callable) -> Values:
        """By the compiled program."""
        (_, lengths), ids = self.request.arguments
        firsts = range(0, self.paths, ids.size)

        def work(unit: tuple[int, int]) -> Any:
            number, first = unit
            return jax.tree.map(_by_path, run((self.given[number], lengths), path_ids(first, *ids.shape)))

        units = itertools.product(range(len(self.given)), firsts)
        leaves = list(in_order(work, units, workers_on(local_devices(1), self.simulation.threads)))
        each = [leaves[i : i + len(firsts)] for i in range(0, len(leaves), len(firsts))]
        return self.combined([jax.tree.map(lambda *xs: np.concatenate(xs, 1), *some) for some in each])


@dataclasses.dataclass(frozen=True)
class LeapDerivatives:
    """A function of ((moves, factors), ids): numbers of each coupled path, `(factors, leaves, lanes)`.

    The differences of copies by direction and name. With `scores` the values by name, and for each direction
    the score, followed by the derivatives of the values with the counts held fixed.
    """

    paths: PathProgram
    names: tuple[str, ...]
    scores: bool

    def __call__(self, given, ids):
        return self.paths.each(self._scored if self.scores else self._copies)(given, ids)

    def _copies(self, given, path) -> tuple:
        moves, factors = given
        (network, method, y0, grid, _, observer), directions = network_of(self.paths, moves, path)
        result = []
        for direction, step in zip(directions, moves.steps, strict=True):
            pair, watch = coupled_copies(network, grid, observer, direction, step)
            start = pair.joined(y0, y0)
            ends = coupled_leaps(pair, method, factors, start, grid, moves.inputs.key, path, watch).ends
            high, low = ends["first"], ends["second"]
            result += [(high[name] - low[name]) / (2 * step.astype(jnp.float64)) for name in self.names]
        return tuple(result)

    def _scored(self, given, path) -> tuple:
        moves, factors = given
        (network, method, y0, grid, _, observer), directions = network_of(self.paths, moves, path)
        key = moves.inputs.key
        run = coupled_leaps(network, method, factors, y0, grid, key, path, observer, directions)
        result = [run.ends[name] for name in self.names]
        for score, explicit in zip(run.scores, run.explicit, strict=True):
            result += [score, *(explicit[name] for name in self.names)]
        return tuple(result)


def leaps_along(
    facts: Facts, estimate: Estimate, moves: Moves, numbers: Sequence[int], group: Sequence[Selection]
) -> Leaps | None:
    """Those of copies or scores in the targets `numbers`; None where paths do not leap."""
    if not info_of(facts.simulation.solver).leaps:
        return None
    names = list(dict.fromkeys(choice.quantity for choice in group))
    places = [(numbers.index(choice.targets[0]), names.index(choice.quantity)) for choice in group]
    joined = _scored if estimate is counts else _differences

    def combined(result: list[tuple[np.ndarray, ...]]) -> Values:
        each = joined(result[0], len(names))
        return {choice: each[i][q] for choice, (i, q) in zip(group, places, strict=True)}

    program = LeapDerivatives(_program(facts), tuple(names), estimate is counts)
    return Leaps(facts.simulation, program, (moves,), combined)


def leaps_at(
    facts: Facts, given: Sequence[Run], weights: Sequence[float], group: Sequence[Selection]
) -> Leaps | None:
    """Those of differences of the runs with the inputs `given`; None where paths do not leap."""
    if not info_of(facts.simulation.solver).leaps:
        return None

    def combined(result: list[dict[str, np.ndarray]]) -> Values:
        pairs = list(zip(weights, result, strict=True))
        return {
            choice: sum((w * ends[choice.quantity] for w, ends in pairs), np.zeros(1)) for choice in group
        }

    return Leaps(facts.simulation, LeapProgram(_program(facts)), given, combined)


def _program(facts: Facts) -> PathProgram:
    """That of the run's paths."""
    return path_program(facts.simulation, facts.simulation.grid)[0]


def _by_path(array) -> np.ndarray:
    return np.asarray(array).reshape(len(array), -1)


def _differences(result: Sequence[np.ndarray], names: int) -> list[Sequence[np.ndarray]]:
    """By direction and name."""
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
