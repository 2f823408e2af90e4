"""What rounding makes of a number that was reached in steps: a floor of every error."""

from typing import Any

import numpy as np
from simkit_solvers.loops.compensated import can_compensate
from simkit_solvers.problems.problem import AbstractSDE

from simkit.ensemble.simulation import Simulation


def rounding_error(size, simulation: Simulation, steps, spread: Any = np.inf):
    """Of numbers of this size after so many steps of a simulation, `spread` their standard deviation.

    Roundings add up at random, or where no noise of a step is as large, all to one side. In float32 the sums
    of many steps and those of ordinary equations are compensated, except those of adaptive steps of
    ordinary equations.
    """
    eps = np.finfo(simulation.precision).eps * np.abs(size)
    at_random = eps * np.sqrt(steps)
    if simulation.precision != "float32" or _compensates(simulation):
        return at_random
    one_sided = np.maximum(at_random, eps * steps / 2)
    return np.where(np.asarray(spread) < at_random / 2, one_sided, at_random)


def _compensates(simulation: Simulation) -> bool:
    stochastic, grid = isinstance(simulation.problem, AbstractSDE), simulation.grid
    if grid.steps is not None:
        return can_compensate(simulation.solver) and (grid.long or not stochastic)
    return stochastic or grid.tolerances is None
