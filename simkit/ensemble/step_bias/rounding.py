"""The rounding error of a number after many steps, a floor of every error."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from simkit.ensemble.simulation import Simulation


def rounding_error(size: Any, simulation: Simulation, steps: Any, spread: Any = np.inf) -> Any:
    """The rounding error of numbers of this size after `steps` steps, `spread` their standard deviation.

    Roundings add up at random, or where no noise of a step is as large, all to one side: a constant rate is
    rounded alike in each step, and one that is less than a rounding is lost. In float32 the sums of many
    steps and those of ordinary equations are compensated, except those of adaptive steps of ordinary
    equations.
    """
    eps = np.finfo(simulation.precision).eps * np.abs(size)
    at_random = eps * np.sqrt(steps)
    if simulation.precision == "float32" and simulation.stepping.compensates:
        return at_random
    one_sided = np.maximum(at_random, eps * steps / 2)
    return np.where(np.asarray(spread) < at_random / 2, one_sided, at_random)


def rounding_of_steps(size: Any, simulation: Simulation, steps: Any, spread: Any = np.inf) -> Any:
    """The rounding error of what `steps` steps add up to; counts of events are not rounded."""
    return rounding_error(size, simulation, 0.0 if simulation.stepping.whole else steps, spread)


def scales_by_rate(simulation: Simulation, ends: Mapping[str, np.ndarray]) -> dict[str, float]:
    r"""How far each variable of an ordinary equation goes at its last rate, before that changes.

    A variable that ends near zero was larger on the way, and so were its roundings. Rates $f$ change in times
    of $|f|/|J f|$, with the Jacobian J. Empty where not all variables are known.
    """
    problem, grid = simulation.problem, simulation.grid
    if simulation.stepping.random or not {*problem.State._fields} <= ends.keys():
        return {}
    span = float(grid.span)

    def sizes(y):
        def rate(y):
            rates = problem.drift(jnp.float64(grid.t0 + span), problem.State(*y))
            return jnp.stack([jnp.asarray(each, jnp.float64) for each in rates])  # also of whole numbers

        f, change = jax.jvp(rate, (y,), (rate(y),))
        changes = jnp.linalg.norm(change) * span > jnp.linalg.norm(f)
        time = jnp.where(changes, jnp.linalg.norm(f) / jnp.linalg.norm(change), span)
        return jnp.nan_to_num(jnp.abs(f) * time)

    starts = jnp.stack([jnp.asarray(ends[name], jnp.float64) for name in problem.State._fields], 1)
    return dict(zip(problem.State._fields, np.median(jax.vmap(sizes)(starts), axis=0).tolist(), strict=True))


def rounding_of_normals(simulation: Simulation) -> float:
    """The rounding of normals for the increments of other steps, whose programs may round otherwise."""
    return float(np.finfo(simulation.normals).eps) if simulation.problem.stochastic else 0.0
