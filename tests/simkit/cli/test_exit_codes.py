"""How commands fail: messages, exit codes, and what is left on disk after errors and signals."""

import contextlib
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

import pytest
import typer
from command import DEFAULT, EXPERIMENT, HEEDFUL, content_of, files_in, simkit_command
from md_examples import fluid

from simkit import InputError
from simkit.cli import app
from simkit.cli.failures import reported
from simkit.cli.typer_app import ELSEWHERE
from simkit.engines.loaded import load_each
from simkit.engines.paths import PathEngine
from simkit.results.claims import claimed

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


def _read_to_the_end(terminal: int) -> None:
    """Read what a program writes to its terminal, lest it wait for a reader for ever."""
    with contextlib.suppress(OSError):
        while os.read(terminal, 4096):
            pass


def test_errors_are_listed_and_exit_with_2(folder):
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


def test_a_command_by_its_name_elsewhere_is_led_to_simkits():
    result = simkit_command("check", "small.yaml")
    assert result.exit_code == 2
    assert "No such command 'check'. Did you mean 'validate'?" in result.stderr
    assert {*ELSEWHERE.values()} <= {
        command.name or command.callback.__name__ for command in app.registered_commands
    }


def test_a_set_that_cannot_be_read_exits_with_2(folder):
    result = simkit_command("run", "small.yaml", "--set", "paths")
    assert result.exit_code == 2
    assert result.stderr == "--set paths: expected KEY=VALUE, as in --set model.sigma=0.3\n"


@pytest.mark.parametrize("option", ["--quiet", "--dry-run"])
def test_more_devices_than_there_are_exits_with_2(folder, option):
    result = simkit_command("run", "small.yaml", option, "--set", "ensemble.devices=99")
    assert result.exit_code == 2
    assert result.stderr == "--set ensemble.devices: 99 requested, 4 available; omit to use all\n"


def test_a_number_of_threads_that_is_none_exits_with_2(folder):
    result = simkit_command("run", "small.yaml", "--threads", "abc")
    assert result.exit_code == 2
    assert "Invalid value for '--threads': must be a whole number, got 'abc'" in result.stderr


def test_a_path_that_becomes_infinite_exits_with_3_and_leaves_the_old_output(folder):
    (folder / "explosion.yaml").write_text(EXPLOSION)
    (folder / "small.zarr").mkdir()
    (folder / "small.zarr" / ".zattrs").write_text('{"simkit_format": 1}')
    before = content_of(folder)
    result = simkit_command("run", "explosion.yaml", "--overwrite", "--json")
    assert result.exit_code == 3
    error = json.loads(result.stdout)["error"]
    assert error["kind"] == "NumericalError"
    assert "path 0: x = " in error["message"]
    assert result.stderr == error["message"] + "\n"
    assert content_of(folder) == before


def test_failed_paths_that_are_left_out_are_warned_of(folder, monkeypatch, dataset):
    partial = dataset.assign_attrs(failed_paths=1, paths=64)
    monkeypatch.setattr(PathEngine, "run", lambda *arguments: partial)
    warning = "warning: 1 of 64 paths failed and are left out; "
    assert simkit_command("run", "small.yaml").stderr.startswith(warning)
    assert warning not in simkit_command("run", "small.yaml", "--quiet", "--overwrite").stderr


def test_a_file_that_is_not_there_exits_with_4(folder):
    result = simkit_command("run", "smal.yaml", "--json")
    assert result.exit_code == 4
    assert json.loads(result.stdout)["error"] == {
        "kind": "MissingFileError",
        "message": "smal.yaml: no such file; did you mean 'small.yaml'?",
        "problems": ["smal.yaml: no such file; did you mean 'small.yaml'?"],
    }


CURVES = "curves: {r: {file: rates.csv, time: day, value: r}}\n"
NAMED_FILES = {
    "a curve": CURVES,
    "initial values": "initial: {S: {file: starts.csv}}\n",
    "an earlier run": "initial: {S: {file: earlier.nc}}\n",
    "a curve of each variant": CURVES + "variants: {a: {time.steps: 4}, b: {time.steps: 8}}\n",
}


@pytest.mark.parametrize("name", NAMED_FILES)
def test_a_missing_file_that_an_experiment_names_exits_with_4(folder, name):
    """The message has its place; with another error the experiment itself is wrong, and the code is 2."""
    first = NAMED_FILES[name].partition(":")[0]
    text = "".join(x for x in EXPERIMENT.splitlines(True) if not x.startswith(first)) + NAMED_FILES[name]
    (folder / "small.yaml").write_text(text)
    result = simkit_command("run", "small.yaml", "--json")
    assert (result.exit_code, json.loads(result.stdout)["error"]["kind"]) == (4, "MissingInputError")
    assert re.match(
        r"small.yaml:\d+:\d+: (variant a: )?[a-zA-Z.]+: \w+\.(csv|nc): no such file", result.stderr
    )
    assert simkit_command("run", "small.yaml", "--set", "time.stpes=3").exit_code == 2


def test_a_table_that_is_a_folder_exits_with_4(folder):
    """It cannot be read, though it is there."""
    (folder / "rates.csv").mkdir()
    (folder / "small.yaml").write_text(f"{EXPERIMENT}\n{CURVES}")
    result = simkit_command("run", "small.yaml", "--json")
    assert (result.exit_code, json.loads(result.stdout)["error"]["kind"]) == (4, "UnreadableInputError")


@pytest.mark.usefixtures("folder")
def test_a_missing_file_of_particles_exits_with_4():
    """As tables of other experiments do."""
    with pytest.raises(InputError) as caught:
        load_each(fluid() | {"system": {"file": "argon.xyz"}})
    assert caught.value.exit_code == 4
    assert isinstance(caught.value, FileNotFoundError)


def test_a_directory_that_is_not_there_exits_with_4_before_the_run(folder, monkeypatch):
    monkeypatch.setattr(PathEngine, "run", None)
    result = simkit_command("run", "small.yaml", "--out", "results/small.zarr")
    assert result.exit_code == 4
    assert result.stderr.startswith("results/small.zarr: the directory results does not exist")


@pytest.mark.usefixtures("finished")
def test_existing_output_is_refused_before_the_run_and_left_intact(folder, monkeypatch):
    assert simkit_command("run", "small.yaml", "-q").exit_code == 0
    before = content_of(folder)
    with monkeypatch.context() as patch:
        patch.setattr(PathEngine, "run", None)
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
def test_whatever_ends_a_run_is_one_object_on_stdout(folder, monkeypatch, raised, code, kind):
    def fail(*arguments):
        raise raised

    monkeypatch.setattr(PathEngine, "run", fail)
    result = simkit_command("run", "small.yaml", "--json")
    assert result.exit_code == code
    assert json.loads(result.stdout)["error"]["kind"] == kind
    assert files_in(folder) == {"small.yaml"}


@pytest.mark.more
@pytest.mark.parametrize(
    ("number", "code", "arguments"),
    [
        pytest.param(signal.SIGINT, 75, LONG_RUN, marks=pytest.mark.slow),
        pytest.param(signal.SIGTERM, 75, LONG_RUN, marks=pytest.mark.slow),
        pytest.param(signal.SIGTERM, 143, LONG_SENSITIVITY, marks=pytest.mark.more),
        pytest.param(signal.SIGINT, 75, LONG_STUDY, marks=pytest.mark.slow),
    ],
)
def test_a_signal_in_the_middle_leaves_nothing_but_a_record(folder, number, code, arguments):
    """No thread keeps the process, whose runs would take minutes. Derivatives have no output here."""
    ours, theirs = pty.openpty()  # a terminal, so that the progress bar says when the run has begun
    command = [sys.executable, "-c", HEEDFUL, *arguments, "--threads", "2"]
    environment = {**os.environ, "XLA_FLAGS": "", "TERM": "xterm", "COLUMNS": "120"}
    environment["SIMKIT_RECORD_EVERY"] = "1000"  # or a slow machine would have one record before another
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
    assert files_in(folder) == {"small.yaml", *({".small.zarr.record"} if code == 75 else ())}


def test_a_signal_that_a_callback_loses_comes_again(capfd):
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


def test_a_signal_during_an_import_ends_the_process(tmp_path):
    (tmp_path / "slow.py").write_text("import os, signal, time\nos.kill(os.getpid(), 2)\ntime.sleep(60)\n")
    program = f"{DEFAULT}\nfrom simkit.cli.failures import reported\nwith reported():\n    import slow\n"
    process = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])},
    )
    assert (process.returncode, process.stderr) == (130, b"interrupted\n")


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_a_folder_is_not_an_output(folder, name):
    result = simkit_command("run", "small.yaml", "--out", name)
    assert result.exit_code == 2
    assert result.stderr == f"{name or '.'}: must end in .zarr, .nc or .csv\n"


def test_an_unknown_option_exits_with_2(folder):
    assert simkit_command("run", "small.yaml", "--fast").exit_code == 2
    assert simkit_command("rnu", "small.yaml").exit_code == 2


def test_a_second_run_into_the_same_output_is_refused_before_it_computes(folder, monkeypatch):
    monkeypatch.setattr(PathEngine, "run", None)
    with claimed([folder / "small.zarr"]):
        for command in ("run", "uncertainty"):
            extra = ("--set", "model.sigma={uniform: [0.1, 0.3]}") if command == "uncertainty" else ()
            result = simkit_command(command, "small.yaml", *extra)
            assert result.exit_code == 4
            assert re.match(r"small.zarr: is being written by another run \(process \d+", result.stderr)


def test_leftovers_are_named_and_kept(folder):
    (folder / ".small.tmp-4194305-0.zarr").mkdir()
    result = simkit_command("run", "small.yaml")
    assert result.exit_code == 0
    assert ".small.tmp-4194305-0.zarr: was left by a run into small.zarr that was killed" in result.stderr
    assert ".small.tmp-4194305-0.zarr" in files_in(folder)


STORED = "--set ensemble.paths=3000000 --set save.paths=all --set time.steps=100 --set save.points=100"
LONG_ROWS = "--set ensemble.paths=4096 --set time.steps=200000 --set save.points=200000"


@pytest.mark.more
@pytest.mark.skipif(sys.platform != "linux", reason="needs RLIMIT_AS")
@pytest.mark.parametrize(
    ("gigabytes", "estimated", "options", "code", "message"),
    [
        pytest.param(0.9, True, STORED, 4, "raise the limit", id="no room for jax"),
        pytest.param(1.4, True, STORED, 2, "save: takes about .*; store fewer paths", id="by the estimate"),
        pytest.param(2.2, False, STORED, 4, "array with shape .*; store fewer paths", id="while adding"),
        pytest.param(2.2, False, LONG_ROWS, 4, "Out of memory .*; store fewer paths", id="in a thread"),
    ],
)
def test_too_little_memory_ends_a_run_with_a_remedy(folder, gigabytes, estimated, options, code, message):
    """Known beforehand; or, where the estimate is not asked, in a single allocation above the limit.

    A slow machine would have recorded the run by then, for another try with more memory.
    """
    blind = "" if estimated else "import simkit.ensemble.sizes as s; s.available_memory = lambda: None; "
    command = [sys.executable, "-c", f"{blind}from simkit.cli import main; main()", "run", "small.yaml"]
    command += ["--quiet", "--set", "ensemble.chunk=2048", *options.split()]
    done = subprocess.run(
        ["bash", "-c", f'ulimit -v {int(gigabytes * 1e6)}; exec "$@"', "bash", *command],
        env={**os.environ, "SIMKIT_RECORD_EVERY": "1000"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == code, done.stderr
    assert re.search(message, done.stderr), done.stderr
    assert files_in(folder) == {"small.yaml"}


@pytest.mark.parametrize(
    ("number", "recorded", "code"),
    [(signal.SIGTERM, "", 143), (signal.SIGINT, "", 130), (signal.SIGTERM, "so", 75)],
)
def test_a_signal_ends_what_python_cannot_interrupt(number, recorded, code):
    """As a paused run where a record of it exists, with what to say of it."""
    script = (
        f"{DEFAULT}\n"
        "import hashlib, simkit.cli.failures as failures\n"
        "failures.GRACE = 0.2\n"
        "with failures.recorded_as(lambda: 'of another run'):\n"
        "    pass\n"
        f"with failures.reported(), failures.recorded_as(lambda: {recorded!r}):\n"
        "    print('busy', flush=True); hashlib.pbkdf2_hmac('sha256', b'', b'', 2**31 - 1)"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "busy\n"
        time.sleep(0.5)  # it is busy now
        process.send_signal(number)
        try:
            assert process.wait(timeout=20) == code
        finally:
            process.kill()
