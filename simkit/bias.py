r"""The step bias: how far the means are from those of infinitely small steps.

The first paths are simulated again on the same Brownian path with steps f times as long. With weak order p,
$E[X_h] - E[X_0] \approx c h^p$, so that the bias of the run is $(E[X_{fh}] - E[X_h]) / (f^p - 1)$, a mean of
coupled differences with a small standard error of its own. Where longer steps would miss the dates at which
an observable looks at the path, and where the number of steps has no factor 2 or 3, the steps are half as
long instead (f = 1/2), increments and Lévy areas split by the Brownian bridge. The same where longer steps
would miss an event, or a point of a curve at which a step of the run ends. The jumps of a longer step are
those of the steps that it is made of.
"""

import dataclasses
from collections.abc import Callable

import numpy as np
from simkit_solvers.curve import INSIDE
from simkit_solvers.generator import Words
from simkit_solvers.grid import Grid
from simkit_solvers.jump_diffusion import AbstractJumpDiffusion
from simkit_solvers.noise import CoarsenedNoise, CounterNoise, HalvedNoise
from simkit_solvers.observe import AbstractObserver
from simkit_solvers.problem import AbstractSDE
from simkit_solvers.registry import samples_exactly, weak_order
from simkit_solvers.schedule import Schedule, schedule_of

from simkit.initial import differs_between_paths
from simkit.paths import Driver, as_device_ids, lanes_for, path_mesh, path_program, with_traced_steps
from simkit.programs import Request
from simkit.simulation import Simulation

BIAS_PATHS = 4096


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Another grid for the same paths: `factor` is its step over the run's."""

    factor: float
    grid: Grid
    observer: AbstractObserver
    driver: Driver


@dataclasses.dataclass(frozen=True)
class LongerSteps:
    """Makes the noise of a path on steps `factor` times as long."""

    factor: int

    def __call__(self, key: Words, path, float64: bool) -> CoarsenedNoise:
        return CoarsenedNoise(CounterNoise.of(key, path, float64), self.factor)


@dataclasses.dataclass(frozen=True)
class BiasRun:
    """The first paths once more on the other grid: the program, what to call it with, and how many count."""

    request: Request
    paths: int
    scale: float


def bias_run(simulation: Simulation) -> BiasRun | None:
    """How to find the step bias; None where no other grid can be compared with.

    That is where no factor meets all dates and twice as many steps would wrap the counter, or there are
    jumps, which are not split between halves of a step; for adaptive steps, whose tolerances take its place;
    for the jump process of a reaction network; and where the solver samples the law of the process exactly.
    """
    other = comparison(simulation)
    if other is None:
        return None
    random = isinstance(simulation.problem, AbstractSDE) or differs_between_paths(simulation.initial.values())
    paths = min(simulation.paths, BIAS_PATHS) if random else 1
    mesh = path_mesh(1)
    grid = with_traced_steps(simulation.problem, other.grid)
    program, inputs = path_program(
        dataclasses.replace(simulation, observer=other.observer), grid, mesh, other.driver
    )
    ids = as_device_ids(0, 1, lanes_for(paths), mesh)
    scale = other.factor ** weak_order(simulation.solver, simulation.problem) - 1
    return BiasRun(Request(program, (inputs, ids), mesh), paths, scale)


def step_bias(
    bias: BiasRun, run_again: Callable, run: dict[str, np.ndarray]
) -> tuple[dict[str, tuple[float, float]], dict[str, int]]:
    """The step bias of each quantity at the end and its standard error, given the first paths' final values.

    Second, for the quantities where there are any, how many paths are left out that have a value in the run
    and none on the other grid: for them the run's steps are nearly too long, which the bias does not show. A
    quantity none of whose differences is finite has no bias.
    """
    compared = run_again(*bias.request.arguments)
    found, left_out = {}, {}
    for name, values in run.items():
        there = np.asarray(compared[name], np.float64)[-1].reshape(-1)[: bias.paths]
        lost = int((np.isfinite(values[: bias.paths]) & ~np.isfinite(there)).sum())
        if lost:
            left_out[name] = lost
        with np.errstate(invalid="ignore", over="ignore"):
            difference = (there - values[: bias.paths]) / bias.scale
            difference = difference[np.isfinite(difference)]
            if len(difference) == 0:
                continue
            error = difference.std(ddof=1) / np.sqrt(len(difference)) if len(difference) > 1 else 0.0
            found[name] = (float(difference.mean()), float(error))
    return found, left_out


def comparison(simulation: Simulation) -> Comparison | None:
    """The grid to compare with: longer steps where they meet all dates, halves otherwise."""
    grid = simulation.grid
    if not isinstance(grid, Grid) or samples_exactly(simulation.solver, simulation.problem):
        return None
    for factor in (2, 3):
        observer = simulation.observer.coarsened(factor)
        if grid.steps % factor == 0 and grid.steps > factor and observer is not None:
            steps = grid.steps // factor
            longer = Grid(grid.t0, grid.dt * factor, steps, steps)
            if not _keeps_dates(schedule_of(simulation.problem), grid, factor):
                continue
            return Comparison(factor, longer, observer, LongerSteps(factor))
    steps = 2 * grid.steps
    if steps >= 2**31 or isinstance(simulation.problem, AbstractJumpDiffusion):
        return None
    halves = Grid(grid.t0, grid.dt / 2, steps, steps)
    return Comparison(0.5, halves, simulation.observer.refined(2), HalvedNoise.of)


def _keeps_dates(schedule: Schedule | None, grid: Grid, factor: int) -> bool:
    """Whether longer steps end at the events, and at the points of curves at which the run's steps end."""
    if schedule is None:
        return True
    if any(event.steps_of(grid.steps // factor) is None for event in schedule.events):
        return False
    nodes = np.concatenate([np.zeros(0), *(np.asarray(each, np.float64) for each in schedule.nodes)])
    steps = (nodes - float(grid.t0)) / float(grid.dt)
    steps = steps[(steps > 0) & (steps < grid.steps)]
    met = np.rint(steps)[np.abs(steps - np.rint(steps)) < INSIDE]
    return bool(np.all(met % factor == 0))
