"""A path functional is one class: the example of the README, and that the contract's facts are heeded."""

import re
from unittest import mock

import numpy as np
import pytest
import scipy.stats
from checkout import ROOT
from derivative_examples import derivative, last

from simkit import InputError, load
from simkit.expressions import function_summaries
from simkit.functionals import FUNCTIONALS, AbstractFunctional

README = (ROOT / "simkit/functionals/README.md").read_text("utf-8")


@pytest.fixture
def example():
    """What the example of the README defines."""
    blocks = re.findall(r"```python\n(.*?)```", README, re.S)
    names: dict = {}
    with mock.patch.dict(FUNCTIONALS):
        exec(compile("\n".join(blocks), "simkit/functionals/README.md", "exec"), names)
        yield names


def section(value, **changes):
    """An experiment that observes one value."""
    return {
        "model": {"type": "GBM", "mu": 0.05, "sigma": 0.2},
        "initial": {"S": 100.0},
        "time": {"t1": 1.0, "steps": 12},
        "solver": "ExactSampling",
        "ensemble": {"paths": 4096, "devices": 1},
        "observe": {"q": {"value": value}},
        **changes,
    }


def test_the_example_of_the_readme_has_its_exact_mean_and_is_documented(example):
    """The sum of 12 squares of independent normals: mean and variance are known."""
    dataset = example["dataset"]
    step, mean = 0.2**2 / 12, (0.05 - 0.02) / 12
    variance = 12 * (2 * step**2 + 4 * step * mean**2)
    stderr = last(dataset, "variance_stderr")
    assert abs(stderr / np.sqrt(variance / 4096) - 1) < 0.1
    assert abs(last(dataset, "variance_mean") - 12 * (step + mean**2)) < 5 * stderr
    assert abs(last(dataset, "variance_z")) < 5
    assert function_summaries()["squared_increments"].startswith("squared_increments(x), ")


def chance(sigma):
    """The probability that the sum of squares exceeds 0.04: that of a noncentral chi-squared."""
    step, mean = sigma**2 / 12, (0.05 - sigma**2 / 2) / 12
    return scipy.stats.ncx2.sf(0.04 / step, 12, 12 * mean**2 / step)


def test_a_derivative_follows_the_path_where_no_slope_jumps(example):
    estimate, stderr, estimator, _ = derivative(section("squared_increments(log(S))"), "model.sigma", "q")
    assert estimator == "pathwise"
    assert abs(estimate - (2 * 0.2 - 2 * (0.05 - 0.02) * 0.2 / 12)) < 5 * stderr


def test_a_functional_whose_slope_may_jump_anywhere_is_not_smoothed(example):
    """The careful default: the derivative of a chance is then by the score, which knows no path."""
    careful = type("Careful", (example["SquaredIncrements"],), {"kink": AbstractFunctional.kink})
    FUNCTIONALS[careful.name] = careful
    value = "squared_increments(log(S)) > 0.04"
    estimate, stderr, estimator, _ = derivative(section(value), "model.sigma", "q")
    assert estimator == "score"
    assert abs(estimate - (chance(0.2 + 1e-5) - chance(0.2 - 1e-5)) / 2e-5) < 5 * stderr


def test_a_careful_default_refuses_runs_that_it_does_not_know(example):
    with pytest.raises(
        InputError, match=r"squared_increments.* monitors the path step by step, and adaptive"
    ):
        load(
            section(
                "squared_increments(S)", time={"t1": 1.0, "rtol": 1e-3, "atol": 1e-3}, solver="EulerMaruyama"
            )
        )


def test_without_its_class_the_name_is_unknown():
    with pytest.raises(InputError, match="unknown function 'squared_increments'"):
        load(section("squared_increments(S)"))
