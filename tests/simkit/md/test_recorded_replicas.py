"""A run of particles that was stopped between two chunks is finished with the bits of a whole one."""

import os
from pathlib import Path

import pytest
import yaml
from command import files_in, simkit_command

import simkit
from simkit.md import replica
from simkit.md.step_counter import StepCounter
from simkit.records.recording import Recording

FLUID = {
    "system": {
        "units": "lj",
        "lattice": {"type": "fcc", "cells": 2, "density": 0.8},
        "velocities": {"temperature": 1.0},
    },
    "potential": {"type": "LennardJones", "epsilon": 1.0, "sigma": 1.0, "cutoff": 1.4},
    "stages": {
        "rest": {"solver": "FIRE", "steps": 60},
        "warm": {"solver": {"type": "BAOAB", "temperature": 1.0, "friction": 1.0}, "dt": 0.004, "steps": 60},
    },
    "solver": {"type": "NoseHooverChains", "temperature": 1.0, "relaxation_time": 0.2},
    "time": {"dt": 0.004, "steps": 120},
    "save": {"every": 3},
    "observe": {"U": "potential_energy", "g": {"rdf": {"max": 1.3}}, "D": {"msd": {}}},
    "ensemble": {"paths": 1, "seed": 3, "threads": 1},
    "output": "fluid.zarr",
}


@pytest.fixture
def fluid(tmp_path, monkeypatch):
    """A function that writes an experiment with changes, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SIMKIT_RECORD_EVERY", "0")
    monkeypatch.setattr(replica, "STAGE_STEPS", 20)

    def write(**changes) -> str:
        (tmp_path / "fluid.yaml").write_text(yaml.safe_dump(FLUID | changes))
        return "fluid.yaml"

    return write


def stop_after(chunks: int, monkeypatch) -> list[int]:
    """Interrupt the process at the end of its chunk of this number; gives the steps of all chunks."""
    seen, add = [], StepCounter.add

    def counted(self, steps):
        add(self, steps)
        seen.append(steps)
        if len(seen) == chunks:
            raise KeyboardInterrupt

    monkeypatch.setattr(StepCounter, "add", counted)
    return seen


# Of 24 particles: FIRE has three chunks, BAOAB as many; lanes hold some of five replicas.
@pytest.mark.more
@pytest.mark.parametrize(
    ("changes", "chunks"),
    [
        ({}, (3, 5, 3)),
        ({"ensemble": {"paths": 5, "seed": 3, "threads": 1}}, (12, 30)),
        pytest.param(
            {"system": FLUID["system"] | {"lattice": {"type": "fcc", "cells": 6, "density": 0.8}}},
            (2, 4, 3),
            marks=pytest.mark.more,
        ),
    ],
)
def test_a_stopped_run_is_finished_with_the_same_bits(fluid, monkeypatch, changes, chunks):
    file = fluid(**changes)
    whole = simkit.run(file, out="whole.zarr")
    for count in chunks:
        with monkeypatch.context() as patched:
            stop_after(count, patched)
            stopped = simkit_command("run", file, "--no-plot", "--resume")
            assert stopped.exit_code == 75, stopped.output
    seen = stop_after(10**9, monkeypatch)
    done = simkit_command("run", file, "--no-plot", "--resume")
    assert done.exit_code == 0, done.output
    assert 0 < sum(seen) < 240 * whole.sizes["path"]
    resumed = simkit.read_dataset("fluid.zarr")
    assert resumed.drop_attrs().identical(whole.drop_attrs())
    assert resumed.attrs["largest_force_after_rest"] == whole.attrs["largest_force_after_rest"]
    assert not {name for name in files_in(Path.cwd()) if name.startswith(".")}


def test_variants_go_on_where_they_were(fluid, monkeypatch):
    file = fluid(
        stages={}, variants={"cold": {"solver.temperature": 0.8}, "hot": {"solver.temperature": 1.2}}
    )
    whole = simkit.run(file, out="whole.zarr")
    with monkeypatch.context() as patched:
        seen = stop_after(5, patched)  # in the second of them
        assert simkit_command("run", file, "--no-plot").exit_code == 75
        assert simkit_command("run", file, "--no-plot", "--resume").exit_code == 0
        assert sum(seen) < 240 + 120
    assert simkit.read_dataset("fluid.zarr").drop_attrs().identical(whole.drop_attrs())


def test_another_run_is_not_resumed(fluid, monkeypatch):
    file = fluid()
    with monkeypatch.context() as patched:
        stop_after(8, patched)
        assert simkit_command("run", file, "--no-plot").exit_code == 75
    other = simkit_command("run", file, "--no-plot", "--resume", "--set", "time.steps=240")
    assert other.exit_code == 2
    assert "recorded `steps: 120`; now `steps: 240`" in other.stderr


@pytest.mark.more
@pytest.mark.parametrize("name", ["frames.zarr", "frames.xyz"])
def test_a_record_names_no_frame_that_is_not_on_the_disk(fluid, monkeypatch, name):
    """Or a machine that stops would lose frames that are not written again."""
    flushed, checked, fsync, keep = {}, set(), os.fsync, Recording.keep

    def noted(descriptor):
        fsync(descriptor)
        about = os.fstat(descriptor)
        flushed[about.st_ino] = about.st_mtime_ns, about.st_size

    def checking(*arguments):
        partial = Path(f".{name}.partial")
        for file in [file for file in (partial, *partial.rglob("*")) if file.is_file()]:
            about = file.stat()
            assert flushed[about.st_ino] == (about.st_mtime_ns, about.st_size), file
            checked.add(file)
        keep(*arguments)

    monkeypatch.setattr("os.fsync", noted)
    monkeypatch.setattr(Recording, "keep", checking)
    file = fluid(save=FLUID["save"] | {"trajectory": {"file": name, "every": 3}}, stages={})
    result = simkit_command("run", file, "--quiet", "--no-plot")
    assert result.exit_code == 0, result.output
    frames = [each for each in checked if each.match("position/0.*")]
    assert len(frames) == (41 if name == "frames.zarr" else 0)
    assert checked


@pytest.mark.more
@pytest.mark.parametrize("name", ["frames.xyz", "frames.zarr"])
@pytest.mark.parametrize("paths", [1, 5])
def test_a_trajectory_goes_on_where_its_state_was(fluid, monkeypatch, name, paths):
    """Also in frames that were written after the last record, and in replicas that were complete."""
    save = FLUID["save"] | {"trajectory": {"file": name, "every": 3}, "end": "end.xyz"}
    file = fluid(save=save, stages={}, ensemble={"paths": paths, "seed": 3, "threads": 1})
    simkit.run(file, out="whole.zarr")
    whole = {each.name: content(each) for each in Path.cwd().glob("[fe][rn][ad]*")}
    assert len(whole) == (paths + 1 if name == "frames.zarr" else 2 * paths)
    for each in whole:
        Path(each).rename(f"whole-{each}")
    for count in (2, 5 * paths):
        with monkeypatch.context() as patched:
            stop_after(count, patched)
            assert simkit_command("run", file, "--no-plot", "--resume").exit_code == 75
    done = simkit_command("run", file, "--no-plot", "--resume")
    assert done.exit_code == 0, done.output
    assert {each.name: content(each) for each in Path.cwd().glob("[fe][rn][ad]*")} == whole
    assert not {hidden for hidden in files_in(Path.cwd()) if hidden.startswith(".")}


def content(path: Path) -> bytes:
    """All bytes of a file, or of the files in a folder."""
    files = sorted(each for each in path.rglob("*") if each.is_file()) if path.is_dir() else [path]
    return b"".join(each.read_bytes() for each in files)


@pytest.mark.more
def test_frames_that_are_gone_are_not_made_up(fluid, monkeypatch):
    file = fluid(save=FLUID["save"] | {"trajectory": {"file": "frames.xyz", "every": 3}}, stages={})
    with monkeypatch.context() as patched:
        stop_after(4, patched)
        assert simkit_command("run", file, "--no-plot").exit_code == 75
    Path(".frames.xyz.partial").write_text("")
    refused = simkit_command("run", file, "--no-plot", "--resume")
    assert refused.exit_code == 4
    assert ".frames.xyz.partial: has fewer frames than were recorded" in refused.stderr
    assert simkit_command("run", file, "--no-plot", "--overwrite").exit_code == 0
