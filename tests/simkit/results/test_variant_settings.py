"""Along `variant` and `path` datasets have numbers as coordinates, where the experiments give some."""

import json

import numpy as np
import pytest
import xarray as xr
import yaml

import simkit
from simkit.results.variant_settings import differing_numbers
from simkit.results.variants import one_variant

STUDY = {
    "model": {"type": "GBM", "mu": 0.05, "sigma": 0.2},
    "initial": {"S": 100.0},
    "solver": "ExactSampling",
    "time": {"t1": 1.0, "steps": 1},
    "ensemble": {"paths": 64, "devices": 1},
    "save": {"points": 1, "paths": 5},
}
VARIANTS = {"low": {"model.sigma": 0.1}, "base": {}, "high": {"model.sigma": 0.4}}


@pytest.fixture(scope="module")
def together() -> xr.Dataset:
    return simkit.run({**STUDY, "variants": VARIANTS})


def of_settings(*each: dict) -> dict[str, list]:
    datasets = {
        f"v{i}": xr.Dataset(attrs={"configuration": yaml.safe_dump(one)}) for i, one in enumerate(each)
    }
    return {key: values.tolist() for key, (_, values, _) in differing_numbers(datasets).items()}


def test_numbers_that_differ_are_coordinates_and_nothing_else_is():
    first = {"model": {"type": "GBM", "mu": 0.05}, "time": {"steps": 4}, "save": {"quantiles": [0.1]}}
    second = {"model": {"type": "CEV", "mu": 0.1}, "time": {"steps": 4}, "save": {"quantiles": [0.2]}}
    assert of_settings(first, second) == {"model.mu": [0.05, 0.1]}
    assert of_settings(first, first) == {}
    assert of_settings({"a": {"b": 1}}, {"a": {"b": "r"}}) == {}
    assert of_settings({"a": {"b": True}}, {"a": {"b": False}}) == {}
    assert of_settings({"a": {"b": 1}}, {}) == of_settings({}, {"a": {"b": 1}}) == {}


def test_variants_have_a_numeric_axis_and_are_still_selected_by_name(together):
    assert together["model.sigma"].dims == ("variant",)
    assert together["model.sigma"].values.tolist() == [0.1, 0.2, 0.4]
    variance = together["S_variance"].isel(time=-1)
    by_sigma = variance.swap_dims(variant="model.sigma")
    assert float(by_sigma.sel({"model.sigma": 0.4})) == float(variance.sel(variant="high"))
    assert by_sigma.interp({"model.sigma": 0.3}).dtype == float


def test_a_variant_by_itself_has_the_coordinates_of_a_run_by_itself(together):
    own, alone = one_variant(together, "high"), simkit.run(STUDY, overrides={"model.sigma": 0.4})
    assert set(own.coords) == set(alone.coords) - {"S_bin"}
    assert own["S_mean"].equals(alone["S_mean"])
    assert own["S_path"].equals(alone["S_path"])


def test_stored_paths_have_their_numbers(together):
    assert together["path"].values.tolist() == list(range(5))
    one, base = simkit.run(STUDY)["S_path"], together["S_path"].sel(variant="base")
    assert np.array_equal(one.sel(path=3), base.sel(path=3))
    assert "path" not in simkit.run(STUDY, overrides={"save.paths": 0}).coords


@pytest.mark.parametrize("suffix", ["nc", "zarr"])
def test_the_numbers_are_stored(together, suffix, tmp_path):
    simkit.write_dataset(together, tmp_path / f"study.{suffix}")
    again = simkit.read_dataset(tmp_path / f"study.{suffix}")
    assert again.equals(together)
    assert np.array_equal(again["model.sigma"], [0.1, 0.2, 0.4])
    assert json.loads(again.attrs["variant_attributes"]).keys() == VARIANTS.keys()


def test_derivatives_of_variants_have_them_too():
    result = simkit.sensitivity({**STUDY, "variants": VARIANTS}, wrt="initial.S")
    assert result["model.sigma"].values.tolist() == [0.1, 0.2, 0.4]
