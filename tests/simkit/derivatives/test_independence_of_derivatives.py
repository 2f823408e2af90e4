"""A derivative depends neither on what else a study has nor on how its observable is written."""

import numpy as np
import pytest

import simkit

PRICE = {
    "constants": {"r": 0.05, "K": 100.0},
    "model": {"type": "GBM", "mu": "r", "sigma": 0.2},
    "initial": {"S": 100.0},
    "solver": "ExactSampling",
    "time": {"t1": 1.0, "steps": 2},
    "ensemble": {"paths": 2**11, "seed": 5, "devices": 1},
    "observe": {"call": "maximum(S - K, 0)", "near": "S > K", "far": "S > 130", "touched": "max(S) > 125"},
}


def figures(given, method, of):
    """The derivatives in S of some observables, and their errors, by name."""
    result = simkit.sensitivity({**given, "sensitivity": {"wrt": ["S"], "of": of, "method": method}})
    names = {name: [f"{name}_derivative{kind}" for kind in ("", "_stderr", "_sd")] for name in of}
    return {name: np.array([result[each].values for each in kinds]) for name, kinds in names.items()}


@pytest.mark.parametrize(
    ("method", "of"),
    [("finite_differences", ["call", "near"]), ("smoothing", ["near", "far", "touched"])],
)
def test_a_derivative_is_the_same_in_any_company(method, of):
    """Each has steps, and places to smooth at, of its own."""
    together = figures(PRICE, method, of)
    for name in of:
        alone = figures(PRICE, method, [name])[name]
        np.testing.assert_allclose(together[name], alone, rtol=1e-9, err_msg=name)
        assert np.all(together[name] != 0)


MIRRORED = {
    "model": {"type": "OrnsteinUhlenbeck", "theta": 1.0, "mu": 0.2, "sigma": 0.7},
    "initial": {"X": 0.3},
    "solver": "ExactSampling",
    "time": {"t1": 1.0, "steps": 8},
    "ensemble": {"paths": 2**11, "seed": 2, "devices": 1},
}
CONDITION = ("min(X) > -0.2", "-max(-X) > -0.2"), {"wrt": ["mu", "X"]}, "derivative"
VALUE = ("maximum(min(X) + 1, 0)", "maximum(1 - max(-X), 0)"), {"wrt": ["X"], "second": ["X"]}, "second"


@pytest.mark.more
@pytest.mark.parametrize(
    ("texts", "section", "kind"), [CONDITION, pytest.param(*VALUE, marks=pytest.mark.slow)]
)
def test_the_least_value_is_the_largest_with_the_other_sign(texts, section, kind):
    """By the same estimators, with the same errors: also in where paths begin, and of second derivatives."""
    least, largest = (
        simkit.sensitivity(
            MIRRORED | {"observe": {"value": {"value": text, "every": 2}}, "sensitivity": section}
        )
        for text in texts
    )
    assert list(least[f"value_{kind}_estimator"].values) == list(largest[f"value_{kind}_estimator"].values)
    for name in (f"value_{kind}", f"value_{kind}_stderr"):
        np.testing.assert_allclose(least[name].values, largest[name].values, rtol=1e-7, err_msg=name)
