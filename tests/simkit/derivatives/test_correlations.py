"""Derivatives in correlations, and uncertain ones."""

import pytest
from derivative_examples import LIMIT, derivative
from slow_cases import slow_but

from simkit import InputError, uncertainty

CORRELATED = {
    "Heston": (
        {"type": "Heston", "mu": 0.0, "kappa": 2.0, "theta": 0.04, "xi": 0.3, "rho": 1.0},
        {"S": 1.0, "v": 0.04},
        "v*v",
    ),
    "SABR": ({"type": "SABR", "beta": 1.0, "nu": 0.4, "rho": -1.0}, {"F": 1.0, "alpha": 0.2}, "alpha**2"),
    "MultiAssetGBM": (
        {"type": "MultiAssetGBM", "size": 2, "mu1": 0, "mu2": 0, "sigma1": 0.2, "sigma2": 0.2, "rho12": 1.0},
        {"S1": 1.0, "S2": 1.0},
        "S2**2",
    ),
    "inline": (
        {
            "sde": {"X": {"drift": 0.0, "noise": {"W": 1.0}}, "Y": {"drift": 0.0, "noise": {"B": 1.0}}},
            "correlation": {"W-B": "rho"},
            "parameters": {"rho": 1.0},
        },
        {"X": 0.0, "Y": 0.0},
        "Y**2",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["inline", *slow_but((), ("Heston", "SABR", "MultiAssetGBM"))],
)
def test_at_a_correlation_of_one_the_other_noise_counts(name):
    """The distribution of one variable does not depend on its correlation with another."""
    model, initial, text = CORRELATED[name]
    experiment = {
        "model": model,
        "initial": initial,
        "time": {"t1": 1.0, "steps": 4},
        "ensemble": {"paths": 2**12, "seed": 1, "devices": 1},
        "observe": {"square": text},
    }
    wrt = "rho12" if name == "MultiAssetGBM" else "rho"
    estimate, error, estimator, _ = derivative(experiment, wrt, "square")
    assert estimator == "finite differences"
    assert abs(estimate) < LIMIT * error
    inside = {**experiment, "model": {**model, wrt: 0.9}}
    if name == "inline":
        inside["model"] = {**model, "parameters": {"rho": 0.9}}
    assert derivative(inside, wrt, "square")[2] == "pathwise"


def test_uncertain_correlations_are_those_of_random_variables():
    """Outside, the root of the matrix would be cut off and the noise too large."""
    text = """\
constants: {rho: {uniform: [0.5, 1.2]}}
model: {sde: {X: {drift: 0.0, noise: {W: 1.0}}, Y: {drift: 0.0, noise: {B: 1.0}}}, correlation: {W-B: rho}}
initial: {X: 0.0, Y: 0.0}
time: {t1: 1, steps: 2}
uncertainty: {method: propagate, points: 16, paths: 4}
"""
    with pytest.raises(InputError, match="the least eigenvalue of the correlations: must be >= -1e-12"):
        uncertainty(text)
