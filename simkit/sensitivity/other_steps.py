"""The same paths on steps of another length, and the same estimator there."""

import dataclasses

import equinox as eqx
from simkit_solvers.adaptive_grid import AdaptiveGrid
from simkit_solvers.grid import Grid
from simkit_solvers.observe import AbstractObserver

from simkit.simulation import Simulation
from simkit.step_levels import Comparison


def on_steps(simulation: Simulation, level: Comparison) -> Simulation:
    """The run on the steps of a level, which its targets move as they move its own; on one device."""
    whole = simulation.bind
    if whole is None:
        raise ValueError("a simulation without `bind` knows no targets: take one from `simkit.build.build`")

    def bind(*given):
        bound = whole(*given)
        if isinstance(level.grid, AdaptiveGrid):
            tolerances = level.grid.tolerances
            return bound._replace(grid=eqx.tree_at(lambda grid: grid.tolerances, bound.grid, tolerances))
        steps = level.grid.steps
        grid = Grid(bound.grid.t0, bound.grid.dt * level.factor, steps, steps)
        return bound._replace(observer=observed_on(bound.observer, level.factor), grid=grid)

    return dataclasses.replace(
        simulation, grid=level.grid, observer=level.observer, bind=bind, devices=1, chunk=None
    )


def observed_on(observer: AbstractObserver, factor: float) -> AbstractObserver:
    """The observer of the same dates on steps `factor` times as long, which must have them."""
    there = observer.coarsened(round(factor)) if factor > 1 else observer.refined(round(1 / factor))
    if there is None:
        raise ValueError(f"factor: steps {factor:g} times as long miss dates of the observer")
    return there
