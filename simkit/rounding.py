"""What rounding makes of a number that was reached in steps: a floor of every error."""

import numpy as np
from simkit_solvers.adaptive_grid import AdaptiveGrid
from simkit_solvers.problem import AbstractSDE

from simkit.simulation import Simulation


def rounding_error(size, simulation: Simulation, steps):
    """Of numbers of this size after so many steps of a simulation.

    Roundings add up at random. In float32 sums are compensated where they would not, except those of adaptive
    steps of ordinary equations: there all may be to one side.
    """
    eps = np.finfo(simulation.precision).eps * np.abs(size)
    adaptive = isinstance(simulation.grid, AdaptiveGrid) and not isinstance(simulation.problem, AbstractSDE)
    if adaptive and simulation.precision == "float32":
        return eps * np.maximum(np.sqrt(steps), steps / 2)
    return eps * np.sqrt(steps)
