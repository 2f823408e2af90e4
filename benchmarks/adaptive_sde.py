"""Adaptive steps of a stochastic equation: what waiting costs, and other ways at equal strong error.

The 3/2 model of volatility: its variance v bursts now and then, and at v times scales are 1/v. Watched is its
integral. Expected: groups of 8 wait for less than as long as they work, on linear noise with an absolute
tolerance too, where paths that grow need many more steps than others; a fixed grid, whose steps must suit
the highest burst, takes ten times the steps, but each of them is many times as fast, so that it should still
win; and diffrax, whose Brownian tree is descended from the root for each increment and whose paths all wait
for the slowest under one `vmap`, should need ten times as long.
"""

import sys

from simkit import tune_process

if not tune_process():
    print("not asking XLA for 512-bit vectors: see `simkit doctor`", file=sys.stderr)

from collections.abc import Callable
from typing import Any, NamedTuple

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
from ours import experiment, whole_run
from report import Measurement, parse_arguments, report
from rounds import timed, waited_for
from simkit_physics import GBM
from simkit_solvers import (
    AbstractSDE,
    AdaptiveGrid,
    CoarsenedNoise,
    CounterNoise,
    Grid,
    Scalar,
    Tolerances,
    make_solver,
)

from simkit.ensemble import (
    ACCEPTED,
    REJECTED,
    Simulation,
    StochasticAdaptiveSteps,
    lanes_for,
    path_ids,
    path_program,
)

GROUP = StochasticAdaptiveSteps.group

T1, TOLERANCE, SPAN = 4.0, 1e-2, 1.0
START = {"total": 0.0, "v": 1.0}
FEWEST = 128  # steps of equal length to try
REFERENCE = 10  # a tolerance so many times finer is exact compared with another
SAMPLE = 512  # paths to measure errors with


class VarianceState(NamedTuple):
    total: Scalar
    v: Scalar


class OneNoise(NamedTuple):
    W: Scalar


class ThreeHalves(AbstractSDE):
    r"""$dv = v\,(2 - v)\,dt + v^{3/2}\,dW$ (Itô), here in Stratonovich's sense, and $\int v\,dt$."""

    State = VarianceState
    Noise = OneNoise
    calculus = "stratonovich"
    noise_kind = "scalar"
    speed: Scalar = 2.0

    def drift(self, t, y):
        return VarianceState(y.v, y.v * (self.speed - 1.75 * y.v))

    def noise(self, t, y, dW):
        return VarianceState(0.0 * dW.W, y.v**1.5 * dW.W)


def run_of(paths: int, grid) -> Simulation:
    """An ensemble by SPaRK over a grid."""
    fixed = experiment(ThreeHalves(), make_solver("SPaRK"), START, 1, T1, paths, "float64")
    return fixed.with_run(grid=grid)


def linear_noise(paths: int) -> Simulation:
    r"""Paths of $dX = 1.01\,X\,dt + 0.87\,X\,dW$ from 1 over a unit of time, with an absolute tolerance."""
    fixed = experiment(GBM(1.01, 0.87), make_solver("Milstein"), {"S": 1.0}, 1, 1.0, paths, "float64")
    return fixed.with_run(grid=AdaptiveGrid(0.0, 1.0, Tolerances(0.0, 1e-3)))


def waiting(rows: dict[str, np.ndarray]) -> float:
    """Trials that are made in groups until their slowest path is done, over those of the paths themselves."""
    trials = (rows[ACCEPTED] + rows[REJECTED]).reshape(-1, GROUP)
    return GROUP * trials.max(axis=1).sum() / trials.sum()


def adaptive_grid(tolerance) -> AdaptiveGrid:
    return AdaptiveGrid(0.0, T1, Tolerances(tolerance, tolerance), SPAN)


def fixed_grid(steps: int) -> Grid:
    return Grid(0.0, T1 / steps, steps, steps)


def rows_of(simulation: Simulation, *driver) -> dict[str, np.ndarray]:
    """The last rows of all paths of one lane's width."""
    with jax.enable_x64(True):
        program, inputs = path_program(simulation, simulation.grid, *driver)
        rows = jax.jit(program)(inputs, path_ids(0, 1, lanes_for(simulation.paths)))
    return {name: np.asarray(values[-1]).reshape(-1) for name, values in rows.items()}


def mean_error(result: np.ndarray, exact: np.ndarray) -> float:
    """The mean distance of ends; infinite where a path has failed."""
    return float(np.nan_to_num(np.mean(np.abs(result - exact)), nan=np.inf))


def fixed_steps(error: float) -> int:
    """The fewest steps of equal length, a power of two, with this strong error against four times as many."""
    steps = FEWEST
    while True:
        fine = rows_of(run_of(SAMPLE, fixed_grid(4 * steps)))
        coarse = rows_of(
            run_of(SAMPLE, fixed_grid(steps)), lambda *path: CoarsenedNoise(CounterNoise.of(*path), 4)
        )
        if mean_error(coarse["total"], fine["total"]) <= error:
            return steps
        steps *= 2


def diffrax_paths(paths: int) -> Callable[[Any], jax.Array]:
    """The ends by `diffeqsolve` under one `vmap`, as a compiled function of the tolerance."""

    def path(key, tolerance):
        tree = diffrax.VirtualBrownianTree(0.0, T1, 2.0**-16, (), key, levy_area=diffrax.SpaceTimeLevyArea)
        steps = diffrax.PIDController(rtol=tolerance, atol=tolerance, pcoeff=0.1, icoeff=0.3)
        solution = diffrax.diffeqsolve(
            diffrax.MultiTerm(
                diffrax.ODETerm(lambda t, y, model: jnp.stack(model.drift(t, VarianceState(*y)))),
                diffrax.ControlTerm(
                    lambda t, y, model: jnp.stack(
                        model.noise(t, VarianceState(*y), OneNoise(jnp.ones_like(y[0])))
                    ),
                    tree,
                ),
            ),
            diffrax.SPaRK(),
            0.0,
            T1,
            SPAN,
            jnp.asarray(list(START.values())),
            ThreeHalves(),
            stepsize_controller=diffrax.ClipStepSizeController(steps, store_rejected_steps=64),
            adjoint=diffrax.ForwardMode(),
            max_steps=None,
            throw=False,
        )
        return solution.ys[0, 0]

    with jax.enable_x64(True):
        keys = jax.random.split(jax.random.key(0), paths)
        ensemble = jax.jit(jax.vmap(path, (0, None))).lower(keys, 0.1).compile()

    def ends(tolerance):
        with jax.enable_x64(True):
            return ensemble(keys, jnp.asarray(tolerance))

    return ends


def main():
    arguments = parse_arguments(__doc__)
    paths, rounds = (512, 2) if arguments.small else (1024, 3)
    own = rows_of(run_of(SAMPLE, adaptive_grid(TOLERANCE)))
    error = mean_error(own["total"], rows_of(run_of(SAMPLE, adaptive_grid(TOLERANCE / REFERENCE)))["total"])
    trials = own[ACCEPTED] + own[REJECTED]
    linear = rows_of(linear_noise(SAMPLE))
    steps = fixed_steps(error)
    theirs, tolerance = diffrax_paths(paths), 16 * TOLERANCE
    exact = np.asarray(theirs(TOLERANCE / REFERENCE))
    while mean_error(np.asarray(theirs(tolerance)), exact) > error:
        tolerance /= 2
    programs = {
        f"adaptive, {trials.mean():.0f} trials": whole_run(run_of(paths, adaptive_grid(TOLERANCE))),
        f"fixed grid, {steps} steps": whole_run(run_of(paths, fixed_grid(steps))),
        f"diffrax, rtol {tolerance:g}": lambda: waited_for(lambda: theirs(tolerance)),
    }
    timings = timed(programs, rounds)
    ours, fixed, peer = (timing.best for timing in timings.values())
    print(f"strong error {error:.2g}; most trials of a path {trials.max()}")
    findings = [
        Measurement(f"adaptive sde, waiting in groups of {GROUP}", waiting(own), "x", 2, "at most"),
        Measurement("adaptive sde, the same on linear noise", waiting(linear), "x", 2, "at most"),
        Measurement("adaptive sde, against a fixed grid of equal strong error", fixed / ours, "x"),
        Measurement("adaptive sde, steps of the fixed grid over trials", steps / trials.mean(), "x"),
        Measurement(
            "adaptive sde, against diffrax's adaptive steps at equal strong error", peer / ours, "x", 5
        ),
    ]
    report("adaptive_sde", findings, timings, {}, arguments)


if __name__ == "__main__":
    main()
