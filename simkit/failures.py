"""What is said when paths become NaN or infinite."""

import jax
import numpy as np
from simkit_solvers.grid import Grid

from simkit.errors import NumericalError
from simkit.paths import as_device_ids, path_mesh, path_program
from simkit.simulation import Simulation

SHOWN = 3
REPLAY_ROWS = 10_000


def failed_paths(simulation: Simulation, ids: np.ndarray) -> NumericalError:
    """The error for paths that failed: their ids, and when and where the first ones did.

    A path is a pure function of its id, so the first failures are run again with rows close together to find
    the time, which costs the ensemble itself nothing.
    """
    lines = [_moment(simulation, int(path)) for path in ids[:SHOWN]]
    more = f", and {len(ids) - SHOWN} more in the same chunk" if len(ids) > SHOWN else ""
    return NumericalError(
        f"{'; '.join(lines)}{more}. Take more steps or another solver, or set "
        "`ensemble: {failures: exclude}` to leave such paths out and have them counted"
    )


def _moment(simulation: Simulation, path: int) -> str:
    """Path, time and values of a failure."""
    grid = simulation.grid
    every = next(n for n in range(max(1, grid.steps // REPLAY_ROWS), grid.steps + 1) if grid.steps % n == 0)
    program, numbers = path_program(simulation, Grid(grid.t0, grid.dt, grid.steps, every), path_mesh(1))
    rows = jax.jit(program)(numbers, as_device_ids(path, 1, 64, path_mesh(1)))
    values = {name: np.asarray(array)[:, 0, 0] for name, array in rows.items()}
    bad = np.flatnonzero(~np.all([np.isfinite(x) for x in values.values()], axis=0))
    if not len(bad):
        return f"path {path}: not finite"
    row = int(bad[0])
    names = ", ".join(f"{name} = {x[row]:g}" for name, x in values.items() if not np.isfinite(x[row]))
    time = float(grid.t0) + row * every * float(grid.dt)
    return f"path {path}: {names} at t = {time:g} (step {row * every} of {grid.steps})"
