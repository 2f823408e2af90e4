"""The command line: what it prints where, exit codes, and what it leaves on disk."""

import contextlib
import io
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from unittest import mock

import diffrax
import numpy as np
import pytest
import typer
import xarray as xr
import yaml
from checkout import ROOT
from command import simkit_command
from simkit_physics import MODELS, POTENTIALS
from simkit_solvers import PARTICLE_METHODS, SOLVERS, SolverInfo

import simkit
import simkit.api
import simkit.ensemble.sizes
import simkit.machine.doctor
import simkit.pictures
from simkit import CLOSED_FORMS, OutputError, experiment_schema, load
from simkit.cli import app, main
from simkit.cli.catalogue import KINDS, first_sentence
from simkit.cli.completion import template_names
from simkit.cli.failures import reported
from simkit.cli.typer_app import ELSEWHERE
from simkit.closed_forms.registry import example_of
from simkit.config import Experiment, ParticleExperiment
from simkit.expressions import function_summaries
from simkit.md.functions import FUNCTIONS
from simkit.md.quantities import QUANTITIES

EXPERIMENT = """\
model: {type: GBM, mu: 0.05, sigma: 0.2}
initial: {S: 100.0}
time: {t1: 1.0, steps: 4}
ensemble: {paths: 200, seed: 1}
observe:
  call: {value: "exp(-0.05*t) * maximum(S - 100, 0)", exact: 10.45}
output: small.zarr
"""
EXPLOSION = """\
model: {ode: {x: x**2}}
initial: {x: 1.0}
solver: Euler
time: {t1: 100.0, steps: 100}
output: small.zarr
"""
LONG_RUN = ["run", "small.yaml", "--set", "ensemble.paths=2000000000"]
LONG_SENSITIVITY = ["sensitivity", *LONG_RUN[1:], "--wrt", "sigma"]
LONG_STUDY = ["uncertainty", "small.yaml", "--set", "model.sigma={uniform: [0.1, 0.3]}"]
LONG_STUDY += ["--set", "uncertainty.points=524288", "--set", "time.steps=4000"]
KEYS = list(dict.fromkeys([*Experiment.model_fields, *ParticleExperiment.model_fields]))
PARTICLES = [*POTENTIALS, "Tabulated", *PARTICLE_METHODS, *QUANTITIES, *FUNCTIONS]
NAMES = list(dict.fromkeys([*MODELS, *SOLVERS, *CLOSED_FORMS, *function_summaries(), *KEYS, *PARTICLES]))


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """The current directory, with a small experiment in it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.yaml").write_text(EXPERIMENT)
    return tmp_path


@pytest.fixture(scope="module")
def dataset() -> xr.Dataset:
    return simkit.run({key: value for key, value in yaml.safe_load(EXPERIMENT).items() if key != "output"})


@pytest.fixture
def finished(monkeypatch, dataset):
    """Every run is over at once, with the result of the small experiment."""
    monkeypatch.setattr(simkit.api, "run_experiment", lambda *arguments: dataset)


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


def files_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def content_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


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

    def test_dry_run_says_how_much_and_does_nothing(self, folder, monkeypatch):
        monkeypatch.setattr(simkit.api, "run_experiment", None)
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


# Whoever runs the tests may have set SIGINT aside, which a process inherits.
DEFAULT = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
HEEDFUL = f"{DEFAULT}; from simkit.cli import main; main()"


def _read_to_the_end(terminal: int) -> None:
    """Read what a program writes to its terminal, lest it wait for a reader for ever."""
    with contextlib.suppress(OSError):
        while os.read(terminal, 4096):
            pass


class TestFailures:
    def test_errors_are_listed_and_exit_with_2(self, folder):
        (folder / "small.yaml").write_text(EXPERIMENT.replace("sigma: 0.2", "sgima: 0.2"))
        for command in (("run",), ("validate",)):
            result = simkit_command(*command, "small.yaml")
            assert result.exit_code == 2
            assert result.stdout == ""
            assert "small.yaml:1:" in result.stderr
            error = json.loads(simkit_command(*command, "small.yaml", "--json").stdout)["error"]
            assert error["kind"] == "InputError"
            assert error["problems"] == result.stderr.splitlines()
            assert error["message"] == "\n".join(error["problems"])
        assert files_in(folder) == {"small.yaml"}

    def test_a_command_by_its_name_elsewhere_is_led_to_simkits(self):
        result = simkit_command("check", "small.yaml")
        assert result.exit_code == 2
        assert "No such command 'check'. Did you mean 'validate'?" in result.stderr
        assert {*ELSEWHERE.values()} <= {
            command.name or command.callback.__name__ for command in app.registered_commands
        }

    def test_a_set_that_cannot_be_read_exits_with_2(self, folder):
        result = simkit_command("run", "small.yaml", "--set", "paths")
        assert result.exit_code == 2
        assert result.stderr == "--set paths: expected KEY=VALUE, as in --set model.sigma=0.3\n"

    @pytest.mark.parametrize("option", ["--quiet", "--dry-run"])
    def test_more_devices_than_there_are_exits_with_2(self, folder, option):
        result = simkit_command("run", "small.yaml", option, "--set", "ensemble.devices=99")
        assert result.exit_code == 2
        assert result.stderr == ("ensemble.devices: is 99, and this process has 4; leave it out\n")

    def test_a_path_that_becomes_infinite_exits_with_3_and_leaves_the_old_output(self, folder):
        (folder / "explosion.yaml").write_text(EXPLOSION)
        (folder / "small.zarr").mkdir()
        (folder / "small.zarr" / ".zgroup").write_text("old")
        before = content_of(folder)
        result = simkit_command("run", "explosion.yaml", "--overwrite", "--json")
        assert result.exit_code == 3
        error = json.loads(result.stdout)["error"]
        assert error["kind"] == "NumericalError"
        assert "path 0: x = " in error["message"]
        assert result.stderr == error["message"] + "\n"
        assert content_of(folder) == before

    def test_failed_paths_that_are_left_out_are_warned_of(self, folder, monkeypatch, dataset):
        partial = dataset.assign_attrs(failed_paths=1, paths=64)
        monkeypatch.setattr(simkit.api, "run_experiment", lambda *arguments: partial)
        warning = "warning: 1 of 64 paths failed and are left out; "
        assert simkit_command("run", "small.yaml").stderr.startswith(warning)
        assert warning not in simkit_command("run", "small.yaml", "--quiet", "--overwrite").stderr

    def test_a_file_that_is_not_there_exits_with_4(self, folder):
        result = simkit_command("run", "smal.yaml", "--json")
        assert result.exit_code == 4
        assert json.loads(result.stdout)["error"] == {
            "kind": "MissingFileError",
            "message": "smal.yaml: no such file; did you mean 'small.yaml'?",
            "problems": ["smal.yaml: no such file; did you mean 'small.yaml'?"],
        }

    def test_a_directory_that_is_not_there_exits_with_4_before_the_run(self, folder, monkeypatch):
        monkeypatch.setattr(simkit.api, "run_experiment", None)
        result = simkit_command("run", "small.yaml", "--out", "results/small.zarr")
        assert result.exit_code == 4
        assert result.stderr.startswith("results/small.zarr: the directory results does not exist")

    @pytest.mark.usefixtures("finished")
    def test_existing_output_is_refused_before_the_run_and_left_intact(self, folder, monkeypatch):
        assert simkit_command("run", "small.yaml", "-q").exit_code == 0
        before = content_of(folder)
        with monkeypatch.context() as patch:
            patch.setattr(simkit.api, "run_experiment", None)
            result = simkit_command("run", "small.yaml")
            assert result.exit_code == 4
            assert (
                result.stderr
                == "small.zarr: exists already; to replace it use --overwrite, from Python overwrite=True\n"
            )
            result = simkit_command("run", "small.yaml", "--out", "small.nc")
            assert result.exit_code == 4
            assert result.stderr == "small.png: exists already; to replace it use --overwrite\n"
        assert content_of(folder) == before
        (folder / "small.zarr" / "old").touch()
        assert simkit_command("run", "small.yaml", "-q", "--overwrite").exit_code == 0
        assert set(content_of(folder)) == set(before)

    @pytest.mark.parametrize(
        ("raised", "code", "kind"),
        [(KeyboardInterrupt, 130, "Interrupted"), (ZeroDivisionError, 1, "ZeroDivisionError")],
    )
    def test_whatever_ends_a_run_is_one_object_on_stdout(self, folder, monkeypatch, raised, code, kind):
        def fail(*arguments):
            raise raised

        monkeypatch.setattr(simkit.api, "run_experiment", fail)
        result = simkit_command("run", "small.yaml", "--json")
        assert result.exit_code == code
        assert json.loads(result.stdout)["error"]["kind"] == kind
        assert files_in(folder) == {"small.yaml"}

    @pytest.mark.more
    @pytest.mark.parametrize(
        ("number", "code", "arguments"),
        [
            pytest.param(signal.SIGINT, 130, LONG_RUN, marks=pytest.mark.slow),
            pytest.param(signal.SIGTERM, 143, LONG_RUN, marks=pytest.mark.slow),
            pytest.param(signal.SIGTERM, 143, LONG_SENSITIVITY, marks=pytest.mark.more),
            pytest.param(signal.SIGINT, 130, LONG_STUDY, marks=pytest.mark.slow),
        ],
    )
    def test_a_signal_in_the_middle_leaves_nothing(self, folder, number, code, arguments):
        """No thread keeps the process, whose runs would take minutes."""
        ours, theirs = pty.openpty()  # a terminal, so that the progress bar says when the run has begun
        command = [sys.executable, "-c", HEEDFUL, *arguments, "--threads", "2"]
        environment = {**os.environ, "XLA_FLAGS": "", "TERM": "xterm", "COLUMNS": "120"}
        process = subprocess.Popen(command, stderr=theirs, stdout=subprocess.PIPE, env=environment)
        os.close(theirs)
        try:
            shown = b""
            while b"/s" not in shown and select.select([ours], [], [], 60)[0]:
                shown += os.read(ours, 4096)
            assert re.search(rb"/[0-9.]+[GM] paths", shown)
            process.send_signal(number)
            threading.Thread(target=_read_to_the_end, args=(ours,), daemon=True).start()
            stdout, _ = process.communicate(timeout=60)
        finally:
            process.kill()
            os.close(ours)
        assert process.returncode == code
        assert stdout == b""
        assert files_in(folder) == {"small.yaml"}

    def test_a_signal_that_a_callback_loses_comes_again(self, capfd):
        class Lost:
            def __del__(self):
                raise KeyboardInterrupt

        def run():
            with reported():
                Lost()
                for _ in range(500):
                    time.sleep(0.01)

        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            with pytest.raises(typer.Exit) as caught:
                run()
        finally:
            signal.signal(signal.SIGINT, before)
        assert caught.value.exit_code == 130
        assert capfd.readouterr().err == "interrupted\n"

    def test_a_signal_during_an_import_ends_the_process(self, tmp_path):
        (tmp_path / "slow.py").write_text(
            "import os, signal, time\nos.kill(os.getpid(), 2)\ntime.sleep(60)\n"
        )
        program = f"{DEFAULT}\nfrom simkit.cli.failures import reported\nwith reported():\n    import slow\n"
        process = subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            timeout=60,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])},
        )
        assert (process.returncode, process.stderr) == (130, b"interrupted\n")

    @pytest.mark.parametrize("name", ["", ".", ".."])
    def test_a_folder_is_not_an_output(self, folder, name):
        result = simkit_command("run", "small.yaml", "--out", name)
        assert result.exit_code == 2
        assert result.stderr == f"{name or '.'}: must end in .zarr, .nc or .csv\n"

    def test_an_unknown_option_exits_with_2(self, folder):
        assert simkit_command("run", "small.yaml", "--fast").exit_code == 2
        assert simkit_command("rnu", "small.yaml").exit_code == 2


class TestOtherCommands:
    def test_validate_says_what_would_run(self, folder):
        result = simkit_command("validate", "small.yaml")
        assert (result.exit_code, result.stderr) == (0, "")
        assert result.stdout == "small.yaml: valid (GBM, EulerMaruyama, 200 paths, 4 steps)\n"
        assert json.loads(simkit_command("validate", "small.yaml", "--json").stdout)["valid"] is True
        assert files_in(folder) == {"small.yaml"}

    def test_schema_is_json(self):
        assert {"model", "time", "observe"} <= set(json.loads(simkit_command("schema").stdout)["properties"])

    def test_list_names_everything(self):
        result = simkit_command("list")
        groups = json.loads(simkit_command("list", "--json").stdout)
        listed = {name for group in groups.values() for name in group}
        assert listed == {*NAMES, *template_names()}
        for name in listed:
            assert f"\n  {name} " in result.stdout
        assert all(line for group in groups.values() for line in group.values())

    def test_list_shows_one_kind(self):
        groups = json.loads(simkit_command("list", "--json").stdout)
        shown = [json.loads(simkit_command("list", kind, "--json").stdout) for kind in KINDS]
        assert [group for kind in shown for group in kind] == list(groups)
        assert shown[0]["models of mechanics"]["NBody"] == (
            "Four bodies in a plane under their softened gravity"
        )
        result = simkit_command("list", "model")
        assert (result.exit_code, result.stderr) == (
            2,
            "list: nothing of the kind 'model'; did you mean 'models'?\n",
        )

    @pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
    def test_a_summary_is_no_half_sentence(self, model):
        summary = first_sentence(model)
        assert not re.search(r"([,;:]| (is|are|of|with|and|for|by|the|where))$", summary)
        assert "; " not in summary

    def test_describe_takes_several_names_and_lists_all_unknown_ones(self):
        names = ["GBM", "EulerMaruyama", "time.steps"]
        alone = [simkit_command("describe", name).stdout.strip() for name in names]
        page = simkit_command("describe", *names, "GBM").stdout
        assert [part.strip() for part in page.split("─" * 72)] == alone
        actual = json.loads(simkit_command("describe", *names, "--json").stdout)["described"]
        assert actual == [json.loads(simkit_command("describe", name, "--json").stdout) for name in names]
        result = simkit_command("describe", "GBM", "GMB", "time.step")
        assert result.exit_code == 2
        assert [line.split(";")[0] for line in result.stderr.splitlines()] == [
            "nothing is called 'GMB'",
            "nothing is called 'time.step'",
        ]
        assert result.stdout == simkit_command("describe", "GBM").stdout
        as_json = simkit_command("describe", "GBM", "GMB", "--json")
        assert as_json.exit_code == 2
        assert json.loads(as_json.stdout)["error"]["problems"] == result.stderr.splitlines()[:1]

    def test_describe_of_a_key_inside_a_section_is_its_line(self):
        page = simkit_command("describe", "time.steps").stdout
        assert page.startswith("time.steps: key of time\n\n")
        assert json.loads(simkit_command("describe", "time", "--json").stdout)["sections"][0]["keys"]
        result = simkit_command("describe", "time.step")
        assert (result.exit_code, result.stderr) == (
            2,
            "nothing is called 'time.step'; did you mean 'steps'? (`simkit describe time` shows its keys)\n",
        )

    @pytest.mark.parametrize("name", NAMES)
    def test_describe_knows_every_name(self, name):
        page = simkit_command("describe", name)
        content = json.loads(simkit_command("describe", name, "--json").stdout)
        assert (page.exit_code, page.stderr) == (0, "")
        assert page.stdout.startswith(f"{name}: {content['kind']}\n")
        assert content["text"]
        assert not set("\\$") & set(page.stdout), "LaTeX is left over"

    @pytest.mark.parametrize(
        ("name", "properties"),
        [
            (
                "SRIW1",
                {
                    "for": "stochastic equations",
                    "calculus": "ito",
                    "noise may be": "additive, scalar, diagonal",
                    "adaptive for": "additive, scalar, diagonal",
                    "strong order": "additive 1.5, diagonal 1.5",
                    "weak order": "additive 2, diagonal 1.5, scalar 2",
                    "from": "simkit",
                },
            ),
            (
                "EulerHeun",
                {
                    "for": "stochastic equations",
                    "calculus": "stratonovich",
                    "noise may be": "additive, scalar, diagonal, commutative, general",
                    "adaptive for": "additive, scalar, diagonal, commutative, general",
                    "strong order": "additive 1, commutative 1, general 0.5",
                    "weak order": "additive 1, commutative 1, general 1",
                    "from": "diffrax",
                },
            ),
            ("Rodas5P", {"for": "ordinary equations", "order": "5", "from": "simkit"}),
            ("GBM", {"calculus": "ito", "noise is": "scalar", "noises": "W"}),
        ],
    )
    def test_describe_shows_the_properties(self, name, properties):
        page = simkit_command("describe", name).stdout
        for label, value in properties.items():
            assert re.search(rf"^  {label} +{re.escape(value)}$", page, re.MULTILINE), label
        assert re.search(r"^Reference: .*doi:10\.", page, re.MULTILINE | re.DOTALL)

    @pytest.mark.parametrize("name", MODELS)
    def test_yaml_of_a_model_is_an_experiment(self, name):
        content = json.loads(simkit_command("describe", name, "--json").stdout)
        assert "doi:" in content["reference"]
        assert all(row["unit"] and row["description"] for row in content["parameters"])
        simulation = load(content["yaml"])
        assert type(simulation.problem).__name__ == name
        assert f"  {content['yaml'].splitlines()[0]}\n" in simkit_command("describe", name).stdout

    @pytest.mark.parametrize("name", CLOSED_FORMS)
    def test_yaml_of_a_closed_form_has_its_value(self, name):
        content = json.loads(simkit_command("describe", name, "--json").stdout)
        decay = {"model": {"ode": {"y": "x - y"}}, "initial": {"y": 0}, "time": {"t1": 1, "steps": 1}}
        simulation = load(decay | yaml.safe_load(content["yaml"]))
        assert simulation.constants["x"] == CLOSED_FORMS[name](**example_of(name))

    @pytest.mark.parametrize("name", KEYS)
    def test_describe_of_a_key_shows_all_below_it_and_an_example_that_is_one(self, name):
        content = json.loads(simkit_command("describe", name, "--json").stdout)
        page = simkit_command("describe", name).stdout
        definitions = experiment_schema()["$defs"]
        below = {"time": "Time", "ensemble": "Ensemble", "save": "Save", "observe": "ObservableSettings"}
        if name in below:
            shown = [row["name"] for row in content["sections"][0]["keys"]]
            assert shown == list(definitions[below[name]]["properties"])
        for section in content["sections"]:
            for row in section["keys"]:
                assert re.search(rf"^  {row['name']} ", page, re.MULTILINE)
                assert row["description"][:20] in page
        if content["yaml"]:
            assert set(yaml.safe_load(content["yaml"])) == {name}

    def test_describe_says_whose_each_meaning_of_a_parameter_is(self):
        page = simkit_command("describe", "solver").stdout
        first, second = re.search(
            r"^  friction +(BAOAB: rate .+\.)\n +(BrownianDynamics: rate .+)$", page, re.MULTILINE
        ).groups()
        assert first == "BAOAB: rate at which velocities are forgotten."
        assert second.startswith("BrownianDynamics: rate at which velocities would be")
        assert not re.search(r": (of|in|that) ", page.partition("In molecular dynamics")[2])

    @pytest.mark.parametrize("name", ["Yukawa", "Buckingham", "BornMayer"])
    def test_describe_leaves_no_marks_of_bold_words(self, name):
        assert "Collapses" in simkit_command("describe", name).stdout
        assert "**" not in simkit_command("describe", name).stdout

    def test_describe_of_a_function_of_molecular_dynamics_shows_its_keys(self):
        page = simkit_command("describe", "rdf").stdout
        assert page.startswith("rdf: function of molecular dynamics\n\nThe radial distribution function g(r)")
        assert re.search(r"^  max +required +The largest distance", page, re.MULTILINE)
        assert "  observe: {x: {rdf: {bins: 200, max: 3.0}}}" in page

    def test_describe_says_where_a_solver_of_ones_own_is_from(self):
        own = type("Own", (diffrax.Euler,), {"__module__": "mine.solvers", "__doc__": "A step of one's own."})
        with mock.patch.dict(SOLVERS, {"Own": SolverInfo(own, "one's own", order=1)}):
            page = simkit_command("describe", "Own").stdout
        assert re.search(r"^  from +mine$", page, re.MULTILINE)
        assert "A step of one's own." in page

    def test_a_template_is_listed_by_a_whole_sentence(self):
        templates = json.loads(simkit_command("list", "templates", "--json").stdout)["templates"]
        assert templates["adaptive_sde"].endswith(": a price that is calm except for a day of news")
        assert templates["ode"].endswith(": Lorenz's weather")

    def test_describe_of_a_key_without_its_section_names_both(self):
        result = simkit_command("describe", "discrete")
        assert result.exit_code == 2
        assert result.stderr == (
            "nothing is called 'discrete' by itself; see `simkit describe constants.discrete` or "
            "`simkit describe model.discrete`\n"
        )

    def test_describe_suggests_a_name(self):
        result = simkit_command("describe", "hestn")
        assert result.exit_code == 2
        assert result.stderr == (
            "nothing is called 'hestn'; did you mean 'Heston'? (`simkit list` shows all names)\n"
        )

    @pytest.mark.parametrize("template", template_names())
    def test_new_writes_a_valid_experiment_once(self, tmp_path, monkeypatch, template):
        monkeypatch.chdir(tmp_path)
        result = simkit_command("new", template)
        command = "uncertainty" if template == "uncertainty" else "run"
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


def test_completion_knows_exactly_the_names_that_describe_knows():
    def complete(words: str) -> set[str]:
        count = str(len(words.split()) - words.endswith("?"))
        words = words.rstrip("?")
        environment = {"_SIMKIT_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": count}
        return set(simkit_command(env=environment).stdout.split())

    assert complete("simkit describe ?") == {*MODELS, *SOLVERS, *CLOSED_FORMS, *KEYS, *PARTICLES}
    assert complete("simkit describe Hes?") == {"Heston"}
    assert complete("simkit new ?") == set(template_names())
