"""What rounding makes of a number that was reached in steps: a floor of every error."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
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


def scales_by_rate(simulation: Simulation, ends: Mapping[str, np.ndarray]) -> dict[str, float]:
    """How far each variable of an ordinary equation would go at its last rate in the time of the run.

    One that ends near zero was larger on the way, and so were its roundings. Empty where not all are known.
    """
    problem, grid = simulation.problem, simulation.grid
    if isinstance(problem, AbstractSDE) or grid.has_events or not {*problem.State._fields} <= ends.keys():
        return {}
    span = grid.span if grid.steps is None else grid.dt * grid.steps
    state = problem.State(*(jnp.asarray(ends[name], jnp.float64) for name in problem.State._fields))
    rates = jax.vmap(lambda y: problem.drift(jnp.float64(grid.t0 + span), y))(state)
    sizes = zip(problem.State._fields, rates, strict=True)
    return {name: float(np.nan_to_num(np.median(np.abs(rate)))) * float(span) for name, rate in sizes}


def rounding_of_normals(simulation: Simulation) -> float:
    """That of the normals that make the increments of other steps, in programs that may round otherwise."""
    return float(np.finfo(simulation.normals).eps) if isinstance(simulation.problem, AbstractSDE) else 0.0
