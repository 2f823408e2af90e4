"""Values of single paths step by step, as the compiled run has them."""

import dataclasses
from typing import Any

import jax
import numpy as np
from simkit_solvers.grids.grid import Grid

from simkit.diagnostics.debugging.finding import draw_of, increments_of
from simkit.ensemble.failures import replayed
from simkit.ensemble.simulation import Simulation
from simkit.errors import InputError
from simkit.experiments.divisors import does_not_divide
from simkit.suggestions import did_you_mean

ROWS = 20  # about, by default
MOST_ROWS = 100_000


@dataclasses.dataclass(frozen=True)
class Trace:
    """Rows of one path: `times`, on a fixed grid also `steps`, and values by name, arrays `(rows,)`.

    Variables and observables have the bits of the run. A Brownian increment, such as `dW`, is that of the
    step that begins at the row, NaN in the last row.
    """

    path: int
    times: np.ndarray
    steps: np.ndarray | None
    values: dict[str, np.ndarray]


def trace(simulation: Simulation, path: int, names: list[str], every: int | None = None) -> Trace:
    """The values of a path at every `every`-th step, from the program of the ensemble; all names if none.

    Without equal steps `every` counts saved times. Raises `InputError` for a name that there is not, and for
    an `every` that does not divide the steps.
    """
    with jax.enable_x64(True):
        return _traced(simulation, path, names, every)


def _traced(simulation: Simulation, path: int, names: list[str], every: int | None) -> Trace:
    problem, grid = simulation.problem, simulation.grid
    if every is not None and every < 1:
        raise InputError(f"every {every}: must be at least 1")
    quantities = [*problem.State._fields, *simulation.observables]
    noises = _increments(simulation)
    for name in names:
        if name not in (*quantities, *noises):
            raise InputError(
                f"values to print: there is no {name}{did_you_mean(name, [*quantities, *noises])}"
            )
    wanted = names or [*quantities, *noises]
    if grid.steps is None:
        rows = replayed(simulation, grid, path)
        stride = every or max(1, (grid.rows - 1) // ROWS)
        times = np.asarray(grid.times)[::stride]
        return Trace(path, times, None, {name: rows[name][::stride] for name in wanted})
    stride = every or grid.thinned(ROWS).every
    if grid.steps % stride:
        raise InputError(f"every {stride}: {does_not_divide('every', stride, grid.steps)}")
    if grid.steps // stride > MOST_ROWS:
        raise InputError(f"every {stride}: gives more than {MOST_ROWS:,} rows; use a larger one")
    thin = Grid(grid.t0, grid.dt, grid.steps, stride)
    rows = replayed(simulation, thin, path)
    steps = np.arange(thin.rows) * stride
    values = {name: rows[name] for name in wanted if name in rows}
    drawn = [name for name in wanted if name in noises]
    if drawn:
        result = _drawn(simulation, path, steps[:-1])
        values |= {name: np.append(result[name], np.nan) for name in drawn}
    return Trace(path, thin.times, steps, {name: values[name] for name in wanted})


def _increments(simulation: Simulation) -> list[str]:
    """The names of Brownian increments, which steps of equal length have."""
    problem: Any = simulation.problem
    names = problem.Noise._fields if simulation.stepping.has_increments else ()
    return [f"d{name}" for name in names]


def _drawn(simulation: Simulation, path: int, steps: np.ndarray) -> dict[str, np.ndarray]:
    rows = [increments_of(simulation, draw_of(simulation, path, int(step))) for step in steps]
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}
