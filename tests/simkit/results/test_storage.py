"""A dataset on disk is complete or absent, and nothing that was there is lost."""

import errno
import os
import re
import shutil

import pytest
import xarray as xr
from dataset_examples import gbm_dataset

from simkit import InputError, OutputError, read_dataset, write_dataset
from simkit.results import storage
from simkit.results.storage import check_output, write_or_rescue

ENDINGS = (".zarr", ".nc")


def listing(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("ending", ENDINGS)
def test_what_is_written_reads_back_identical(tmp_path, ending):
    dataset = gbm_dataset(failed=37)
    path = tmp_path / f"gbm{ending}"
    write_dataset(dataset, path)
    assert listing(tmp_path) == [path.name]
    xr.testing.assert_identical(read_dataset(path), dataset)
    with xr.open_dataset(path, engine={".zarr": "zarr", ".nc": "h5netcdf"}[ending]) as opened:
        xr.testing.assert_identical(opened.load(), dataset)


@pytest.mark.parametrize("unit", ["days", "hours since 2020-01-01"])
def test_units_of_time_stay_numbers(tmp_path, unit):
    dataset = gbm_dataset()
    dataset["call_mean"].attrs["units"] = unit
    write_dataset(dataset, tmp_path / "gbm.nc")
    assert read_dataset(tmp_path / "gbm.nc")["call_mean"] == dataset["call_mean"]


@pytest.mark.parametrize("ending", ENDINGS)
def test_overwriting_takes_an_explicit_word(tmp_path, ending):
    path = tmp_path / f"gbm{ending}"
    first, second = gbm_dataset(), gbm_dataset(failed=37)
    write_dataset(first, path)
    for refuse in (lambda: check_output(path, False), lambda: write_dataset(second, path)):
        with pytest.raises(
            OutputError, match=r"gbm\.\w+: exists already; to replace it use --overwrite, from Python"
        ):
            refuse()
    xr.testing.assert_identical(read_dataset(path), first)
    check_output(path, True)
    write_dataset(second, path, overwrite=True)
    xr.testing.assert_identical(read_dataset(path), second)
    assert listing(tmp_path) == [path.name]


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_file_that_comes_into_being_meanwhile_is_not_replaced(tmp_path, ending, monkeypatch):
    path = tmp_path / f"gbm{ending}"
    put = xr.Dataset.to_zarr if ending == ".zarr" else xr.Dataset.to_netcdf

    def put_and_race(self, target, **options):
        put(self, target, **options)
        path.write_text("somebody else's")

    monkeypatch.setattr(xr.Dataset, put.__name__, put_and_race)
    with pytest.raises(OutputError, match="exists already"):
        write_dataset(gbm_dataset(), path)
    assert path.read_text() == "somebody else's"
    assert listing(tmp_path) == [path.name]


def failing_halfway(put, error):
    def half(self, target, **options):
        put(self, target, **options)
        raise error

    return half


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize(
    ("exists", "error", "raised", "message"),
    [
        (
            False,
            OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)),
            OutputError,
            "could not be written: No space left on device",
        ),
        (
            True,
            RuntimeError("Unable to flush file"),
            OutputError,
            "could not be written: Unable to flush file",
        ),
        (True, KeyboardInterrupt(), KeyboardInterrupt, "^$"),
    ],
)
def test_a_failed_write_leaves_what_was_there(tmp_path, monkeypatch, ending, exists, error, raised, message):
    path = tmp_path / f"gbm{ending}"
    old = gbm_dataset()
    if exists:
        write_dataset(old, path)
    before = listing(tmp_path)
    put = xr.Dataset.to_zarr if ending == ".zarr" else xr.Dataset.to_netcdf
    monkeypatch.setattr(xr.Dataset, put.__name__, failing_halfway(put, error))
    with pytest.raises(raised, match=message):
        write_dataset(gbm_dataset(failed=37), path, overwrite=True)
    assert listing(tmp_path) == before
    if exists:
        xr.testing.assert_identical(read_dataset(path), old)


@pytest.mark.parametrize("call", [1, 2])
@pytest.mark.parametrize("error", [OSError(errno.EIO, "Input/output error"), KeyboardInterrupt()])
def test_a_store_that_stepped_aside_comes_back(tmp_path, monkeypatch, call, error):
    path = tmp_path / "gbm.zarr"
    old = gbm_dataset()
    write_dataset(old, path)
    rename, calls = os.rename, []

    def failing(source, target):
        calls.append(source)
        if len(calls) == call:
            raise error
        rename(source, target)

    monkeypatch.setattr(storage.os, "rename", failing)
    with pytest.raises((OutputError, KeyboardInterrupt)):
        write_dataset(gbm_dataset(failed=37), path, overwrite=True)
    assert listing(tmp_path) == ["gbm.zarr"]
    xr.testing.assert_identical(read_dataset(path), old)


def test_a_store_of_another_process_is_replaced_too(tmp_path, monkeypatch):
    """It comes as soon as the old one has stepped aside. What a killed process left is not touched."""
    path, others = tmp_path / "gbm.zarr", tmp_path / "others.zarr"
    write_dataset(gbm_dataset(), path)
    write_dataset(gbm_dataset(failed=5), others)
    left = f".gbm.zarr.old-{os.getpid()}-0"
    (tmp_path / left / "S").mkdir(parents=True)
    rename = os.rename

    def meanwhile(source, target):
        rename(source, target)
        if others.exists():
            rename(others, path)

    monkeypatch.setattr(storage.os, "rename", meanwhile)
    own = gbm_dataset(failed=37)
    write_dataset(own, path, overwrite=True)
    assert listing(tmp_path) == [left, "gbm.zarr"]
    xr.testing.assert_identical(read_dataset(path), own)


def test_other_endings_are_refused(tmp_path):
    for name in ("gbm", "gbm.xls", "gbm.h5"):
        with pytest.raises(
            InputError, match=rf"{name}: must end in \.zarr, \.nc or \.csv; for example gbm\.zarr"
        ):
            check_output(tmp_path / name, True)


def test_folders_that_cannot_hold_it_are_named(tmp_path, monkeypatch):
    with pytest.raises(OutputError, match=r"the directory .*nowhere does not exist; create it"):
        check_output(tmp_path / "nowhere" / "gbm.zarr", False)
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="is not a directory"):
        check_output(tmp_path / "file" / "gbm.zarr", False)

    def read_only(**options):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(storage.tempfile, "mkdtemp", read_only)
    with pytest.raises(
        OutputError, match=r"cannot write in .*: Read-only file system; choose another output"
    ):
        check_output(tmp_path / "gbm.zarr", False)


def test_what_is_not_a_dataset_is_never_replaced(tmp_path):
    folder = tmp_path / "mine.zarr"
    folder.mkdir()
    (folder / "thesis.tex").write_text("years of work")
    (tmp_path / "note.zarr").write_text("a note")
    (tmp_path / "folder.nc").mkdir()
    (tmp_path / "note.nc").write_text("a note")
    xr.Dataset(attrs={"of": "another program"}).to_zarr(tmp_path / "theirs.zarr")
    for name, reason in (
        ("mine.zarr", "is not a Zarr store"),
        ("note.zarr", "is not a Zarr store"),
        ("note.nc", "is not a NetCDF file"),
        ("theirs.zarr", "is not a Zarr store"),
        ("folder.nc", "is a directory"),
    ):
        with pytest.raises(OutputError, match=f"{name}: {reason}.*, so it is left alone"):
            write_dataset(gbm_dataset(), tmp_path / name, overwrite=True)
    assert (folder / "thesis.tex").read_text() == "years of work"
    assert listing(tmp_path) == ["folder.nc", "mine.zarr", "note.nc", "note.zarr", "theirs.zarr"]


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_link_is_followed(tmp_path, ending):
    real = tmp_path / "disk"
    real.mkdir()
    write_dataset(gbm_dataset(), real / f"gbm{ending}")
    link = tmp_path / f"link{ending}"
    link.symlink_to(real / f"gbm{ending}")
    write_dataset(gbm_dataset(failed=37), link, overwrite=True)
    assert link.is_symlink()
    assert listing(real) == [f"gbm{ending}"]
    assert read_dataset(real / f"gbm{ending}").attrs["failed_paths"] == 37


def test_reading_says_what_is_wrong(tmp_path):
    with pytest.raises(OutputError, match="no such file"):
        read_dataset(tmp_path / "gbm.zarr")
    (tmp_path / "gbm.txt").write_text("")
    with pytest.raises(InputError, match=r"must end in \.zarr or \.nc"):
        read_dataset(tmp_path / "gbm.txt")
    (tmp_path / "gbm.yaml").write_text("")
    with pytest.raises(InputError, match=r"; `simkit run .*gbm\.yaml --out gbm\.zarr` writes one$"):
        read_dataset(tmp_path / "gbm.yaml")
    (tmp_path / "text.nc").write_text("not HDF5")
    (tmp_path / "empty.zarr").mkdir()
    (tmp_path / "file.zarr").write_text("not a directory")
    write_dataset(gbm_dataset(), tmp_path / "torn.zarr")
    shutil.rmtree(tmp_path / "torn.zarr" / "S_mean")
    (tmp_path / "torn.zarr" / ".zmetadata").write_text("{")
    for name in ("text.nc", "empty.zarr", "file.zarr", "torn.zarr"):
        with pytest.raises(OutputError, match=f"{name}: cannot be read as a dataset: .*; give one that"):
            read_dataset(tmp_path / name)
    xr.Dataset({"a": 1.0}).to_netcdf(tmp_path / "other.nc", engine="h5netcdf")
    with pytest.raises(OutputError, match=r"other\.nc: was not written by simkit: .*; give one that"):
        read_dataset(tmp_path / "other.nc")


HDF5 = "Can't close file (file write failed: errno = 28, error message = 'No space left on device')"


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), RuntimeError(HDF5)])
def test_results_that_do_not_fit_on_a_disk_are_kept_elsewhere(tmp_path, monkeypatch, error):
    full, spare = tmp_path / "full", tmp_path / "spare"
    full.mkdir()
    spare.mkdir()
    monkeypatch.setattr(storage.tempfile, "tempdir", str(spare))
    write = xr.Dataset.to_netcdf

    def fail(dataset, path, **options):
        if str(full) in path:
            raise error
        write(dataset, path, **options)

    monkeypatch.setattr(xr.Dataset, "to_netcdf", fail)
    with pytest.raises(OutputError) as raised:
        write_or_rescue(gbm_dataset(), full / "gbm.nc")
    (kept,) = spare.glob("simkit-*/gbm.nc")
    size = rf"{os.strerror(errno.ENOSPC)} for [0-9.]+k?B \(before compression\)"
    elsewhere = rf"; the results are in {kept}: move them"
    assert re.fullmatch(rf"{full}/gbm.nc: could not be written: {size}{elsewhere}", str(raised.value))
    xr.testing.assert_identical(read_dataset(kept), gbm_dataset())
    assert not listing(full)


def test_where_there_is_no_other_place_the_first_error_counts(tmp_path, monkeypatch):
    monkeypatch.setattr(storage.tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(
        xr.Dataset, "to_netcdf", lambda *arguments, **options: (tmp_path / "no" / "where").rmdir()
    )
    with pytest.raises(OutputError, match=r"gbm\.nc: could not be written: No such file or directory$"):
        write_or_rescue(gbm_dataset(), tmp_path / "gbm.nc")
    assert not listing(tmp_path)
