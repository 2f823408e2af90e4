"""Trajectories: frames as the run goes on, in each format; velocities and drifts of files."""

import importlib
import os
import signal
import subprocess
import sys
import threading
import time
import warnings

import numpy as np
import pytest
import xarray as xr
import yaml
from command import HEEDFUL
from md_examples import fluid

import simkit
from simkit import InputError, NumericalError, OutputError
from simkit.md.files import frame_store
from simkit.md.files.lammps_data import read_lammps_data
from simkit.md.files.xyz import read_xyz

pytestmark = pytest.mark.more

BROWNIAN = {"type": "BrownianDynamics", "temperature": 1.0, "friction": 100.0}
OBSERVE = {"U": "potential_energy"}


def run_with(tmp_path, *suffixes: str, **changes):
    """Runs of one experiment with a trajectory in each format; the dataset of the last."""
    for suffix in suffixes:
        file = {"file": str(tmp_path / f"a.{suffix}"), "every": 20}
        dataset = simkit.run(fluid(observe=OBSERVE, **changes, save__trajectory=file), overwrite=True)
    return dataset


def test_frames_are_the_same_in_each_format(tmp_path):
    dataset = run_with(tmp_path, "xyz", "dcd", "zarr", ensemble__paths=2)
    store = xr.open_zarr(tmp_path / "a.zarr")
    assert dict(store.sizes) == {"path": 2, "time": 3, "particle": 108, "axis": 3, "vector": 3}
    assert store["position"].encoding["chunks"] == (1, 1, 108, 3)
    np.testing.assert_allclose(store["time"], [0, 0.08, 0.16])
    for replica, stem in enumerate(["a", "a.1"]):
        last = read_xyz(tmp_path / f"{stem}.xyz")
        np.testing.assert_array_equal(store["position"][replica, -1], last.positions)
        np.testing.assert_array_equal(store["velocity"][replica, -1], last.velocities)
        np.testing.assert_array_equal(dataset["end_position"][replica], last.positions)
        np.testing.assert_array_equal(dataset["end_image"][replica], store["image"][replica, -1])
        content = np.frombuffer((tmp_path / f"{stem}.dcd").read_bytes()[-(4 * 108 + 8) * 3 :], np.float32)
        rows = content.reshape(3, 110)[:, 1:-1].T
        np.testing.assert_array_equal(rows, last.positions.astype(np.float32))
    assert np.any(store["position"][0, -1].values != store["position"][1, -1].values)


@pytest.mark.parametrize(("units", "angstrom", "femtosecond"), [("real", 1.0, 1.0), ("si", 1e-10, 1e-15)])
def test_dcd_is_in_angstroms_and_in_its_unit_of_time(tmp_path, units, angstrom, femtosecond):
    mass = 39.948 * (1e-3 / 6.02214076e23 if units == "si" else 1)
    dataset = run_with(
        tmp_path,
        "dcd",
        system={
            "units": units,
            "lattice": {"type": "fcc", "cells": 2, "spacing": 5.3 * angstrom},
            "species": {"A": {"mass": mass}},
        },
        potential={"type": "LennardJones", "epsilon": 1e-22, "sigma": 3.4 * angstrom, "cutoff": 5 * angstrom},
        time={"dt": 2 * femtosecond, "steps": 20},
        save__every=20,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        frames = importlib.import_module("MDAnalysis").Universe.empty(32).load_new(str(tmp_path / "a.dcd"))
        last = frames.trajectory[-1]
    expected = dataset["end_position"][0] / angstrom
    np.testing.assert_allclose(last.positions, expected, rtol=1e-6)
    np.testing.assert_allclose(last.dimensions, [10.6, 10.6, 10.6, 90, 90, 90], rtol=1e-6)
    assert frames.trajectory.dt == pytest.approx(0.04)  # ps, between frames


@pytest.mark.slow
def test_velocities_that_mean_nothing_are_in_no_file(tmp_path):
    end = tmp_path / "end.data"
    dataset = run_with(tmp_path, "xyz", "zarr", solver=BROWNIAN, save__end=str(end))
    assert read_xyz(tmp_path / "a.xyz").velocities is None
    assert read_lammps_data(end).velocities is None
    assert "velocity" not in xr.open_zarr(tmp_path / "a.zarr")
    assert "end_velocity" not in dataset


@pytest.mark.parametrize("suffix", ["xyz", "dcd", "zarr"])
def test_a_run_that_fails_or_is_stopped_leaves_no_trajectory(tmp_path, suffix):
    with pytest.raises(NumericalError):
        run_with(tmp_path, suffix, time__dt=0.5)

    def interrupt(done, total):
        raise KeyboardInterrupt

    file = {"file": str(tmp_path / f"a.{suffix}"), "every": 10}
    with pytest.raises(KeyboardInterrupt):
        simkit.run(fluid(save__trajectory=file), progress=interrupt)
    assert not list(tmp_path.iterdir())


def test_a_thread_that_is_still_at_work_writes_nothing_into_a_store_that_is_gone(tmp_path, monkeypatch):
    stores, write = [], frame_store.FrameStore.write

    def kept(self, *arguments):
        stores.append((self, arguments))
        write(self, *arguments)

    monkeypatch.setattr(frame_store.FrameStore, "write", kept)
    with pytest.raises(NumericalError):
        run_with(tmp_path, "zarr", time__dt=0.5)
    store, arguments = stores[0]
    thread = threading.Thread(target=write, args=(store, *arguments))
    thread.start()
    thread.join()
    assert not list(tmp_path.iterdir())


def test_a_store_is_replaced_only_on_request_and_is_not_the_dataset(tmp_path):
    file, out = {"file": str(tmp_path / "a.zarr"), "every": 20}, tmp_path / "a.zarr"
    experiment = fluid(save__trajectory=file)
    with pytest.raises(
        OutputError, match=r"a.zarr: is the dataset too; give the trajectory a name of its own"
    ):
        simkit.run(experiment, out=out)
    with pytest.raises(
        InputError, match=r"save.trajectory.file: is the name of the dataset too; .*a_frames.zarr"
    ):
        simkit.run(experiment | {"output": str(out)})
    simkit.run(experiment)
    with pytest.raises(OutputError, match=r"a.zarr: exists already"):
        simkit.run(experiment)
    simkit.run(experiment | {"time": {"dt": 0.004, "steps": 20}}, overwrite=True)
    assert xr.open_zarr(out).sizes["time"] == 2


DRIFTING = "4\n" + 'Properties=species:S:1:pos:R:3:velo:R:3 Lattice="9 0 0 0 9 0 0 0 9"\n'
ROWS = [(1, 1, 1, 0.5, 0, 0), (4, 1, 1, 0.1, 0.2, 0), (1, 4, 1, 0.1, -0.2, 0), (1, 1, 4, 0.1, 0, 0.4)]


def drifting(path, shift: float = 0.0) -> dict:
    rows = np.array(ROWS) - [0, 0, 0, shift, 0, 0]
    path.write_text(DRIFTING + "\n".join("A " + " ".join(map(repr, row)) for row in rows.tolist()) + "\n")
    system = {"file": str(path)}
    return fluid(system=system, observe={"K": "kinetic_energy"}, time__steps=0, ensemble__paths=1)


def test_the_drift_of_a_file_is_removed_where_it_would_stay_and_the_run_says_so(tmp_path):
    experiment = drifting(tmp_path / "a.xyz")
    run = simkit.run(experiment)
    velocities = np.array(ROWS)[:, 3:]
    own = velocities - velocities.mean(0)
    assert float(run["K_mean"]) == pytest.approx(0.5 * np.sum(own**2), rel=1e-12)
    speed = f"{np.linalg.norm(velocities.mean(0)):.3g}"
    assert (
        f"the drift of the velocities in {tmp_path}/a.xyz, {speed} sigma/tau, was removed"
        in run.attrs["start"]
    )
    bath = simkit.run(experiment | {"solver": {"type": "BAOAB", "temperature": 1.0, "friction": 1.0}})
    assert float(bath["K_mean"]) == pytest.approx(0.5 * np.sum(velocities**2), rel=1e-12)
    assert "start" not in bath.attrs


def test_a_drift_that_comes_from_rounding_stays(tmp_path):
    """The velocities of the last run in its file have the bits with which the next begins."""
    end = tmp_path / "end.xyz"
    first = simkit.run(fluid(save__end=str(end)))
    again = simkit.run(fluid(system={"file": str(end)}, time__steps=0))
    np.testing.assert_array_equal(again["end_velocity"], first["end_velocity"])
    assert "start" not in again.attrs


@pytest.mark.slow
def test_a_box_that_is_given_replaces_that_of_the_file(tmp_path):
    experiment = drifting(tmp_path / "a.xyz")
    run = simkit.run(experiment, overrides={"system.box": {"sides": [5, 6, 7], "tilts": [1, 0, 0]}})
    assert run["box_vectors"].values.tolist() == [[5, 0, 0], [1, 6, 0], [0, 0, 7]]
    free = simkit.run(experiment, overrides={"system.box": {"free": True}})
    assert "box_vectors" not in free
    with pytest.raises(
        InputError, match=r"system.box: the particle on line 4 of a.xyz at \(4, 1, 1\) is outside the box"
    ):
        simkit.run(experiment, overrides={"system.box": {"sides": [3, 5, 5]}})


@pytest.mark.parametrize(
    ("suffix", "number"),
    [pytest.param("xyz", signal.SIGINT, marks=pytest.mark.slow), ("zarr", signal.SIGTERM)],
)
def test_a_signal_while_frames_are_written_leaves_none(tmp_path, suffix, number):
    """Threads write them, which do not see the end of the process."""
    frames = {"file": str(tmp_path / f"a.{suffix}"), "every": 20}
    experiment = fluid(observe=OBSERVE, save__trajectory=frames, time__steps=10_000_000)
    file = tmp_path / "fluid.yaml"
    file.write_text(yaml.safe_dump(experiment))
    command = [sys.executable, "-c", HEEDFUL, "run", str(file), "--quiet"]
    process = subprocess.Popen(command, env=os.environ | {"XLA_FLAGS": ""}, stderr=subprocess.PIPE, text=True)
    try:
        end = time.monotonic() + 120
        while time.monotonic() < end and process.poll() is None:
            time.sleep(0.1)
            if any(each.stat().st_size for each in tmp_path.glob(".a.tmp-*")):
                break
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 128 + number, said
    assert [each.name for each in tmp_path.iterdir()] == ["fluid.yaml"]
