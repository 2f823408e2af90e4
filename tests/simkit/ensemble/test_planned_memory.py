"""Memory is planned: chunks fit into what a run may take, and smaller ones are tried where they do not."""

import re
import subprocess
import sys

import numpy as np
import pytest
import yaml
from command import simkit_command
from hypothesis import given
from hypothesis import strategies as st

import simkit
from simkit import InputError, OutOfMemoryError
from simkit.config.settings.values import bytes_of
from simkit.ensemble.accumulator import Accumulator
from simkit.ensemble.chunks import COPIES, JAX, LEAF, plan_chunks
from simkit.ensemble.programs import compiled
from simkit.ensemble.sizes import estimate
from simkit.ensemble.work import most_in_memory
from simkit.records.recording import Recording, recording

GBM = {
    "model": {"type": "GBM", "mu": 0.05, "sigma": 0.2},
    "initial": {"S": 100.0},
    "time": {"t1": 1.0, "steps": 4},
    "ensemble": {"paths": 20_000, "seed": 7, "devices": 1, "threads": 1, "chunk": 8192},
    "observe": {"call": "maximum(S - 100, 0)"},
    "save": {"paths": 3000},
}
PEAK = """
import re, simkit, sys
experiment = {
    "model": {"type": "GBM", "mu": 0.05, "sigma": 0.2},
    "initial": {"S": 100.0},
    "time": {"t1": 1.0, "steps": 100},
    "ensemble": {"paths": 1_000_000, "seed": 1, "threads": 2},
    "save": {"points": 100},
}
simkit.run(experiment, overrides=sys.argv[1:])
print(re.search(r"VmHWM:\\s*(\\d+) kB", open("/proc/self/status").read())[1])
"""


@given(
    memory=st.integers(JAX, 10**11),
    paths=st.integers(1, 10**9),
    values=st.integers(1, 10**5),
    threads=st.integers(1, 64),
    stored=st.integers(0, 1000),
)
def test_chunks_fit_into_the_memory_or_are_single_leaves(memory, paths, values, threads, stored):
    ensemble = {"paths": paths, "threads": threads, "devices": 1, "memory": f"{memory}B"}
    simulation = simkit.load(GBM | {"ensemble": ensemble, "save": {"paths": min(stored, paths)}})
    plan = plan_chunks(simulation, paths, values)
    rows = 8 * values * plan.paths * most_in_memory(threads)
    stored_rows = 8 * values * min(stored, paths)
    assert plan.leaves == 1 or JAX + stored_rows + COPIES * rows <= memory


@pytest.mark.parametrize(
    ("text", "size"), [("2GB", 2 * 10**9), ("500 MB", 5 * 10**8), ("1.5GiB", 3 * 2**29), ("7B", 7)]
)
def test_sizes_are_decimal_or_binary(text, size):
    assert bytes_of(text) == size


@pytest.mark.parametrize("text", ["2", "2gb", "GB", "-1GB", "2 TB?", 7, None])
def test_what_is_no_size_is_refused(text):
    with pytest.raises(ValueError, match="must be a size such as 2GB or 500MB"):
        bytes_of(text)


def test_less_memory_than_any_chunk_takes_is_refused():
    with pytest.raises(InputError, match=r"memory: 700MB are too little: jax takes 700MB, and this run"):
        simkit.run(GBM, overrides={"ensemble.memory": "0.7GB"})


UNCERTAIN = {
    "constants": {"s": {"uniform": [0.1, 0.3]}, "m": {"uniform": [0.0, 0.1]}},
    "model": {"type": "GBM", "mu": "m", "sigma": "s"},
    "uncertainty": {"method": "sobol", "points": 64, "paths": 256, "replicates": 4},
}


@pytest.mark.more
@pytest.mark.parametrize("study", ["sensitivity", "uncertainty"])
def test_studies_are_bounded_as_runs_are(study):
    """The bits are those without a bound, by which chunks and blocks of points are smaller."""
    ensemble = {"paths": 20_000, "seed": 7, "devices": 1, "threads": 1}
    experiment = GBM | {"ensemble": ensemble, "sensitivity": {"wrt": ["sigma"]}, "save": {"points": 1}}
    experiment = experiment | UNCERTAIN if study == "uncertainty" else experiment
    run = getattr(simkit, study)
    with pytest.raises(InputError, match=r"memory: 700MB are too little: jax takes 700MB, and this run"):
        run(experiment, overrides={"ensemble.memory": "0.7GB"})
    bounded = run(experiment, overrides={"ensemble.memory": "704MB"})
    assert bounded.drop_attrs().identical(run(experiment).drop_attrs())


def test_variants_run_one_after_the_other_and_need_no_more_than_one():
    """But for the paths that each of them stores."""
    own = GBM["ensemble"] | {"memory": "704MB"}
    variants = {f"v{i}": {"model.sigma": 0.1 + 0.01 * i} for i in range(20)}
    few = GBM | {"ensemble": own, "save": {"paths": 1}, "variants": variants}
    needed = estimate(simkit.load(GBM | {"ensemble": own, "save": {"paths": 1}}))["memory_bytes"]
    assert 20 * needed > 4 * 10**6 > needed
    assert len(simkit.run(few)["variant"]) == 20


@pytest.mark.more
@pytest.mark.user_code
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_a_run_takes_no_more_memory_than_it_may():
    """A hundred rows of a million paths: the default takes more than a GB, and less is asked for."""

    def peak(*overrides: str) -> int:
        command = [sys.executable, "-c", PEAK, *overrides]
        output = subprocess.run(command, capture_output=True, text=True, check=True, timeout=500)
        return 1024 * int(output.stdout)

    assert peak() > 10**9
    assert peak("ensemble.memory=850MB") < 850 * 10**6


class Small:
    """A machine in which programs for more than so many paths find no memory."""

    def __init__(self, most: int, monkeypatch):
        self.most, self.sizes = most, []

        def pretending(*requests):
            programs, seconds = compiled(*requests)

            def simulate(inputs, ids):
                self.sizes.append(ids.size)
                if ids.size > self.most:
                    raise RuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 8 bytes.")
                return programs[0](inputs, ids)

            return [simulate, *programs[1:]], seconds

        monkeypatch.setattr("simkit.ensemble.run.compiled", pretending)


@pytest.mark.parametrize("chunk", [8192, 12_288])
def test_smaller_chunks_are_tried_with_the_same_bits(monkeypatch, chunk):
    whole = simkit.run(GBM)
    machine = Small(2 * LEAF, monkeypatch)
    said = r"chunks of [\d,]+ paths did not fit into memory; going on with \d,\d+$"
    with pytest.warns(UserWarning, match=said) as caught:
        result = simkit.run(GBM, overrides={"ensemble.chunk": chunk})
    assert result.drop_attrs().identical(whole.drop_attrs())
    assert f"chunks of {chunk:,} paths" in str(caught[0].message)
    assert machine.sizes[0] == chunk
    assert machine.sizes[-1] <= 2 * LEAF


def test_single_leaves_that_do_not_fit_end_the_run(monkeypatch):
    Small(LEAF - 1, monkeypatch)
    with (
        pytest.warns(UserWarning, match="did not fit into memory"),
        pytest.raises(OutOfMemoryError, match="not enough memory"),
    ):
        simkit.run(GBM)


def test_what_was_done_before_memory_ran_out_is_not_done_again(monkeypatch, tmp_path):
    """Here after two chunks of large size; a record has what both sizes did."""
    whole = simkit.run(GBM)
    machine = Small(10**9, monkeypatch)

    def shrinking(done: int, total: int) -> None:
        machine.most = LEAF if done >= 8192 else machine.most

    record = Recording(tmp_path / "record", {})
    with recording(record), pytest.warns(UserWarning, match="did not fit into memory"):
        result = simkit.run(GBM, progress=shrinking)
    assert result.drop_attrs().identical(whole.drop_attrs())
    sizes = [size for size in machine.sizes if size == LEAF]
    assert np.sum(sizes) <= 20_000 - 8192 + LEAF


def test_a_chunk_is_not_added_twice_where_memory_ends_while_it_is_added(monkeypatch):
    """Its statistics would count it twice."""
    store, calls = Accumulator._store, []

    def failing(self, *arguments):
        calls.append(1)
        if len(calls) == 1:
            raise MemoryError
        store(self, *arguments)

    monkeypatch.setattr(Accumulator, "_store", failing)
    with pytest.raises(OutOfMemoryError, match=r"not enough memory.*store fewer paths"):
        simkit.run(GBM)


def test_another_error_is_raised_at_once(monkeypatch):
    machine = Small(10**9, monkeypatch)

    def failing(done: int, total: int) -> None:
        raise RuntimeError("of another kind")

    with pytest.raises(RuntimeError, match=re.escape("of another kind")):
        simkit.run(GBM, progress=failing)
    assert {*machine.sizes} == {8192}


@pytest.mark.parametrize(("much", "said"), [(10**5, True), (10**9, False)])
def test_a_run_that_takes_much_memory_says_so_at_its_start(monkeypatch, tmp_path, much, said):
    monkeypatch.setattr("simkit.cli.run.MUCH", much)
    (tmp_path / "gbm.yaml").write_text(yaml.safe_dump(GBM))
    result = simkit_command("run", str(tmp_path / "gbm.yaml"))
    assert ("B of memory in addition to jax" in result.stderr) == said
    quiet = simkit_command("run", str(tmp_path / "gbm.yaml"), "--quiet")
    assert not quiet.stderr
