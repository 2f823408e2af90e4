"""One path and its derivatives along directions, in the loop of `integrate`."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from simkit_solvers.derivatives.smoothed_run import SmoothedRun
from simkit_solvers.derivatives.smoothing import Smoothing
from simkit_solvers.derivatives.tangent_run import TangentRun
from simkit_solvers.grids.grid import Grid, TracedGrid
from simkit_solvers.loops.blocks import method_of, strong
from simkit_solvers.loops.integrate import integrate_run
from simkit_solvers.loops.path_run import path_run
from simkit_solvers.loops.reverse_pass import REVERSE_BYTES
from simkit_solvers.methods.switched import Solver
from simkit_solvers.problems.directions import DifferentiatedRows, Direction, Release
from simkit_solvers.problems.observe import AbstractObserver
from simkit_solvers.problems.problem import AbstractODE
from simkit_solvers.problems.schedule import prepared
from simkit_solvers.random.noise import AbstractNoise


def integrate_with_tangents(
    problem: AbstractODE,
    solver: Solver,
    y0: PyTree,
    grid: Grid | TracedGrid,
    noise: AbstractNoise | None,
    observer: AbstractObserver,
    directions: Sequence[Direction],
    release: Release | Smoothing | None = None,
    memory: float = REVERSE_BYTES,
) -> DifferentiatedRows:
    """One path as by `integrate`, and its derivatives along directions, in one loop.

    With `release`, derivatives become weights (`problems.directions`): the derivative of the mean of a
    recorded value f is then that of `f * weight + change`. Without, the weights are zeros. A path costs about
    half as much again for each direction; differentiate the result once more for second derivatives.
    Raises `ValueError` as `integrate`, and `NoDensityError` where a derivative cannot be released.

    >>> import numpy as np
    >>> from simkit_physics import GBM
    >>> from simkit_solvers import CounterNoise, Direction, EulerMaruyama, Grid, States
    >>> from simkit_solvers import integrate_with_tangents, seed_key
    >>> model, start = GBM(mu=0.05, sigma=0.2), GBM.State(S=100.0)
    >>> grid, noise = Grid(t0=0.0, dt=0.1, steps=10, every=5), CounterNoise.of(seed_key(1), path=0)
    >>> directions = [Direction(GBM(mu=0.0, sigma=0.0), States(), GBM.State(S=1.0))]  # by the start
    >>> run = integrate_with_tangents(model, EulerMaruyama(), start, grid, noise, States(), directions)
    >>> np.allclose(run.changes[0]["S"], run.rows["S"] / 100.0)  # a price is proportional to its start
    True
    """

    def moving(run):
        if isinstance(release, Smoothing):
            return SmoothedRun.in_directions(run, problem, tuple(directions), release)
        return TangentRun.in_directions(run, problem, tuple(directions), release)

    return integrate_run(problem, solver, y0, grid, noise, observer, moving, release is not None, memory)


def integrate_with_second_tangents(
    problem: AbstractODE,
    solver: Solver,
    y0: PyTree,
    grid: Grid,
    noise: AbstractNoise | None,
    observer: AbstractObserver,
    directions: tuple[Direction, Direction, Direction],
    smoothings: tuple[Smoothing, Smoothing],
) -> DifferentiatedRows:
    """One path, and the second derivative along two directions of it, in one loop.

    `directions` are the first, the last, and the derivative of the first along the last. The rows are
    estimates of the first derivative, smoothed by the first of `smoothings`, their derivatives along the
    last one and its weights by the other: the mean of `row * weight + change` is the second derivative.
    Raises as `integrate_with_tangents`.
    """
    first, last, both = directions

    def moving(run):
        def smoothed_once(problem, observer, t0, dt, first):
            model: Any = prepared(problem)
            plain = dataclasses.replace(run, problem=model, observer=observer, t0=t0, dt=dt)
            return SmoothedRun.in_directions(plain, problem, (first,), smoothings[0])

        given = problem, observer, run.t0, run.dt, first
        move = last.problem, last.observer, last.t0, last.dt, both
        change = eqx.filter_jvp(smoothed_once, given, move)[1]
        return SmoothedRun.of(smoothed_once(*given), (change,), smoothings[1], (last.y0,))

    return integrate_run(problem, solver, y0, grid, noise, observer, moving, True)


def check_released(
    problem: AbstractODE,
    solver: Solver,
    y0: PyTree,
    grid: Grid,
    noise: AbstractNoise | None,
    observer: AbstractObserver,
    directions: Sequence[Direction],
    release: Release | Smoothing,
) -> None:
    """Raises what `integrate_with_tangents` raises of a step, such as `NoDensityError`, without the loop."""
    method = method_of(problem, solver, y0, grid, noise, released=True)
    plain = path_run(problem, method, grid, noise, observer)
    kind: Any = SmoothedRun if isinstance(release, Smoothing) else TangentRun
    run = kind.in_directions(plain, problem, tuple(directions), release)
    start = jax.tree.map(strong, run.start(y0))
    run.prepared(start, *method.driving(run.noise, jnp.uint32(0), method.group)[0])
