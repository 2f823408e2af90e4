r"""The step bias: how far the means are from those of infinitely small steps.

The first paths are simulated again with steps f times as long on the same Brownian path. With weak order p,
$E[X_{h}] - E[X_0] \approx c h^p$, so that the bias of the run is
$(E[X_{fh}] - E[X_h]) / (f^p - 1)$, a mean of coupled differences with a small standard error of its own.
"""

import dataclasses

import jax
import numpy as np
from simkit_solvers.grid import Grid
from simkit_solvers.problem import AbstractSDE
from simkit_solvers.registry import weak_order

from simkit.initial import Distribution
from simkit.paths import as_device_ids, lanes_for, path_mesh, path_program
from simkit.simulation import Simulation

BIAS_PATHS = 4096


def step_bias(simulation: Simulation, fine: dict[str, np.ndarray]) -> dict[str, tuple[float, float]]:
    """The step bias of each quantity at the end and its standard error, given the first paths' final values.

    Empty when the number of steps has no factor 2 or 3 to lengthen them by, or an observable is monitored at
    steps that the longer ones would miss. Quantities whose coupled differences are not finite are left out.
    """
    steps = simulation.grid.steps
    factor = next((f for f in (2, 3) if steps % f == 0 and steps > f), None)
    if factor is None:
        return {}
    observer = simulation.observer.coarsened(factor)
    if observer is None:
        return {}
    random = isinstance(simulation.problem, AbstractSDE) or any(
        isinstance(x, Distribution) for x in simulation.initial.values()
    )
    paths = min(simulation.paths, BIAS_PATHS, len(next(iter(fine.values())))) if random else 1
    grid = simulation.grid
    coarse_grid = Grid(grid.t0, grid.dt * factor, steps // factor, steps // factor)
    single = path_mesh(1)
    program, numbers = path_program(
        dataclasses.replace(simulation, observer=observer), coarse_grid, single, factor
    )
    coarse = jax.jit(program)(numbers, as_device_ids(0, 1, lanes_for(paths), single))
    scale = factor ** weak_order(simulation.solver, simulation.problem) - 1
    found = {}
    for name, values in fine.items():
        difference = (np.asarray(coarse[name])[-1].reshape(-1)[:paths] - values[:paths]).astype(np.float64)
        difference = difference[np.isfinite(difference)] / scale
        if len(difference) == 0:
            continue
        error = difference.std(ddof=1) / np.sqrt(len(difference)) if len(difference) > 1 else 0.0
        found[name] = (float(difference.mean()), float(error))
    return found
