"""simkit's ensembles: as users run them, and bare, the program of a chunk without its statistics."""

from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp
from simkit_solvers import Grid, States

from simkit.ensemble import LEAF, Run, Simulation, lanes_for, path_ids, path_program, run_ensemble


def experiment(
    problem, solver, initial: Mapping, steps: int, t1: float, paths: int, precision: str
) -> Simulation:
    """An ensemble that keeps the state at the start and at the end."""
    return Simulation(
        run=Run(
            problem=problem,
            observer=States(),
            initial=dict(initial),
            grid=Grid(0.0, t1 / steps, steps, steps),
            solver=solver,
        ),
        observables={},
        paths=paths,
        seed=1,
        precision=precision,
    )


def whole_run(simulation: Simulation) -> Callable[[], float]:
    """Seconds that `simkit.run` takes for paths and statistics, without compilation and step biases."""
    return lambda: run_ensemble(simulation).elapsed_s


def bare_loop(simulation: Simulation) -> Callable[[], dict[str, jax.Array]]:
    """Runs all paths as one chunk and gives their final values: the compiled loop and nothing else.

    The chunk has whole leaves, and so a few paths more.
    """
    lanes = min(LEAF, lanes_for(simulation.paths))
    with jax.enable_x64(True):
        program, inputs = path_program(simulation, simulation.grid)
        ids = path_ids(0, -(-simulation.paths // lanes), lanes)

        def ends(inputs, ids):
            return {name: values[-1] for name, values in program(inputs, ids).items()}

        compiled = jax.jit(ends).lower(inputs, ids).compile()
    return lambda: compiled(inputs, ids)


def moments(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Mean and variance of all values."""
    x = x.reshape(-1)
    return jnp.mean(x), jnp.var(x)
