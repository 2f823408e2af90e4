"""`--resume` and `--max-time`: what is recorded of a run, when it goes on, and when that is refused."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import yaml
from command import EXPERIMENT, HEEDFUL, files_in, simkit_command

import simkit
from simkit import ClusterError, NumericalError, OutOfMemoryError, OutputError
from simkit.engines.loaded import load_each
from simkit.engines.paths import PathEngine
from simkit.records import record_file
from simkit.records.recording import RecordedLoop
from simkit.records.same_run import differences, of_this_machine

# Some 3 s on one core, in chunks of a hundredth of that.
LONG = yaml.safe_load(EXPERIMENT) | {
    "time": {"t1": 1.0, "steps": 1000},
    "ensemble": {"paths": 409_600, "seed": 1, "chunk": 4096, "threads": 1},
    "save": {"paths": 5000, "points": 2},
}
MELT = """\
system: {units: lj, lattice: {type: fcc, cells: 2, density: 0.8}, velocities: {temperature: 1.0}}
potential: {type: LennardJones, epsilon: 1.0, sigma: 1.0, cutoff: 1.2}
solver: VelocityVerlet
time: {dt: 0.004, steps: 10}
output: melt.zarr
"""
RECORD = ".small.zarr.record"
RECORDS = {RECORD, f"{RECORD}-before"}


def started(*arguments: str, **environment: str) -> subprocess.Popen:
    command = [sys.executable, "-c", HEEDFUL, *arguments]
    variables = os.environ | {"SIMKIT_RECORD_EVERY": "0"} | environment
    variables.pop("SIMKIT_CACHE", None)
    variables |= {"XDG_CACHE_HOME": os.path.abspath("cache")}
    return subprocess.Popen(command, env=variables, stderr=subprocess.PIPE, text=True)


def ended(process: subprocess.Popen) -> tuple[int, str]:
    """The exit code of a process, and what it said on stderr."""
    _, error = process.communicate(timeout=120)
    return process.returncode, error


def same(a, b) -> bool:
    return a.drop_attrs().identical(b.drop_attrs())


def wait_for_a_record(process: subprocess.Popen) -> None:
    end = time.monotonic() + 120
    while not os.path.exists(RECORD):
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.fixture
def long_run(folder):
    (folder / "long.yaml").write_text(yaml.safe_dump(LONG))
    return folder


@pytest.mark.more
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_run_that_a_signal_ends_is_finished_with_the_same_bits(long_run, number):
    """SIGTERM and Ctrl-C exit with 75 and the command that goes on; after SIGKILL there is a record too."""
    process = started("run", "long.yaml", "--no-plot")
    wait_for_a_record(process)
    process.send_signal(number)
    code, error = ended(process)
    if number == signal.SIGKILL:
        assert code == -signal.SIGKILL
    else:
        assert code == 75
        assert "to finish it: simkit run long.yaml --no-plot --resume" in error
    assert RECORD in files_in(long_run)
    assert "small.zarr" not in files_in(long_run)
    refused = simkit_command("run", "long.yaml")
    assert refused.exit_code == 4
    assert (
        "an earlier run was stopped before its end; finish it with --resume, or start anew" in refused.stderr
    )
    code, error = ended(started("run", "long.yaml", "--no-plot", "--resume"))
    assert code == 0, error
    resumed = simkit.read_dataset("small.zarr")
    assert ended(started("run", "long.yaml", "--no-plot", "--out", "whole.zarr"))[0] == 0
    assert same(resumed, simkit.read_dataset("whole.zarr"))
    assert not any(name.startswith(".") for name in files_in(long_run))


@pytest.mark.more
def test_a_sweep_that_a_signal_ends_is_finished_with_the_same_bits(long_run):
    """A sweep's record is none of a run: that is refused."""
    command = ("sweep", "long.yaml", "--over", "model.sigma=0.1,0.3", "--no-plot")
    process = started(*command)
    wait_for_a_record(process)
    process.send_signal(signal.SIGTERM)
    code, error = ended(process)
    assert code == 75
    assert f"to finish it: simkit {' '.join(command)} --resume" in error
    assert simkit_command("run", "long.yaml", "--resume", "--no-plot").exit_code != 0
    code, error = ended(started(*command, "--resume"))
    assert code == 0, error
    assert ended(started(*command, "--out", "whole.zarr"))[0] == 0
    assert same(simkit.read_dataset("small.zarr"), simkit.read_dataset("whole.zarr"))


@pytest.mark.slow
def test_fifty_kills_at_random_moments_change_no_bit(long_run):
    """From the import of Python to the last file: each resume goes on where the one before was killed."""
    longer = ("run", "long.yaml", "--set", "time.steps=4000")
    assert ended(started(*longer, "--out", "whole.zarr"))[0] == 0
    whole, draw, kills, code = simkit.read_dataset("whole.zarr"), random.Random(5), 0, -1
    while kills < 50 or code != 0:
        process = started(*longer, "--resume")
        if kills < 50:
            try:
                process.wait(draw.uniform(0.5, 5.0))
            except subprocess.TimeoutExpired:
                process.kill()
                kills += 1
        code, error = ended(process)
        assert code in (0, -signal.SIGKILL), error
        if code == 0:
            assert same(simkit.read_dataset("small.zarr"), whole)
            shutil.rmtree("small.zarr")
            os.remove("small.png")


@pytest.mark.more
def test_a_run_stops_in_time(long_run):
    """`--max-time` records what is done, and the next process needs no option to know where it was."""
    process = started("run", "long.yaml", "--no-plot", "--set", "time.steps=20000", "--max-time", "12s")
    begin = time.monotonic()
    code, error = ended(process)
    assert code == 75, error
    assert time.monotonic() - begin < 30
    assert error.startswith("stopped at --max-time; what is done is recorded")


def small_record(identity: dict[str, str]) -> None:
    record_file.write(record_file.record_of("small.zarr"), record_file.Record(identity, []))


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        ("ensemble.seed=2", "experiment: recorded `seed: 1`; now `seed: 2`"),
        ("precision=float32", "experiment: recorded `precision: float64`; now `precision: float32`"),
        ("model.sigma=0.3", "recorded `sigma: 0.2`"),
    ],
)
def test_the_record_of_another_experiment_is_refused_and_stays(folder, change, difference):
    small_record(load_each("small.yaml").identity("run"))
    result = simkit_command("run", "small.yaml", "--resume", "--set", change)
    assert result.exit_code == 2
    assert "which --resume cannot finish unless what differs is as it was; to start anew" in result.stderr
    assert difference in result.stderr
    assert files_in(folder) == {"small.yaml", RECORD}


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("versions", "simkit=0.0.1 jax=0.1"),
        ("back end", "gpu: H100"),
        ("processor", "8086"),
        ("task", "study"),
    ],
)
def test_the_record_of_another_machine_or_version_is_refused(folder, key, text):
    identity = load_each("small.yaml").identity("run")
    small_record(identity | {key: text})
    result = simkit_command("run", "small.yaml", "--resume")
    assert result.exit_code == 2
    assert f"{key}: " in result.stderr


def test_numbers_of_files_belong_to_the_identity(folder):
    """A file of another content under the same name is another experiment."""
    np.savetxt("starts.csv", np.full(200, 90.0), header="S", comments="")
    first = load_each("small.yaml", ["initial={S: {file: starts.csv}}"]).identity("run")
    np.savetxt("starts.csv", np.full(200, 91.0), header="S", comments="")
    second = load_each("small.yaml", ["initial={S: {file: starts.csv}}"]).identity("run")
    assert first != second


def test_a_run_that_was_killed_while_it_removed_its_record_is_finished(folder):
    """Its files are there, and are its own as long as the record is."""
    assert simkit_command("run", "small.yaml").exit_code == 0
    first = simkit.read_dataset("small.zarr").load()
    small_record(load_each("small.yaml").identity("run"))
    assert simkit_command("run", "small.yaml", "--resume").exit_code == 0
    assert same(simkit.read_dataset("small.zarr"), first)
    assert files_in(folder) == {"small.yaml", "small.zarr", "small.png"}


MELT_OF_A_FILE = """\
system: {units: lj, file: start.xyz, velocities: {temperature: 1.0}}
potential: {type: LennardJones, epsilon: 1.0, sigma: 1.0, cutoff: 1.2}
solver: VelocityVerlet
time: {dt: 0.004, steps: 10}
save: {trajectory: {file: frames.xyz, every: 10}}
output: melt.zarr
"""
UNCERTAIN = """\
constants: {k: {uniform: [0.9, 1.1]}, m: {uniform: [0.5, 1.5]}}
model: {type: HarmonicOscillator, m: m, k: k}
initial: {q: 1.0, p: 0.0}
time: {t1: 1.0, steps: 20}
uncertainty: {method: sobol, points: 64, replicates: 4}
"""
OF_VARIANTS = (
    f"{EXPERIMENT}variants: {{low: {{model.mu: 0.01}}, high: {{model.mu: 0.1, ensemble.chunk: 2048}}}}\n"
)
KINDS = {
    "run": (EXPERIMENT, ["run"]),
    "variants": (OF_VARIANTS, ["run"]),
    "sweep": (EXPERIMENT, ["sweep", "--over", "model.sigma=0.1,0.3"]),
    "derivatives": (EXPERIMENT, ["sensitivity", "--wrt", "sigma"]),
    "derivatives of variants": (OF_VARIANTS, ["sensitivity", "--wrt", "sigma"]),
    "study": (UNCERTAIN, ["uncertainty"]),
    "particles": (MELT, ["run"]),
}


@pytest.mark.more
@pytest.mark.parametrize("kind", KINDS)
def test_a_finished_run_is_not_run_again(folder, kind):
    """As when a job starts again: nothing is written, and how it is computed does not matter."""
    text, (command, *options) = KINDS[kind]
    (folder / "file.yaml").write_text(text)
    given = [command, "file.yaml", *options, "--out", "out.nc", "--no-plot"]
    assert simkit_command(*given).exit_code == 0
    written, before = os.stat("out.nc").st_mtime_ns, files_in(folder)
    result = simkit_command(*given, "--resume", "--threads", "1")
    assert result.exit_code == 0, result.stderr
    assert result.stderr == "out.nc: is complete already\n"
    assert not result.stdout
    changed = simkit_command(*given, "--resume", "--set", "ensemble.seed=2")
    assert changed.exit_code == 4
    assert "out.nc: exists and has no record, and is not the result of this run; to start" in changed.stderr
    assert "here `seed: 2`" in changed.stderr
    assert os.stat("out.nc").st_mtime_ns == written
    assert files_in(folder) == before


def test_a_finished_run_gives_its_figures_as_json_again(folder):
    first = json.loads(simkit_command("run", "small.yaml", "--json").stdout)
    again = json.loads(simkit_command("run", "small.yaml", "--json", "--resume").stdout)
    assert again["observables"] == first["observables"]
    assert again["output"] == "small.zarr"


def test_a_table_does_not_say_which_run_it_is_of(folder):
    given = ["run", "small.yaml", "--out", "small.csv", "--no-plot"]
    assert simkit_command(*given).exit_code == 0
    result = simkit_command(*given, "--resume")
    assert result.exit_code == 4
    assert "a .csv does not say which run it is of; to start anew use --overwrite" in result.stderr


def test_the_files_of_a_finished_run_must_be_there_and_be_the_same(folder):
    """A start of another content is another run; without its trajectory a run is not complete."""
    (folder / "melt.yaml").write_text(MELT.replace("output", "save: {end: start.xyz}\noutput"))
    assert simkit_command("run", "melt.yaml", "--no-plot").exit_code == 0
    (folder / "melt.yaml").write_text(MELT_OF_A_FILE.replace("melt.zarr", "next.zarr"))
    given = ["run", "melt.yaml", "--no-plot"]
    assert simkit_command(*given).exit_code == 0
    assert simkit_command(*given, "--resume").exit_code == 0
    (folder / "frames.xyz").rename("elsewhere.xyz")
    assert "frames.xyz: is missing" in simkit_command(*given, "--resume").stderr
    (folder / "elsewhere.xyz").rename("frames.xyz")
    (folder / "start.xyz").write_text((folder / "start.xyz").read_text().replace("step=10", "step=20"))
    result = simkit_command(*given, "--resume")
    assert result.exit_code == 4
    assert "content of start.xyz: there " in result.stderr


def test_without_a_record_a_resume_starts_from_the_beginning(folder):
    result = simkit_command("run", "small.yaml", "--resume", "--no-plot")
    assert result.exit_code == 0
    assert "there is no record of an earlier run, so this one starts from the beginning" in result.stderr
    assert files_in(folder) == {"small.yaml", "small.zarr"}


def test_a_damaged_record_is_said_to_be_so_and_the_run_starts_again(folder):
    (folder / RECORD).write_bytes(b"simkit record 1\nnothing")
    result = simkit_command("run", "small.yaml", "--resume", "--no-plot")
    assert result.exit_code == 0
    assert "is not used: its checksum is wrong" in result.stderr
    assert files_in(folder) == {"small.yaml", "small.zarr"}


def test_a_run_that_starts_anew_removes_the_record(folder):
    small_record({})
    result = simkit_command("run", "small.yaml", "--overwrite", "--no-plot")
    assert result.exit_code == 0
    assert files_in(folder) == {"small.yaml", "small.zarr"}


def test_a_run_that_fails_leaves_no_record(folder):
    """It would fail again."""
    small_record({})
    explosion = "model={ode: {S: S**9}}"
    result = simkit_command(
        "run", "small.yaml", "--overwrite", "--set", explosion, "--set", "solver=Euler", "--set", "observe={}"
    )
    assert result.exit_code == 3
    assert files_in(folder) == {"small.yaml"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--resume", "--overwrite"], "--resume and --overwrite: give one"),
        (["--max-time", "soon"], "must be a time such as 90s, 30min, 3h or 2d"),
        (["--max-time", "0s"], "must be a time such as"),
    ],
)
def test_options_that_make_no_sense_are_refused(folder, arguments, message):
    result = simkit_command("run", "small.yaml", *arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.replace("│", " ").split())
    assert files_in(folder) == {"small.yaml"}


def test_without_an_output_there_is_nothing_to_resume(folder):
    text = EXPERIMENT.replace("output: small.zarr\n", "")
    (folder / "small.yaml").write_text(text)
    result = simkit_command("run", "small.yaml", "--resume")
    assert result.exit_code == 2
    assert "there is no output, so nothing is recorded; give --out FILE.zarr" in result.stderr


def test_a_run_without_output_that_stops_in_time_says_that_nothing_is_kept(folder, monkeypatch):
    def forever(*arguments):
        time.sleep(60)

    monkeypatch.setattr(PathEngine, "run", forever)
    text = EXPERIMENT.replace("output: small.zarr\n", "")
    (folder / "small.yaml").write_text(text)
    result = simkit_command("run", "small.yaml", "--max-time", "0.5s")
    assert result.exit_code == 143
    assert result.stderr == "stopped at --max-time; nothing of this run is recorded\n"


@pytest.mark.parametrize(
    ("error", "kept"),
    [
        (OutOfMemoryError("too large"), True),
        (OutputError("full"), True),
        (ClusterError("gone"), True),
        (NumericalError("nan"), False),
    ],
)
@pytest.mark.parametrize("resumed", [False, True], ids=["first", "resumed"])
def test_a_record_stays_after_errors_that_need_not_come_again(folder, monkeypatch, error, kept, resumed):
    """With more memory, space or workers the run can be finished; a path that is infinite stays so."""

    def fail(*arguments):
        RecordedLoop(_Nothing(), 10).advance(5)
        raise error

    if resumed:
        small_record(load_each("small.yaml").identity("run"))
    monkeypatch.setattr(PathEngine, "run", fail)
    result = simkit_command("run", "small.yaml", *["--resume"] * resumed)
    assert result.exit_code == error.exit_code
    assert (RECORD in files_in(folder)) == kept
    assert ("to finish it: " in result.stderr) == isinstance(error, ClusterError)


def test_a_signal_on_a_full_disk_leaves_the_record_before(folder, monkeypatch):
    """What it has is less than what was done, and still goes on."""

    def full(*arguments):
        raise OSError(28, "No space left on device")

    def interrupt(*arguments):
        RecordedLoop(_Nothing(), 10).advance(5)
        monkeypatch.setattr(record_file, "write", full)
        raise KeyboardInterrupt

    small_record(load_each("small.yaml").identity("run"))
    monkeypatch.setattr(PathEngine, "run", interrupt)
    result = simkit_command("run", "small.yaml", "--resume")
    assert result.exit_code == 75
    assert RECORD in files_in(folder)


class _Nothing:
    def state(self):
        return ()

    def restore(self, state):
        pass


def test_a_trajectory_that_cannot_be_appended_to_is_not_recorded(folder):
    (folder / "melt.yaml").write_text(f"{MELT}save: {{trajectory: {{file: melt.dcd, every: 10}}}}\n")
    result = simkit_command("run", "melt.yaml", "--resume")
    assert result.exit_code == 2
    assert "nothing can be appended to it; write the trajectory as .zarr or .xyz" in result.stderr
    assert files_in(folder) == {"small.yaml", "melt.yaml"}


def test_processors_differ_by_what_they_can_do():
    """A line for each feature, so that a message names those that only one of them has."""
    one, other = "Chip A\nfpu\navx2\navx512f", "Chip A\nfpu\navx2"
    assert differences({"processor": one}, {"processor": other}) == ["processor: recorded `avx512f`"]
    assert all(" " not in line for line in of_this_machine()["processor"].split("\n")[1:])


def test_a_full_disk_under_the_record_does_not_end_the_run(folder, monkeypatch):
    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setenv("SIMKIT_RECORD_EVERY", "0")
    monkeypatch.setattr(record_file, "write", full)
    result = simkit_command("run", "small.yaml", "--no-plot")
    assert result.exit_code == 0
    assert files_in(folder) == {"small.yaml", "small.zarr"}


def test_a_resume_with_other_code_of_own_modules_is_refused(tmp_path, monkeypatch):
    """Its file is compared; a module that it does not import may change."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("SIMKIT_RECORD_EVERY", "0")
    (tmp_path / "own_helper_of_resume.py").write_text("SPEED = 1.0\n")
    (tmp_path / "own_for_resume.py").write_text("import own_helper_of_resume\n")
    (tmp_path / "small.yaml").write_text(yaml.safe_dump(LONG))
    command = ["--import", "own_for_resume", "run", "small.yaml", "--set", "ensemble.paths=20480"]
    advance = RecordedLoop.advance

    def interrupted(self, count):
        advance(self, count)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(RecordedLoop, "advance", interrupted)
        assert simkit_command(*command).exit_code == 75
    (tmp_path / "own_helper_of_resume.py").write_text("SPEED = 2.0\n")
    sys.modules.pop("own_for_resume"), sys.modules.pop("own_helper_of_resume")
    refused = simkit_command(*command, "--resume")
    assert refused.exit_code == 2
    assert "code of own_helper_of_resume: recorded" in refused.stderr
    (tmp_path / "own_helper_of_resume.py").write_text("SPEED = 1.0\n")
    sys.modules.pop("own_for_resume"), sys.modules.pop("own_helper_of_resume")
    (tmp_path / "another.py").write_text("\n")
    assert simkit_command(*command, "--resume").exit_code == 0
    (tmp_path / "own_helper_of_resume.py").write_text("SPEED = 2.0\n")
    sys.modules.pop("own_for_resume"), sys.modules.pop("own_helper_of_resume")
    finished = simkit_command(*command, "--resume")
    assert finished.exit_code == 4
    assert "code of own_helper_of_resume: there" in finished.stderr
