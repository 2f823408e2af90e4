"""A run that goes on from the end of another has the bits of a run without the stop."""

import numpy as np
import pytest
import xarray as xr
from md_examples import fluid
from slow_cases import slow_but

import simkit
from simkit import InputError, read_dataset, write_dataset
from simkit.md.experiment import load_particles

pytestmark = pytest.mark.more

LANGEVIN = {"type": "BAOAB", "temperature": 1.0, "friction": 1.0}
CHAINS = {"type": "NoseHooverChains", "temperature": 1.0, "relaxation_time": 0.2}
RESCALING = {"type": "StochasticVelocityRescaling", "temperature": 1.0, "relaxation_time": 0.2}
BROWNIAN = {"type": "BrownianDynamics", "temperature": 1.0, "friction": 100.0}
OBSERVE = {"U": "potential_energy", "P": "pressure_xy"}
MOVING = OBSERVE | {"T": "temperature", "C": "conserved_energy"}
SMALL, LARGE = 3, 6  # cells: 108 particles have all pairs, 864 have lists


def halves(tmp_path, steps: int = 60, first: dict | None = None, suffix: str = ".zarr", **changes):
    """A run, and one of as many steps that is stopped in the middle and goes on."""
    file = tmp_path / f"half{suffix}"
    whole = simkit.run(fluid(**changes, time__steps=2 * steps))
    half = simkit.run(fluid(**changes, time__steps=steps) | (first or {}), out=file)
    system = {"file": str(file)}
    rest = simkit.run(fluid(**{**changes, "system": system}, time__steps=steps))
    return whole, half, rest


def assert_same_from_the_middle(whole, half, rest) -> None:
    for name in whole.attrs["observables"].split():
        series = np.concatenate([half[f"{name}_path"], rest[f"{name}_path"][:, 1:]], axis=1)
        np.testing.assert_array_equal(series, whole[f"{name}_path"], err_msg=name)
    for name in ("end_position", "end_image", "end_velocity"):
        if name in whole:
            np.testing.assert_array_equal(rest[name], whole[name], err_msg=name)
    assert rest.attrs["start"].endswith(f"after step {half.attrs['steps']}, exactly")


@pytest.mark.parametrize(
    ("solver", "cells"),
    [
        pytest.param(CHAINS, LARGE, marks=pytest.mark.slow),
        (BROWNIAN, SMALL),
        (CHAINS, SMALL),
        pytest.param(LANGEVIN, LARGE, marks=pytest.mark.slow),
        pytest.param(RESCALING, LARGE, marks=pytest.mark.slow),
        pytest.param("VelocityVerlet", LARGE, marks=pytest.mark.slow),
        pytest.param(BROWNIAN, LARGE, marks=pytest.mark.slow),
    ],
)
def test_two_halves_have_the_bits_of_the_whole(tmp_path, solver, cells):
    observe = OBSERVE if solver is BROWNIAN else MOVING
    changes = {"solver": solver, "observe": observe, "system__lattice__cells": cells}
    whole, half, rest = halves(tmp_path, **changes)
    assert_same_from_the_middle(whole, half, rest)
    assert ("neighbour lists" in whole.attrs["forces"]) == (cells == LARGE)


@pytest.mark.parametrize("precision", ["mixed", pytest.param("float32", marks=pytest.mark.slow)])
def test_the_same_holds_in_other_precisions(tmp_path, precision):
    changes = {"solver": CHAINS, "observe": MOVING, "system__lattice__cells": LARGE, "precision": precision}
    assert_same_from_the_middle(*halves(tmp_path, **changes))


def test_each_replica_goes_on_from_its_own_end_in_netcdf_too(tmp_path):
    changes = {"solver": LANGEVIN, "observe": MOVING, "ensemble": {"paths": 3, "seed": 4}}
    whole, half, rest = halves(tmp_path, suffix=".nc", **changes)
    assert_same_from_the_middle(whole, half, rest)
    with pytest.raises(InputError, match=r"ensemble.paths: the run in system.file has 3 replicas, got 4"):
        load_particles(
            fluid(**changes | {"system": {"file": str(tmp_path / "half.nc")}, "ensemble__paths": 4})
        )


@pytest.mark.slow
def test_all_replicas_start_from_one_and_then_part(tmp_path):
    file = tmp_path / "one.zarr"
    simkit.run(fluid(time__steps=20, observe=MOVING), out=file)
    several = fluid(system={"file": str(file)}, solver=LANGEVIN, observe=MOVING, ensemble__paths=2)
    energies = simkit.run(several)["U_path"].values
    assert energies[0, 0] == energies[1, 0]
    assert energies[0, -1] != energies[1, -1]


@pytest.mark.slow
def test_what_is_changed_is_said_and_the_rest_goes_on_to_round_off(tmp_path):
    file, changes = tmp_path / "half.zarr", {"observe": MOVING, "system__lattice__cells": LARGE}
    half = simkit.run(fluid(**changes), out=file)
    start = fluid(**changes | {"system": {"file": str(file)}})
    exact = simkit.run(start)
    other = simkit.run(start, overrides={"precision": "mixed"})
    assert "with new lists and a new thermostat, as its precision is float64" in other.attrs["start"]
    np.testing.assert_allclose(other["U_path"][0, 0], half["U_path"][0, -1], rtol=1e-6)
    new = simkit.run(start, overrides={"potential.cutoff": 2.2, "time.steps": 0})
    assert "as the cutoff or the box is another" in new.attrs["start"]
    bath = simkit.run(start, overrides={"solver": CHAINS, "time.steps": 10})
    assert "exactly but for NoseHooverChains, which begins anew" in bath.attrs["start"]
    drawn = simkit.run(start, overrides={"system.velocities.temperature": 0.5, "time.steps": 0})
    assert "as velocities are drawn" in drawn.attrs["start"]
    assert float(drawn["T_mean"]) == pytest.approx(0.5, rel=1e-12)
    assert exact.attrs["start"].endswith("exactly")


@pytest.mark.slow
def test_new_lists_change_a_run_by_round_off_only(tmp_path):
    """Through extended XYZ, which has all digits but no lists."""
    file, end = tmp_path / "half.zarr", tmp_path / "end.xyz"
    changes = {"observe": MOVING, "system__lattice__cells": LARGE, "potential__truncation": "shifted_force"}
    simkit.run(fluid(**changes, save__end=str(end)), out=file)
    exact, new = (
        simkit.run(fluid(**changes | {"system": {"file": str(path)}}, time__steps=50)) for path in (file, end)
    )
    assert np.any(exact["U_path"].values != new["U_path"].values)
    np.testing.assert_allclose(new["U_path"], exact["U_path"], rtol=1e-9)


@pytest.mark.slow
@pytest.mark.user_code
def test_stages_may_start_from_a_saved_state_and_observables_begin_with_the_run(tmp_path):
    file = tmp_path / "half.zarr"
    stages = {"warm": {"solver": CHAINS, "steps": 20}}
    changes = {"observe": MOVING, "solver": CHAINS}
    simkit.run(fluid(**changes), out=file)
    staged = simkit.run(fluid(**changes | {"system": {"file": str(file)}}, stages=stages, time__steps=10))
    whole = simkit.run(fluid(**changes, time__steps=70))
    np.testing.assert_array_equal(staged["T_path"][0, 0], whole["T_path"][0, 6])
    assert staged["step"].values.tolist() == [0, 10]


def test_noise_is_not_drawn_twice(tmp_path):
    """A run that started its noise anew would repeat that of the first half."""
    file = tmp_path / "half.zarr"
    free = {"potential__epsilon": 1e-9, "solver": LANGEVIN | {"friction": 1e3}, "observe": MOVING}
    first = simkit.run(fluid(**free), out=file)
    second = simkit.run(fluid(**free | {"system": {"file": str(file)}}))
    np.testing.assert_array_less(
        1e-3, np.abs(second["T_path"].values[0, 1:] - first["T_path"].values[0, 1:]).min()
    )


@pytest.fixture
def saved(tmp_path):
    file = tmp_path / "a.nc"
    simkit.run(fluid(time__steps=10), out=file)
    return file


def spoilt(file, change) -> None:
    dataset = read_dataset(file)
    write_dataset(change(dataset), file, overwrite=True)


def with_nan(dataset: xr.Dataset) -> xr.Dataset:
    dataset["end_position"].values[0, 7, 1] = np.nan
    return dataset


def with_a_flipped_byte(dataset: xr.Dataset) -> xr.Dataset:
    dataset["state"].values[0, dataset.sizes["byte"] // 2] ^= 1
    return dataset


def without_kind(dataset: xr.Dataset) -> xr.Dataset:
    del dataset.attrs["simkit_kind"]
    return dataset


SPOILT = {
    "nan": (
        with_nan,
        "the position of particle 7 (counted from 0) of replica 0 is not finite: it is damaged",
    ),
    "a flipped byte": (with_a_flipped_byte, "its variable state is damaged"),
    "cut off": (lambda d: d.isel(byte=slice(0, 1000)), "its variable state is damaged"),
    "no particles": (
        without_kind,
        "(it holds paths of a model); give the dataset under `output` of such a run",
    ),
    "no end": (lambda d: d.drop_vars("end_position"), "does not hold the end of a run of molecular dynamics"),
    "outside": (lambda d: d.assign(end_position=d["end_position"] + 3), "is outside the box with the sides"),
}


@pytest.mark.parametrize("case", slow_but(("nan", "a flipped byte", "no particles"), SPOILT))
def test_a_damaged_state_is_refused_and_nothing_is_written(saved, case):
    change, message = SPOILT[case]
    spoilt(saved, change)
    with pytest.raises(InputError) as caught:
        simkit.run(fluid(system={"file": str(saved)}), out=saved.with_name("b.zarr"))
    assert message in str(caught.value)
    assert "system.file: " in str(caught.value)
    assert [path.name for path in saved.parent.iterdir()] == ["a.nc"]


@pytest.mark.slow
def test_units_of_the_earlier_run_and_other_datasets_are_refused(saved, tmp_path):
    with pytest.raises(
        InputError, match=r"system.file: is the end of a run in the units lj; write units: lj"
    ):
        load_particles(fluid(system={"file": str(saved), "units": "metal", "species": {"A": {"mass": 1.0}}}))
    store = tmp_path / "frames.zarr"
    simkit.run(fluid(save__trajectory={"file": str(store), "every": 20}))
    with pytest.raises(InputError, match=r"system.file: [^ ]*frames.zarr: holds the frames of a trajectory"):
        load_particles(fluid(system={"file": str(store)}))


@pytest.mark.parametrize("precision", [pytest.param("float64", marks=pytest.mark.slow), "mixed"])
def test_images_of_an_earlier_run_go_on_with_new_lists_too(tmp_path, precision):
    """Positions without the box move continuously over the stop."""
    file = tmp_path / "half.zarr"
    fast = {"system__velocities__temperature": 200.0, "potential__epsilon": 0.01, "time__dt": 0.001}
    half = simkit.run(fluid(**fast, time__steps=300), out=file)
    new = {"system": {"file": str(file)}, "precision": precision}
    rest = simkit.run(fluid(**fast | new, time__steps=10))
    assert np.abs(half["end_image"].values).max() > 0
    sides = np.diagonal(half["box_vectors"].values)
    paths = [run["end_position"].values[0] + run["end_image"].values[0] * sides for run in (half, rest)]
    moved = np.abs(paths[1] - paths[0]).max()
    assert 0.1 < moved < 0.3 * sides[0]
