"""Of two runs into one file the second is refused at its start; what killed runs leave is named."""

import os
import subprocess
import sys

import pytest

import simkit
from simkit import OutputError
from simkit.records.incomplete import incomplete
from simkit.results.claims import claimed

GONE = 2**22 + 1  # above the highest number of a process that Linux gives


def hold(path) -> subprocess.Popen:
    """Another process, which holds a name until its standard input ends."""
    code = (
        "import sys; from pathlib import Path; from simkit.results.claims import claimed\n"
        "with claimed([Path(sys.argv[1])]): print('held', flush=True); sys.stdin.read()"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    process = subprocess.Popen([sys.executable, "-c", code, str(path)], **pipes)
    assert process.stdout.readline() == "held\n"
    return process


def test_a_name_is_held_by_one_process_at_a_time(tmp_path):
    path = tmp_path / "a.zarr"
    other = hold(path)
    with (
        pytest.raises(
            OutputError,
            match=rf"a\.zarr: is being written by another run \(process {other.pid} on .*\); wait",
        ),
        claimed([path]),
    ):
        pass
    with claimed([tmp_path / "b.zarr"]):  # another name is free
        pass
    other.communicate("")
    with claimed([path]):
        assert os.listdir(tmp_path) == [".a.zarr.lock"]
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("link", ["folder/a.zarr", "b.zarr"])
def test_a_name_by_a_link_is_the_same_name(tmp_path, link):
    """By a link to its folder, and by one to the file itself."""
    (tmp_path / "folder").symlink_to(tmp_path)
    (tmp_path / "b.zarr").symlink_to(tmp_path / "a.zarr")
    with claimed([tmp_path / "a.zarr"]), pytest.raises(OutputError), claimed([tmp_path / link]):
        pass


def test_all_names_are_free_again_where_one_is_refused(tmp_path):
    one, other = tmp_path / "a.zarr", tmp_path / "b.zarr"
    with claimed([other]), pytest.raises(OutputError), claimed([one, other]):
        pass
    with claimed([one, other]):
        pass


def test_a_dead_process_holds_nothing_and_what_it_left_is_named_but_kept(tmp_path):
    path = tmp_path / "a.zarr"
    other = hold(path)
    other.kill()
    other.communicate()
    left = [f".a.tmp-{other.pid}-0.zarr", f".a.zarr.old-{GONE}-0"]
    for name in [*left, f".b.tmp-{GONE}-0.zarr", f".a.tmp-{os.getppid()}-0.zarr"]:
        (tmp_path / name).mkdir()
    lines: list[str] = []
    with claimed([path], lines.append):
        assert [line.split(": was left by a run into a.zarr that was killed")[0] for line in lines] == [
            str(tmp_path / name) for name in left
        ]
    assert {*left} <= {*os.listdir(tmp_path)}


def test_what_a_process_of_the_same_number_left_is_named_and_not_written_over(tmp_path):
    """As in a container, where it is often the number 1."""
    (tmp_path / f".a.tmp-{os.getpid()}-0.zarr").mkdir()
    lines: list[str] = []
    with claimed([tmp_path / "a.zarr"], lines.append), incomplete(tmp_path / "a.zarr") as temporary:
        assert len(lines) == 1
        assert not temporary.exists()


GROWTH = {
    "constants": {"k": {"uniform": [0.9, 1.1]}},
    "model": {"ode": {"x": "-k*x"}},
    "initial": {"x": 1.0},
    "time": {"t1": 1.0, "steps": 4},
    "uncertainty": {"points": 16, "replicates": 2},
}


@pytest.mark.parametrize("function", [simkit.run, simkit.uncertainty])
def test_a_python_user_is_warned_where_the_function_is_called(tmp_path, function):
    (tmp_path / f".a.tmp-{GONE}-0.nc").mkdir()
    given = {**GROWTH, "constants": {"k": 1.0}, "uncertainty": None} if function is simkit.run else GROWTH
    with pytest.warns(UserWarning, match="was left by a run into a.nc that was killed") as caught:
        function(given, out=tmp_path / "a.nc")
    assert caught[0].filename == __file__
