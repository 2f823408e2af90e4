"""The step bias of given numbers: what it is, and what it says of paths that it leaves out."""

import dataclasses
import io
import math
from typing import Any

import numpy as np
import pytest
from dataset_examples import PROVENANCE, gbm

from simkit.bias import BiasRun, step_bias
from simkit.dataset import to_dataset
from simkit.programs import Request
from simkit.table import print_table, summary


def bias_of(run, again, scale=1.0):
    """By values of the run and of the other grid, whose last row counts."""
    rows = {name: np.stack([np.zeros(len(values)), values])[:, None, :] for name, values in again.items()}
    program: Any = None
    return step_bias(BiasRun(Request(program, ()), len(run["x"]), scale), lambda: rows, run)


def test_its_standard_error_is_that_of_a_mean_of_a_sample():
    """Differences 1, 2, 6 have mean 3 and sample variance 7; three times as coarse of weak order 1."""
    run, again = {"x": np.array([1.0, 5.0, -2.0])}, {"x": np.array([2.0, 7.0, 4.0])}
    found, left_out = bias_of(run, again, scale=2.0)
    assert found["x"] == pytest.approx((3 / 2, math.sqrt(7 / 3) / 2), rel=1e-15)
    assert left_out == {}


def test_paths_that_have_no_value_at_the_other_steps_are_counted():
    """Those that failed in the run are not in its mean either, and not counted."""
    x, y = np.array([1.0, np.nan, 3.0, 4.0]), np.array([1.0, 2.0, 3.0, 4.0])
    again = {"x": np.array([np.inf, 2.0, 3.5, 4.5]), "y": y + 1, "z": np.full(4, np.nan)}
    found, left_out = bias_of({"x": x, "y": y, "z": y}, again)
    assert (found["x"], found["y"]) == ((0.5, 0.0), (1.0, 0.0))
    assert "z" not in found
    assert left_out == {"x": 1, "z": 4}


def test_the_dataset_and_the_table_say_how_many_are_left_out():
    simulation, result = gbm()
    dataset = to_dataset(
        simulation, dataclasses.replace(result, bias_left_out={"call": 7, "S": 1200}), PROVENANCE
    )
    assert dataset.attrs["bias_left_out"] == "call 7, S 1200"
    figures = summary(dataset)
    assert figures["observables"]["call"]["bias_left_out"] == 7
    assert figures["state"]["S"]["bias_left_out"] == 1200
    assert "bias_left_out" not in figures["observables"]["level"]
    file = io.StringIO()
    print_table(dataset, file)
    assert (
        "\nthe step bias leaves out paths without a finite value at its other steps (call: 7, S: 1,200); "
        "take more steps\n"
    ) in file.getvalue()
