"""The examples in the READMEs of rooms: one more closed form, statistic, observable, function, command."""

import math
import re
from typing import ClassVar
from unittest import mock

import numpy as np
import pytest
from checkout import ROOT
from derivative_examples import last
from scipy.stats import norm
from typer.testing import CliRunner

from simkit import CLOSED_FORMS
from simkit.cli import app
from simkit.ensemble.reducers import STATISTICS, Label, Moments, statistic
from simkit.expressions.functions import NUMERIC
from simkit.results.statistics_csv import write_statistics


def defined_by(readme: str) -> dict:
    """What the Python block of a README defines."""
    (block,) = re.findall(r"```python\n(.*?)```", (ROOT / readme).read_text("utf-8"), re.S)
    names: dict = {"__name__": "example"}
    exec(compile(block, readme, "exec"), names)
    return names


def test_a_closed_form_of_ones_own_is_the_exact_value_of_a_run():
    with mock.patch.dict(CLOSED_FORMS):
        dataset = defined_by("simkit/closed_forms/README.md")["dataset"]
        assert "gbm_second_moment" in CLOSED_FORMS
    assert last(dataset, "square_stderr") < 0.02 * last(dataset, "square_mean")
    assert abs(last(dataset, "square_z")) < 5


def test_a_command_of_ones_own_runs_and_reports_mistakes():
    with mock.patch.object(app, "registered_commands", [*app.registered_commands]):
        defined_by("simkit/cli/README.md")
        result = CliRunner().invoke(app, ["steps", str(ROOT / "examples/gbm.yaml")])
        assert (result.exit_code, result.stdout.strip()) == (0, "252"), result.output
        missing = CliRunner().invoke(app, ["steps", "none.yaml"])
        assert missing.exit_code == 4
    assert CliRunner().invoke(app, ["steps", "none.yaml"]).exit_code == 2


def test_a_statistic_of_ones_own_is_in_the_results_of_a_run(tmp_path):
    with mock.patch.dict(STATISTICS):
        dataset = defined_by("simkit/ensemble/README.md")["dataset"]
        write_statistics(dataset, tmp_path / "table.csv")
        header, *lines = (tmp_path / "table.csv").read_text("utf-8").splitlines()
    decay = math.exp(-1)
    exact = norm.cdf(0, 0.5 * (1 - decay), math.sqrt((1 - decay**2) / 2))
    stderr = last(dataset, "X_negative_stderr")
    assert abs(stderr / math.sqrt(exact * (1 - exact) / 4096) - 1) < 0.05
    assert abs(last(dataset, "X_negative") - exact) < 5 * stderr
    assert dataset.X_negative.dims == ("time",)
    assert dataset.X_negative.attrs["units"] == "1"
    column = header.split(",").index("negative")
    assert float(lines[-1].split(",")[column]) == last(dataset, "X_negative")


def test_two_statistics_cannot_have_a_figure_of_the_same_name():
    class Twice(Moments):
        name = "twice"
        labels: ClassVar = {"mean": Label("mean of {}")}

    with mock.patch.dict(STATISTICS), pytest.raises(ValueError, match="figure 'mean' already; rename it"):
        statistic(Twice)


def test_an_observable_of_ones_own_has_its_exact_mean():
    dataset = defined_by("simkit/observe/README.md")["dataset"]
    assert dataset.straddle_mean.dims == ("time",)
    paths = math.exp(-0.05) * np.abs(dataset.S_path[:, -1] - 100)
    np.testing.assert_allclose(dataset.straddle_path[:, -1], paths, rtol=1e-12)
    assert 0.1 < last(dataset, "straddle_stderr") < 0.25
    assert abs(last(dataset, "straddle_z")) < 5


def test_a_function_of_ones_own_is_one_of_the_formula_language():
    with mock.patch.dict(NUMERIC):
        dataset = defined_by("simkit/expressions/README.md")["dataset"]
    assert 0.001 < last(dataset, "root_stderr") < 0.01
    assert abs(last(dataset, "root_z")) < 5
