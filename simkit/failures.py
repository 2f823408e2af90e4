"""What is said when paths become NaN or infinite."""

import jax
import numpy as np
from simkit_solvers.grid import Grid

from simkit.errors import NumericalError
from simkit.paths import FEWEST_LANES, as_device_ids, path_mesh, path_program
from simkit.simulation import Simulation

SHOWN = 3
REPLAY_ROWS = 10_000


def failed_paths(simulation: Simulation, ids: np.ndarray) -> NumericalError:
    """The error for paths that failed: their ids, and when and where the first ones did.

    A path is a pure function of its id, so the first failures are run again with rows close together to find
    the time, which costs the ensemble itself nothing.
    """
    found = [_moment(simulation, int(path)) for path in ids[:SHOWN]]
    more = f", and {len(ids) - SHOWN} more in the same chunk" if len(ids) > SHOWN else ""
    remedy = "Take more steps or another solver"
    if all(observables_only for _, observables_only in found):
        remedy = "The state is finite: write the observable so that it has a value there"
    return NumericalError(
        f"{'; '.join(text for text, _ in found)}{more}. {remedy}, or set "
        "`ensemble: {failures: exclude}` to leave such paths out and have them counted"
    )


def _moment(simulation: Simulation, path: int) -> tuple[str, bool]:
    """Path, time and values of a failure; whether only observables failed."""
    grid = simulation.grid
    every = next(n for n in range(max(1, grid.steps // REPLAY_ROWS), grid.steps + 1) if grid.steps % n == 0)
    program, numbers = path_program(simulation, Grid(grid.t0, grid.dt, grid.steps, every), path_mesh(1))
    rows = jax.jit(program)(numbers, as_device_ids(path, 1, FEWEST_LANES, path_mesh(1)))
    values = {name: np.array(array)[:, 0, 0] for name, array in rows.items()}
    for name, info in simulation.observables.items():
        if info.at == "end":
            values[name][:-1] = 0  # looked at nowhere else
    bad = np.flatnonzero(~np.all([np.isfinite(x) for x in values.values()], axis=0))
    if not len(bad):
        return f"path {path}: not finite", False
    row = int(bad[0])
    broken = {name: x[row] for name, x in values.items() if not np.isfinite(x[row])}
    names = ", ".join(f"{name} = {x:g}" for name, x in broken.items())
    time = float(grid.t0) + row * every * float(grid.dt)
    text = f"path {path}: {names} at t = {time:g} (step {row * every} of {grid.steps})"
    return text, broken.keys() <= simulation.observables.keys()
