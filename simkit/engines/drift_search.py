r"""The drift of least variance for importance sampling, from a pilot on other paths.

With values f and the noise at the end $W = \sqrt T x$ the second moment under a drift
$\theta = a/\sqrt T$ is

$$E[f^2 w] = E\left[f^2 e^{-a \cdot x + |a|^2/2}\right],$$

whose logarithm is convex in a: Newton's method finds its minimum. The expectation is that without a drift, so
it can be taken over any paths with known weights. Those of the pilot have a drift of their own each, drawn
from normal distributions of several widths, so that they reach events that no plain path shows. The drift is
rounded to three digits, and fixed before any path of the run.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, cast

import jax
import numpy as np
from simkit_solvers.grids.grid import Grid

from simkit.ensemble.chunk_program import quantity_rows
from simkit.ensemble.chunks import LEAF, Chunk, chunks_of_size, halved_to_fit
from simkit.ensemble.over_chunks import over_chunks
from simkit.ensemble.paths import PathProgram, path_program
from simkit.ensemble.programs import Request, compiled
from simkit.ensemble.replicates import PLAIN
from simkit.ensemble.simulation import SEEDS, Run, Simulation
from simkit.ensemble.weights import driven_name
from simkit.ensemble.work import devices_of, workers_of
from simkit.errors import InputError
from simkit.records.recording import unrecorded

WIDTHS = (0.0, 1.0, 2.0, 3.0)  # of the drifts of the pilot's paths, in standard deviations of the noise
OTHER = 0xC13FA9A902A6328F  # what separates its seed from the run's: 2^64 by the plastic number
ENOUGH = 20  # paths of the pilot that share the least second moment
GROWTH, MOST = 4, 2**19
CHUNK = 16 * LEAF
SEEN = 0.9  # of a second moment, that the paths of a run must be able to show
DIGITS = 3
ITERATIONS, CLOSE, HALVINGS = 50, 1e-6, 30
PLACE = "ensemble.variance_reduction.importance"


@dataclasses.dataclass(frozen=True)
class DriftPilot:
    """What a pilot of so many paths shows: values by name, `(rows, paths)`, and the noise at the same rows.

    `noise`, `(rows, noises, paths)`, is that without a drift, in standard deviations. In the last rows,
    `logs` are logarithms of the weights that undo the drifts of the pilot's own.
    """

    values: Mapping[str, np.ndarray]
    noise: np.ndarray
    logs: np.ndarray

    def squares(self, name: str, row: int) -> tuple[np.ndarray, np.ndarray]:
        """Logarithms of weighted squares, of the paths where these are not 0, and their noise."""
        values = self.values[name][row]
        some = np.isfinite(values) & (values != 0)
        return 2 * np.log(np.abs(values[some])) + self.logs[row][some], self.noise[row][:, some]


def with_drift(simulation: Simulation, paths: int) -> Simulation:
    """The simulation with its drift, found by a pilot unless it is given, and how far its paths must reach.

    The pilot has so many paths, or more where these show little. Raises `InputError` where too few of them
    have a value other than 0 to find a drift.
    """
    reduction = simulation.reduction or PLAIN
    times = simulation.grid.times
    with unrecorded():
        if reduction.drift is not None:
            drift, pilot = reduction.drift, _pilot(simulation, paths, reduction.drift)
        else:
            found, pilot, paths = _found(simulation, reduction.aim, paths)
            drift = rounded(found / math.sqrt(times[-1] - times[0]))
    reach = tuple(
        (
            name,
            tuple(
                _reach(*pilot.squares(name, row), drift, times[row] - times[0])
                for row in range(-len(rows), 0)
            ),
        )
        for name, rows in pilot.values.items()
    )
    changed = dataclasses.replace(reduction, drift=drift, pilot=paths, reach=reach)
    return dataclasses.replace(simulation, reduction=changed)


def _found(simulation: Simulation, aim: str, paths: int) -> tuple[np.ndarray, DriftPilot, int]:
    """The drift of the least second moment, in standard deviations of the noise, the pilot and its paths."""
    while True:
        pilot = _pilot(simulation, paths)
        logs, noise = pilot.squares(aim, -1)
        found, enough = least_second_moment(logs, noise) if len(logs) else (noise[:, :0].sum(1), 0.0)
        if enough >= ENOUGH:
            return found, pilot, paths
        if paths * GROWTH > MOST:
            few = f"is {enough:.0f} paths of {paths:,}" if enough else f"is none of {paths:,} paths"
            raise InputError(
                f"{PLACE}: all that a pilot sees of {aim} {few}, so no drift is found; give one that brings "
                "paths there, as in importance: {drift: 2.0}"
            )
        paths *= GROWTH


def _reach(logs: np.ndarray, noise: np.ndarray, drift: tuple[float, ...], elapsed: float) -> float:
    """How far along the drift the paths lie that make most of the second moment, in standard deviations.

    Measured from where the drift brings most paths. Infinite where all values are 0, and 0 without a drift.
    """
    a = np.asarray(drift) * math.sqrt(max(elapsed, 0.0))
    size = float(np.linalg.norm(a))
    if not size:
        return 0.0
    if not len(logs):
        return math.inf
    logs = logs - a @ noise
    away = np.abs(a @ noise / size - size)
    order = np.argsort(away)
    parts = np.cumsum(np.exp(logs - logs.max())[order])
    return float(away[order][np.searchsorted(parts, SEEN * parts[-1])])


def least_second_moment(log_squares: np.ndarray, noise: np.ndarray) -> tuple[np.ndarray, float]:
    r"""The a that minimises $\log \sum_i \exp(l_i - a \cdot x_i) + |a|^2/2$, and how many paths make it.

    `log_squares` are l, `(paths,)`, and `noise` x, `(noises, paths)`.
    """
    ends = noise.T

    def terms(a: np.ndarray) -> tuple[float, np.ndarray]:
        logs = log_squares - ends @ a
        most = logs.max()
        parts = np.exp(logs - most)
        total = parts.sum()
        return most + math.log(total) + 0.5 * float(a @ a), parts / total

    a = np.zeros(ends.shape[1])
    value, parts = terms(a)
    for _ in range(ITERATIONS):
        mean = parts @ ends
        centred = ends - mean
        curvature = np.eye(len(a)) + (centred * parts[:, None]).T @ centred
        step = -np.linalg.solve(curvature, a - mean)
        there = terms(a + step)
        for _ in range(HALVINGS):
            if there[0] <= value:
                break
            step = step / 2
            there = terms(a + step)
        a, (value, parts) = a + step, there
        if np.abs(step).max() < CLOSE:
            break
    return a, float(1 / np.square(parts).sum())


def rounded(drift: Sequence[float] | np.ndarray) -> tuple[float, ...]:
    """The drifts in three digits of the largest: a number that can be given, whatever computed it."""
    largest = max(abs(float(x)) for x in drift)
    if not largest > 0:
        return (0.0,) * len(drift)
    places = DIGITS - 1 - math.floor(math.log10(largest))
    return tuple(round(float(x), places) + 0.0 for x in drift)


@dataclasses.dataclass(frozen=True)
class DriftProgram:
    """A function of (inputs, ids, drifts of each path): the last rows of each name."""

    paths: PathProgram
    rows: tuple[tuple[str, int], ...]

    def __call__(self, inputs: Run, ids: Any, drifts: tuple[Any, ...]) -> tuple[jax.Array, ...]:
        def one_path(inputs, path):
            own, drift = path
            return self.paths.one_path(inputs._replace(drift=drift), own)

        everything = self.paths.each(one_path)(inputs, (ids, drifts))
        return tuple(everything[name][-count:] for name, count in self.rows)


def _pilot(simulation: Simulation, paths: int, given: tuple[float, ...] | None = None) -> DriftPilot:
    """A pilot of so many paths, or fewer where rows would fill the memory; some have the `given` drift."""
    noises, grid = len(simulation.problem.Noise._fields), cast(Grid, simulation.grid)
    seed = (simulation.seed ^ OTHER) % SEEDS
    reduction = dataclasses.replace(simulation.reduction or PLAIN, drift=(0.0,) * noises)
    pilot = dataclasses.replace(simulation, reduction=reduction, seed=seed, paths=paths)
    rows = quantity_rows(simulation)
    sums = {driven_name(i): grid.rows for i in range(noises)}
    paths = halved_to_fit(paths, sum(rows.values()) + (noises + 1) * grid.rows, LEAF)
    plan = chunks_of_size(paths, simulation.chunk or CHUNK)
    times = np.asarray(grid.times) - grid.times[0]
    width, centre = _components(times[-1], noises, given)
    lanes = np.arange(plan.count * plan.paths) % len(width)
    drawn = np.random.default_rng(seed).standard_normal((len(lanes), noises))
    drifts = (centre[lanes] + width[lanes, None] * drawn).astype(simulation.precision)
    with jax.enable_x64(True):
        program, inputs = path_program(pilot, grid)

        def arguments(chunk: Chunk) -> tuple:
            own = drifts[chunk.first : chunk.first + chunk.leaves * chunk.lanes]
            return inputs, chunk.ids, tuple(own.T.reshape(noises, chunk.leaves, chunk.lanes))

        names = DriftProgram(program, (*rows.items(), *sums.items()))
        (run,), _ = compiled(Request(names, arguments(next(iter(plan))), devices_of(simulation)))
        parts: list[list[np.ndarray]] = []

        def work(chunk: Chunk) -> list[np.ndarray]:
            flat = (np.asarray(x, np.float64).reshape(len(x), -1) for x in run(*arguments(chunk)))
            return [x[:, : chunk.count] for x in flat]

        over_chunks(plan, work, lambda _, part: parts.append(part), workers_of(simulation))
    by_name = dict(zip([*rows, *sums], (np.concatenate(x, 1) for x in zip(*parts, strict=True)), strict=True))
    steps = np.arange(grid.rows) * grid.every
    noise = np.stack([by_name.pop(name) for name in sums], 1) / np.sqrt(np.maximum(steps, 1))[:, None, None]
    noise = noise + drifts[:paths].T * np.sqrt(times)[:, None, None]
    logs = np.stack([_log_weights(x, t, width, centre) for x, t in zip(noise, times, strict=True)])
    return DriftPilot(by_name, noise, logs)


def _components(span: float, noises: int, given: tuple[float, ...] | None) -> tuple[np.ndarray, np.ndarray]:
    """Widths and means of the normal distributions of which the pilot's paths have their drifts, in turn."""
    width = np.array([*WIDTHS, *([] if given is None else [0.0])]) / math.sqrt(span)
    centre = np.zeros((len(width), noises))
    if given is not None:
        centre[-1] = given
    return width, centre


def _log_weights(noise: np.ndarray, t: float, width: np.ndarray, centre: np.ndarray) -> np.ndarray:
    """Logarithms of the density of the noise at t without drifts over that with those of all components."""
    variances = 1 + t * np.square(width)
    away = np.square(noise[None] - math.sqrt(t) * centre[:, :, None]).sum(1)
    logs = -0.5 * away / variances[:, None] - 0.5 * len(noise) * np.log(variances)[:, None]
    most = logs.max(0)
    return -0.5 * np.square(noise).sum(0) - most - np.log(np.exp(logs - most).mean(0))
