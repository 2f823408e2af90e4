"""Small simulations for the tests of the ensemble."""

import dataclasses

from simkit_physics import GBM
from simkit_solvers.euler_maruyama import EulerMaruyama
from simkit_solvers.grid import Grid
from simkit_solvers.observe import States

from simkit.simulation import Simulation


def gbm(paths: int, steps: int, every: int | None = None, t1: float = 1.0, **changes) -> Simulation:
    """Geometric Brownian motion from 100 under Euler–Maruyama, every state variable observed."""
    simulation = Simulation(
        problem=GBM(mu=0.05, sigma=0.2),
        solver=EulerMaruyama(),
        grid=Grid(0.0, t1 / steps, steps, every or steps),
        initial={"S": 100.0},
        observer=States(),
        observables={},
        paths=paths,
        seed=42,
    )
    return dataclasses.replace(simulation, **changes)
