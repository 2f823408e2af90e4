"""Every example runs, on fewer paths, and agrees with the exact values it states."""

import json
import runpy
from pathlib import Path

import jax
import numpy as np
import pytest
import yaml
from checkout import EXAMPLES
from typer.testing import CliRunner
from user_code import user_jit

import simkit
import simkit.engines.pilot
from simkit import load, plot_dataset
from simkit.cli import app

FEW = ["ensemble.paths=1000", "ensemble.devices=1"]
FILES = sorted(EXAMPLES.glob("*.yaml"))
GALLERY = sorted(EXAMPLES.glob("gallery/*.yaml"))
PARTICLES = sorted(EXAMPLES.glob("particles/*.yaml"))
ENERGIES = {"argon": -0.93, "kob_andersen": -6.1, "lj_fluid": -2.93, "lj_melt": -5.9, "replicas": 1.0}
SMALL = {  # of molecular dynamics
    "argon": ["system.lattice.cells=4", "observe.g.rdf.max=8", "stages.melt.steps=200", "time.steps=400"],
    "kob_andersen": ["system.lattice.cells=6", "observe.g.rdf.max=2.5", "time.steps=200"],
    "lj_fluid": [
        "system.lattice.cells=4",
        "observe.g.rdf.max=3",
        "stages.equilibrate.steps=300",
        "time.steps=800",
    ],
    "lj_melt": ["system.lattice.cells=6", "time.steps=100"],
    "replicas": ["ensemble.paths=3", "stages.equilibrate.steps=100", "time.steps=400"],
}


def summary_of(command, path, *overrides):
    """What a command on an example prints as JSON, once it has written a dataset and a picture."""
    given = [word for override in overrides for word in ("--set", override)]
    result = CliRunner().invoke(app, [command, str(path), "--json", *given])
    assert result.exit_code == 0, result.output
    content = json.loads(result.stdout)
    assert Path(content["output"]).exists()
    assert Path(content["picture"]).exists()
    return content


@pytest.mark.more
@pytest.mark.parametrize("path", [path for path in FILES if path.stem != "uncertainty"], ids=lambda p: p.stem)
def test_example_runs_and_agrees_with_its_exact_values(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    content = summary_of("run", path, "ensemble.paths=1000", "ensemble.devices=1")
    observe = yaml.safe_load(path.read_text()).get("observe", {})
    stated = [name for name, spec in observe.items() if "exact" in spec]
    for figures in content.get("variants", {"": content}).values():
        for name in stated:
            assert abs(figures["observables"][name]["z"]) < 5, name
    assert stated or path.stem in ("lorenz", "arenstorf", "epidemic_peak", "strong_order")


@pytest.mark.more
@pytest.mark.parametrize("path", PARTICLES, ids=lambda path: path.stem)
def test_an_example_of_molecular_dynamics_runs(path, tmp_path, monkeypatch):
    """Of a smaller system: a liquid near the temperature of its bath, or with its energy conserved."""
    monkeypatch.chdir(tmp_path)
    content = summary_of("run", path, *SMALL[path.stem])
    bath = {"argon": 94.4, "lj_melt": 0.75}.get(path.stem, 1.0)
    assert content["observables"]["T"]["mean"] == pytest.approx(bath, rel=0.3)
    assert content["observables"]["U"]["mean"] == pytest.approx(ENERGIES[path.stem], rel=0.15)


@pytest.mark.more
def test_the_sweep_agrees_with_exact_values_at_each_point(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    content = summary_of("sweep", EXAMPLES / "outbreak.yaml", "ensemble.paths=1000")
    dataset = simkit.read_dataset(content["output"])
    for name in ("infectious", "died_out"):
        assert dataset[f"{name}_z"].shape == (7, 5)
        assert abs(dataset[f"{name}_z"]).max() < 5, name


@pytest.mark.more
def test_the_study_runs_and_agrees_with_a_law(tmp_path, monkeypatch):
    """Who escapes an epidemic depends on R0 alone."""
    monkeypatch.chdir(tmp_path)
    content = summary_of("uncertainty", EXAMPLES / "uncertainty.yaml", "uncertainty.points=32")
    escaped = content["observables"]["escaped"]["parameters"]
    assert escaped["R0"]["total"]["value"] == pytest.approx(1, abs=0.1)
    assert max(abs(escaped[name]["total"]["value"]) for name in ("infectious", "latent")) < 1e-6
    assert escaped["reported"]["total"]["value"] == 0


@pytest.mark.parametrize("path", GALLERY, ids=lambda path: path.stem)
def test_gallery_is_valid(path):
    """The pictures, too: what stands over time and in portraits is kept."""
    simulation = load(path)
    assert path.read_text("utf-8").startswith("# ")
    assert set(simulation.picture.over_time) <= {*simulation.problem.State._fields, *simulation.observables}


@pytest.mark.slow
@pytest.mark.more
@pytest.mark.parametrize("path", GALLERY, ids=lambda path: path.stem)
def test_gallery_runs_and_agrees_with_its_exact_values(path):
    simulation = load(path)
    paths = min(simulation.paths, 4000)
    result = simkit.run(path, overrides={"ensemble.paths": paths})
    plot_dataset(result)
    for name, info in simulation.observables.items():
        if info.exact is not None and paths > 1:
            assert abs(result[f"{name}_z"]) < 5, name
        elif info.exact is not None:
            assert float(result[f"{name}_mean"].values.reshape(-1)[-1]) == pytest.approx(info.exact, rel=1e-4)


@pytest.mark.more
def test_sensitivities_of_a_peak_are_drawn(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    sensitivities = simkit.sensitivity
    monkeypatch.setattr(simkit, "sensitivity", lambda path: sensitivities(path, overrides=FEW))
    runpy.run_path(str(EXAMPLES / "epidemic_peak.py"), run_name="__main__")
    fractions = [
        float(line.split("peak by ")[1].split(" ±")[0]) for line in capsys.readouterr().out.splitlines()
    ]
    for fraction, expected in zip(fractions, (1.53, 0.375, -0.385, 0.0084), strict=True):
        assert fraction == pytest.approx(expected, abs=min(0.05, 0.15 * abs(expected)))
    assert (tmp_path / "epidemic_peak.png").stat().st_size > 10_000


@pytest.mark.slow
@pytest.mark.more
def test_greeks_of_a_basket_agree_with_those_of_a_script(monkeypatch, capsys):
    """The digital's derivative by strike and prices together: its value does not depend on the currency."""
    sensitivities = simkit.sensitivity
    results = []

    def kept(path):
        results.append(sensitivities(path, ["S1", "S2", "S3", "K"], overrides={"sensitivity.second": "null"}))
        return results[0]

    monkeypatch.setattr(simkit, "sensitivity", kept)
    runpy.run_path(str(EXAMPLES / "greeks.py"), run_name="__main__")
    assert "smoothing" in capsys.readouterr().out
    for name, degree in (("call", 1), ("digital", 0)):
        slopes, errors = (results[0][f"{name}_derivative{kind}"].values for kind in ("", "_stderr"))
        values = results[0]["parameter_value"].values
        error = np.sqrt(np.sum((errors * values) ** 2))
        assert abs(slopes @ values - degree * float(results[0][f"{name}_mean"])) < 4 * error


@pytest.mark.more
def test_fixed_points_by_five_ways(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(EXAMPLES / "fixed_points.py"), run_name="__main__")
    printed = capsys.readouterr().out.splitlines()
    residuals = [float(line.split("residual ")[1].split(",")[0]) for line in printed[:5]]
    assert residuals[0] > 0.5  # plain iteration swings for ever
    assert residuals[1] < 1e-4
    assert max(residuals[2:]) < 1e-12
    assert len({line.split("density ")[1] for line in printed[2:5]}) == 1
    assert (tmp_path / "fixed_points.png").stat().st_size > 10_000


@pytest.mark.more
def test_script_is_the_experiment_of_the_yaml_file(monkeypatch, capsys):
    file = yaml.safe_load((EXAMPLES / "gbm.yaml").read_text())
    run = simkit.run

    def run_fewer_paths(experiment):
        for key in ("constants", "model", "initial", "time", "ensemble", "save"):
            assert experiment[key] == file[key]
        for name, spec in experiment["observe"].items():
            stated = spec if isinstance(spec, dict) else {"value": spec}
            assert stated.items() <= file["observe"][name].items()
        return run(experiment, overrides=["ensemble.paths=4000"])

    monkeypatch.setattr(simkit, "run", run_fewer_paths)
    runpy.run_path(str(EXAMPLES / "gbm.py"), run_name="__main__")
    printed = capsys.readouterr().out
    assert "exact  10.4506 (call)" in printed
    assert len(printed.splitlines()) > 13  # a line for each saved time


@pytest.mark.more
def test_orbits_are_drawn_and_keep_their_energy(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(jax, "jit", user_jit)  # rounding says which top of an orbit is labelled
    example = runpy.run_path(str(EXAMPLES / "orbit.py"), run_name="__main__")
    assert (tmp_path / "orbit.png").stat().st_size > 10_000
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[1:-1]]
    assert {row[2] for row in rows} == {"Leapfrog", "Yoshida6"}
    figure = example["picture"](example["orbits"], example["chosen"].astype(int), example["error"])
    figure.draw_without_rendering()
    speeds = figure.axes[0].texts
    assert [speed.get_text() for speed in speeds] == [f"{float(row[0]):g}" for row in rows]
    for i, speed in enumerate(speeds):  # none is printed over another, or hidden by what stands behind it
        boxes = [other.get_window_extent() for other in speeds[i + 1 :]]
        boxes += [patch.get_window_extent() for other in speeds[i + 1 :] if (patch := other.get_bbox_patch())]
        assert not any(speed.get_window_extent().overlaps(box) for box in boxes)
    for _, energy, name, error in rows:
        assert (name == "Yoshida6") == (float(energy) < -0.75)
        assert float(error) < 1e-3


COMMANDS = [
    pytest.param(path, line.split()[2:], id=line.removeprefix("# simkit "))
    for path in [*FILES, *GALLERY, *PARTICLES]
    for line in path.read_text("utf-8").splitlines()
    if line.startswith("# simkit run ")
]


@pytest.mark.parametrize(("path", "words"), COMMANDS)
def test_the_commands_in_the_comments_of_an_example_are_valid(path, words, monkeypatch):
    """Options go together with what the file says. How long it takes is not asked."""
    monkeypatch.setattr(simkit.engines.pilot.Pilot, "_run", lambda self: None)
    command, name, *options = words
    assert name == path.name
    result = CliRunner().invoke(app, [command, str(path), *options, "--dry-run"])
    assert result.exit_code == 0, result.output
