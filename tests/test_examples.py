"""Every example runs, on fewer paths, and agrees with the exact values it states."""

import json
import runpy
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

import simkit
from simkit.cli import app

EXAMPLES = Path(__file__).parent.parent / "examples"
FILES = sorted(EXAMPLES.glob("*.yaml"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_example_runs_and_agrees_with_its_exact_values(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["run", str(path), "--json", "--set", "ensemble.paths=4000"])
    assert result.exit_code == 0, result.output
    content = json.loads(result.stdout)
    assert Path(content["output"]).exists()
    assert Path(content["picture"]).exists()
    stated = [name for name, spec in yaml.safe_load(path.read_text())["observe"].items() if "exact" in spec]
    for name in stated:
        assert abs(content["observables"][name]["z"]) < 5, name
    assert stated or path.stem in ("lorenz", "arenstorf")


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
