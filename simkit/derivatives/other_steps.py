"""The same run on other steps, for which derivatives are taken in the same targets."""

import dataclasses
from collections.abc import Callable
from typing import Any, cast

import equinox as eqx
import jax.numpy as jnp
from simkit_solvers.grids.grid import Grid
from simkit_solvers.loops.compensated import loses_float32
from simkit_solvers.problems.observe import AbstractObserver

from simkit.derivatives.targets import binding_of
from simkit.ensemble.simulation import Run, Simulation
from simkit.ensemble.step_bias.step_levels import PARTS, OtherGrid
from simkit.observe.observer import Observer

TIGHTER = 0.1  # tolerances, of the run that shows the error: its own is an order of magnitude less
RESOLUTIONS = 8  # units in the last place: no tolerance is finer


def with_tighter_tolerances(inputs: Run, precision: str) -> Run:
    """The inputs of the same program for the run that shows the error."""
    grid: Any = inputs.grid
    own, finest = grid.tolerances, RESOLUTIONS * float(jnp.finfo(precision).eps)
    rtol = jnp.maximum(TIGHTER * own.rtol, jnp.asarray(finest, precision))
    tighter = eqx.tree_at(lambda t: (t.rtol, t.atol), own, (rtol, TIGHTER * own.atol))
    return inputs._replace(grid=grid.with_steps(tighter, PARTS[TIGHTER] * grid.parts))


def with_half_steps(simulation: Simulation) -> Simulation | None:
    """The run with twice as many steps, where steps of fixed length decide how exact its paths are."""
    if simulation.stepping.exact_by != "steps" or simulation.bind is None:
        return None
    own = cast(Grid, simulation.grid)
    if loses_float32(simulation.solver, simulation.precision, 2 * own.steps):
        return None

    def halved(grid: Any) -> Grid:
        return Grid(grid.t0, grid.dt / 2, 2 * grid.steps, 2 * grid.every)

    return on_grid(simulation, halved, _on_half_steps)


def on_steps(simulation: Simulation, level: OtherGrid) -> Simulation:
    """The run on the steps of a level; on one device."""
    bind = _bind_on(simulation, level.grid.over, level.see)
    other = simulation.with_run(grid=level.grid, observer=level.observer)
    return dataclasses.replace(other, bind=bind, devices=1, chunk=None)


def on_grid(
    simulation: Simulation,
    grid_of: Callable[[Any], Any],
    observer_of: Callable[[AbstractObserver], AbstractObserver],
) -> Simulation:
    """The run on the grid and with the observer that these make of its own, also as its targets move."""
    other = simulation.with_run(grid=grid_of(simulation.grid), observer=observer_of(simulation.observer))
    if simulation.bind is None:
        return other
    return dataclasses.replace(other, bind=_bind_on(simulation, grid_of, observer_of))


def _bind_on(simulation: Simulation, grid_of: Callable, observer_of: Callable) -> Callable:
    """What a run on other steps binds of the values of its targets."""
    bind = binding_of(simulation)

    def bind_there(*given):
        run = bind(*given)
        return run._replace(observer=observer_of(run.observer), grid=grid_of(run.grid))

    return bind_there


def _on_half_steps(observer: AbstractObserver) -> AbstractObserver:
    """What is observed at every step is observed at all of the new ones; other dates stay."""
    finer = observer.refined(2)
    if not isinstance(observer, Observer) or not isinstance(finer, Observer):
        return finer
    pairs = zip(observer.observables, finer.observables, strict=True)
    refined = tuple(dataclasses.replace(new, every=new.every if old.every else None) for old, new in pairs)
    return dataclasses.replace(finer, observables=refined)
