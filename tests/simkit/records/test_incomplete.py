"""What is not complete leaves nothing, even where a thread goes on writing for a while."""

import os
import threading
import time

import pytest

from simkit.records.incomplete import abandoned, incomplete, remove_incomplete


def test_a_folder_in_which_a_thread_goes_on_is_removed_for_good(tmp_path):
    end = time.monotonic() + 0.3

    def go_on(folder):
        number = 0
        while time.monotonic() < end:
            try:
                (folder / "chunks").mkdir(parents=True, exist_ok=True)
                (folder / "chunks" / str(number)).touch()
            except FileNotFoundError:  # removed meanwhile
                continue
            number += 1

    def interrupted():
        with incomplete(tmp_path / "a.zarr") as temporary:
            temporary.mkdir()
            thread = threading.Thread(target=go_on, args=(temporary,))
            thread.start()
            time.sleep(0.05)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    time.sleep(max(end - time.monotonic(), 0) + 0.1)
    assert not list(tmp_path.iterdir())


def test_a_file_is_removed_where_its_writing_fails(tmp_path):
    def failing():
        with incomplete(tmp_path / "a.nc") as temporary:
            temporary.write_text("half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        failing()
    assert not list(tmp_path.iterdir())


def test_a_process_that_ends_at_once_removes_what_is_not_complete(tmp_path):
    """Its threads never come to the end of what they write."""
    with incomplete(tmp_path / "a.nc") as file, incomplete(tmp_path / "b.zarr") as folder:
        file.write_text("half")
        (folder / "chunks").mkdir(parents=True)
        remove_incomplete()
        assert not list(tmp_path.iterdir())


def test_what_this_process_is_writing_is_not_abandoned(tmp_path):
    """Only what an earlier process of the same number has left is."""
    with incomplete(tmp_path / "a.nc") as file:
        file.write_text("half")
        assert abandoned(tmp_path / "a.nc") == []
        earlier = file.with_name(f".a.tmp-{os.getpid()}-77.nc")
        earlier.touch()
        assert abandoned(tmp_path / "a.nc") == [earlier]


@pytest.mark.parametrize(
    ("error", "left"), [(PermissionError, False), (ProcessLookupError, True), (None, False)]
)
def test_the_process_of_another_user_is_alive(tmp_path, monkeypatch, error, left):
    """It may not be signalled, and may be at work; one that does not exist has left its file."""

    def kill(number, signal):
        assert (number, signal) == (12345, 0)
        if error is not None:
            raise error

    monkeypatch.setattr("simkit.records.incomplete.os.kill", kill)
    file = tmp_path / ".a.tmp-12345-0.nc"
    file.touch()
    assert abandoned(tmp_path / "a.nc") == ([file] if left else [])
