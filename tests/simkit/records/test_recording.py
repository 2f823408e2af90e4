"""A run that is stopped anywhere and finished by another process has the bits of one that was not."""

import dataclasses
import pickle
import time

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

import simkit
from simkit.ensemble.accumulator import Accumulator
from simkit.md.recorded_replicas import RecordedReplicas
from simkit.records import record_file
from simkit.records import recording as recording_module
from simkit.records.record_file import Record
from simkit.records.recording import LoopState, RecordedLoop, Recording, recording

EXPERIMENT = {
    "model": {"type": "GBM", "mu": 0.05, "sigma": 0.2},
    "initial": {"S": 100.0},
    "time": {"t1": 1.0, "steps": 2},
    "ensemble": {"paths": 20_000, "seed": 7, "devices": 1, "threads": 1, "chunk": 2048},
    "observe": {"call": "maximum(S - 100, 0)", "late": "hitting_time(S > 130)"},
    "save": {"points": 2, "paths": 3000},
}
JUMPS = {
    "model": {"type": "ImmigrationDeath", "alpha": 5.0, "mu": 1.0},
    "initial": {"X": 0},
    "time": {"t1": 1.0},
    "events": {"up": {"when": "X > 6", "set": {"X": 0}}},
    "ensemble": EXPERIMENT["ensemble"],
}
VARIANTS = {"variants": {"low": {"model": {"sigma": 0.1}}, "high": {"model": {"sigma": 0.3}}}}
SENSITIVE = {"sensitivity": {"wrt": ["sigma", "S"]}, "save": {"points": 1}}
UNCERTAIN = {
    "model": {"type": "GBM", "mu": 0.05, "sigma": {"uniform": [0.1, 0.3]}},
    "uncertainty": {"points": 64, "replicates": 2},
    "save": {"points": 1},
}
FAILING = EXPERIMENT | {
    "model": {"sde": {"S": {"drift": "0.05*S", "noise": {"W": "0.2*S"}}}},
    "observe": {"call": "log(maximum(S - 60, 0))"},
    "ensemble": EXPERIMENT["ensemble"] | {"failures": "exclude"},
}
MEASURED = ("elapsed_s", "compile_s", "bias_s", "path_steps_per_s", "created")
MEASURED += ("configuration", "variant_attributes")  # which say how many threads there were


class Killed(BaseException):
    pass


@dataclasses.dataclass
class Reaper:
    """Ends a run once so many chunks are done, as `progress` of a run sees them."""

    chunks: int

    def __call__(self, done: int, total: int) -> None:
        self.chunks -= 1
        if self.chunks < 0:
            raise Killed


def same(a: xr.Dataset, b: xr.Dataset) -> bool:
    """Whether all numbers have the same bits, and attributes but those of time are equal."""
    attributes = [{k: v for k, v in x.attrs.items() if k not in MEASURED} for x in (a, b)]
    return attributes[0] == attributes[1] and a.drop_attrs().identical(b.drop_attrs())


def finished_by_two(path, compute, progress, again: dict) -> xr.Dataset:
    """The result of a run that `progress` kills, and that is then finished with other settings."""
    first = Recording(path, {})
    try:
        with recording(first):
            compute({}, progress)
    except Killed:
        first.write()
    before, spoilt = record_file.read(path)
    assert not spoilt
    with recording(Recording(path, {}, before)):
        return compute(again, None)


def run(experiment: dict):
    def compute(settings: dict, progress) -> xr.Dataset:
        changed = experiment | {"ensemble": experiment["ensemble"] | settings}
        return simkit.run(changed, progress=progress)

    return compute


def differentiate(settings: dict, progress) -> xr.Dataset:
    kept = {"unresolved": "keep"}  # with two steps the derivatives of a first time are all step bias
    changed = EXPERIMENT | SENSITIVE | {"ensemble": EXPERIMENT["ensemble"] | kept | settings}
    return simkit.sensitivity(changed, progress=progress)


def study(settings: dict, progress) -> xr.Dataset:
    changed = EXPERIMENT | UNCERTAIN | {"ensemble": EXPERIMENT["ensemble"] | {"paths": 64} | settings}
    return simkit.uncertainty(changed, progress=progress)


def sweep(settings: dict, progress) -> xr.Dataset:
    changed = EXPERIMENT | {"ensemble": EXPERIMENT["ensemble"] | settings}
    return simkit.sweep(changed, {"model.sigma": [0.1, 0.3]}, progress=progress)


CASES = {"paths": run(EXPERIMENT), "jumps": run(JUMPS), "variants": run(EXPERIMENT | VARIANTS)}
CASES |= {"failures": run(FAILING), "derivatives": differentiate, "study": study, "sweep": sweep}


@pytest.fixture(scope="module")
def whole():
    """The results of runs that nobody kills."""
    return {name: compute({}, None) for name, compute in CASES.items()}


@pytest.mark.more
@pytest.mark.parametrize("case", CASES)
@settings(max_examples=6)
@given(chunks=st.integers(0, 20), threads=st.integers(1, 2), chunk=st.sampled_from([2048, 6144]))
def test_a_run_that_is_killed_and_finished_has_the_same_bits(
    tmp_path_factory, whole, case, chunks, threads, chunk
):
    """After any number of chunks, and whatever cores and chunks the second process has."""
    path = tmp_path_factory.mktemp("record") / ".a.zarr.record"
    again = {"threads": threads, "chunk": chunk}
    assert same(finished_by_two(path, CASES[case], Reaper(chunks), again), whole[case])


@pytest.mark.parametrize("call", [1, 4, 10])
def test_a_run_may_be_stopped_while_a_chunk_is_being_merged(tmp_path, monkeypatch, whole, call):
    """What was merged of that chunk does not count, and the chunk is merged again."""
    calls, count = [0], Accumulator._count

    def stopping(*arguments):
        calls[0] += 1
        if calls[0] == call:
            raise Killed
        count(*arguments)

    monkeypatch.setattr(Accumulator, "_count", stopping)
    result = finished_by_two(tmp_path / ".a.zarr.record", CASES["paths"], None, {})
    assert calls[0] >= call
    assert same(result, whole["paths"])


# All stored paths are in the first chunk.
STATES = CASES | {"paths": run(EXPERIMENT | {"save": {"points": 2, "paths": 2000}})}


@pytest.mark.parametrize("case", ["paths", "derivatives", "study"])
def test_a_state_that_was_given_does_not_change_by_what_comes_later(tmp_path, monkeypatch, case):
    """It is written at any time until the next one, also while a chunk is being merged."""
    compute, given = STATES[case], []

    def keep(self, place, state):
        given.append((state, pickle.dumps(tuple(state))))

    monkeypatch.setattr(Recording, "keep", keep)
    with recording(Recording(tmp_path / "record", {})):
        compute({}, None)
    assert len(given) > (0 if case == "study" else 9)
    assert any(isinstance(each.state, list) for each, _ in given) == (case == "study")  # arrays of runs
    assert all(pickle.dumps(tuple(state)) == before for state, before in given)


def test_what_was_begun_after_a_resume_does_not_count_either(tmp_path, monkeypatch, whole):
    """A chunk is merged but not counted when the second process stops: the third merges it once."""
    path, add_chunk, calls = tmp_path / ".a.zarr.record", Accumulator.add_chunk, [0]
    first = Recording(path, {})
    with pytest.raises(Killed), recording(first):
        CASES["paths"]({}, Reaper(3))
    first.write()

    def stopping(*arguments):
        add_chunk(*arguments)
        raise Killed

    second = Recording(path, {}, record_file.read(path)[0])
    monkeypatch.setattr(Accumulator, "add_chunk", stopping)
    with pytest.raises(Killed), recording(second):
        CASES["paths"]({}, None)
    second.write()

    def counting(*arguments):
        calls[0] += 1
        add_chunk(*arguments)

    monkeypatch.setattr(Accumulator, "add_chunk", counting)
    with recording(Recording(path, {}, record_file.read(path)[0])):
        assert same(CASES["paths"]({}, None), whole["paths"])
    assert calls == [6]


def test_with_a_record_go_the_files_that_grow_with_the_run(tmp_path):
    record = Recording(tmp_path / ".a.zarr.record", {})
    grown = record.partial(tmp_path / "a.xyz")
    grown.touch()
    record.remove()
    assert not grown.exists()


def test_chunks_that_are_recorded_are_not_simulated_again(tmp_path, monkeypatch):
    """Of ten chunks seven were done, so that three are left."""
    left, add_chunk = [], Accumulator.add_chunk

    def added(self, chunk, outputs):
        left.append(chunk.first)
        add_chunk(self, chunk, outputs)

    monkeypatch.setattr(Accumulator, "add_chunk", added)
    finished_by_two(tmp_path / ".a.zarr.record", CASES["paths"], Reaper(6), {})
    assert left == [2048 * i for i in (*range(7), *range(7, 10))]


def test_a_run_that_is_stopped_before_it_came_as_far_as_the_last_loses_nothing(tmp_path):
    """Loops that it has not come to stay as the record had them."""
    path = tmp_path / "record"
    before = Record({}, [(10, 10, 1.0, ("a",)), (10, 4, 0.5, ("b",))])
    again = Recording(path, {}, before)
    place, known = again.begin(10)
    assert known == LoopState(*before.content[0])
    again.write()
    assert record_file.read(path)[0] == before
    assert place == 0


def test_a_loop_of_another_length_starts_anew(tmp_path):
    """As one of more paths than could be afforded before: what the record has is of another sequence."""
    again = Recording(tmp_path / "record", {}, Record({}, [(10, 4, 0.5, ("a",))]))
    assert again.begin(12) == (0, None)


def test_after_a_recording_loops_are_not_recorded(tmp_path):
    record = Recording(tmp_path / "record", {})
    with recording(record):
        pass
    RecordedLoop(Accumulated(), 10).advance(10)
    assert not record.write()
    assert not list(tmp_path.iterdir())


class Accumulated:
    def state(self):
        return ()

    def restore(self, state):
        pass


def test_the_time_of_both_processes_counts(tmp_path):
    """A run says how long its paths took, also those of the process that was killed."""

    class Slow(Reaper):
        def __call__(self, done, total):
            time.sleep(0.2)
            super().__call__(done, total)

    result = finished_by_two(tmp_path / ".a.zarr.record", CASES["paths"], Slow(4), {})
    assert result.attrs["elapsed_s"] > 4 * 0.2  # the fifth pause ends with the first process


def test_a_record_is_written_every_few_seconds_and_takes_little_of_the_time(tmp_path, monkeypatch):
    """One that takes 0.1 s to write is written every 10 s at most."""
    now, written = [0.0], []

    def write(path, record):
        written.append(now[0])
        now[0] += 0.1

    monkeypatch.setattr(recording_module.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(record_file, "write", write)
    record = Recording(tmp_path / "record", {})
    place, _ = record.begin(1000)
    for i in range(300):
        now[0] += 0.1
        record.keep(place, LoopState(1000, i + 1, 0.0, ()))
    assert len(written) == 3
    assert written[0] == pytest.approx(5.0, abs=0.11)
    assert min(np.diff(written)) >= 10 - 1e-9


def test_a_state_is_due_every_few_seconds_from_the_last_one_on(tmp_path, monkeypatch):
    """A snapshot of particles takes time to make; the last one is always due, and without a record none."""
    now = [0.0]
    monkeypatch.setattr(recording_module.time, "monotonic", lambda: now[0])
    record = Recording(tmp_path / "record", {})
    with recording(record):
        loop = RecordedLoop(Accumulated(), 10)
    assert not loop.is_due()
    assert loop.is_due(last=True)
    now[0] = record.every
    assert loop.is_due()
    loop.advance(1)
    assert not loop.is_due()
    now[0] = 2 * record.every
    assert loop.is_due()
    assert not RecordedLoop(Accumulated(), 10).is_due(last=True)


def test_lanes_are_kept_when_each_has_given_a_new_snapshot(tmp_path):
    """A snapshot of one lane from now beside that of another from before would be no state of the run."""
    with recording(Recording(tmp_path / "record", {})):
        replicas = RecordedReplicas(2, 100)
    for steps in (10, 20):
        replicas.keep(0, steps, f"first {steps}")
        assert replicas.done == 2 * (steps - 10)
        replicas.keep(1, steps, f"second {steps}")
        assert replicas.done == 2 * steps
        assert replicas.state() == [f"first {steps}", f"second {steps}"]
