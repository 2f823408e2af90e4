"""Parts of an ensemble, each run by itself, join to the bits of one run; others are refused."""

import itertools
import re
import shutil
from types import SimpleNamespace

import pytest
import yaml
from command import EXPERIMENT, files_in, simkit_command
from ensemble_examples import gbm
from hypothesis import given
from hypothesis import strategies as st

import simkit
from simkit.cluster.parts import EVEN, EnsemblePart, Joined, write_part
from simkit.ensemble.accumulator import Accumulator, Total
from simkit.ensemble.chunks import LEAF, Chunks

# Some paths fail, in two of the parts; stored paths and those of the step bias end in the second.
PARTS_OF = yaml.safe_load(EXPERIMENT) | {
    "ensemble": {"paths": 9 * LEAF + 5, "seed": 1, "chunk": LEAF, "failures": "exclude"},
    "observe": {"root": "sqrt(S - 52)"},
    "save": {"paths": 5000, "points": 2},
}


@given(st.integers(1, 400), st.integers(1, 40), st.integers(1, 40), st.integers(1, 8))
def test_chunks_of_a_part_are_full_but_at_the_end_of_all(leaves, chunk, count, workers):
    """Empty leaves in the middle would move those behind them."""
    simulation, count = gbm(leaves * LEAF - 7, 1), min(count, leaves)
    for number in range(1, count + 1):
        part = EnsemblePart(number, count).paths_of(simulation)
        plan = Chunks(simulation.paths, chunk, LEAF).of_part(part, workers)
        chunks = [*plan]
        assert [c.first for c in chunks] == [*range(part.start, part.stop, plan.paths)]
        assert all(c.count == plan.paths for c in chunks if c.first + c.count < simulation.paths)
        assert plan.leaves <= max(1, -(-len(part) // LEAF) // workers)


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A folder with an experiment of five parts' worth of paths, in variants."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.yaml").write_text(yaml.safe_dump(PARTS_OF))
    return tmp_path


@given(st.integers(1, 4000), st.integers(1, 300), st.integers(0, LEAF - 1))
def test_parts_have_each_path_once_and_are_of_a_size(leaves, count, short):
    simulation = gbm(leaves * LEAF - short, 1)
    if count > leaves:
        with pytest.raises(simkit.InputError, match=r"blocks? of 2048, and a part has one at least"):
            EnsemblePart(1, count).paths_of(simulation)
        return
    parts = [EnsemblePart(number, count).paths_of(simulation) for number in range(1, count + 1)]
    assert (parts[0].start, parts[-1].stop) == (0, simulation.paths)
    assert all(a.stop == b.start and not b.start % LEAF for a, b in itertools.pairwise(parts))
    most = -(-leaves // count) * (1 + 2 / EVEN) + 1
    assert all(0 < len(part) <= most * LEAF for part in parts)


OTHERS = {
    "one": {},
    "variants": {"variants": {"calm": {"model.sigma": 0.15}, "wild": {"model.sigma": 0.3}}},
    "adaptive": {"time": {"t1": 1.0, "rtol": 0.03, "atol": 1e-3}},
    "importance": {
        "ensemble": PARTS_OF["ensemble"] | {"variance_reduction": {"importance": {"of": "root"}}},
        "save": {"points": 2},
    },
}


@pytest.mark.parametrize(
    "which",
    ["one", *(pytest.param(name, marks=pytest.mark.more) for name in ("variants", "adaptive", "importance"))],
)
def test_parts_join_to_the_bits_of_one_run(small, which):
    (small / "small.yaml").write_text(yaml.safe_dump(PARTS_OF | OTHERS[which]))
    for part in ("2/4", "1/4", "4/4", "3/4"):
        done = simkit_command("run", "small.yaml", "--part", part)
        assert done.exit_code == 0, done.output
    assert files_in(small) == {"small.yaml", *(f"small.zarr.part-{i}-of-4" for i in range(1, 5))}
    files = [f"small.zarr.part-{i}-of-4" for i in (3, 1, 4, 2)]
    merged = simkit_command("merge", "small.yaml", *files)
    assert merged.exit_code == 0, merged.output
    joined = simkit.read_dataset("small.zarr")
    whole = simkit.run("small.yaml", out="whole.zarr")
    assert joined.drop_attrs().identical(whole.drop_attrs())
    counted = ("failed_paths", "accepted_steps_mean", "accepted_steps_max", "rejected_steps_max")
    here, there = ({key: one.attrs.get(key) for key in counted} for one in (whole, joined))
    assert here == there
    assert which == "variants" or here["failed_paths"] > 0


def test_a_part_that_was_stopped_is_resumed(small, monkeypatch):
    monkeypatch.setenv("SIMKIT_RECORD_EVERY", "0")
    for part in ("1/2", "2/2"):
        assert simkit_command("run", "small.yaml", "--part", part).exit_code == 0
    shutil.move("small.zarr.part-1-of-2", "whole")
    added, add_chunk = [], Accumulator.add_chunk

    def add(self, *arguments):
        added.append(1)
        if len(added) == 3:
            raise KeyboardInterrupt
        add_chunk(self, *arguments)

    monkeypatch.setattr(Accumulator, "add_chunk", add)
    assert simkit_command("run", "small.yaml", "--part", "1/2").exit_code == 75
    for options, code, message in [
        ([], 4, "an earlier run was stopped before its end; finish it with --resume"),
        (["--resume", "--overwrite"], 2, "give one; --overwrite starts anew"),
    ]:
        refused = simkit_command("run", "small.yaml", "--part", "1/2", *options)
        assert (refused.exit_code, message in refused.stderr) == (code, True), refused.stderr
    assert simkit_command("run", "small.yaml", "--part", "1/2", "--resume").exit_code == 0
    assert len(added) == 3 + 3  # of five chunks
    again = simkit_command("run", "small.yaml", "--part", "1/2", "--resume")
    assert (again.exit_code, len(added)) == (0, 6)
    assert "small.zarr.part-1-of-2: is complete already" in again.stderr
    datasets = []
    for first in ("small.zarr.part-1-of-2", "whole"):
        parts = first, "small.zarr.part-2-of-2"
        merged = simkit_command("merge", "small.yaml", *parts, "--out", "joined.zarr", "--overwrite")
        assert merged.exit_code == 0, merged.output
        datasets.append(simkit.read_dataset("joined.zarr").drop_attrs().load())
    assert datasets[0].identical(datasets[1])


def test_a_part_that_is_there_is_complete_only_if_it_is_whole_and_of_this_run(small):
    file = small / "small.zarr.part-1-of-2"
    assert simkit_command("run", "small.yaml", "--part", "1/2", "-q").exit_code == 0
    whole = file.read_bytes()
    shutil.copy(file, "small.zarr.part-2-of-2")
    for damage, number, changes, code, message in [
        (whole, 1, (), 0, "is complete already"),
        (whole[:-100], 1, (), 4, "its checksum is wrong, .*; to run this part anew use --overwrite"),
        (b"", 1, (), 4, "it does not begin as a record .*; to run this part anew use --overwrite"),
        (whole, 1, ("--set", "ensemble.seed=2"), 2, "of another run; .* --overwrite\n.*there `seed: 1`"),
        (whole, 2, (), 2, "part-2-of-2: is of another run; .*\npart: there 1/2, here 2/2"),
    ]:
        file.write_bytes(damage)
        again = simkit_command("run", "small.yaml", "--part", f"{number}/2", "--resume", *changes)
        assert again.exit_code == code, again.output
        assert re.search(message, again.stderr), again.stderr
        assert file.read_bytes() == damage


def test_what_does_not_belong_together_is_refused(small):
    for part in ("1/3", "2/3", "3/3", "1/2"):
        assert simkit_command("run", "small.yaml", "--part", part, "-q").exit_code == 0
    parts = [f"small.zarr.part-{number}-of-3" for number in (1, 2, 3)]
    shutil.copy(parts[0], "copy")
    damaged = bytearray((small / parts[1]).read_bytes())
    damaged[-100] ^= 1
    (small / "damaged").write_bytes(damaged)
    before = files_in(small)
    for arguments, code, message in [
        ([], 2, "there are parts of 2 and 3, which overlap"),
        (parts[:2], 2, "these parts are missing: 3/3; run them with --part 3/3"),
        ([*parts, "copy"], 2, "copy: is part 1/3, as small.zarr.part-1-of-3 is"),
        ([parts[0], "damaged", parts[2]], 4, "its checksum is wrong"),
        ([*parts[:2], "nowhere"], 4, "nowhere: no such file"),
        ([*parts, "--set", "ensemble.seed=2"], 2, "there `seed: 1`; here `seed: 2`"),
        ([*parts, "--set", "save.paths=1"], 2, "there `paths: 5000`; here `paths: 1`"),
    ]:
        refused = simkit_command("merge", "small.yaml", *arguments)
        assert refused.exit_code == code, refused.output
        assert message in " ".join(refused.stderr.split()), arguments
    for arguments, code, message in [
        (["--part", "1/3"], 4, "small.zarr.part-1-of-3: exists already; to replace it use --overwrite"),
        (["--part", "4/3"], 2, "must be a part and how many there are, such as 3/16 or 16/16, got '4/3'"),
        (["--part", "one"], 2, "must be a part and how many there are, such as 3/16 or 16/16, got 'one'"),
        (["--part", "1/11"], 2, "are simulated in 10 blocks of 2048, and a part has one at least"),
        (["--part", "1/5", "--set", "output=null"], 2, "give --out FILE.zarr, or output: in the file"),
        (["--part", "1/5", "--dry-run"], 2, "is for the whole run; leave --part out"),
    ]:
        refused = simkit_command("run", "small.yaml", *arguments)
        assert refused.exit_code == code, refused.output
        assert message in " ".join(refused.stderr.split()), arguments
    assert files_in(small) == before


def test_parts_made_by_another_version_are_refused(small, monkeypatch):
    for part in ("1/2", "2/2"):
        with monkeypatch.context() as other:
            if part == "2/2":
                other.setattr("simkit.records.same_run.__version__", "0.0.1")
            assert simkit_command("run", "small.yaml", "--part", part, "-q").exit_code == 0
    refused = simkit_command("merge", "small.yaml")
    assert refused.exit_code == 2
    assert refused.stderr.startswith(
        "small.zarr.part-2-of-2: is a part of another run\nversions: there simkit=0.0.1 "
    )
    assert not (small / "small.zarr").exists()


def test_merge_says_what_there_is_to_merge(small):
    refused = simkit_command("merge", "small.yaml")
    assert refused.exit_code == 2
    assert "no parts are beside small.zarr; `simkit run small.yaml --part 1/4` makes one" in refused.stderr


def test_totals_join_by_sums_and_the_larger_of_both():
    for one, other in ((Total(1, 2, 5), Total(3, 7, 4)), (Total(3, 7, 4), Total(1, 2, 5))):
        assert one.joined(other) == Total(4, 9, 5)


def test_of_molecular_dynamics_there_are_no_parts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert simkit_command("new", "lj_fluid").exit_code == 0
    before = files_in(tmp_path)
    for command in (["run", "lj_fluid.yaml", "--part", "1/2"], ["merge", "lj_fluid.yaml"]):
        refused = simkit_command(*command, "--out", "fluid.zarr")
        assert refused.exit_code == 2
        assert "molecular dynamics cannot be run in parts, nor merged" in refused.stderr
    assert files_in(tmp_path) == before


def test_the_time_of_parts_is_the_sum_of_their_times():
    simulation = gbm(2 * LEAF, 4)
    parts = [(EnsemblePart(number, 2), ("state", 1.5 * number)) for number in (1, 2)]
    joined: list[tuple[int, int]] = []
    accumulator = SimpleNamespace(join=lambda chunk, state: joined.append((chunk.first, chunk.count)))
    plan = SimpleNamespace(leaves=1, lanes=1)
    assert Joined(iter([parts]))(simulation, accumulator, plan, None) == 4.5  # pyright: ignore[reportArgumentType]
    assert joined == [(0, LEAF), (LEAF, LEAF)]


def test_of_a_part_that_is_written_again_nothing_of_before_is_left(tmp_path):
    """A record keeps the one before, and what is complete has no use of it."""
    for state in (1, 2):
        write_part(tmp_path / "a.part-1-of-2", {"seed": "1"}, EnsemblePart(1, 2), [state])
    assert files_in(tmp_path) == {"a.part-1-of-2"}
