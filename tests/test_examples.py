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
    assert stated or path.stem == "lorenz"


def test_script_is_the_experiment_of_the_yaml_file():
    script = runpy.run_path(str(EXAMPLES / "gbm.py"))["experiment"]
    file = yaml.safe_load((EXAMPLES / "gbm.yaml").read_text())
    for key in ("constants", "model", "initial", "time", "ensemble", "save"):
        assert script[key] == file[key]
    result = simkit.run(script, overrides=["ensemble.paths=4000"])
    expected = simkit.run(EXAMPLES / "gbm.yaml", overrides=["ensemble.paths=4000", "output=null"])
    for name in script["observe"]:
        assert float(result[f"{name}_mean"]) == float(expected[f"{name}_mean"])
