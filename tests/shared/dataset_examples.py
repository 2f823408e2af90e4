"""Small datasets made without running an ensemble: paths drawn by NumPy, statistics by the reducers."""

import functools

import jax
import numpy as np
from simkit_physics import GBM, OrnsteinUhlenbeck
from simkit_solvers import EulerMaruyama, Grid

from simkit.ensemble import Run, Simulation
from simkit.ensemble.reducers import Covariance
from simkit.ensemble.run import default_reducers
from simkit.ensemble.simulation import EnsembleResult, ObservableInfo
from simkit.ensemble.step_bias.step_error import StepError
from simkit.results.dataset import to_dataset

LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
PROVENANCE = {"config": "model: {type: GBM, mu: 0.05, sigma: 0.2}\n", "simkit": "0.1.0", "platform": "cpu"}


def step_of(bias: float, stderr: float) -> StepError:
    """The step error of a weak order of one."""
    return StepError(bias, stderr, stderr, "estimate", 1.0)


@functools.cache
def statistics(rows, paths, failed, make):
    values = make(paths)
    valid = np.arange(paths) >= failed
    shaped = {name: array.T.reshape(array.shape[1], 1, paths) for name, array in values.items()}
    results = {}
    reducers = {"covariance": Covariance(rows)} | default_reducers(rows, LEVELS)
    with jax.enable_x64(True):
        for key, reducer in reducers.items():
            partial = jax.jit(reducer.update)(shaped, valid.reshape(1, paths))
            results[key] = reducer.finish(reducer.merge(reducer.init(), reducer.on_host(partial)))
    return results, values


def gbm_paths(paths, rows):
    rng = np.random.default_rng(11)
    dt = 1.0 / (rows - 1)
    steps = 0.03 * dt + 0.2 * np.sqrt(dt) * rng.standard_normal((paths, rows - 1))
    walk = np.concatenate([np.zeros((paths, 1)), np.cumsum(steps, 1)], 1)
    stock = 100 * np.exp(walk)
    return {"S": stock, "call": np.exp(-0.05) * np.maximum(stock[:, -1:] - 100, 0), "level": stock / 100}


@functools.cache
def gbm_maker(rows):
    return functools.partial(gbm_paths, rows=rows)


def gbm(rows=13, paths=2000, failed=0, stored=20):
    """Simulation and result of a geometric Brownian motion with a call and its relative level."""
    counts = (("S", rows), ("call", 1), ("level", rows))
    results, values = statistics(counts, paths, failed, gbm_maker(rows))
    simulation = Simulation(
        run=Run(
            problem=GBM(mu=0.05, sigma=0.2),
            observer=None,
            initial={"S": 100.0},
            grid=Grid(0.0, 1.0 / (rows - 1), rows - 1, 1),
            solver=EulerMaruyama(),
        ),
        observables={
            "call": ObservableInfo("currency", "exp(-r*t) * maximum(S - K, 0)", "end", 10.450583572),
            "level": ObservableInfo("", "S / 100", "each"),
        },
        paths=paths,
        seed=42,
        quantiles=LEVELS,
        stored_paths=stored,
    )
    result = EnsembleResult(
        times=simulation.grid.times,
        statistics=results,
        stored={name: array[:stored] for name, array in values.items()} if stored else {},
        paths=paths,
        failed=failed,
        steps=rows - 1,
        bias={"call": step_of(0.0021, 0.0008), "S": step_of(0.0, 0.001)},
        elapsed_s=0.5,
        compile_s=1.2,
        bias_s=0.1,
        path_steps_per_s=4.8e7,
        devices=1,
    )
    return simulation, result


def gbm_dataset(**options):
    return to_dataset(*gbm(**options), PROVENANCE)


def curve_paths(paths):
    t = np.linspace(0, 10, 401)
    return {"X": 1 + 2 * np.exp(-0.3 * t) * np.cos(3 * t)[None].repeat(paths, 0)}


def one_curve_dataset():
    """A single path, as an ordinary differential equation from a fixed start gives."""
    results, values = statistics((("X", 401),), 1, 0, curve_paths)
    simulation = Simulation(
        run=Run(
            problem=OrnsteinUhlenbeck(theta=0.3, mu=1.0, sigma=0.0),
            observer=None,
            initial={"X": 3.0},
            grid=Grid(0.0, 0.025, 400, 1),
            solver=EulerMaruyama(),
        ),
        observables={},
        paths=1,
        seed=0,
        quantiles=LEVELS,
    )
    result = EnsembleResult(simulation.grid.times, results, values, 1, 0, 400, {}, 0.01, 0.5, 0.0, 4e4, 1)
    return to_dataset(simulation, result, PROVENANCE)
