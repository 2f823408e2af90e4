"""A dataset says what each number is, and compares with exact values where they are known."""

import dataclasses
import math

import numpy as np
import pytest
from dataset_examples import LEVELS, PROVENANCE, gbm, gbm_dataset, one_curve_dataset

import simkit
from simkit import InputError, load, read_dataset, sensitivity
from simkit.distributions import Normal
from simkit.results.dataset import to_dataset
from simkit.results.quantity import described
from simkit.results.result_names import clash


def test_dimensions_are_named():
    dataset = gbm_dataset()
    for key in ("mean", "stderr", "variance", "variance_stderr", "min", "max", "exact", "exact_variance"):
        assert dataset[f"S_{key}"].dims == ("time",)
    for key in ("quantile", "quantile_stderr", "quantile_bin_error"):
        assert dataset[f"level_{key}"].dims == ("time", "quantile")
    assert dataset["S_path"].dims == ("path", "time")
    assert dataset["call_path"].dims == ("path",)
    assert dataset["S_histogram"].dims == ("S_bin",)
    assert dataset["S_histogram_edge"].dims == ("S_edge",)
    for key in ("mean", "stderr", "variance", "min", "max", "exact", "bias", "bias_stderr", "z"):
        assert dataset[f"call_{key}"].dims == ()
    assert dataset["call_quantile"].dims == ("quantile",)
    assert dataset["covariance"].dims == ("quantity", "quantity_2")
    assert list(dataset["quantity"].values) == ["S", "call", "level"]
    np.testing.assert_allclose(dataset["time"], np.linspace(0, 1, 13))
    np.testing.assert_array_equal(dataset["quantile"], LEVELS)


def test_everything_has_a_unit_and_a_long_name():
    dataset = gbm_dataset(failed=37)
    for name, variable in dataset.variables.items():
        assert isinstance(variable.attrs["units"], str), name
        assert variable.attrs["long_name"], name
    assert dataset["S_mean"].attrs["units"] == "currency"
    assert dataset["S_mean"].attrs["long_name"] == "mean of asset price"
    assert (
        dataset["S_variance"].attrs["units"] == dataset["S_variance_stderr"].attrs["units"] == "(currency)^2"
    )
    assert dataset["call_mean"].attrs["long_name"] == "mean of exp(-r*t) * maximum(S - K, 0)"
    assert dataset["level_mean"].attrs["units"] == ""
    assert one_curve_dataset()["X_mean"].attrs["units"] == ""


def test_an_observable_has_the_unit_of_the_variable_that_it_is_a_value_of():
    """And a first time that of time, if it has one; an own unit comes first, and products have none."""
    each = {
        "x": ("S", "currency"),
        "largest": ("max(S)", "currency"),
        "average": ("mean(S)", "currency"),
        "early": ("at(S, 0.5)", "currency"),
        "then": ("first(S, S > 110)", "currency"),
        "when": ("hitting_time(S > 110)", "year"),
        "square": ("mean(S*S)", ""),
        "total": ("integral(S)", ""),
        "own": ({"value": "S", "unit": "EUR"}, "EUR"),
    }
    experiment = {
        "model": {"type": "GBM", "mu": 0.05, "sigma": 0.2},
        "initial": {"S": 100.0},
        "time": {"t1": 1.0, "steps": 8, "unit": "year"},
        "observe": {name: value for name, (value, _) in each.items()},
        "ensemble": {"paths": 64, "seed": 1},
    }
    units = {name: unit for name, (unit, _) in described(load(experiment)).items()}
    assert units == {"S": "currency"} | {name: unit for name, (_, unit) in each.items()}


def test_provenance_and_counts_are_attributes():
    dataset = gbm_dataset(failed=37)
    for key, value in PROVENANCE.items():
        assert dataset.attrs[key] == value
    assert (dataset.attrs["paths"], dataset.attrs["failed_paths"], dataset.attrs["seed"]) == (2000, 37, 42)
    assert dataset["S_mean"].attrs["n"] == dataset["call_stderr"].attrs["n"] == 1963
    assert all(isinstance(value, str | int | float) for value in dataset.attrs.values())


def test_the_models_exact_moments_stand_next_to_the_estimates():
    dataset = gbm_dataset()
    t = dataset["time"].values
    np.testing.assert_allclose(dataset["S_exact"], 100 * np.exp(0.05 * t), rtol=1e-12)
    variance = 1e4 * np.exp(0.1 * t) * np.expm1(0.04 * t)
    np.testing.assert_allclose(dataset["S_exact_variance"], variance, rtol=1e-12)
    assert "level_exact" not in dataset
    assert "level_z" not in dataset


def test_exact_moments_count_time_from_the_start():
    simulation, result = gbm()
    later = dataclasses.replace(result, times=result.times + 5)
    np.testing.assert_allclose(
        to_dataset(simulation, later, {})["S_exact"],
        to_dataset(simulation, result, {})["S_exact"],
        rtol=1e-12,
    )


def test_a_random_start_has_no_exact_moments():
    simulation, result = gbm()
    simulation = simulation.with_run(initial={"S": Normal(100.0, 1.0)})
    dataset = to_dataset(simulation, result, {})
    assert "S_exact" not in dataset
    assert "S_z" not in dataset
    assert "call_exact" in dataset


def test_z_allows_for_the_step_bias_and_its_error():
    dataset = gbm_dataset()
    off = dataset["call_mean"] - dataset["call_exact"] - 0.0021
    np.testing.assert_allclose(dataset["call_z"], off / np.hypot(dataset["call_stderr"], 0.0008), rtol=1e-12)
    end = dataset.isel(time=-1)
    off = end["S_mean"] - end["S_exact"]
    np.testing.assert_allclose(dataset["S_z"], off / np.hypot(end["S_stderr"], 0.001), rtol=1e-12)
    simulation, result = gbm()
    without = to_dataset(simulation, dataclasses.replace(result, bias={}), {})
    assert "call_bias" not in without
    off = without["call_mean"] - without["call_exact"]
    np.testing.assert_allclose(without["call_z"], off / without["call_stderr"], rtol=1e-12)
    assert np.isnan(one_curve_dataset()["X_z"])


def test_z_allows_for_a_step_bias_that_is_known_less_well_than_the_mean():
    simulation, result = gbm()
    stderr = float(to_dataset(simulation, result, {})["call_stderr"])
    known = dataclasses.replace(result.bias["call"], stderr=3 * stderr)
    dataset = to_dataset(simulation, dataclasses.replace(result, bias={"call": known}), {})
    off = float(dataset["call_mean"] - dataset["call_exact"]) - known.bias
    assert float(dataset["call_z"]) == pytest.approx(off / (math.sqrt(10) * stderr), rel=1e-12)


def test_a_few_paths_are_always_there_and_as_many_as_were_requested():
    assert gbm_dataset().sizes["path"] == 20
    stored = gbm_dataset(stored=50)
    assert stored.sizes["path"] == 50
    np.testing.assert_allclose(stored["level_path"], stored["S_path"] / 100, rtol=1e-12)
    np.testing.assert_array_equal(stored["S_path"][:20], gbm_dataset()["S_path"])


def test_the_covariance_is_that_of_the_end():
    dataset = gbm_dataset()
    covariance = dataset["covariance"]
    np.testing.assert_allclose(
        covariance.sel(quantity="S", quantity_2="S"), dataset["S_variance"][-1], rtol=1e-12
    )
    np.testing.assert_allclose(
        covariance.sel(quantity="S", quantity_2="level") * 100, dataset["S_variance"][-1]
    )


def test_two_quantities_never_share_a_result():
    assert clash(["S", "call"], "S_2") is None
    assert clash(["S", "call"], "S_bias") == ("S", "S_bias_stderr")


ODD = ("max", "e", "t", "lambda", "time", "variant", "quantity", "path", "n", "K", "sigma", "parameter")


@pytest.mark.slow
def test_observables_may_be_called_what_they_like(tmp_path):
    """No expression refers to them: functions, words of Python and labels of the dataset will do."""
    experiment = {
        "constants": {"K": 100.0},
        "model": {"type": "GBM", "mu": 0.05, "sigma": 0.2},
        "initial": {"S": 100.0},
        "solver": "ExactSampling",
        "time": {"t1": 1.0, "steps": 2},
        "ensemble": {"paths": 64, "devices": 1},
        "observe": {name: f"S + {i}" for i, name in enumerate(ODD)},
        "variants": {"low": {}, "high": {"model.sigma": 0.3}},
    }
    result = simkit.run(experiment, out=tmp_path / "odd.zarr")
    again = read_dataset(tmp_path / "odd.zarr")
    for i, name in enumerate(ODD):
        np.testing.assert_allclose(result[f"{name}_mean"], result["S_mean"][:, -1] + i, rtol=1e-12)
        np.testing.assert_array_equal(result[f"{name}_mean"], again[f"{name}_mean"])
    alone = {key: value for key, value in experiment.items() if key != "variants"}
    slopes = sensitivity({**alone, "sensitivity": {"wrt": ["initial.S"], "of": list(ODD)}})
    for name in ODD:
        assert float(slopes[f"{name}_derivative"][0]) == pytest.approx(float(slopes.max_derivative[0]))


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (
            ("call", "call_bias"),
            "call and call_bias would both have a result call_bias_stderr",
        ),
        (("S",), "S is a state variable, whose statistics are given anyway; choose another name"),
        (("a b",), "^observe: 'a b' is not a name: use letters, digits and _, and begin with a letter"),
        (("größe",), r"is not a name: use plain letters \(a to z\), digits and _"),
        (("_x",), "'_x' begins with _; begin with a letter"),
    ],
)
def test_names_that_are_refused_say_why(names, message):
    experiment = {"model": {"type": "GBM", "mu": 0.05, "sigma": 0.2}, "initial": {"S": 100.0}}
    with pytest.raises(InputError, match=message):
        load({**experiment, "time": {"t1": 1.0, "steps": 2}, "observe": dict.fromkeys(names, "S")})
