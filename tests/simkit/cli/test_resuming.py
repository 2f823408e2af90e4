"""The rules of `--resume`, `--overwrite` and `--max-time`: what a command may replace, and how it stops."""

import signal
import subprocess
import sys
import time

import pytest
import typer

from simkit import InputError, OutputError
from simkit.cli import failures
from simkit.cli.resuming import Resuming, seconds_of
from simkit.cluster.parts import read_parts
from simkit.errors import PausedError
from simkit.records import record_file
from simkit.records.record_file import Record, record_of
from simkit.records.recording import RecordedLoop, Recording


def resuming(target, resume=False, overwrite=False, max_time=None, quiet=False):
    return Resuming(target, resume, overwrite, max_time, quiet)


class Counted:
    """A loop that keeps how many paths it has done."""

    def state(self):
        return ()

    def restore(self, state):
        pass


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("90", 90), (" 1.5 min ", 90), ("3h", 10_800), ("2d", 172_800)],
)
def test_a_time_is_a_number_with_its_unit(text, seconds):
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["0s", "3 weeks", "1.2.3h", "-1h", "h", "99999999999d"])
def test_what_is_no_time_is_refused(text):
    with pytest.raises(typer.BadParameter, match="must be a time such as 90s, 30min, 3h or 2d"):
        seconds_of(text)


@pytest.mark.parametrize(
    ("resume", "overwrite", "recorded", "may"),
    [
        (False, False, False, False),
        (False, True, False, True),
        (False, True, True, True),
        (True, False, True, True),
        (True, False, False, False),
        (False, False, True, OutputError),
        (True, True, True, InputError),
    ],
)
def test_a_resume_replaces_files_that_belong_to_its_record_only(tmp_path, resume, overwrite, recorded, may):
    target = tmp_path / "a.zarr"
    if recorded:
        record_file.write(record_of(target), Record({}, []))
    rules = resuming(target, resume, overwrite)
    if isinstance(may, bool):
        assert rules.may_replace() == may
    else:
        with pytest.raises(may):
            rules.may_replace()


def test_what_is_no_dataset_is_no_finished_run(tmp_path):
    (tmp_path / "a.zarr").mkdir()
    with pytest.raises(OutputError, match=r"a.zarr: cannot be read as a dataset"):
        resuming(tmp_path / "a.zarr", resume=True).is_complete([], dict, lambda: failures, as_json=False)


def test_a_process_that_ends_at_once_says_how_to_go_on_if_there_is_a_record(tmp_path):
    with resuming(tmp_path / "a.zarr").recorded({}):
        (continuation,) = failures._recorded
        assert continuation() == ""
        record_file.write(record_of(tmp_path / "a.zarr"), Record({}, []))
        assert continuation().startswith("what is done is recorded; to finish it: simkit ")
    assert not failures._recorded


def test_the_clock_and_the_handler_are_as_before_after_a_run_in_time():
    """An alarm that was left would end what comes later."""
    before = signal.getsignal(signal.SIGALRM)
    with resuming(None, max_time=100.0).recorded(None):
        assert signal.getitimer(signal.ITIMER_REAL)[0] > 90
        assert signal.getsignal(signal.SIGALRM) != before
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0
    assert signal.getsignal(signal.SIGALRM) == before


def test_a_stopped_run_names_the_command_that_goes_on_with_each_option_once(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["simkit", "run", "my file.yaml", "--resume", "--max-time", "1h"])

    def interrupted():
        with resuming(tmp_path / "a.zarr", resume=True).recorded({}):
            RecordedLoop(Counted(), 10).advance(5)
            raise KeyboardInterrupt

    with pytest.raises(PausedError) as caught:
        interrupted()
    assert str(caught.value) == (
        "interrupted; what is done is recorded; to finish it: "
        "simkit run 'my file.yaml' --max-time 1h --resume"
    )
    assert record_file.read(record_of(tmp_path / "a.zarr"))[0].content[0][:2] == (10, 5)


def test_a_run_that_is_interrupted_before_anything_is_done_is_not_said_to_be_recorded(tmp_path):
    with pytest.raises(KeyboardInterrupt), resuming(tmp_path / "a.zarr").recorded({}):
        raise KeyboardInterrupt
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("quiet", [False, True])
def test_a_quiet_resume_without_a_record_says_nothing(tmp_path, capsys, quiet):
    with resuming(tmp_path / "a.zarr", resume=True, quiet=quiet).recorded({}):
        pass
    assert ("there is no record of an earlier run" in capsys.readouterr().err) != quiet


def test_a_run_out_of_time_is_stopped_and_recorded(tmp_path):
    def too_long():
        with resuming(tmp_path / "a.zarr", max_time=0.5).recorded({}):
            RecordedLoop(Counted(), 10).advance(5)
            time.sleep(30)

    with pytest.raises(PausedError, match=r"^stopped at --max-time; what is done is recorded"):
        too_long()


def test_a_record_of_a_run_at_work_is_not_that_of_a_stopped_one(tmp_path):
    """Whoever begins a second run is told of the first, and not to finish it."""
    target = tmp_path / "a.zarr"
    record_file.write(record_of(target), Record({}, []))
    code = "import sys; from pathlib import Path; from simkit.results.claims import claimed; "
    code += "c = claimed([Path(sys.argv[1])]); c.__enter__(); print('held', flush=True); input()"
    command = [sys.executable, "-c", code, str(target)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(OutputError, match="is being written by another run"):
            resuming(target).may_replace()
        other.communicate(b"\n")
    with pytest.raises(OutputError, match="was stopped before its end"):
        resuming(target).may_replace()


@pytest.mark.parametrize("text", ["abc", "nan", "-1", "inf"])
def test_the_time_between_records_must_be_a_number_of_seconds(text, tmp_path, monkeypatch):
    monkeypatch.setenv("SIMKIT_RECORD_EVERY", text)
    with pytest.raises(InputError, match=f"SIMKIT_RECORD_EVERY: must be a number .* got '{text}'"):
        Recording(tmp_path / "record", {})


def test_a_record_of_a_whole_run_is_no_part(tmp_path):
    record_file.write(tmp_path / "record", Record({}, []))
    with pytest.raises(InputError, match="record: is the record of a whole run, and no part"):
        read_parts([tmp_path / "record"], {})
