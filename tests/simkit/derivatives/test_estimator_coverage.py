"""Over seeds derivatives spread as much as their errors say, by whichever estimator the pilot takes."""

import numpy as np
import pytest
from test_estimator_pilot import BARRIER, NETWORK, WILD, master_equation, of, watched_barrier

import simkit
from simkit.closed_forms.black_scholes import black_scholes_call

SEEDS = 20


def over_seeds(experiment, paths: int, changes: dict) -> dict[tuple[str, str], tuple[np.ndarray, ...]]:
    """Of each derivative by quantity and label: estimates and errors by seed, and the estimators."""
    results: dict = {}
    for seed in range(SEEDS):
        overrides = {"ensemble.seed": seed, "ensemble.paths": paths} | changes
        dataset = simkit.sensitivity(experiment, overrides=overrides)
        for name in dataset.attrs["quantities"].split():
            for kind, along in (("derivative", "parameter"), ("second", "pair")):
                labels = dataset[along].values if f"{name}_{kind}" in dataset else ()
                each = of(dataset, name, kind) if len(labels) else ()
                for label, (mean, error, _, estimator, _) in zip(labels, each, strict=True):
                    results.setdefault((name, str(label)), []).append((mean, error, estimator))
    return {key: tuple(map(np.array, zip(*each, strict=True))) for key, each in results.items()}


def check_coverage(results, exact=None) -> None:
    """The spread over the usual error, and the mean where it is known.

    The usual one, since with a heavy tail few errors are as large as the spread, and most are too small.
    """
    ratios = {key: np.std(means, ddof=1) / np.median(errors) for key, (means, errors, _) in results.items()}
    assert all(0.7 < ratio < 1.4 for ratio in ratios.values()), ratios
    for key, value in (exact or {}).items():
        means, errors, _ = results[key]
        assert abs(np.mean(means) - value) < 4.5 * np.sqrt(np.sum(errors**2)) / SEEDS, key


def slope(price, x: float, h: float) -> tuple[float, float]:
    down, here, up = price(x - h), price(x), price(x + h)
    return (up - down) / (2 * h), (up - 2 * here + down) / h**2


@pytest.mark.slow
def test_a_variance_that_touches_zero():
    """The derivative along the path has a spread of many times its usual error."""
    results = over_seeds(WILD, 2048, {"time.steps": 64, "sensitivity.wrt": ["v"]})
    assert set(results["call", "v"][2]) == {"finite differences"}
    check_coverage(results)


@pytest.mark.more
def test_delta_and_gamma_at_a_barrier():
    second = {**BARRIER, "sensitivity": {"wrt": ["S"], "second": ["S"], "of": ["watched"]}}
    delta, gamma = slope(lambda S: watched_barrier(S, 4), 100.0, 0.5)
    check_coverage(over_seeds(second, 2048, {}), {("watched", "S"): delta, ("watched", "S, S"): gamma})


@pytest.mark.slow
def test_the_delta_of_a_digital():
    digital = {
        **BARRIER,
        "observe": {"digital": "exp(-r*t) * (S > K)"},
        "sensitivity": {"wrt": ["S", "r"]},
    }

    def price(S, r=0.05, h=0.01):
        calls = [black_scholes_call(S=S, K=100.0 + x, r=r, sigma=0.2, T=1.0) for x in (-h, h)]
        return (calls[0] - calls[1]) / (2 * h)

    exact = {"S": slope(price, 100.0, 0.05)[0], "r": slope(lambda r: price(100.0, r), 0.05, 1e-4)[0]}
    results = over_seeds(digital, 1024, {})
    check_coverage(results, {("digital", label): value for label, value in exact.items()})


@pytest.mark.slow
def test_the_rates_of_a_network():
    exact = {}
    for q, name in enumerate(("avg", "tail")):
        exact[name, "c1"] = slope(lambda c, q=q: master_equation(c, 0.3)[q], 0.02, 1e-5)[0]
        exact[name, "c2"] = slope(lambda c, q=q: master_equation(0.02, c)[q], 0.3, 1e-5)[0]
    check_coverage(over_seeds(NETWORK, 1024, {}), exact)


@pytest.mark.slow
def test_a_mean_over_one_noise_by_hand_varies_less():
    """The price given the path of its variance: the same derivatives, of far less variance."""
    spot = (
        "100*exp(rho*(r - v - 1.5*(0.04*t - integral(maximum(r, 0))))/xi - rho**2*integral(maximum(r, 0))/2)"
    )
    sigma = "sqrt((1 - rho**2)*integral(maximum(r, 0))/t)"
    given_variance = {
        **WILD,
        "constants": {"v": 0.04, "xi": 0.6, "rho": -0.7},
        "model": {"type": "CIR", "kappa": 1.5, "theta": 0.04, "sigma": "xi"},
        "initial": {"r": "v"},
        "observe": {"call": f"black_scholes_call(S={spot}, K=105, r=0.03, T=t, sigma={sigma})"},
    }
    changes = {"time.steps": 32, "ensemble.paths": 8192}
    plain, by_hand = (simkit.sensitivity(each, overrides=changes) for each in (WILD, given_variance))
    for label, a, b in zip(("v", "xi", "rho"), of(plain, "call"), of(by_hand, "call"), strict=True):
        assert abs(a[0] - b[0]) < 4.5 * np.hypot(a[1], b[1]), label
        assert b[2] < 0.6 * a[2], label
