"""A disk that fills up in a run loses nothing: the result goes elsewhere, and a resume has its bits."""

import re
import shutil
import subprocess
import sys
import tempfile

import pytest
import yaml
from command import EXPERIMENT

import simkit

EXPERIMENT_OF_MANY = yaml.safe_load(EXPERIMENT) | {
    "time": {"t1": 1.0, "steps": 500},
    "ensemble": {"paths": 204_800, "seed": 1, "chunk": 4096, "threads": 1},
    "save": {"paths": 5000, "points": 2},
}
SCRIPT = """\
mount -t tmpfs -o size=1m none disk || exit 99
export TMPDIR=$PWD/elsewhere SIMKIT_RECORD_EVERY=0
{command} --overwrite || echo ended with $? >&2
echo left: $(ls -A disk) >&2
mount -o remount,size=64m disk
{command} --resume || echo then with $? >&2
cp -r disk/small.zarr resumed.zarr
{command} --out whole.zarr
"""


def may_mount() -> bool:
    """Whether a process may have a small file system of its own, in a namespace of its own."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["unshare", "-rm", "mount", "-t", "tmpfs", "none", folder]
        return (
            shutil.which("unshare") is not None
            and not subprocess.run(command, capture_output=True).returncode
        )


@pytest.mark.more
@pytest.mark.skipif(not may_mount(), reason="needs file systems of its own")
def test_a_disk_that_fills_up_loses_no_result(folder):
    """There is room for a record, and none for the result beside it."""
    (folder / "many.yaml").write_text(yaml.safe_dump(EXPERIMENT_OF_MANY))
    for name in ("disk", "elsewhere"):
        (folder / name).mkdir()
    command = f"{sys.executable} -m simkit run many.yaml --no-plot --quiet --out disk/small.zarr"
    script = SCRIPT.format(command=command)
    done = subprocess.run(
        ["unshare", "-rm", "bash", "-c", script], capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"ended with 4$", done.stderr, re.MULTILINE), done.stderr
    assert "then with" not in done.stderr
    assert "left: .small.zarr.record\n" in done.stderr
    whole = simkit.read_dataset("whole.zarr").drop_attrs()
    (rescued,) = folder.glob("elsewhere/*/small.zarr")
    assert simkit.read_dataset(rescued).drop_attrs().identical(whole)
    assert simkit.read_dataset("resumed.zarr").drop_attrs().identical(whole)
