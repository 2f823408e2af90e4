"""The same paths on steps of another length, and the same estimator there."""

import dataclasses
from typing import Any

import equinox as eqx
from simkit_solvers.grids.grid import Grid

from simkit.ensemble.simulation import Simulation
from simkit.ensemble.step_bias.step_levels import OtherGrid


def on_steps(simulation: Simulation, level: OtherGrid) -> Simulation:
    """The run on the steps of a level, which its targets move as they move its own; on one device."""
    whole = simulation.bind
    if whole is None:
        raise ValueError("a simulation without `bind` knows no targets: take one from `simkit.load`")

    own: Any = simulation.grid
    other = level.grid

    def bind(*given):
        bound: Any = whole(*given)
        if other.steps is None:
            grid = eqx.tree_at(lambda grid: grid.tolerances, bound.grid, other.tolerances)
            return bound._replace(grid=grid)
        steps = other.steps
        grid = Grid(bound.grid.t0, bound.grid.dt * (own.steps / steps), steps, steps)
        return bound._replace(observer=level.see(bound.observer), grid=grid)

    return dataclasses.replace(
        simulation, grid=other, observer=level.observer, bind=bind, devices=1, chunk=None
    )
