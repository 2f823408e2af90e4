"""The command line: what it prints where, and what it leaves on disk."""

import io
import json
import re
import subprocess
import sys
from unittest import mock

import numpy as np
import pytest
import typer
import xarray as xr
from checkout import ROOT
from command import EXPERIMENT, files_in, simkit_command
from simkit_physics import MODELS

import simkit
import simkit.engines.paths
import simkit.ensemble.sizes
import simkit.machine.doctor
import simkit.pictures
from simkit import OutputError
from simkit.cli import app, main
from simkit.cli.completion import template_names

OWN = """
from typing import NamedTuple

from simkit_physics import MODELS
from simkit_solvers import AbstractODE, parameter


class State(NamedTuple):
    N: float


class Evaporation(AbstractODE):
    State = State
    rate: float = parameter("1/time", "rate", above=0)

    def drift(self, t, y):
        return State(-self.rate * y.N)


MODELS["Evaporation"] = Evaporation
"""


@pytest.mark.parametrize(
    ("written", "remedy"),
    [
        ("run small.yaml --seed 3", ". It is a key of the file: --set ensemble.seed=VALUE"),
        ("run small.yaml --seed=3", ". It is a key of the file: --set ensemble.seed=VALUE"),
        ("run --seed --quiet small.yaml", ". It is a key of the file: --set ensemble.seed=VALUE"),
        ("run small.yaml --sede=3", " (Possible options: --set)"),
        ("plot small.zarr --seed=3", ""),
    ],
)
def test_a_key_that_is_no_option_is_set_by_set(folder, written, remedy):
    refused = simkit_command(*written.split())
    assert refused.exit_code == 2
    said = " ".join(refused.stderr.replace("│", " ").split())
    assert re.search(r"No such option: --(seed|sede)" + re.escape(remedy) + " ╰", said)


@pytest.mark.more
def test_molecular_dynamics_is_refused_by_all_commands_but_those_that_it_is_told_of(folder):
    """A command that works finds the error in the file, and others refuse the file first."""
    (folder / "fluid.yaml").write_text("system: {}\nwrong_key: 1\nsweep: {over: {time.dt: [1, 2]}}\n")
    refusals, works = set(), set()
    for name, command in typer.main.get_command(app).commands.items():
        if name != "merge" and "experiment" in {parameter.name for parameter in command.params}:
            said = simkit_command(name, "fluid.yaml").stderr
            told = re.search("this does not work for molecular dynamics, which has the commands (.*)", said)
            if told:
                refusals.add(told[1])
            else:
                assert "wrong_key: unknown key" in said
                works.add(name)
    (refusal,) = refusals
    commands, functions = refusal.split(", and simkit.run")
    assert {*re.findall("[a-z]+", commands)} - {"and"} == works | {"plot"}
    assert {*re.findall(r"simkit\.([a-z_]+)", functions)} == {"sweep", "sensitivity", "single_point"}


def test_a_module_enters_a_model_of_its_own(folder, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    (folder / "my_own_models.py").write_text(OWN)
    (folder / "evaporation.yaml").write_text(
        "model: {type: Evaporation, rate: 2}\ninitial: {N: 1}\ntime: {t1: 1, steps: 10}\n"
    )
    refused = simkit_command("validate", "evaporation.yaml")
    assert refused.exit_code == 2
    own = "`simkit list models` shows all; `simkit --import MODULE run ...` enters your own"
    assert f"unknown model 'Evaporation'; {own}" in refused.stderr
    with mock.patch.dict(MODELS):
        taken = simkit_command("--import", "my_own_models", "validate", "evaporation.yaml")
        assert taken.stdout == "evaporation.yaml: valid (Evaporation, Tsit5, 1 path, 10 steps)\n"
        listed = simkit_command("--import", "my_own_models", "list").stdout
        assert "models of your own\n  Evaporation" in listed
    wrong = simkit_command("--import", "my_other_models.py", "list")
    assert wrong.exit_code == 2
    assert "--import my_other_models.py: no such module; name it as Python does" in wrong.stderr


@pytest.mark.parametrize("arguments", ["validate misspelt.yaml", "run misspelt.yaml", "describe Evaporation"])
def test_a_model_without_a_member_is_bad_input(folder, monkeypatch, arguments):
    """Not a bug in simkit, with a traceback and exit code 1."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "misspelt_models", raising=False)
    (folder / "misspelt_models.py").write_text(OWN.replace("drift", "drfit"))
    (folder / "misspelt.yaml").write_text(
        "model: {type: Evaporation, rate: 2}\ninitial: {N: 1}\ntime: {t1: 1, steps: 10}\n"
    )
    with mock.patch.dict(MODELS):
        result = simkit_command("--import", "misspelt_models", *arguments.split())
    place = "" if "describe" in arguments else "misspelt.yaml:1:15: model.type: "
    said = f"{place}Evaporation has no drift(self, t, y); did you mean 'drfit'?\n"
    assert (result.exit_code, result.stderr) == (2, said)


ERRORS_IN_MODULES = {  # content of the module: what is said of it, with the user's own line
    "import diffrax\nfrom simkit_solvers import SOLVERS, SolverInfo\n\n"
    "SOLVERS['Mine'] = SolverInfo(diffrax.Heun, 'Mine.')\n": "{name}.py:4: ValueError: ",
    "def rate():\n    return 1 / 0\n\n\nrate()\n": "{name}.py:2: ZeroDivisionError: division by zero",
    "import json\n\njson.loads('{')\n": "{name}.py:3: JSONDecodeError: Expecting property name",
    "x = 1\ny = (2\n": "{name}.py:2: SyntaxError: '(' was never closed",
    "\nimport no_such_package\n": "{name}.py:2: ModuleNotFoundError: No module named 'no_such_package'",
    "import helper_of_{name}\n": "helper_of_{name}.py:4: AssertionError",
}


@pytest.mark.parametrize("case", range(len(ERRORS_IN_MODULES)))
def test_an_error_in_a_module_is_one_line_with_its_place_there(tmp_path, monkeypatch, case):
    """Bad input, as any wrong code of a user's; a traceback and exit code 1 are for bugs in simkit."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    text, said = [*ERRORS_IN_MODULES.items()][case]
    name = f"module_with_error_{case}"
    (tmp_path / f"{name}.py").write_text(text.replace("{name}", name))
    (tmp_path / f"helper_of_{name}.py").write_text("\n\n\nraise AssertionError\n")
    result = simkit_command("--import", name, "list")
    expected = f"--import {name}: {said.replace('{name}', name)}"
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert result.stderr.startswith(expected)


class TestRun:
    @pytest.mark.more
    @pytest.mark.usefixtures("finished")
    def test_prints_a_table_and_writes_dataset_and_picture(self, folder):
        result = simkit_command("run", "small.yaml")
        assert result.exit_code == 0
        assert "call" in result.stdout
        assert "±" in result.stdout
        assert result.stderr == "wrote small.zarr\nwrote small.png\n"
        assert files_in(folder) == {"small.yaml", "small.zarr", "small.png"}
        assert (folder / "small.png").read_bytes().startswith(b"\x89PNG")

    @pytest.mark.more
    def test_json_is_one_object_with_the_numbers_of_the_dataset(self, folder):
        changes = ("--set", "ensemble.paths=77", "--set", "time.steps=6")
        result = simkit_command("run", "small.yaml", "--json", *changes)
        content = json.loads(result.stdout)
        with xr.open_zarr(folder / "small.zarr") as dataset:
            for key in ("mean", "stderr", "bias", "bias_stderr", "exact", "z"):
                assert content["observables"]["call"][key] == float(dataset[f"call_{key}"])
        assert content["paths"] == 77
        assert content["failed_paths"] == 0
        assert content["steps"] == 6
        assert content["output"] == "small.zarr"
        assert content["picture"] == "small.png"
        assert content["elapsed_s"] > 0
        assert content["compile_s"] > 0
        assert content["path_steps_per_s"] == pytest.approx(77 * 6 / content["elapsed_s"])

    @pytest.mark.usefixtures("finished")
    def test_without_output_only_the_table_is_printed(self, folder):
        (folder / "small.yaml").write_text(EXPERIMENT.replace("output: small.zarr\n", ""))
        result = simkit_command("run", "small.yaml")
        assert result.exit_code == 0
        assert "call" in result.stdout
        assert files_in(folder) == {"small.yaml"}

    @pytest.mark.usefixtures("finished")
    def test_options_choose_what_is_written_and_printed(self, folder):
        result = simkit_command("run", "small.yaml", "--out", "other.nc", "--no-plot", "--quiet")
        assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")
        assert files_in(folder) == {"small.yaml", "other.nc"}

    @pytest.mark.parametrize("arguments", [("validate",), ("run", "--dry-run"), ("run",)])
    def test_an_output_without_its_directory_is_refused_before_a_run(self, folder, arguments):
        result = simkit_command(*arguments, "small.yaml", "--set", "output=away/small.zarr")
        assert result.exit_code == 4
        assert result.stdout == ""
        assert result.stderr == (
            "away/small.zarr: the directory away does not exist; create it or choose another output\n"
        )
        assert files_in(folder) == {"small.yaml"}

    def test_dry_run_says_how_much_and_writes_nothing(self, folder, monkeypatch):
        arguments = ("run", "small.yaml", "--dry-run", "--set", "save.paths=50", "--set", "save.points=4")
        sizes = json.loads(simkit_command(*arguments, "--json").stdout)
        assert (sizes["steps"], sizes["path_steps"], sizes["saved_times"]) == (4, 800, 5)
        assert sizes["memory_bytes"] >= (200 + 50) * (5 + 1) * 8
        assert simkit_command(*arguments).stdout.startswith("200 paths x 4 steps, 800 path-steps\n")
        assert "warning" not in simkit_command(*arguments).stdout
        monkeypatch.setattr(simkit.ensemble.sizes, "available_memory", lambda: 1000)
        assert "refused: that is more than the 1kB of memory" in simkit_command(*arguments).stdout
        refused = simkit_command("run", "small.yaml", "--out", "small.zarr")
        assert refused.exit_code == 2
        assert re.search(
            r"save: takes about .*B of memory, and 1kB are available; store fewer", refused.stderr
        )
        assert files_in(folder) == {"small.yaml"}

    @pytest.mark.more
    @pytest.mark.parametrize("stored", [pytest.param(0, marks=pytest.mark.slow), 150])
    def test_dry_run_knows_the_size_of_the_dataset(self, folder, stored):
        changes = ["time.steps=20", "save.points=20", f"save.paths={stored}"]
        flags = [word for change in changes for word in ("--set", change)]
        sizes = json.loads(simkit_command("run", "small.yaml", "--dry-run", "--json", *flags).stdout)
        dataset = simkit.run("small.yaml", overrides=changes)
        assert sizes["output_bytes"] == pytest.approx(dataset.nbytes, rel=0.1)

    @pytest.mark.usefixtures("finished")
    def test_a_failing_picture_does_not_lose_the_dataset(self, folder, monkeypatch):
        def fail(dataset, path):
            raise OutputError("the pen is dry")

        monkeypatch.setattr(simkit.pictures, "save_picture", fail)
        result = simkit_command("run", "small.yaml", "--json")
        assert result.exit_code == 0
        assert "warning: no picture: the pen is dry\n" in result.stderr
        assert json.loads(result.stdout)["picture"] is None
        assert files_in(folder) == {"small.yaml", "small.zarr"}


class TestOtherCommands:
    def test_validate_says_what_would_run(self, folder):
        result = simkit_command("validate", "small.yaml")
        assert (result.exit_code, result.stderr) == (0, "")
        assert result.stdout == "small.yaml: valid (GBM, EulerMaruyama, 200 paths, 4 steps)\n"
        assert json.loads(simkit_command("validate", "small.yaml", "--json").stdout)["valid"] is True
        assert files_in(folder) == {"small.yaml"}

    def test_validate_reads_standard_input_and_each_point_of_a_sweep(self, folder):
        text = (folder / "small.yaml").read_text()
        read = simkit_command("validate", "-", input=text)
        assert (read.exit_code, read.stdout) == (0, "-: valid (GBM, EulerMaruyama, 200 paths, 4 steps)\n")
        swept = simkit_command("validate", "small.yaml", "--set", "sweep={over: {model.sigma: 0.1:0.3:3}}")
        assert swept.stdout.endswith("\nsweep: valid (3 points)\n")
        wrong = simkit_command("validate", "small.yaml", "--set", "sweep={over: {model.sigma: [0.1, -3]}}")
        assert wrong.exit_code == 2
        assert "at model.sigma=-3: --set sweep: model.sigma: must be >= 0, got -3" in wrong.stderr

    def test_schema_is_json(self):
        assert {"model", "time", "observe"} <= set(json.loads(simkit_command("schema").stdout)["properties"])

    @pytest.mark.parametrize("template", template_names())
    def test_new_writes_a_valid_experiment_once(self, tmp_path, monkeypatch, template):
        monkeypatch.chdir(tmp_path)
        result = simkit_command("new", template)
        command = {"uncertainty": "uncertainty", "outbreak": "sweep"}.get(template, "run")
        assert result.stdout == f"wrote {template}.yaml; next: simkit {command} {template}.yaml\n"
        assert simkit_command("validate", f"{template}.yaml").exit_code == 0
        (tmp_path / f"{template}.yaml").write_text("mine")
        result = simkit_command("new", template)
        assert result.exit_code == 4
        assert result.stderr == f"{template}.yaml: exists already; rename or remove it first\n"
        assert (tmp_path / f"{template}.yaml").read_text() == "mine"

    def test_new_suggests_a_template(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        result = simkit_command("new", "gmb")
        assert (result.exit_code, result.stderr) == (2, "no template 'gmb'; did you mean 'gbm'?\n")
        result = simkit_command("new", "foo")
        assert result.stderr == f"no template 'foo'; known: {', '.join(template_names())}\n"
        assert files_in(tmp_path) == set()

    @pytest.mark.usefixtures("folder")
    def test_a_wrong_number_of_threads_is_named_once(self):
        result = simkit_command("run", "small.yaml", "--threads", "0")
        assert (result.exit_code, result.stderr) == (2, "--threads: must be at least 1, got 0\n")

    @pytest.mark.usefixtures("finished")
    def test_plot_draws_a_dataset_again(self, folder):
        assert simkit_command("run", "small.yaml", "-q", "--no-plot").exit_code == 0
        result = simkit_command("plot", "small.zarr")
        assert (result.exit_code, result.stdout) == (0, "wrote small.png\n")
        result = simkit_command("plot", "small.zarr")
        assert (result.exit_code, result.stderr) == (
            4,
            "small.png: exists already; to replace it use --overwrite\n",
        )
        assert simkit_command("plot", "small.zarr", "--out", "small.svg").exit_code == 0
        assert (folder / "small.svg").read_text().startswith("<?xml")
        assert simkit_command("plot", "small.yaml", "--out", "x.png").exit_code == 2
        assert simkit_command("plot", "absent.zarr", "--out", "x.png").exit_code == 4

    def test_plot_of_no_dataset_says_so_even_where_a_picture_of_that_name_exists(self, folder):
        """A picture could not be made: `--overwrite` would be no remedy."""
        (folder / "small.png").write_text("earlier")
        (folder / "table.png").write_text("earlier")
        (folder / "table.csv").write_text("name,value\n")
        result = simkit_command("plot", "small.yaml")
        assert (result.exit_code, "`simkit run small.yaml --out small.zarr` writes one" in result.stderr) == (
            2,
            True,
        )
        result = simkit_command("plot", "table.csv")
        assert (result.exit_code, "is a table for spreadsheets, not a dataset" in result.stderr) == (2, True)
        assert (folder / "small.png").read_text() == (folder / "table.png").read_text() == "earlier"

    def test_doctor_reports_and_fails_where_jax_is_wrong(self, monkeypatch):
        content = json.loads(simkit_command("doctor", "--json").stdout)
        assert content["healthy"] is True
        names = {finding["name"] for finding in content["findings"]}
        assert {"python", "simkit", "jax", "jaxlib", "diffrax", "devices", "vector width", "float64"} <= names
        monkeypatch.setattr(simkit.machine.doctor, "reduction_error", lambda: np.float64(0.002))
        result = simkit_command("doctor")
        assert result.exit_code == 3
        row = r"reduction +failed: wrong by 0\.002 \(jax issue 39103\): install another jax\n"
        assert re.search(row, result.stdout)


LIGHT = """
import sys
import threading
from typer.testing import CliRunner
from simkit.cli import app, main
from simkit.cli.completion import complete_name, complete_template
for arguments in (["--help"], ["--version"], ["run", "--help"], ["new", "--help"], ["new", "gbm"]):
    assert CliRunner().invoke(app, arguments).exit_code == 0, arguments
assert "GBM" in complete_name("") and "gbm" in complete_template("g")
print(*sorted(set(sys.modules) & set(sys.argv[1].split())))
"""
HEAVY = "jax jaxlib equinox diffrax xarray matplotlib scipy numpy pandas zarr yaml"


def test_help_and_completion_import_nothing_that_is_slow(tmp_path):
    command = [sys.executable, "-c", LIGHT, HEAVY]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.split() == []


def test_a_reader_who_has_seen_enough_is_no_fault():
    command = f"{sys.executable} -m simkit schema | head -0; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert (done.returncode, done.stderr) in ((141, ""), (0, ""))  # 0 where it had ended before


def test_help_names_every_command():
    result = simkit_command("--help")
    for command in ("run", "uncertainty", "validate", "list", "describe", "plot", "new", "schema", "doctor"):
        assert f" {command} " in result.stdout
        page = simkit_command(command, "--help")
        assert page.exit_code == 0
        assert "<bool>" not in result.stdout + page.stdout, "a flag takes no value"


def test_help_has_the_exit_codes_of_the_reference_in_short_lines():
    reference = (ROOT / "docs/reference/command_line.md").read_text("utf-8")
    lines = simkit_command("--help").stdout.partition("Exit codes: ")[2].partition("\n \n")[0]
    said = lines.partition("╭")[0]
    assert re.findall(r"(?:^|, |^ )(\d+) ", said, re.MULTILINE) == re.findall(
        r"^\| (\d+) \|", reference, re.MULTILINE
    )
    assert all(len(line.split()) > 1 for line in said.strip().splitlines())


def test_a_terminal_without_greek_gets_question_marks(monkeypatch):
    ascii_only = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", ascii_only)
    monkeypatch.setattr(sys, "argv", ["simkit", "describe", "GBM"])
    monkeypatch.setattr(sys.modules["simkit.cli.app"], "leave_at_once", sys.exit)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code in (0, None)
    ascii_only.seek(0)
    assert "Geometric Brownian motion, dS = ? S dt + ? S dW." in ascii_only.read()


def test_version():
    assert simkit_command("--version").stdout.startswith("simkit ")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_script(shell):
    result = simkit_command(env={"_SIMKIT_COMPLETE": f"source_{shell}"})
    assert result.exit_code == 0
    assert "_SIMKIT_COMPLETE" in result.stdout


KEYS_AS_OPTIONS = {
    "a key": (["--seed", "3"], "--set ensemble.seed=VALUE"),
    "a section": (["--solver", "Milstein"], "--set solver=VALUE"),
    "a value apart": (["--set", "model.sigma", "0.3"], "--set model.sigma=0.3"),
    "an option with another ending": (["--output", "x.zarr"], "--out"),
}


@pytest.mark.parametrize("case", KEYS_AS_OPTIONS)
def test_a_key_given_as_an_option_is_told_how_it_is_set(case):
    options, remedy = KEYS_AS_OPTIONS[case]
    result = simkit_command("run", "gbm.yaml", *options)
    assert result.exit_code == 2
    assert remedy in " ".join(result.stderr.replace("│", " ").split())
