"""simkit's inner ensemble, bare: the program of a chunk without its statistics."""

from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp
from simkit_solvers import Grid, States

from simkit.ensemble.chunks import LEAF, lanes_for, path_ids
from simkit.ensemble.paths import path_program
from simkit.ensemble.simulation import Simulation


def experiment(
    problem, solver, initial: Mapping, steps: int, t1: float, paths: int, precision: str
) -> Simulation:
    """An ensemble that keeps the state at the start and at the end."""
    return Simulation(
        problem=problem,
        solver=solver,
        grid=Grid(0.0, t1 / steps, steps, steps),
        initial=dict(initial),
        observer=States(),
        observables={},
        paths=paths,
        seed=1,
        precision=precision,
    )


def end_moments(simulation: Simulation) -> Callable[[], tuple[jax.Array, jax.Array]]:
    """Runs all paths as one chunk; gives mean and variance of the first variable at the end."""
    name = simulation.problem.State._fields[0]
    return _one_chunk(simulation, lambda rows: moments(rows[name][-1]))


def bare_loop(simulation: Simulation) -> Callable[[], dict[str, jax.Array]]:
    """Runs all paths as one chunk and gives their final values: the compiled loop and nothing else."""
    return _one_chunk(simulation, lambda rows: {name: values[-1] for name, values in rows.items()})


def _one_chunk(simulation: Simulation, keep: Callable) -> Callable:
    """The paths of whole leaves, a few more than asked for."""
    lanes = min(LEAF, lanes_for(simulation.paths))
    with jax.enable_x64(True):
        program, inputs = path_program(simulation, simulation.grid)
        ids = path_ids(0, -(-simulation.paths // lanes), lanes)
        compiled = jax.jit(lambda inputs, ids: keep(program(inputs, ids))).lower(inputs, ids).compile()
    return lambda: compiled(inputs, ids)


def moments(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Mean and variance of all values."""
    x = x.reshape(-1)
    return jnp.mean(x), jnp.var(x)
