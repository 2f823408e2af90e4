"""What a dry run says: forces, stages, memory and files, against what a run takes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from accelerator import needs_processor
from md_examples import fluid
from typer.testing import CliRunner

import simkit
from simkit.cli import app
from simkit.md.experiment import load_particles
from simkit.md.size import size_of, size_text

PEAK = """
import sys, simkit
from peak_memory import peak_memory
simkit.tune_process()
simkit.run(sys.argv[1])
print(peak_memory())
"""


def test_a_dry_run_says_what_will_be_done():
    experiment = fluid(
        stages={
            "cool": {"steps": 5, "dt": 0.001, "solver": {"type": "BAOAB", "temperature": 1, "friction": 1}}
        },
        observe={"T": "temperature", "g": {"rdf": {"max": 2.0, "every": 20}}},
    )
    sizes = size_of(load_particles(experiment))
    lines = size_text(sizes).splitlines()
    assert lines[:5] == [
        "1 replica x 108 particles x 45 steps, 4.86k atom-steps",
        "cool: 5 steps of 0.001, BAOAB",
        "run: 40 steps of 0.004, VelocityVerlet",
        "forces: all pairs, cutoff 2, images 1 x 1 x 1",
        "measured: T 5 times; g every 20 steps",
    ]
    assert "about" in lines[5]
    assert sizes["memory"]["lists"] == 0
    many = size_of(load_particles(fluid(system__lattice__cells=6)))
    assert many["forces"]["forces"] == "neighbour lists"
    assert many["memory"]["lists"] > 0
    short = dict(many, memory_available_bytes=1000)
    assert "warning: that is more than the 1kB of memory" in size_text(short)


@needs_processor
def test_each_processor_that_shares_a_system_has_a_copy():
    """As many as have enough chunks of its clusters; of a list, once it is made. Replicas share nothing."""

    def memory(**ensemble):
        return size_of(load_particles(fluid(system__lattice__cells=10, ensemble=ensemble)))["memory"]

    one, *others = (memory(threads=threads) for threads in (1, 2, 4))
    replicas = memory(threads=2, paths=3)
    assert min(one[name] for name in ("particles", "lists", "observers")) > 0
    for several in (*others, replicas):
        for name in ("particles", "observers"):
            assert several[name] == 2 * one[name], name
    for several in others:
        assert one["lists"] < several["lists"] < 1.5 * one["lists"]
    assert replicas["lists"] == 2 * one["lists"]


def test_files_have_the_sizes_of_the_dry_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    experiment = fluid(output="a.nc")
    experiment["save"] |= {"trajectory": {"file": "a.xyz", "every": 20}, "end": "b.xyz"}
    (tmp_path / "a.yaml").write_text(yaml.safe_dump(experiment))
    sizes = json.loads(CliRunner().invoke(app, ["run", "a.yaml", "--dry-run", "--json"]).stdout)
    assert sizes["frames"] == 3
    simkit.run("a.yaml")
    assert sizes["trajectory_bytes"] == pytest.approx((tmp_path / "a.xyz").stat().st_size, rel=0.1)
    assert sizes["end_bytes"] == pytest.approx((tmp_path / "b.xyz").stat().st_size, rel=0.1)


def peak_of(path: Path) -> int:
    """The most bytes that a process takes which runs an experiment."""
    command = [sys.executable, "-c", PEAK, str(path)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return int(done.stdout.split()[-1])


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux tells the peak of one program")
def test_a_million_particles_run_in_two_gigabytes(tmp_path):
    path = tmp_path / "melt.yaml"
    melt = fluid(system__lattice__cells=63, time__steps=40, potential__cutoff=2.5, ensemble={"threads": 1})
    path.write_text(yaml.safe_dump(melt))
    assert peak_of(path) < 2e9


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux tells the peak of one program")
def test_memory_is_that_of_a_run_within_a_factor_of_two(tmp_path):
    """More than a run of few particles by lists takes, which has all of jax and of the compiler."""
    peaks, sizes = {}, {}
    for cells in (6, 40):
        experiment = fluid(system__lattice__cells=cells, time__steps=10, potential__cutoff=2.5)
        path = tmp_path / f"{cells}.yaml"
        path.write_text(yaml.safe_dump(experiment))
        peaks[cells] = peak_of(path)
        sizes[cells] = size_of(load_particles(path))["memory_bytes"]
    assert 0.5 < (peaks[40] - peaks[6]) / (sizes[40] - sizes[6]) < 2
