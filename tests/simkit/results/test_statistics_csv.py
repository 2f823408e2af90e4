"""Results as a table for spreadsheets: every figure, in full precision, and what cannot be in it."""

import csv
import json

import numpy as np
import pytest
from command import simkit_command

import simkit
from simkit import InputError, OutputError, read_dataset, sensitivity, uncertainty, write_dataset

RUN = {
    "constants": {"K": 100.0},
    "model": {"type": "GBM", "mu": 0.05, "sigma": 0.2},
    "initial": {"S": 100.0},
    "time": {"t1": 1.0, "steps": 4},
    "save": {"points": 2},
    "ensemble": {"paths": 512, "seed": 2, "devices": 1},
    "observe": {
        "call": {"value": "maximum(S - K, 0)", "unit": "EUR", "exact": 12.0},
        "square": {"value": "S**2", "at": "each"},
    },
}


def lines_of(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.more
def test_a_run_has_a_line_for_each_quantity_and_time(tmp_path):
    path = tmp_path / "prices.csv"
    result = simkit.run(RUN, out=path)
    lines = lines_of(path)
    assert [(line["quantity"], line["time"]) for line in lines] == [
        *(("S", time) for time in ("0.0", "0.5", "1.0")),
        ("call", "1.0"),
        *(("square", time) for time in ("0.0", "0.5", "1.0")),
    ]
    assert [line["unit"] for line in lines] == ["currency"] * 3 + ["EUR"] + [""] * 3
    for i, line in enumerate(lines[:3]):
        for name in ("mean", "stderr", "variance", "min", "max"):
            assert float(line[name]) == float(result[f"S_{name}"][i])
        for j, level in enumerate(result["quantile"].values):
            assert float(line[f"quantile_{level:g}"]) == float(result.S_quantile[i, j])
    assert [line["bias"] != "" for line in lines] == [False, False, True, True, False, False, True]
    for name in ("mean", "stderr", "bias", "bias_stderr", "exact", "z"):
        assert float(lines[3][name]) == float(result[f"call_{name}"])


def test_variants_are_a_column(tmp_path):
    result = simkit.run({**RUN, "variants": {"low": {}, "high": {"model.sigma": 0.3}}})
    write_dataset(result, tmp_path / "both.csv")
    lines = lines_of(tmp_path / "both.csv")
    assert [line["variant"] for line in lines] == ["low"] * 7 + ["high"] * 7
    assert float(lines[10]["mean"]) == float(result.call_mean[1])
    assert float(lines[10]["difference_stderr"]) == float(result.call_difference_stderr[1])


@pytest.mark.slow
def test_sensitivities_and_studies_are_tables_too(tmp_path):
    dataset = sensitivity(
        {**RUN, "sensitivity": {"wrt": ["model.sigma", "initial.S"], "of": ["call", "square"]}}
    )
    write_dataset(dataset, tmp_path / "greeks.csv")
    lines = {(x["quantity"], x["figure"], x["wrt"], x["time"]): x for x in lines_of(tmp_path / "greeks.csv")}
    assert len(lines) == 1 + 2 + 3 + 2 * 3
    delta = lines["call", "derivative", "initial.S", "1.0"]
    assert float(delta["value"]) == float(dataset.call_derivative[1])
    assert float(delta["stderr"]) == float(dataset.call_derivative_stderr[1])
    assert delta["estimator"] == "pathwise"
    assert float(lines["square", "derivative", "model.sigma", "0.5"]["value"]) == float(
        dataset.square_derivative[0, 1]
    )

    distributions = {"a": {"uniform": [0, 1]}, "b": {"uniform": [0, 1]}}
    experiment = {
        "constants": distributions,
        "model": {"ode": {"x": "a + 2*b - x"}},
        "initial": {"x": 0.0},
        "time": {"t1": 1.0, "steps": 4},
        "observe": {"end": "x"},
        "uncertainty": {"method": "sobol", "points": 32},
    }
    dataset = uncertainty(experiment)
    write_dataset(dataset, tmp_path / "study.csv")
    lines = {(x["measure"], x["parameter"]): x for x in lines_of(tmp_path / "study.csv")}
    for i, name in enumerate(distributions):
        assert float(lines["total", name]["value"]) == float(dataset.total[0, i])
        assert float(lines["total", name]["halfwidth"]) == float(dataset.total_halfwidth[0, i])


def test_step_biases_of_derivatives_have_their_sign_and_their_error(tmp_path):
    """At the end, and those of means too, under the names of the dataset and of the table of a run."""
    asked = {"wrt": ["model.mu", "model.sigma"], "of": ["square"]}
    dataset = sensitivity({**RUN, "solver": "EulerMaruyama", "sensitivity": asked})
    write_dataset(dataset, tmp_path / "greeks.csv")
    *early, last = (row for row in lines_of(tmp_path / "greeks.csv") if row["wrt"] == "model.mu")
    for name in ("bias", "bias_stderr"):
        assert float(last[name]) == float(dataset[f"square_derivative_{name}"][0])
        assert [row[name] for row in early] == ["", ""]
    assert float(last["bias"]) < 0
    assert float(last["step_error"]) == float(dataset["square_derivative_step_error"][0, -1])
    *early, last = (row for row in lines_of(tmp_path / "greeks.csv") if row["figure"] == "mean")
    assert float(last["bias"]) == float(dataset["square_bias"])
    assert float(last["bias_stderr"]) == float(dataset["square_bias_stderr"])
    assert [row["bias"] for row in early] == ["", ""]


def test_what_a_table_cannot_hold_is_refused_before_the_run(tmp_path):
    with pytest.raises(InputError, match=r"save\.paths: .*prices\.csv holds statistics only; write \.zarr"):
        simkit.run({**RUN, "save": {"points": 2, "paths": 10}}, out=tmp_path / "prices.csv")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", ["run", "sensitivity", "uncertainty"])
def test_no_command_drops_requested_paths(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    section = {"sensitivity": {"wrt": ["a"], "of": ["X"]}}
    constants = {"a": 1.0}
    if command == "uncertainty":
        section, constants = {"uncertainty": {"points": 32}}, {"a": {"uniform": [0, 1]}}
    experiment = {
        "constants": constants,
        "model": {"ode": {"X": "a - X"}},
        "initial": {"X": 0.0},
        "time": {"t1": 1.0, "steps": 2},
        "save": {"paths": 1},
        "observe": {"end": "X"},
        **section,
    }
    (tmp_path / "ode.yaml").write_text(json.dumps(experiment))
    result = simkit_command(command, "ode.yaml", "--out", "found.csv", "--no-plot")
    assert result.exit_code == 2
    assert "save.paths: found.csv holds statistics only; write .zarr or .nc" in result.stderr
    if command == "uncertainty":
        with pytest.raises(InputError, match="holds statistics only"):
            uncertainty(experiment, out=tmp_path / "found.csv")


def test_statistics_are_no_initial_values(tmp_path):
    simkit.run(RUN, out=tmp_path / "prices.csv")
    from_file = {**RUN, "initial": {"S": {"file": str(tmp_path / "prices.csv")}}}
    from_file.pop("ensemble", None)
    with pytest.raises(
        InputError, match=r"holds the statistics of a run, and none of its paths; write the run"
    ):
        simkit.run(from_file)


def test_a_table_is_replaced_as_other_results_are(tmp_path):
    path = tmp_path / "prices.csv"
    path.write_text("mine\n")
    with pytest.raises(OutputError, match="exists already"):
        simkit.run(RUN, out=path)
    assert path.read_text() == "mine\n"
    simkit.run(RUN, out=path, overwrite=True)
    assert len(lines_of(path)) == 7
    with pytest.raises(InputError, match=r"prices\.csv: a \.csv is a table for spreadsheets, not a dataset"):
        read_dataset(path)


def test_the_command_says_what_is_left_out(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gbm.yaml").write_text(json.dumps({**RUN, "output": "prices.csv"}))
    result = simkit_command("run", "gbm.yaml", "--no-plot")
    assert result.exit_code == 0, result.stderr
    assert (
        "wrote prices.csv (statistics only; .zarr or .nc holds paths and distributions too)" in result.stderr
    )
    assert np.isfinite(float(lines_of(tmp_path / "prices.csv")[3]["mean"]))
    result = simkit_command("plot", "prices.csv")
    assert result.exit_code == 2
    assert "a .csv is a table for spreadsheets" in result.stderr
