"""Records on disk: whole after any interruption, and refused or passed over where they are not."""

import os
import pickle
import stat
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import simkit
from simkit.records import record_file
from simkit.records.record_file import Record

FIRST = Record({"experiment": "a"}, [(10, 4, 0.5, (np.arange(5.0), {"n": np.arange(3)}, None))])
SECOND = Record({"experiment": "a"}, [(10, 8, 0.9, (np.arange(9.0), {"n": np.arange(4)}, None))])


def same(a: Record, b: Record) -> bool:
    return pickle.dumps(tuple(a)) == pickle.dumps(tuple(b))


class Stopped(BaseException):
    pass


def stop_at(monkeypatch, number: int) -> list[int]:
    """The process stops before the call of this number, of those that make or rename a file."""
    calls = [0]

    def guarded(function):
        def call(*arguments, **options):
            calls[0] += 1
            if calls[0] == number:
                raise Stopped
            return function(*arguments, **options)

        return call

    for name in ("fsync", "replace", "open"):
        monkeypatch.setattr(record_file.os, name, guarded(getattr(os, name)))
    monkeypatch.setattr(record_file, "open", guarded(open), raising=False)
    return calls


@pytest.mark.parametrize("number", range(1, 9))
def test_whenever_writing_stops_there_is_a_whole_record(tmp_path, monkeypatch, number):
    """The one before or the new one, at each of the calls that write, flush and rename."""
    path = tmp_path / ".a.zarr.record"
    record_file.write(path, FIRST)
    record_file.write(path, FIRST)
    with monkeypatch.context() as patch:
        calls = stop_at(patch, number)
        try:
            record_file.write(path, SECOND)
            complete = True
        except Stopped:
            complete = False
    assert complete == (calls[0] < number)
    found, spoilt = record_file.read(path)
    assert not spoilt
    assert same(found, SECOND) or (not complete and same(found, FIRST))
    record_file.write(path, SECOND)
    assert same(record_file.read(path)[0], SECOND)
    assert {file.name for file in tmp_path.iterdir()} == {".a.zarr.record", ".a.zarr.record-before"}


def test_content_is_flushed_before_it_has_its_name_and_names_are_flushed_after(tmp_path, monkeypatch):
    """Else a disk that loses its power may have the name without the content."""
    path, order = tmp_path / ".a.zarr.record", []
    record_file.write(path, FIRST)
    fsync, replace = os.fsync, os.replace

    def flushing(descriptor):
        order.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        fsync(descriptor)

    def renaming(source, target):
        order.append(target.name)
        replace(source, target)

    monkeypatch.setattr(record_file.os, "fsync", flushing)
    monkeypatch.setattr(record_file.os, "replace", renaming)
    record_file.write(path, SECOND)
    assert order == ["file", f"{path.name}-before", path.name, "folder"]


@given(st.integers(0, 10_000), st.sampled_from(["byte", "end"]))
def test_a_damaged_record_is_noticed_and_the_one_before_is_used(tmp_path_factory, place, damage):
    path = tmp_path_factory.mktemp("damaged") / ".a.zarr.record"
    record_file.write(path, FIRST)
    record_file.write(path, SECOND)
    data = bytearray(path.read_bytes())
    place %= len(data)
    if damage == "byte":
        data[place] ^= 1 << place % 8
    else:
        del data[place:]
    path.write_bytes(data)
    found, spoilt = record_file.read(path)
    assert same(found, FIRST)
    assert len(spoilt) == 1
    assert spoilt[0].startswith(f"{path}: is not used: ")


def test_without_a_whole_record_there_is_none(tmp_path):
    path = tmp_path / ".a.zarr.record"
    assert record_file.read(path) == (None, [])
    record_file.write(path, FIRST)
    path.write_bytes(b"")
    assert record_file.read(path)[0] is None
    record_file.remove(path)
    assert not record_file.exists(path)


class Foreign(NamedTuple):
    x: int


@pytest.mark.parametrize("content", [Foreign(1), os.path.join, np.load, simkit.run, simkit.InputError])
def test_a_record_runs_no_code(tmp_path, content):
    """Nothing but arrays and tuples of simkit is read, though the checksum of such a file is right."""
    path = tmp_path / ".a.zarr.record"
    record_file.write(path, Record({}, content))
    found, spoilt = record_file.read(path)
    assert found is None
    assert "does not belong in a record" in spoilt[0]


def test_the_record_of_a_link_is_beside_the_file_that_it_names(tmp_path):
    """So a run into either name finds the same record."""
    (tmp_path / "disk").mkdir()
    link = tmp_path / "a.zarr"
    link.symlink_to(tmp_path / "disk" / "b.zarr")
    assert record_file.record_of(link) == record_file.record_of(tmp_path / "disk" / "b.zarr")
    assert record_file.record_of(link) == tmp_path / "disk" / ".b.zarr.record"
