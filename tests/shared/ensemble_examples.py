"""Small simulations for the tests of the ensemble."""

import dataclasses

import numpy as np
from simkit_physics import GBM
from simkit_solvers import EulerMaruyama, Grid, States

from simkit.ensemble import Request, Run, Simulation, compiled, path_ids, path_program
from simkit.ensemble.paths import PathProgram


def gbm(paths: int, steps: int, every: int | None = None, t1: float = 1.0, **changes) -> Simulation:
    """Geometric Brownian motion from 100 under Euler–Maruyama, observed as it is, on one device."""
    simulation = Simulation(
        run=Run(
            problem=GBM(mu=0.05, sigma=0.2),
            observer=States(),
            initial={"S": 100.0},
            grid=Grid(0.0, t1 / steps, steps, every or steps),
            solver=EulerMaruyama(),
        ),
        observables={},
        paths=paths,
        seed=42,
        devices=1,
    )
    of_run = {name: changes.pop(name) for name in Run._fields if name in changes}
    return dataclasses.replace(simulation.with_run(**of_run), **changes)


@dataclasses.dataclass(frozen=True)
class Rows:
    """The rows of the named quantities, and of the others nothing."""

    paths: PathProgram
    names: tuple[str, ...]

    def __call__(self, inputs, ids):
        rows = self.paths(inputs, ids)
        return {name: rows[name] for name in self.names}


def rows_of(simulation: Simulation, paths: int, names) -> dict[str, np.ndarray]:
    """`(rows, paths)` of each name, without an ensemble's statistics, which take longer to compile."""
    program, inputs = path_program(simulation, simulation.grid)
    ids = path_ids(0, paths // 2048, 2048)
    (run,), _ = compiled(Request(Rows(program, tuple(names)), (inputs, ids)))
    return {name: np.asarray(x).reshape(len(x), -1) for name, x in run(inputs, ids).items()}
