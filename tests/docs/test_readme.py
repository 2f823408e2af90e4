"""What the README shows runs as it stands."""

import re

import pytest
import yaml
from checkout import ROOT

import simkit
from simkit.cli.app import app

README = (ROOT / "README.md").read_text(encoding="utf-8")
YAML = re.findall(r"```yaml\n# (\S+)\n(.*?)```", README, flags=re.DOTALL)
PYTHON = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)


def test_the_first_experiment_is_the_example():
    name, text = YAML[0]
    assert yaml.safe_load(text) == yaml.safe_load((ROOT / "examples" / name).read_text())


@pytest.mark.more
@pytest.mark.parametrize(("name", "text"), YAML[1:], ids=[name for name, _ in YAML[1:]])
def test_yaml_runs(name, text):
    result = simkit.run(yaml.safe_load(text), overrides=["ensemble.paths=500", "output=null"])
    assert result.attrs["paths"] == 500


@pytest.mark.more
def test_python_runs_and_is_right(capsys):
    assert len(PYTHON) == 1
    exec(PYTHON[0], {})
    mean, error = map(float, capsys.readouterr().out.split(" ± "))
    assert abs(mean - 10.4506) < 5 * error
    assert 0.1 < error < 0.2


def test_the_table_of_commands_names_each_one():
    rows = "\n".join(line for line in README.splitlines() if line.startswith("| `simkit"))
    shown = set(re.findall(r"`simkit (\w+)", rows))
    commands = {command.name or command.callback.__name__ for command in app.registered_commands}
    assert shown == commands
