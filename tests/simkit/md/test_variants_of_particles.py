"""Variants of a file of molecular dynamics: each is the file with some settings changed."""

import csv
import io
import json

import jax.monitoring
import numpy as np
import pytest
import xarray as xr
import yaml
from md_examples import fluid
from typer.testing import CliRunner

import simkit
from simkit import InputError, NumericalError, OutputError, plot_dataset, read_dataset
from simkit.cli import app
from simkit.engines.loaded import load_each
from simkit.md.experiment import load_particles
from simkit.md.files.run_dataset import without_states
from simkit.md.table import print_table
from simkit.results.variants import one_variant

pytestmark = pytest.mark.more

BATH = {"type": "BAOAB", "temperature": 1.2, "friction": 2.0}
OBSERVE = {
    "T": "temperature",
    "P": "pressure",
    "g": {"rdf": {"bins": 10, "max": 1.5, "every": 20}},
    "S": {"structure_factor": {"max": 6.0, "every": 20}},
    "cv": {"fluctuations": {}},
}
VARIANTS = {
    "usual": None,
    "warm": {"solver.temperature": 1.5, "system": {"velocities": {"temperature": 1.5}}},
    "soft": {"potential.epsilon": 0.8, "potential.sigma": 0.98},
    "thin": {"system.lattice.density": 0.7},
}
CHANGES = {
    "usual": {},
    "warm": {"solver.temperature": 1.5, "system.velocities.temperature": 1.5},
    "soft": {"potential.epsilon": 0.8, "potential.sigma": 0.98},
    "thin": {"system.lattice.density": 0.7},
}
FLUID = fluid(solver=BATH, observe=OBSERVE, potential__truncation="shifted_force")
TIMES = ("elapsed_s", "compile_s", "atom_steps_per_s", "created")

compilations = []
jax.monitoring.register_event_duration_secs_listener(
    lambda event, seconds, **_: compilations.append(event) if "backend_compile" in event else None
)


@pytest.fixture(scope="module")
def compiled_for_others():
    simkit.run(FLUID | {"variants": VARIANTS}, variants=["usual"])
    before = len(compilations)
    simkit.run(FLUID | {"variants": VARIANTS}, variants=["usual", "warm", "soft"])
    return len(compilations) - before


@pytest.fixture(scope="module")
def together(compiled_for_others):
    return simkit.run(FLUID | {"variants": VARIANTS})


def test_each_variant_is_a_run_of_the_file_with_its_settings_changed(together):
    assert list(together["variant"].values) == list(VARIANTS)
    assert together["P_mean"].dims == ("variant",)
    assert together["P_path"].dims == ("variant", "path", "time")
    for name, changes in CHANGES.items():
        alone, own = simkit.run(FLUID, overrides=changes), one_variant(together, name)
        for key in TIMES:
            del alone.attrs[key], own.attrs[key]
        xr.testing.assert_identical(own, without_states(alone))
    assert len({float(x) for x in together["P_mean"]}) == 4


def test_variants_that_differ_in_numbers_share_their_programs(compiled_for_others):
    assert compiled_for_others == 0


def test_axes_that_differ_have_the_places_of_all_variants(together):
    """The wave numbers of a box are its own; those of equal boxes are the same."""
    known = np.isfinite(together["S"].values)
    assert known.shape[1] == together.sizes["S_k"] > known.sum(1).max()
    assert (known[0] == known[1]).all()
    assert not (known[0] & known[3]).any()
    assert together["S_k"].attrs["units"] == "1/sigma"
    assert together["g"].dims == ("variant", "g_pair", "g_r")


def test_the_configuration_of_all_gives_the_same_variants_again(together):
    again = load_each(yaml.safe_load(together.attrs["configuration"])).each
    given = load_each(FLUID | {"variants": VARIANTS}).each
    assert {name: one.experiment.resolved() for name, one in again.items()} == {
        name: one.experiment.resolved() for name, one in given.items()
    }
    assert together.attrs["elapsed_s"] == pytest.approx(
        sum(one_variant(together, name).attrs["elapsed_s"] for name in VARIANTS)
    )


def test_a_dataset_of_variants_comes_back_from_its_file_and_has_a_picture(together, tmp_path):
    for ending in ("zarr", "nc"):
        simkit.write_dataset(together, tmp_path / f"a.{ending}")
        back = read_dataset(tmp_path / f"a.{ending}")
        xr.testing.assert_identical(one_variant(back, "thin"), one_variant(together, "thin"))
    figure = plot_dataset(together)
    over_time, *_, structure = figure.axes
    legend = [text.get_text() for text in over_time.get_legend().get_texts()]
    assert [text.split(":")[0] for text in legend] == list(VARIANTS)
    assert structure.get_legend_handles_labels()[1] == list(VARIANTS)
    assert np.isfinite(structure.get_lines()[3].get_ydata()).all()
    assert "4 variants × 108 particles, 40 steps" in figure.get_suptitle()


def test_no_run_goes_on_from_a_dataset_of_variants(together, tmp_path):
    """Boxes may differ, and with them the lengths of the states."""
    file = tmp_path / "all.zarr"
    simkit.write_dataset(together, file)
    with pytest.raises(InputError, match=r"all\.zarr: this dataset holds variants, "):
        simkit.run(fluid(system={"file": str(file)}, solver=BATH))


def test_the_table_has_a_row_for_each_variant(together):
    out = io.StringIO()
    print_table(together, out)
    lines = out.getvalue().splitlines()
    assert lines[0] == "LennardJones, BAOAB (NVT), units lj; ± is one standard error"
    cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in lines if line.startswith("│")]
    assert [row[:2] for row in cells[:5]] == [
        ["T [epsilon/k]", "usual"],
        ["", "warm"],
        ["", "soft"],
        ["", "thin"],
        ["P [epsilon/sigma^3]", "usual"],
    ]
    assert lines[-1].startswith("4 variants × 108 particles × 40 steps in ")
    common = [line for line in lines if line.startswith("error of")]
    assert common  # of 40 steps no error is known, and lines that all share are there once
    assert len(set(lines)) == len([line for line in lines if line]) or len(common) == len(set(common))


def test_the_command_prints_json_and_a_table_by_variant(tmp_path):
    file = tmp_path / "fluid.yaml"
    file.write_text(yaml.safe_dump(FLUID | {"variants": VARIANTS, "output": "fluid.csv"}, sort_keys=False))
    runner = CliRunner()
    result = runner.invoke(
        app,
        [
            *("run", str(file), "--out", str(tmp_path / "a.csv"), "--json", "--set", "potential.epsilon=0.9"),
            *("--variant", "thin", "--variant", "warm"),
        ],
    )
    assert result.exit_code == 0, result.output
    content = json.loads(result.stdout)
    assert list(content["variants"]) == ["warm", "thin"]
    assert content["variants"]["warm"]["observables"]["T"]["unit"] == "epsilon/k"
    assert content["variants"]["thin"]["particles"] == 108
    assert content["elapsed_s"] > 0
    assert (tmp_path / "a.png").exists()
    with (tmp_path / "a.csv").open() as lines:
        rows = list(csv.DictReader(lines))
    assert [(row["variant"], row["quantity"]) for row in rows[:2]] == [("warm", "T"), ("warm", "P")]
    assert float(rows[0]["mean"]) == content["variants"]["warm"]["observables"]["T"]["mean"]
    checked = runner.invoke(app, ["validate", str(file), "--json"])
    assert list(json.loads(checked.stdout)["variants"]) == list(VARIANTS)
    dry = runner.invoke(app, ["run", str(file), "--dry-run"]).stdout.splitlines()
    assert dry[0] == "variant usual: 1 replica x 108 particles x 40 steps, 4.32k atom-steps"


def lines_of(variants, **changes) -> list[str]:
    experiment = fluid(solver=BATH, **changes) | {"variants": variants}
    with pytest.raises(InputError) as caught:
        load_each(experiment)
    return caught.value.problems


MISTAKES = {
    "observables": ({"observe": {"X": "pressure"}}, "has the observables: X, and a has T, P, U, E"),
    "replicas": ({"ensemble.paths": 2}, "has another number of replicas: 2, and a has 1"),
    "measurements": ({"save.every": 20}, "has another number of measurements: 3, and a has 5"),
    "times": ({"time.dt": 0.002}, "is measured every 0.02 in time, and a every 0.04"),
    "species": ({"system.species": {"B": {}}}, "has the species: B, and a has A"),
    "units": (
        {"system": {"units": "real", "species": {"A": {"mass": 40.0}}}},
        "has the units: real, and a has lj",
    ),
}


@pytest.mark.parametrize(("changes", "reason"), MISTAKES.values(), ids=MISTAKES)
def test_variants_whose_results_do_not_fit_are_refused(changes, reason):
    (line,) = lines_of({"a": None, "b": changes})
    assert line == f"variant b: {reason}; give both the same, or make files of them"


@pytest.mark.slow
def test_steps_of_other_lengths_are_measured_at_the_same_times():
    """Lengths of steps may differ where the measurements are at the same times."""
    halved = {"time": {"dt": 0.002, "steps": 80}, "save": {"every": 20}}
    run = simkit.run(fluid(solver=BATH) | {"variants": {"a": None, "b": halved}})
    assert run["time"].dims == ("time",)
    assert run["step"].dims == ("variant", "time")
    assert list(one_variant(run, "b")["step"].values) == [0, 20, 40, 60, 80]


def test_each_variant_writes_files_of_its_own(tmp_path):
    trajectory = {"file": str(tmp_path / "a.xyz"), "every": 20}
    end = str(tmp_path / "end.xyz")
    changes = {"save__trajectory": trajectory, "save__end": end}
    warm = {"solver.temperature": 1.5}
    assert lines_of({"a": None, "b": warm}, **changes) == [
        f"variant b: save.trajectory.file: {tmp_path / 'a.xyz'} is written by a too; give each variant a "
        "file of its own",
        f"variant b: save.end: {end} is written by a too; give each variant a file of its own",
    ]
    own = warm | {"save.trajectory.file": str(tmp_path / "b.xyz"), "save.end": None}
    experiment = fluid(solver=BATH, **changes) | {"variants": {"a": None, "b": own}}
    simkit.run(experiment)
    assert {file.name for file in tmp_path.iterdir()} == {"a.xyz", "b.xyz", "end.xyz"}
    with pytest.raises(OutputError, match="exists already"):
        simkit.run(experiment)


def test_what_is_wrong_names_the_variant_and_its_place(tmp_path):
    text = yaml.safe_dump(fluid(solver=BATH)) + "variants:\n  a: {}\n  b: {potential.sigma: -1}\n"
    file = tmp_path / "fluid.yaml"
    file.write_text(text)
    with pytest.raises(InputError) as caught:
        load_each(file)
    line = text.splitlines().index("  b: {potential.sigma: -1}") + 1
    assert caught.value.problems == [f"{file}:{line}:24: variant b: potential.sigma: must be > 0, got -1"]
    with pytest.raises(InputError, match="there is no variant 'c'"):
        load_each(file, chosen=["c"])
    with pytest.raises(InputError, match="the experiment has no variants"):
        load_each(fluid(), chosen=["c"])
    cold = {"a": None, "b": {"system.velocities.temperature": 1e12}}
    with pytest.raises(NumericalError, match=r"^variant b: step .* blew up"):
        simkit.run(fluid() | {"variants": cold})


@pytest.mark.slow
def test_a_single_point_is_of_one_variant():
    experiment = fluid(time={"steps": 0}) | {"variants": {"a": None, "b": {"potential.epsilon": 2.0}}}
    with pytest.raises(InputError, match="choose --variant of a, b"):
        simkit.single_point(experiment)
    energies = [simkit.single_point(experiment, variant=name).energy for name in "ab"]
    assert energies[1] == pytest.approx(2 * energies[0], rel=1e-12)
    assert load_particles(experiment, variant="b").run.steps == 0
    points = simkit.run(experiment)
    assert points["force"].dims == ("variant", "path", "particle", "axis")
    np.testing.assert_allclose(points["U_mean"], np.array(energies) / 108, rtol=1e-12)
    out = io.StringIO()
    print_table(points, out)
    assert out.getvalue().startswith("LennardJones, a single point, units lj\n")


def test_progress_counts_the_steps_of_all_variants():
    seen = []
    simkit.run(
        fluid() | {"variants": {"a": None, "b": {"potential.epsilon": 1.1}}},
        progress=lambda done, total: seen.append((done, total)),
    )
    assert seen[-1] == (80, 80)
    assert sorted(seen) == seen
