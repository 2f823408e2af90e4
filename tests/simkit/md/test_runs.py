"""Runs of molecular dynamics: numbers, files, exit codes, and the same bits however a run is cut."""

import json
import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import yaml
from accelerator import needs_processor
from checkout import EXAMPLES
from md_examples import fluid, lennard_jones, pair_sum
from typer.testing import CliRunner

import simkit
from simkit import InputError, NumericalError, OutputError, read_dataset
from simkit.cli import app
from simkit.md import pace, preparation, replica
from simkit.md.experiment import load_particles
from simkit.md.files.frame import Cell
from simkit.md.files.lammps_data import read_lammps_data
from simkit.md.files.xyz import read_xyz
from simkit.md.table import closing_lines
from simkit.results.number_text import with_error
from simkit.time_series import of_series

KELVIN = 1.380649e-23 / 1.602176634e-19  # eV


def test_the_lattice_of_the_melt_has_its_energy_and_pressure():
    """Per atom -6.773368053253 and the virial -22.158199254035, which no lattice sum of ours gave."""
    start = simkit.run(
        EXAMPLES / "particles/lj_melt.yaml",
        overrides={
            "system.lattice.cells": 4,
            "time.steps": 0,
            "observe.g": None,
            "output": None,
            "observe.K": "kinetic_energy/atoms",
        },
    )
    temperature = 1.44 * (1 - 1 / 256)  # with 3N - 3 degrees of freedom
    assert float(start["T_mean"]) == pytest.approx(1.44, rel=1e-12)
    assert float(start["K_mean"]) == pytest.approx(1.5 * temperature, rel=1e-12)
    assert float(start["U_mean"]) == pytest.approx(-6.773368053253, abs=1e-11)
    assert float(start["E_mean"]) == pytest.approx(-6.773368053253 + 1.5 * temperature, abs=1e-11)
    assert float(start["P_mean"]) == pytest.approx(0.8442 * (temperature - 22.158199254035 / 3), abs=1e-10)


@pytest.mark.slow
def test_the_melt_of_lammps_begins_with_its_energy_and_pressure_and_goes_on():
    """The lines that LAMMPS prints for bench/in.lj at steps 0 and 100, with the spread of its seeds."""
    run = simkit.run(
        EXAMPLES / "particles/lj_melt.yaml", overrides={"observe.g": None, "output": None, "save.every": 100}
    )
    assert run.attrs["particles"] == 32_000
    start, end = (run.isel(path=0, time=row) for row in (0, -1))
    assert float(start["T_path"]) == pytest.approx(1.44, rel=1e-12)
    assert float(start["E_path"]) == pytest.approx(-4.613435553253, abs=1e-11)
    assert float(start["P_path"]) == pytest.approx(-5.019707259086, abs=1e-11)
    for name, mean, sd in (("T", 0.75860, 0.0015), ("U", -5.7602, 0.0024), ("P", 0.198, 0.012)):
        assert abs(float(end[f"{name}_path"]) - mean) < 5 * sd, name


def mixture(count: int = 40):
    """Two species in a triclinic box, which the cutoff reaches across several times."""
    generator = np.random.default_rng(8)
    cell = Cell((4.0, 4.2, 3.9), (0.5, -0.4, 0.7))
    places = (np.indices((4, 4, 3)).reshape(3, -1).T[:count] + 0.5) / (4, 4, 3)
    positions = (places + 0.04 * generator.standard_normal((count, 3))) % 1 @ cell.vectors
    return positions, np.arange(count) % 2, cell


@pytest.mark.parametrize("truncation", ["plain", pytest.param("shifted", marks=pytest.mark.slow)])
def test_a_single_point_is_the_sum_over_all_pairs_and_images(tmp_path, truncation):
    positions, species, cell = mixture()
    lines = [
        f"{'AB'[kind]} {' '.join(map(repr, row))}"
        for kind, row in zip(species, positions.tolist(), strict=True)
    ]
    (tmp_path / "a.xyz").write_text(f"{len(lines)}\n\n" + "\n".join(lines) + "\n")
    epsilon, sigma = np.array([[1.0, 1.5], [1.5, 0.5]]), np.array([[1.0, 0.8], [0.8, 0.88]])
    experiment = {
        "system": {
            "file": str(tmp_path / "a.xyz"),
            "box": {"sides": list(cell.sides), "tilts": list(cell.tilts)},
        },
        "potential": {
            "type": "LennardJones",
            "cutoff": 2.5,
            "truncation": truncation,
            "pairs": {
                f"{a}-{b}": {"epsilon": epsilon[i, j], "sigma": sigma[i, j]}
                for i, a in enumerate("AB")
                for j, b in enumerate("AB")
                if i <= j
            },
        },
        "time": {"steps": 0},
    }

    def pair(r2, i, near):
        kinds = species[i], species[near]
        energy, rf = lennard_jones(r2, epsilon[kinds], sigma[kinds])
        at_cutoff = lennard_jones(2.5**2, epsilon[kinds], sigma[kinds])[0]
        return energy - at_cutoff * (truncation == "shifted"), rf

    moved = positions + 0.01 * np.random.default_rng(1).standard_normal(positions.shape)
    for at, given in ((positions, None), (moved, moved)):
        energy, forces, virial = pair_sum(at, cell.vectors, 2.5, pair)
        found = simkit.single_point(experiment, given)
        assert found.energy == pytest.approx(energy, rel=1e-12)
        np.testing.assert_allclose(found.forces, forces, atol=1e-11 * np.abs(forces).max())
        volume = np.prod(cell.sides)
        six = virial[[0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]] / volume
        np.testing.assert_allclose(found.pressure, six, atol=1e-11 * np.abs(six).max())
        if given is None:
            dataset = simkit.run(experiment)
            np.testing.assert_array_equal(dataset["pressure"][0], found.pressure)
            np.testing.assert_array_equal(dataset["force"][0], found.forces)
            assert list(dataset["component"].values) == ["xx", "yy", "zz", "xy", "xz", "yz"]
    with pytest.raises(InputError, match=r"positions: must be finite numbers in the shape \(40, 3\)"):
        simkit.single_point(experiment, positions[:3])


@pytest.mark.slow
def test_an_energy_written_in_the_file_is_the_potential_of_that_name():
    named = simkit.single_point(fluid())
    text = "4*epsilon*((sigma/r)**12 - (sigma/r)**6)"
    written = {"energy": text, "parameters": {"epsilon": 1.0, "sigma": "s"}, "cutoff": 2.0}
    own = simkit.single_point(fluid(potential=written, constants={"s": 1.0}))
    assert own.energy == pytest.approx(named.energy, rel=1e-12)
    np.testing.assert_allclose(own.pressure, named.pressure, rtol=1e-10)


@pytest.mark.more
def test_argon_is_the_same_in_four_systems_of_units():
    """A temperature of 2 epsilon/k, in units whose sizes are those of the CODATA constants."""
    mass, epsilon, sigma = 39.948, 120.0, 3.4  # g/mol, kelvin, angstrom
    calorie = 4184 / 6.02214076e23 / 1.602176634e-19  # eV
    joule, kilogram = KELVIN * 1.602176634e-19, 1e-3 / 6.02214076e23
    systems = {
        "lj": (1.0, 1.0, 1.0, 1.0),
        "metal": (mass, epsilon * KELVIN, sigma, epsilon),
        "real": (mass, epsilon * KELVIN / calorie, sigma, epsilon),
        "si": (mass * kilogram, epsilon * joule, sigma * 1e-10, epsilon),
    }
    seconds = sigma * 1e-10 * (mass * kilogram / (epsilon * joule)) ** 0.5
    found = {}
    for units, (m, e, s, kelvin) in systems.items():
        unit = {"lj": 1.0, "metal": seconds * 1e12, "real": seconds * 1e15, "si": seconds}[units]
        experiment = fluid(
            system__units=units,
            system__species={"A": {"mass": m}},
            system__lattice__density=0.8 / s**3,
            system__velocities__temperature=1.2 * kelvin,
            potential__epsilon=e,
            potential__sigma=s,
            potential__cutoff=2.0 * s,
            time__dt=0.004 * unit,
            time__steps=20,
        )
        run = simkit.run(experiment)
        at_end = [run[f"{name}_path"].values[0, -1] for name in "TUE"]
        found[units] = np.array(at_end) / (kelvin, e, e)
    exact = found.pop("lj")
    for units, values in found.items():
        np.testing.assert_allclose(values, exact, rtol=1e-9, err_msg=units)


CHUNKED = fluid(
    solver={"type": "BAOAB", "temperature": 1.0, "friction": 0.5},
    observe={"T": "temperature", "P": "pressure"},
    save__every=2,
)
WITH_MORE = {
    "stages": {"warm": {"steps": 40}},
    "observe": CHUNKED["observe"] | {"g": {"rdf": {"bins": 20, "max": 2.0, "every": 4}}},
}


@pytest.mark.parametrize(
    "more", [pytest.param({}, marks=pytest.mark.slow), pytest.param(WITH_MORE, marks=pytest.mark.more)]
)
@pytest.mark.more
def test_a_run_has_the_same_bits_in_chunks_of_any_length(monkeypatch, more):
    whole = simkit.run(CHUNKED | more)
    monkeypatch.setattr(replica, "ROWS", 3)
    monkeypatch.setattr(pace, "CHUNK_SECONDS", 1e-9)
    cut = simkit.run(CHUNKED | more)
    for name in ("T_path", "P_path", "T_mean", *(["g"] if more else [])):
        np.testing.assert_array_equal(whole[name], cut[name])
    assert len(whole["time"]) == 21


@needs_processor
@pytest.mark.slow
def test_threads_share_one_large_system_and_change_it_by_round_off_only(monkeypatch):
    monkeypatch.setattr(preparation, "CHUNKS_EACH", 2)
    experiment = fluid(system__lattice__cells=10, time__steps=20, observe=WITH_MORE["observe"])
    runs, shared = [], []
    for threads in (1, 2, 3):
        experiment["ensemble"]["threads"] = threads
        simulation = load_particles(experiment)
        shared.append(len(preparation.sharing(simulation, preparation.chosen_forces(simulation))))
        runs.append(simkit.run(experiment))
    assert shared == [1, 2, 3]  # of eight chunks of clusters
    experiment["ensemble"]["paths"] = 2
    simulation = load_particles(experiment)
    assert preparation.sharing(simulation, preparation.chosen_forces(simulation)) == ()
    for run in runs[1:]:
        for name, values in runs[0].drop_vars("state").data_vars.items():
            # The end is stored in float32.
            error = 1e-6 if str(name).startswith("end_") else 1e-9
            np.testing.assert_allclose(values, run[name], rtol=error, atol=error, err_msg=str(name))


def test_replicas_differ_and_each_is_the_same_alone_or_among_others():
    shear = {"observe.S": "pressure_xy"}
    several = simkit.run(CHUNKED, overrides={"ensemble.paths": 3, "ensemble.threads": 2} | shear)
    at_rest = simkit.run(CHUNKED, overrides={"ensemble.paths": 3, "system.velocities": None})
    alone = simkit.run(CHUNKED)
    np.testing.assert_array_equal(several["T_path"][0], alone["T_path"][0])
    # By their velocities at the start, and by their noise where they start at rest.
    assert (
        np.ptp(several["T_path"].values[:, 0])
        < 1e-12
        < 1e-3
        < np.diff(np.sort(several["S_path"][:, 0])).min()
    )
    assert len(set(at_rest["T_path"].values[:, -1])) == 3
    other = simkit.run(CHUNKED, overrides={"ensemble.seed": 5})
    assert other["T_path"].values[0, -1] != alone["T_path"].values[0, -1]


def test_a_potential_that_is_no_number_at_a_distance_of_pairs_ends_the_run():
    """Its slope is finite there, and forces are."""
    potential = {"energy": "log(r - 3)", "cutoff": 2.0}
    for run in (simkit.run, simkit.single_point):
        with pytest.raises(simkit.NumericalError, match="step 0: the potential energy is nan"):
            run(fluid(potential=potential, time__steps=10))


def test_energy_is_conserved_and_its_drift_is_printed(capsys):
    from simkit.md.table import print_table

    run = simkit.run(
        fluid(potential__truncation="shifted_force", time__steps=400, time__dt=0.002, save__every=10)
    )
    energy = run["E_path"].values[0]
    assert np.ptp(energy) < 2e-3
    assert abs(float(run["drift"])) < 1e-3
    print_table(run)
    printed = capsys.readouterr().out
    assert "drift of the conserved energy" in printed
    assert "LennardJones, VelocityVerlet (NVE), units lj" in printed


def test_a_correlation_time_is_a_time_with_its_error_and_unit(capsys):
    from simkit.md.table import print_table

    run = simkit.run(fluid(time__steps=400, time__dt=0.002, save__every=5))
    expected = of_series(run["T_path"].values[:, :, None])
    for figure, samples in (("", expected.tau), ("_stderr", expected.tau_stderr)):
        time = run[f"T_correlation_time{figure}"]
        assert float(time) == pytest.approx(0.01 * float(samples[0]), rel=1e-12)
        assert time.attrs["units"] == run["time"].attrs["units"]
    print_table(run)
    printed = capsys.readouterr().out
    assert "correlated for [tau]" in printed
    assert with_error(float(run["T_correlation_time"]), float(run["T_correlation_time_stderr"])) in printed


@pytest.mark.more
def test_a_stage_that_minimises_is_followed_by_motion_at_the_temperature():
    system = {
        "random": {"count": 60, "density": 0.4, "least_distance": 0.5},
        "velocities": {"temperature": 0.7},
    }
    observe = {"T": "temperature", "U": "potential_energy/atoms"}
    run = simkit.run(
        fluid(system=system, stages={"minimise": {"solver": "FIRE", "steps": 60}}, observe=observe)
    )
    assert run["time"].values.tolist() == pytest.approx([0, 0.04, 0.08, 0.12, 0.16])
    assert float(run["T_path"][0, 0]) == pytest.approx(0.7, rel=1e-12)
    start = simkit.run(fluid(system=system, observe=observe, time__steps=0))
    assert float(run["U_path"].max()) < 0 < float(start["U_mean"])


@pytest.mark.more
def test_the_time_of_a_curve_begins_with_its_stage():
    """The bath is hot as long as the second stage lasts, and cold after that."""
    baths = {"cold": 0.7, "hot": "bath"}
    stages = {
        name: {"solver": {"type": "BAOAB", "temperature": bath, "friction": 10.0}, "steps": 97}
        for name, bath in baths.items()
    }
    curves = {"bath": {"times": [0, 0.39, 0.4], "values": [5.0, 5.0, 0.5], "outside": "hold"}}
    run = simkit.run(fluid(stages=stages, curves=curves, observe={"T": "temperature"}))
    # Of 108 particles the standard deviation is 0.4.
    assert 3 < float(run["T_path"][0, 0]) < 7


def test_what_blows_up_names_the_particle_and_the_step():
    what = r"^step \d+ of 40 blew up: particle \d+ moves by .* smaller time step, or check the units"
    with pytest.raises(NumericalError, match=what):
        simkit.run(fluid(time__dt=0.5))


def test_what_blows_up_in_a_stage_names_it_and_counts_from_its_beginning():
    with pytest.raises(NumericalError, match=r"^step \d of 40 of the stage run blew up: particle"):
        simkit.run(fluid(stages={"gentle": {"dt": 1e-4, "steps": 30}}, time__dt=0.5))


def test_functions_without_errors_are_below_the_table():
    run = simkit.run(fluid(observe={"g": {"rdf": {"bins": 10, "max": 2.0, "every": 4}}}))
    unknown = np.isnan(run["g_stderr"].values)
    assert 0 < unknown.sum() < 10
    (line,) = [line for line in closing_lines(run) if line.startswith("error of g")]
    assert line.startswith(f"error of g ({unknown.sum()} of 10 values) unknown: ")
    assert "run " in line


def test_particles_that_overlap_at_the_start_are_named_with_their_distance(tmp_path):
    (tmp_path / "a.xyz").write_text("4\n\nA 0 0 0\nA 0 2 0\nA 0 0 2\nA 0.3 0 0\n")
    system = {"file": str(tmp_path / "a.xyz"), "box": {"sides": [6, 6, 6]}}
    with pytest.raises(NumericalError, match=r"closest particles were 0 and 3, at a distance of 0\.3$"):
        simkit.run(fluid(system=system))


def command(*words: str):
    return CliRunner().invoke(app, list(words))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    experiment = fluid(observe={"T": "temperature", "g": {"rdf": {"bins": 10, "max": 2.0}}}, time__steps=20)
    experiment["save"]["trajectory"] = {"file": "a.xyz", "every": 10}
    experiment["save"]["end"] = "end.data"
    experiment["system"]["species"] = {"A": {"mass": 2.0}}
    (tmp_path / "a.yaml").write_text(yaml.safe_dump(experiment | {"output": "a.zarr"}))
    return tmp_path


def names_in(folder) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_the_command_writes_dataset_picture_and_trajectory_and_prints_json(folder):
    result = command("run", "a.yaml", "--json")
    assert result.exit_code == 0, result.output
    content = json.loads(result.stdout)
    assert names_in(folder) == {"a.yaml", "a.zarr", "a.png", "a.xyz", "end.data"}
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
    result = command("run", "a.yaml")
    assert result.exit_code == OutputError.exit_code
    assert "a.xyz: exists already" in result.stderr
    (folder / "a.xyz").unlink()
    for override, code in (("potential.cutoff=0", 2), ("time.dt=5.0", 3), ("observe.g.rdf.max=9", 2)):
        result = command("run", "a.yaml", "--set", override)
        assert result.exit_code == code, result.output
        assert names_in(folder) == {"a.yaml"}


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
    assert names_in(folder) == {"a.yaml"}


def test_a_dry_run_and_a_check_run_nothing(folder):
    dry = json.loads(command("run", "a.yaml", "--dry-run", "--json").stdout)
    assert (dry["particles"], dry["atom_steps"], dry["measurements"]) == (108, 2160, 3)
    assert command("validate", "a.yaml").stdout == (
        "a.yaml: valid (LennardJones, VelocityVerlet, 108 particles, 1 replica, 20 steps)\n"
    )
    assert json.loads(command("validate", "a.yaml", "--json").stdout)["observables"] == ["T", "g"]
    assert names_in(folder) == {"a.yaml"}


@pytest.mark.slow
def test_set_reaches_into_a_solver_that_is_a_name(folder):
    friction = ["--set", "solver.type=BAOAB", "--set", "solver.temperature=2.0", "--set", "solver.friction=1"]
    result = command("run", "a.yaml", "--json", *friction, "--set", "save.trajectory=null", "--no-plot")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["ensemble"] == "NVT"


def test_a_table_for_spreadsheets_has_a_line_for_each_observable(folder):
    result = command("run", "a.yaml", "--out", "a.csv", "--no-plot", "--quiet")
    assert result.exit_code == 0, result.output
    lines = (folder / "a.csv").read_text().splitlines()
    figures = ["mean", "stderr", "correlation_time", "correlation_time_stderr"]
    assert lines[0].split(",")[:6] == ["quantity", "unit", *figures]
    assert [line.split(",")[0] for line in lines[1:]] == ["T"]
