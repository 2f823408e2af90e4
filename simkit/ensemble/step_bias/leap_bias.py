r"""The bias of tau-leaping: coupled paths whose leaps are longer or shorter than the run's.

What leaps leave in a mean is of first order in their length. The paths are none of the run's, and share
events with each other instead (`coupled_leaps`): what a leap draws by itself differs with its length.
"""

import dataclasses

import jax.numpy as jnp
import numpy as np
from simkit_solvers.loops.coupled_leaps import coupled_leaps
from simkit_solvers.methods.registry import info_of

from simkit.ensemble.chunks import lanes_for, leaf_by_leaf
from simkit.ensemble.paths import PathProgram, path_program
from simkit.ensemble.programs import Request
from simkit.ensemble.simulation import Simulation
from simkit.ensemble.step_bias.bias_paths import BiasRun, Ends
from simkit.ensemble.work import workers_on
from simkit.machine.on_each_device import local_devices

LONGER, SHORTER = (2.0, 4.0), (0.5, 0.25)
PIECE = 4  # leaps of the run that a piece of the joint sequence of times costs


@dataclasses.dataclass(frozen=True)
class LeapProgram:
    """A function of ((inputs, factors), ids) that simulates coupled paths: values at the end by name.

    They are arrays `(factors, leaves, lanes)`.
    """

    paths: PathProgram

    def __call__(self, given, ids):
        return self.paths.each(self._ends)(given, ids)

    def _ends(self, given, path):
        inputs, factors = given
        network, method, start, grid, _, observer = self.paths.prepared(inputs, path)
        return coupled_leaps(network, method, factors, start, grid, inputs.key, path, observer).ends


def leap_run(simulation: Simulation, shorter: bool, part_of_work: float, most: int) -> BiasRun | None:
    """How to find the bias of leaps within a part of the run's work; None for another solver.

    By leaps two and four times as long; with `shorter` half and a quarter as long.
    """
    if not info_of(simulation.solver).leaps:
        return None
    factors = SHORTER if shorter else LONGER
    paths, at_most = (coupled_paths(simulation.paths, factors, part, most) for part in (part_of_work, 1.0))
    program, inputs = path_program(simulation, simulation.grid)
    ids = leaf_by_leaf(paths).ids()
    devices = local_devices(1)
    given = (inputs, jnp.asarray((1.0, *factors), jnp.float64)), ids
    request = Request(LeapProgram(program), given, devices)
    names = (*simulation.problem.State._fields, *simulation.observables)
    workers = workers_on(devices, simulation.threads)
    return BiasRun(factors, (request,), _ends, dict.fromkeys(names, 1.0), paths, paths, at_most, workers)


def coupled_paths(paths: int, factors: tuple[float, ...], part_of_work: float, most: int) -> int:
    """How many coupled paths cost this part of the work of `paths` paths of the run; no lane is empty."""
    cost = PIECE * sum(1 / factor for factor in (1.0, *factors))
    return lanes_for(min(int(part_of_work * paths / cost), most))


def _ends(result) -> Ends:
    return {name: np.asarray(array).reshape(len(array), -1) for name, array in result.items()}
