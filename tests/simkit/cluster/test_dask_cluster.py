"""A cluster gives the bits of one machine, whatever becomes of its workers; its faults have messages."""

import contextlib
import math
import operator
import os
import signal
import subprocess
import sys
import threading
import time

import pytest
import yaml
from command import EXPERIMENT, simkit_command
from distributed import Client, LocalCluster

import simkit
from simkit.cluster import dask_cluster
from simkit.cluster.dask_cluster import DaskCluster, units_of
from simkit.cluster.worker import Unit
from simkit.config.settings import Cluster
from simkit.ensemble import sizes
from simkit.ensemble.chunks import LEAF, Chunks
from simkit.records.path_file import PathFile
from simkit.records.record_file import record_of
from simkit.records.recording import Recording, recording

# Workers compile as users do.
pytestmark = [pytest.mark.more, pytest.mark.user_code, pytest.mark.filterwarnings("ignore::ResourceWarning")]
MANY = yaml.safe_load(EXPERIMENT) | {
    "time": {"t1": 1.0, "steps": 400},
    "ensemble": {"paths": 200 * LEAF + 7, "seed": 1, "chunk": LEAF},
    "save": {"paths": 3000, "points": 2},
}
del MANY["output"]


@pytest.fixture(scope="module")
def scheduler():
    with cluster_of(2) as cluster:
        yield cluster.scheduler_address


@contextlib.contextmanager
def cluster_of(workers: int):
    with LocalCluster(
        n_workers=workers, threads_per_worker=2, memory_limit=None, dashboard_address=":0", silence_logs=50
    ) as cluster:
        yield cluster


def with_cluster(address: str, **settings) -> dict:
    return MANY | {"cluster": {"address": address, **settings}}


def test_a_cluster_gives_the_bits_of_one_machine_and_of_variants(scheduler):
    variants = {"variants": {"calm": {"model.sigma": 0.1}, "wild": {"model.sigma": 0.3}}}
    smaller = variants | {"ensemble": {"paths": 20 * LEAF, "seed": 1}}
    for more in ({}, smaller):
        there, here = simkit.run(with_cluster(scheduler) | more), simkit.run(MANY | more)
        assert there.drop_attrs().identical(here.drop_attrs())


def test_workers_may_end_and_come(scheduler):
    """Of three one is killed in the middle, without a word, and one comes later."""
    expected = simkit.run(MANY).drop_attrs()
    done: list[int] = []
    with cluster_of(3) as cluster:
        result: list = []

        def run() -> None:
            experiment = with_cluster(cluster.scheduler_address)
            result.append(simkit.run(experiment, progress=lambda count, _: done.append(count)))

        thread = threading.Thread(target=run)
        thread.start()
        end = time.monotonic() + 120
        while not done:
            assert time.monotonic() < end
            time.sleep(0.01)
        with Client(cluster, set_as_default=False) as client:
            killed = next(iter(client.run(os.getpid).values()))
        os.kill(killed, signal.SIGKILL)
        cluster.scale(4)
        thread.join(120)
    assert len(done) > 8
    assert result
    assert result[0].drop_attrs().identical(expected)


IN_FILE = {
    "equations": {
        "model": {
            "sde": {"x": {"drift": "-k*x", "noise": {"W": "s"}}},
            "parameters": {"k": 1.0, "s": 0.3},
        },
        "initial": {"x": 1.0},
        "events": {"push": {"when": "x < 0.5", "set": {"x": "x + 1"}}},
    },
    "reactions": {
        "model": {
            "reactions": {
                "birth": {"equation": "0 -> A", "rate": "k"},
                "death": {"equation": "A -> 0", "rate": "g"},
            },
            "parameters": {"k": 5.0, "g": 1.0},
        },
        "initial": {"A": 3},
        "time": {"t1": 1.0},
    },
    "of a size": {
        "model": {"type": "Kuramoto", "size": 5, "omega": 1.0, "K": 2.0, "gamma": 0.5, "D": 0.1},
        "initial": {"theta": [0.1, 0.2, 0.3, 0.4, 0.5]},
    },
}


def test_models_in_the_file_and_of_a_size_go_too(scheduler):
    """Their classes have no name in a module: workers make them again."""
    shared = {"time": {"t1": 1.0, "steps": 20}, "ensemble": {"paths": 3 * LEAF, "seed": 1}}
    for experiment in IN_FILE.values():
        here = simkit.run(shared | experiment)
        there = simkit.run(shared | experiment | {"cluster": scheduler})
        assert here.drop_attrs().identical(there.drop_attrs())


OWN = """
from typing import Annotated, NamedTuple

import simkit_physics
from own_numbers import HALF
from simkit_solvers import AbstractSDE, Scalar, parameter


class LevelState(NamedTuple):
    S: Scalar


class LevelNoise(NamedTuple):
    W: Scalar


class Level(AbstractSDE):
    State = LevelState
    Noise = LevelNoise
    calculus = "any"
    noise_kind = "additive"

    rate: Scalar = parameter("1/time", "reversion rate", above=0)
    sigma: Scalar = parameter("1/time^0.5", "volatility", at_least=0)

    def drift(self, t, y):
        return LevelState(S=-HALF * self.rate * y.S)

    def noise(self, t, y, dW):
        return LevelState(S=self.sigma * dW.W)


def square(state, params, t):
    return state.S**2
"""
SCRIPT = """
import sys

import simkit
from own_model import Level, square
from test_experiment_there import MANY, address


class FasterLevel(Level):
    def drift(self, t, y):
        return super().drift(t, y)._replace(S=-self.rate * y.S)


if __name__ == "__main__":
    observe = {"square": square, "cube": lambda state, params, t: square(state, params, t) * state.S}
    for model in (Level(rate=1.0, sigma=0.3), FasterLevel(rate=1.0, sigma=0.3)):
        experiment = MANY | {"model": model, "initial": {"S": 1.0}, "observe": observe}
        here = simkit.run(experiment).drop_attrs()
        there = simkit.run(experiment | {"cluster": address}).drop_attrs()
        assert here.identical(there)
        print(float(there["S_mean"][-1]))
"""


def test_own_classes_go_with_the_simulation(scheduler, tmp_path):
    """Of modules that are nowhere where workers look, and of a script: with fields, helpers and lambdas."""
    (tmp_path / "own_model.py").write_text(OWN)
    (tmp_path / "own_numbers.py").write_text("HALF = 0.5\n")
    (tmp_path / "test_experiment_there.py").write_text(f"MANY = {MANY!r}\naddress = {scheduler!r}\n")
    (tmp_path / "script.py").write_text(SCRIPT)
    path = os.pathsep.join([str(tmp_path), *sys.path])
    done = subprocess.run(
        [sys.executable, "script.py"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    means = [float(line) for line in done.stdout.split()]
    assert means == pytest.approx([math.exp(-0.5), math.exp(-1.0)], abs=0.003)


def test_errors_of_paths_are_those_of_one_machine(scheduler):
    bad = {"observe": {"root": "sqrt(S - 52)"}}
    with pytest.raises(simkit.NumericalError) as here:
        simkit.run(MANY | bad)
    with pytest.raises(simkit.NumericalError) as there:
        simkit.run(with_cluster(scheduler) | bad)
    assert str(here.value) == str(there.value)


@pytest.mark.parametrize(
    ("work", "message"),
    [
        ((operator.truediv, 1, 0), "paths 7 to 9 failed there: ZeroDivisionError"),
        ((os._exit, 1), "paths 7 to 9 were given up, as several workers ended with them"),
    ],
)
def test_a_unit_that_always_fails_is_reported_with_its_cause(scheduler, work, message):
    with cluster_of(1) as cluster, Client(cluster, set_as_default=False) as client:
        at_work = DaskCluster(client, Cluster(address=cluster.scheduler_address))
        future = client.submit(*work, pure=False)
        with pytest.raises(simkit.ClusterError, match=message):
            at_work._result(Unit(7, 10, 0), future)


def test_workers_that_would_give_other_bits_are_refused(scheduler, monkeypatch):
    ours = dask_cluster.of_this_machine()
    monkeypatch.setattr(dask_cluster, "of_this_machine", lambda: ours | {"versions": "simkit=0 jax=0"})
    with pytest.raises(simkit.InputError, match="would give other bits than this process") as refused:
        simkit.run(with_cluster(scheduler))
    assert "versions: here simkit=0 jax=0, there simkit=" in refused.value.problems[1]
    accepted = simkit.run(with_cluster(scheduler, mixed=True))
    assert accepted.drop_attrs().identical(simkit.run(MANY).drop_attrs())


def test_a_cluster_that_is_not_there_is_an_error_in_time():
    start = time.monotonic()
    silent = r"no scheduler answers at tcp://127\.0\.0\.1:9 within 0\.5 s"
    with pytest.raises(simkit.ClusterError, match=silent):
        simkit.run(with_cluster("tcp://127.0.0.1:9", timeout=0.5))
    idle = r"has no workers, and none came within 0\.5 s; start some"
    with cluster_of(0) as cluster, pytest.raises(simkit.ClusterError, match=idle):
        simkit.run(with_cluster(cluster.scheduler_address, timeout=0.5))
    assert time.monotonic() - start < 30


@pytest.mark.parametrize("reached", [True, False])
def test_workers_write_stored_paths_themselves_where_they_reach_the_file(
    scheduler, tmp_path, monkeypatch, reached
):
    """Each its own region, and the driver none; where they do not reach it, the driver writes all."""
    writes, submit = [], Client.submit

    def write(self, first, arrays):
        writes.append(first)
        return written(self, first, arrays)

    def to_another_disk(self, function, *arguments, **options):
        if isinstance(arguments[-1], PathFile) and not reached:
            arguments = *arguments[:-1], arguments[-1]._replace(path=str(tmp_path / "other"))
        return submit(self, function, *arguments, **options)

    written = PathFile.write
    monkeypatch.setattr(PathFile, "write", write)
    monkeypatch.setattr(Client, "submit", to_another_disk)
    many = {"save": {"paths": 20 * LEAF + 5, "points": 2}}
    record = Recording(record_of(tmp_path / "many.zarr"), {})
    with recording(record):
        there = simkit.run(with_cluster(scheduler) | many)
    (file,) = tmp_path.glob(".many.zarr.record-paths-0")
    assert file.stat().st_size > 20 * LEAF * 3 * 4
    record.remove()
    assert not [*tmp_path.iterdir()]
    assert bool(writes) is not reached
    assert there.drop_attrs().identical(simkit.run(MANY | many).drop_attrs())


def test_stored_paths_in_a_file_need_no_memory(monkeypatch):
    simulation = simkit.load(MANY | {"save": {"paths": "all"}})
    stored = sizes.estimate(simulation)["stored_bytes"]
    monkeypatch.setattr(sizes, "available_memory", lambda: stored)
    sizes.check_memory({"": simulation}, in_file=True)
    with pytest.raises(simkit.InputError, match="save: takes about"):
        sizes.check_memory({"": simulation})


def test_a_run_that_is_stopped_here_and_on_a_cluster_is_finished(scheduler, tmp_path, monkeypatch):
    """What is stored before the cluster comes goes into its file, and no more than that."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SIMKIT_RECORD_EVERY", "0")
    experiment = MANY | {"save": {"paths": "all", "points": 2}}
    (tmp_path / "many.yaml").write_text(yaml.safe_dump(experiment))

    def stopped_after(units, method, *options):
        calls, usual = [], getattr(dask_cluster.Accumulator, method)

        def stop(self, *arguments):
            calls.append(1)
            if len(calls) > units:
                raise KeyboardInterrupt
            usual(self, *arguments)

        with monkeypatch.context() as patched:
            patched.setattr(dask_cluster.Accumulator, method, stop)
            stopped = simkit_command("run", "many.yaml", "--out", "many.zarr", "--no-plot", *options)
        assert stopped.exit_code == 75, stopped.output

    stopped_after(2, "add_chunk", "--set", f"ensemble.chunk={LEAF}")
    stopped_after(2, "join", "--resume", "--cluster", scheduler)
    done = simkit_command("run", "many.yaml", "--out", "many.zarr", "--no-plot", "--resume")
    assert done.exit_code == 0, done.output
    assert simkit.read_dataset("many.zarr").drop_attrs().identical(simkit.run(experiment).drop_attrs())


def test_a_run_on_a_cluster_is_finished_with_the_same_bits(scheduler, tmp_path, monkeypatch):
    """Stopped after some units on the cluster, and finished here."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SIMKIT_RECORD_EVERY", "0")
    (tmp_path / "many.yaml").write_text(yaml.safe_dump(MANY))
    calls, joined = [], dask_cluster.Accumulator.join

    def join(self, *arguments):
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt
        joined(self, *arguments)

    with monkeypatch.context() as patched:
        patched.setattr(dask_cluster.Accumulator, "join", join)
        stopped = simkit_command("run", "many.yaml", "--out", "many.zarr", "--cluster", scheduler)
    assert stopped.exit_code == 75, stopped.output
    (paths,) = tmp_path.glob(".many.zarr.record-paths-*")
    content = paths.read_bytes()
    flipped = bytearray(content)
    flipped[2**22 + 100] ^= 1
    for damaged in (content[::-1], bytes(flipped), content[: 2**22 + 100], content[:100]):
        paths.write_bytes(damaged)
        refused = simkit_command("run", "many.yaml", "--out", "many.zarr", "--resume")
        assert refused.exit_code == 4, refused.output
        assert "the stopped run has stored are gone or damaged; start anew with --overwrite" in refused.stderr
    paths.write_bytes(content)
    done = simkit_command("run", "many.yaml", "--out", "many.zarr", "--resume")
    assert done.exit_code == 0, done.output
    assert not [*tmp_path.glob(".many*")]
    assert simkit.read_dataset("many.zarr").drop_attrs().identical(simkit.run(MANY).drop_attrs())


def test_a_command_that_no_cluster_serves_says_so(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "many.yaml").write_text(yaml.safe_dump(with_cluster("local:2")))
    small = ["--set", "ensemble.paths=100", "--set", "save.paths=0", "--wrt", "sigma"]
    done = simkit_command("sensitivity", "many.yaml", *small)
    assert done.exit_code == 0, done.output
    assert (
        "cluster: is for whole runs by `simkit run` and `simkit sweep`; all paths are simulated here"
        in done.stderr
    )


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("10.0.0.7", "must be the address of a scheduler of Dask"),
        ("local:0", "must be the address of a scheduler of Dask"),
        ("local:9999", "must start at most 1024 processes"),
    ],
)
def test_addresses_are_checked(address, message):
    with pytest.raises(simkit.InputError, match=f"cluster: {message}|cluster.address: {message}"):
        simkit.load(with_cluster(address))


@pytest.mark.parametrize("address", ["local:", "local: 4", "{address: tcp://10.0.0.7:8786}", "", "null"])
def test_an_address_of_the_command_line_is_text_whatever_it_would_be_in_a_file(tmp_path, address):
    (tmp_path / "many.yaml").write_text(yaml.safe_dump(with_cluster("local:1")))
    refused = simkit_command("run", str(tmp_path / "many.yaml"), "--cluster", address)
    assert refused.exit_code == 2
    assert refused.stderr.startswith("--cluster: must be the address of a scheduler of Dask such as tcp://")
    assert refused.stderr.endswith(f"or local:4 for four processes on this machine, got {address!r}\n")


def test_units_are_enough_for_all_workers_and_no_more_than_some_seconds():
    for leaves, workers in ((1, 4), (100, 4), (10_000, 4), (10**6, 300)):
        units = units_of(Chunks(leaves * LEAF, 32, LEAF), workers)
        assert units.leaves & (units.leaves - 1) == 0
        assert units.count >= min(leaves, 8 * workers)
        assert units.leaves <= 16 * 32
