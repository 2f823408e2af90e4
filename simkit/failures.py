"""What is said when paths become NaN or infinite."""

from typing import Any

import numpy as np
from simkit_solvers.adaptive_grid import AdaptiveGrid
from simkit_solvers.grid import Grid
from simkit_solvers.jump_grid import JumpGrid
from simkit_solvers.jumps import REASONS
from simkit_solvers.problem import AbstractSDE

from simkit.errors import NumericalError
from simkit.paths import (
    ACCEPTED,
    FEWEST_LANES,
    REACHED,
    REJECTED,
    STATUS,
    as_device_ids,
    path_mesh,
    path_program,
)
from simkit.programs import Request, compiled
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
    if isinstance(simulation.grid, JumpGrid):
        remedy = "Write propensities that vanish where reactants are missing, or take a larger time.max_steps"
    if isinstance(simulation.grid, AdaptiveGrid):
        remedy = "Take another solver, other tolerances or a larger time.max_steps"
    if all(observables_only for _, observables_only in found):
        remedy = "The state is finite: write the observable so that it has a value there"
    return NumericalError(
        f"{'; '.join(text for text, _ in found)}{more}. {remedy}, or set "
        "`ensemble: {failures: exclude}` to leave such paths out and have them counted"
    )


def _moment(simulation: Simulation, path: int) -> tuple[str, bool]:
    """Path, time and values of a failure; whether only observables failed."""
    grid = simulation.grid
    if not isinstance(grid, Grid):
        places = [f"t = {time:g}" for time in grid.times]
        values = _replayed(simulation, grid, path)
        counts = {n: values.pop(n)[0] for n in (ACCEPTED, REJECTED, REACHED, STATUS) if n in values}
        if not np.all(np.isfinite([values[name][-1] for name in simulation.problem.State._fields])):
            stochastic = isinstance(simulation.problem, AbstractSDE)
            return _stopped(path, grid, stochastic, counts), False
    else:
        every = next(
            n for n in range(max(1, grid.steps // REPLAY_ROWS), grid.steps + 1) if grid.steps % n == 0
        )
        replay = Grid(grid.t0, grid.dt, grid.steps, every)
        values = _replayed(simulation, replay, path)
        places = [
            f"t = {float(grid.t0) + step * float(grid.dt):g} (step {step} of {grid.steps})"
            for step in range(0, grid.steps + 1, every)
        ]
    for name, info in simulation.observables.items():
        if info.at == "end":
            values[name][:-1] = 0  # looked at nowhere else
    bad = np.flatnonzero(~np.all([np.isfinite(x) for x in values.values()], axis=0))
    if not len(bad):
        return f"path {path}: not finite", False
    row = int(bad[0])
    broken = {name: x[row] for name, x in values.items() if not np.isfinite(x[row])}
    names = ", ".join(f"{name} = {x:g}" for name, x in broken.items())
    return f"path {path}: {names} at {places[row]}", broken.keys() <= simulation.observables.keys()


def _replayed(
    simulation: Simulation, grid: Grid | AdaptiveGrid | JumpGrid, path: int
) -> dict[str, np.ndarray]:
    """The rows of one path by name."""
    program, inputs = path_program(simulation, grid, path_mesh(1))
    ids = as_device_ids(path, 1, FEWEST_LANES, path_mesh(1))
    (replay,), _ = compiled(Request(program, (inputs, ids)))
    rows = replay(inputs, ids)
    return {name: np.array(array)[:, 0, 0] for name, array in rows.items()}


def _stopped(path: int, grid: AdaptiveGrid | JumpGrid, stochastic: bool, counts: dict[str, Any]) -> str:
    """Where and why a run with adaptive steps, or with events, ended early."""
    if isinstance(grid, JumpGrid):
        reason = REASONS[int(counts[STATUS])].replace("max_steps", f"max_steps = {grid.max_steps}")
        return f"path {path}: stopped at t = {counts[REACHED]:.10g} of {float(grid.t1):g}: {reason}"
    taken = int(counts[ACCEPTED] + counts[REJECTED])
    reason = (
        f"max_steps = {grid.max_steps} were taken"
        if taken >= grid.max_steps
        else "the tolerances asked for a step too short for the clock"
        if not stochastic
        else "the tolerances asked for a step shorter than halving gives"
    )
    return f"path {path}: stopped at t = {counts[REACHED]:.10g} of {float(grid.t1):g}: {reason}"
