"""What the README shows runs as it stands."""

import re

import pytest
import yaml
from checkout import ROOT
from command import simkit_command

import simkit
from simkit.cli.app import app
from simkit.cli.completion import template_names

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
    missing, gone = commands - shown, shown - commands
    assert not missing, (
        f"README.md: add a row to the table of commands for simkit {', simkit '.join(missing)}"
    )
    assert not gone, f"README.md: no such commands, remove their rows: {sorted(gone)}"


def test_the_templates_and_tutorials_of_the_readme_are_those_there():
    (row,) = (line for line in README.splitlines() if line.startswith("| `simkit new TEMPLATE`"))
    assert sorted(re.findall(r"`(\w+)`", row)) == template_names()
    count = ["no", "one", "two", "three", "four", "five", "six"][len(list(ROOT.glob("docs/tutorials/*.md")))]
    assert f"a ten-minute tutorial, {count} longer ones" in README


def test_what_simkit_is_for_is_said_alike_everywhere():
    summaries = {
        "README.md": README.partition("```")[0],
        "docs/index.md": (ROOT / "docs/index.md").read_text("utf-8").partition("|")[0],
        "CITATION.cff": yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))["abstract"],
        "--help": simkit_command("--help").stdout.partition("Start with")[0],
    }
    for field in ("ordinary differential equations", "reaction networks", "molecular dynamics"):
        assert all(field in " ".join(text.split()) for text in summaries.values()), field
