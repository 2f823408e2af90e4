"""Errors of means are as wide as they say: small runs with many seeds, by each way to reduce variances."""

import dataclasses

import numpy as np
import pytest
from scipy import stats

import simkit
from simkit.engines.sizing import with_slopes
from simkit.ensemble.run import run_ensemble

REPETITIONS = 2000
STEPS, RATE = 8, 0.05
MEAN = 100 * (1 + RATE / STEPS) ** STEPS * np.exp(-RATE)  # of the discounted price, by Euler-Maruyama
MARKET = {
    "constants": {"r": RATE, "K": 100.0},
    "model": {
        "sde": {
            "S": {"drift": "r*S", "noise": {"W": "0.2*S"}},
            "V": {"drift": "r*V", "noise": {"W": "0.1*V", "Z": "0.2*V"}},
        }
    },
    "initial": {"S": 100.0, "V": 100.0},
    "solver": "EulerMaruyama",
    "time": {"t1": 1.0, "steps": STEPS},
    "observe": {
        "european": "exp(-r*t) * maximum(S - K, 0)",
        "asian": "exp(-r*t) * maximum(mean(S) - K, 0)",
        "barrier": "exp(-r*t) * maximum(S - K, 0) * (min(S) > 90)",
        "lookback": "exp(-r*t) * (max(S) - S)",
        "digital": "S > K",
        "far": "exp(-r*t) * maximum(S - 140, 0)",
        "basket": "exp(-r*t) * maximum((S + V) / 2 - K, 0)",
        "stock": {"value": "exp(-r*t) * S", "exact": float(MEAN)},
    },
    "save": {"paths": 0},
}
DRIFT = {"drift": {"W": 0.8, "Z": 0.3}}
OPTIONS = ["european", "asian", "barrier", "lookback", "digital", "basket"]
RISING = ["european", "asian", "barrier", "digital", "basket", "far"]  # a lookback lives on paths that fall
NETWORK = {
    "model": {
        "reactions": {
            "birth": {"equation": "0 -> A", "rate": 5.0},
            "death": {"equation": "A -> 0", "rate": 1.0},
        }
    },
    "initial": {"A": 5},
    "time": {"t1": 2.0},
    "observe": {"few": "A < 3", "average": "integral(A) / t"},
    "save": {"paths": 0},
}
RELAXED = {
    "model": {"type": "OrnsteinUhlenbeck", "theta": 1.0, "mu": 0.0, "sigma": 1.0},
    "initial": {"X": {"normal": [0.0, 0.7071067811865476]}},
    "solver": "ExactSampling",
    "time": {"t1": 4.0, "steps": 8},
    "observe": {"stationary": "mean(X**2)"},
    "save": {"paths": 0},
}
HOW = {
    "plain": (MARKET, {"paths": 512}, OPTIONS),
    "antithetic": (MARKET, {"paths": 512, "variance_reduction": "antithetic"}, OPTIONS),
    "control": (MARKET, {"paths": 512, "variance_reduction": {"control": ["stock"]}}, OPTIONS),
    "sobol": (MARKET, {"paths": 512, "driver": "sobol"}, OPTIONS),
    "stratified": (MARKET, {"paths": 512, "variance_reduction": "stratified"}, OPTIONS),
    "importance": (MARKET, {"paths": 512, "variance_reduction": {"importance": DRIFT}}, RISING),
    "network": (NETWORK, {"paths": 256}, ["A", "few", "average"]),
    "stationary": (RELAXED, {"paths": 256}, ["X", "stationary"]),
}


def figures(simulation, names):
    """Means and standard errors at the end, without what only a whole command finds."""
    moments = run_ensemble(simulation, bias_noise=None).statistics["moments"]
    return np.array([[moments[f"{name}_{key}"][-1] for name in names] for key in ("mean", "stderr")])


@pytest.mark.slow
@pytest.mark.user_code
@pytest.mark.parametrize("how", HOW)
def test_errors_over_many_repetitions(how):
    """The variance of estimates is the mean of the variances quoted, and intervals hold the truth.

    The truth is a run of four million paths, whose own error counts.
    """
    experiment, ensemble, names = HOW[how]
    truths, of_truths = figures(
        simkit.load(experiment | {"ensemble": {"paths": 2**22, "seed": 2**40}}), names
    )
    simulation = with_slopes(simkit.load(experiment | {"ensemble": ensemble}))
    runs = [figures(dataclasses.replace(simulation, seed=seed), names) for seed in range(REPETITIONS)]
    estimates, errors = np.moveaxis(runs, 1, 0)
    freedom = 15 if how in ("sobol", "stratified") else ensemble["paths"] - 1
    wrong = []
    for name, x, error, truth, of_truth in zip(names, estimates.T, errors.T, truths, of_truths, strict=True):
        ratio = x.var(ddof=1) / np.mean(error**2)
        held = int(np.sum(np.abs(x - truth) < stats.t.ppf(0.975, freedom) * error))
        z = (x.mean() - truth) / np.hypot(x.std() / REPETITIONS**0.5, of_truth)
        chance = stats.binomtest(held, REPETITIONS, 0.95).pvalue
        text = f"{how} {name}: variance {ratio:.3f}, held {held / REPETITIONS:.4f}, z {z:.2f}"
        print(text)
        if not (0.85 < ratio < 1.15 and abs(z) < 4 and chance > 0.001):
            wrong.append(text)
    assert not wrong
