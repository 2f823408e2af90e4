"""What the command of a run of particles writes, prints and leaves alone, and its exit codes."""

import json
import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import yaml
from command import files_in, simkit_command
from md_examples import fluid

import simkit
from simkit import OutputError, read_dataset
from simkit.md.files.lammps_data import read_lammps_data
from simkit.md.files.xyz import read_xyz


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    experiment = fluid(observe={"T": "temperature", "g": {"rdf": {"bins": 10, "max": 2.0}}}, time__steps=20)
    experiment["save"]["trajectory"] = {"file": "a.xyz", "every": 10}
    experiment["save"]["end"] = "end.data"
    experiment["system"]["species"] = {"A": {"mass": 2.0}}
    (tmp_path / "a.yaml").write_text(yaml.safe_dump(experiment | {"output": "a.zarr"}))
    return tmp_path


def test_the_command_writes_dataset_picture_and_trajectory_and_prints_json(folder):
    result = simkit_command("run", "a.yaml", "--json")
    assert result.exit_code == 0, result.output
    content = json.loads(result.stdout)
    assert files_in(folder) == {"a.yaml", "a.zarr", "a.png", "a.xyz", "end.data"}
    assert set(content["observables"]) == {"T"}
    assert (content["particles"], content["steps"]) == (108, 20)
    dataset = read_dataset(folder / "a.zarr")
    assert content["observables"]["T"]["mean"] == float(dataset["T_mean"])
    assert dataset["g"].dims == ("g_pair", "g_r")
    frames = (folder / "a.xyz").read_text().splitlines()
    assert sum(line.startswith("Lattice") for line in frames) == 3
    last, end = read_xyz(folder / "a.xyz"), read_lammps_data(folder / "end.data")
    np.testing.assert_array_equal(last.velocities, end.velocities)
    np.testing.assert_array_equal(last.positions, end.positions)
    kinetic = 0.5 * 2.0 * np.sum(last.velocities**2)  # with the mass
    expected = 0.5 * (3 * 108 - 3) * float(dataset["T_path"][0, -1])
    assert kinetic == pytest.approx(expected, rel=1e-12)


@pytest.mark.slow
def test_a_process_without_64_bit_types_of_its_own_computes_in_float64(folder):
    """As the command does: jax warns where a number loses digits, and a warning ends the process."""
    words = ["run", "a.yaml", "--json", "--no-plot", "--set", "observe.P=pressure"]
    path = os.pathsep.join(sys.path)
    result = subprocess.run(
        [sys.executable, "-W", "error", "-m", "simkit", *words],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": path},
    )
    assert result.returncode == 0, result.stderr
    own = simkit.run(folder / "a.yaml", overrides={"observe.P": "pressure", "output": None}, overwrite=True)
    mean = json.loads(result.stdout)["observables"]["P"]["mean"]
    # The last bits of the normals that velocities are drawn from, in float32, are the compiler's.
    assert mean == pytest.approx(float(own["P_mean"]), rel=1e-7)


@pytest.mark.parametrize("file", ["a.xyz", "end.data"])
def test_another_run_starts_where_one_ended(folder, file):
    first = simkit.run(folder / "a.yaml", overrides={"observe": None, "output": None})
    again = simkit.single_point({"system": {"file": file}, **{k: fluid()[k] for k in ("potential", "time")}})
    assert again.energy == pytest.approx(float(first["U_path"][0, -1]) * 108, rel=1e-12)


def test_nothing_is_written_over_or_beside_a_mistake(folder):
    (folder / "a.xyz").write_text("mine")
    result = simkit_command("run", "a.yaml")
    assert result.exit_code == OutputError.exit_code
    assert "a.xyz: exists already" in result.stderr
    (folder / "a.xyz").unlink()
    for override, code in (("potential.cutoff=0", 2), ("time.dt=5.0", 3), ("observe.g.rdf.max=9", 2)):
        result = simkit_command("run", "a.yaml", "--set", override)
        assert result.exit_code == code, result.output
        assert files_in(folder) == {"a.yaml"}


@pytest.mark.more
def test_after_an_interrupt_all_threads_end_and_no_file_is_left(folder):
    def interrupt(done, total):
        raise KeyboardInterrupt

    longer = {"ensemble.paths": 2, "ensemble.threads": 2, "time.steps": 10_000_000, "output": None}
    with pytest.raises(KeyboardInterrupt):
        simkit.run(folder / "a.yaml", overrides=longer, progress=interrupt)
    for _ in range(300):  # a thread ends with its chunk
        if not any(thread.name.startswith("simkit") for thread in threading.enumerate()):
            break
        time.sleep(0.1)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("simkit")]
    assert files_in(folder) == {"a.yaml"}


def test_a_dry_run_and_a_check_run_nothing(folder):
    dry = json.loads(simkit_command("run", "a.yaml", "--dry-run", "--json").stdout)
    assert (dry["particles"], dry["atom_steps"], dry["measurements"]) == (108, 2160, 3)
    assert simkit_command("validate", "a.yaml").stdout == (
        "a.yaml: valid (LennardJones, VelocityVerlet, 108 particles, 1 replica, 20 steps)\n"
    )
    assert json.loads(simkit_command("validate", "a.yaml", "--json").stdout)["observables"] == ["T", "g"]
    assert files_in(folder) == {"a.yaml"}


@pytest.mark.slow
def test_set_reaches_into_a_solver_that_is_a_name(folder):
    friction = ["--set", "solver.type=BAOAB", "--set", "solver.temperature=2.0", "--set", "solver.friction=1"]
    result = simkit_command(
        "run", "a.yaml", "--json", *friction, "--set", "save.trajectory=null", "--no-plot"
    )
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["ensemble"] == "NVT"


def test_a_table_for_spreadsheets_has_a_line_for_each_observable(folder):
    result = simkit_command("run", "a.yaml", "--out", "a.csv", "--no-plot", "--quiet")
    assert result.exit_code == 0, result.output
    lines = (folder / "a.csv").read_text().splitlines()
    figures = ["mean", "stderr", "correlation_time", "correlation_time_stderr"]
    assert lines[0].split(",")[:6] == ["quantity", "unit", *figures]
    assert [line.split(",")[0] for line in lines[1:]] == ["T"]
