"""An ordinary equation whose path functionals are known, and every row of its one path."""

import jax
import jax.numpy as jnp
import numpy as np
from simkit_solvers import integrate

from simkit import load

# x = 3 cos(2t) + t, whatever the solver does with it: the observers see the solver's own values.
MODEL = {"ode": {"x": "-2*a*y + 1", "y": "2*a*(x - t)"}, "parameters": {"a": 1.0}}
STEPS = 24


def simulation(observe, save=None, constants=None, **changes):
    """The simulation of what is observed."""
    return load(
        {
            "constants": {"c": 0.5, **(constants or {})},
            "model": MODEL,
            "initial": {"x": 3.0, "y": 0.0},
            "time": {"t0": 0.5, "t1": 2.5, "steps": STEPS},
            "save": save or {"points": STEPS},
            "observe": observe,
            **changes,
        }
    )


def rows(simulation, dtype=jnp.float64):
    """Every row of the one path."""
    everything = jax.tree.map(lambda x: jnp.asarray(x, dtype), (simulation.problem, simulation.observer))
    y0 = simulation.problem.State(**{k: jnp.asarray(v, dtype) for k, v in simulation.initial.items()})
    problem, observer = everything
    result = jax.jit(lambda y0: integrate(problem, simulation.solver, y0, simulation.grid, None, observer))(
        y0
    )
    return {name: np.asarray(array) for name, array in result.items()}
