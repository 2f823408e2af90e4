r"""Variants on the same Brownian paths at several step sizes, and their strong order.

The finest variant draws its noise as usual; the increments of the others, and their Lévy areas, are sums of
its draws. With X at the finest step $h_0$ in place of the limit, the root mean square of $X_h - X_{h_0}$ is
$C\sqrt{h^{2p} - h_0^{2p}}$ where the errors of steps are orthogonal, as leading stochastic terms are.
"""

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
from simkit_solvers.grids.grid import Grid
from simkit_solvers.methods.registry import info_of, samples_exactly
from simkit_solvers.methods.registry import strong_order as claimed
from simkit_solvers.problems.problem import AbstractSDE
from simkit_solvers.random.generator import Words
from simkit_solvers.random.noise import AbstractNoise, SwappedNoise, on_sums

from simkit.ensemble.simulation import Driver, Simulation

BATCHES = 20  # of paths, whose spread is the error of an order
SURE = 3.0  # standard errors by which orders at short and at long steps may differ
LEAST, MOST = 0.02, 8.0  # orders that are considered


@dataclasses.dataclass(frozen=True)
class OnSums:
    """Makes the noise of a path whose steps are each `factor` of those that are drawn, and may keep these."""

    driver: Driver
    factor: int
    keeps: bool = False

    def __call__(self, key: Words, path, float64: bool) -> AbstractNoise:
        return on_sums(self.driver(key, path, float64), self.factor, self.keeps)


@dataclasses.dataclass(frozen=True)
class Swapped:
    """Makes the noise of a path whose steps 2k and 2k + 1 have each other's draws."""

    driver: Driver

    def __call__(self, key: Words, path, float64: bool) -> AbstractNoise:
        return SwappedNoise(self.driver(key, path, float64))


def coupled(simulations: Mapping[str, Simulation]) -> tuple[dict[str, Simulation], list[str]]:
    """Simulations on the Brownian paths of the one with most steps, and the reasons why some cannot be."""
    problems = [
        f"variant {name}: {reason}" for name, each in simulations.items() if (reason := _not_coupled(each))
    ]
    if problems:
        return dict(simulations), problems
    first = next(iter(simulations.values()))
    finest = max(map(_steps, simulations.values()))
    for name, each in simulations.items():
        if finest % _steps(each):
            problems.append(
                f"variant {name}: time.steps: {_steps(each)} do not divide the {finest} of the finest "
                "variant, so that increments are no sums of its own; use a divisor"
            )
        for what in ("seed", "normals"):
            if getattr(each, what) != getattr(first, what):
                problems.append(f"variant {name}: ensemble.{what}: differs, so that paths are not the same")
        if each.problem.Noise._fields != first.problem.Noise._fields:
            problems.append(f"variant {name}: model: has other noises, so that paths are not the same")
    if problems:
        return dict(simulations), problems
    return {
        name: dataclasses.replace(each, draws_per_step=finest // _steps(each))
        for name, each in simulations.items()
    }, []


def _steps(simulation: Simulation) -> int:
    return cast(Grid, simulation.grid).steps


def _not_coupled(simulation: Simulation) -> str:
    """Why a simulation cannot share its Brownian paths with one of other steps; empty where it can."""
    if not simulation.stepping.has_increments:
        return (
            "ensemble.couple: steps is for stochastic equations on fixed steps; give time.steps, or leave "
            "couple out"
        )
    if samples_exactly(simulation.solver, simulation.problem):
        return "ensemble.couple: its solver samples exactly and has no step error; leave couple out"
    return ""


def strong_error(differences: np.ndarray) -> tuple[float, float]:
    """The root mean square of differences, and its standard error."""
    squares = differences[np.isfinite(differences)] ** 2
    if len(squares) < 2:
        return np.nan, np.nan
    error = float(np.sqrt(squares.mean()))
    spread = float(squares.std(ddof=1)) / np.sqrt(len(squares))
    return error, spread / (2 * error) if error else 0.0


class StrongOrder(NamedTuple):
    """A strong order, its standard error, and whether all steps agree on it and solvers claim it."""

    order: float
    stderr: float
    asymptotic: bool = True


def strong_order(
    differences: Sequence[np.ndarray], factors: Sequence[float], most: float = math.inf
) -> StrongOrder:
    """The strong order, and its standard error from batches of paths.

    `differences` `(paths,)` are those from the finest steps, of steps `factors` times as long; two or more.
    Where the order of the two shortest of these steps is surely another than that of the two longest, the
    errors are not yet a power of the step, and the standard error includes that change of the order. Where
    the order is surely above `most`, which the solvers claim, the standard error reaches down to that: where
    noise is small, long steps show the larger errors of the drift, of order 1.
    """
    squares = np.stack(differences) ** 2
    squares = squares[:, np.isfinite(squares).all(axis=0)]
    if squares.shape[1] < 2 * BATCHES:
        return StrongOrder(np.nan, np.nan)
    ratios = np.asarray(factors, float)
    batches = [part.mean(axis=1) for part in np.array_split(squares, BATCHES, axis=1)]
    order, error = _over_batches(squares.mean(axis=1), batches, ratios)
    levels = np.unique(ratios)
    ends = [ratios <= levels[1], ratios >= levels[-2]]
    change, doubt = _over_batches(squares.mean(axis=1), batches, ratios, ends)
    beyond = order - most
    away = [abs(change)] * (abs(change) > SURE * doubt) + [beyond] * (beyond > SURE * error)
    return StrongOrder(order, float(np.hypot(error, max(away, default=0.0))), not away)


def claimed_order(simulations: Iterable[Simulation]) -> float:
    """The largest strong order that the solvers claim for their problems; infinite where one claims none."""
    pairs = [(each.solver, each.problem) for each in simulations if isinstance(each.problem, AbstractSDE)]
    return max(math.inf if info_of(x).strong is None else claimed(x, problem) for x, problem in pairs)


def _over_batches(
    squares: np.ndarray,
    batches: Sequence[np.ndarray],
    ratios: np.ndarray,
    ends: Sequence[np.ndarray] | None = None,
) -> tuple[float, float]:
    """The order that mean squares show, or how it differs between two `ends`, and its error from batches."""

    def shown(each: np.ndarray) -> float:
        if ends is None:
            return _fitted(np.sqrt(each), ratios)
        fine, coarse = (_fitted(np.sqrt(each[end]), ratios[end]) for end in ends)
        return fine - coarse

    return shown(squares), float(np.std([shown(each) for each in batches], ddof=1) / np.sqrt(BATCHES))


def _fitted(errors: np.ndarray, ratios: np.ndarray) -> float:
    if not np.all(errors > 0):
        return np.nan

    def misfit(order: float) -> float:
        return float(np.var(np.log(errors) - 0.5 * np.log(ratios ** (2 * order) - 1)))

    from scipy.optimize import minimize_scalar  # takes long to import, and few runs get here

    best: Any = minimize_scalar(misfit, bounds=(LEAST, MOST), method="bounded")
    return float(best.x)
