"""Several processes write regions of one file, and what is read is what they wrote."""

import tempfile
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from simkit import OutputError
from simkit.records.path_file import PathFile


@settings(max_examples=25)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=6), st.permutations(range(6)), st.integers(1, 3))
def test_regions_may_be_written_in_any_order_and_again(sizes, order, rows):
    """Of arrays with other types and numbers of rows; a unit that is done twice has the same rows."""

    paths = sum(sizes)
    random = np.random.default_rng(0)
    whole = {
        "a": random.normal(size=(paths, rows)).astype(np.float32),
        "b": random.normal(size=(paths, 2 * rows)),
        "when b": random.random((paths, 1)) < 0.5,
    }
    regions = []
    starts = np.cumsum([0, *sizes[:-1]])
    with tempfile.TemporaryDirectory() as folder:
        file = PathFile.opened(Path(folder, "paths"), paths, anew=True)
        for place in [each for each in (*order, *order[:2]) if each < len(sizes)]:
            first, count = starts[place], sizes[place]
            regions.append(file.write(first, {name: x[first : first + count] for name, x in whole.items()}))
            assert file.has(regions)  # also while the last of the arrays is not written to its end
        assert not file.has([regions[0]._replace(checksum=regions[0].checksum ^ 1)])
        found = PathFile.opened(Path(folder, "paths"), paths, anew=False).read()
    assert [*found] == [*whole]
    for name, array in whole.items():
        assert found[name].dtype == array.dtype
        assert np.array_equal(found[name], array)


def test_ten_thousand_arrays_have_their_names_in_the_file(tmp_path):
    whole = {f"theta_{i}": np.full((3, 1), float(i)) for i in range(10_000)}
    file = PathFile.opened(tmp_path / "paths", 3, anew=True)
    file.write(0, whole)
    found = file.read()
    assert [*found] == [*whole]
    assert all(np.array_equal(found[name], whole[name]) for name in ("theta_0", "theta_9999"))


def test_a_header_with_a_wrong_byte_is_noticed_wherever_it_is(tmp_path):
    """One of a name would give the paths of another quantity, though all numbers are right."""
    place = tmp_path / "paths"
    file = PathFile.opened(place, 3, anew=True)
    region = file.write(0, {"S": np.arange(3.0)[:, None], "when S": np.ones((3, 1), bool)})
    whole = place.read_bytes()
    end = whole.index(b"\0")
    assert b'"S"' in whole[:end]
    for position in range(end + 1):
        damaged = bytearray(whole)
        damaged[position] ^= 1
        place.write_bytes(damaged)
        assert not file.has([region]), whole[position : position + 1]
    place.write_bytes(whole.replace(b'"S"', b'"T"', 1))
    with pytest.raises(
        OutputError, match=r"paths: stored paths cannot be kept there: the checksum of its he"
    ):
        file.read()
    place.write_bytes(whole)
    assert file.has([region])


def test_a_region_is_on_disk_before_anything_says_that_it_is_there(tmp_path, monkeypatch):
    """What a record names must survive a machine that stops."""
    place, flushed = tmp_path / "paths", []
    file = PathFile.opened(place, 3, anew=True)
    monkeypatch.setattr("os.fsync", lambda _: flushed.append(place.read_bytes()))
    file.write(1, {"S": np.array([[1.0], [2.0]])})
    assert flushed == [place.read_bytes()]


def test_a_file_of_the_same_name_elsewhere_is_not_this_one(tmp_path):
    """Its token differs; the same file, opened again, has the token, and anew another."""
    file = PathFile.opened(tmp_path / "paths", 3, anew=True)
    assert file.is_here
    assert PathFile.opened(tmp_path / "paths", 3, anew=False) == file
    other = PathFile.opened(tmp_path / "paths", 3, anew=True)
    assert other != file
    assert not file.is_here
    assert not other._replace(path=str(tmp_path / "none")).is_here
