"""Inspecting a run: what its report, its files and the command show."""

import dataclasses
import errno
import json
import os
from pathlib import Path

import jax
import pytest
from checkout import EXAMPLES
from inspected_examples import GBM, KINDS
from typer.testing import CliRunner

import simkit
from simkit import InputError, load
from simkit.cli import app
from simkit.diagnostics.inspection.inspection import steps_per_iteration
from simkit.diagnostics.inspection.loops import step_loop
from simkit.diagnostics.inspection.model_graph import model_graph
from simkit.diagnostics.inspection.report import as_dict, text, write
from simkit.ensemble import programs
from simkit.ensemble.run import chunk_plan, chunk_requests

LANES = 64


@pytest.fixture(scope="module")
def inspected():
    return simkit.inspect(GBM | {"precision": "float32"})


def test_a_step_of_gbm_is_a_fraction_of_one_kernel(inspected):
    step = inspected.step
    assert step.steps_per_iteration == 4  # as many words as a block takes in float32
    # S and the sum of its mean travel as one complex number, what rounding took from the sum by itself.
    assert (step.path_kernels, step.loops_inside, step.paths) == (2, 0, LANES)
    assert step.kernels_per_step == 0.5
    # Threefry with 20 rounds for two normals, of which a step takes one; each of the two kernels draws it.
    assert 2 * 60 < step.integer < 2 * 70
    assert sum(loop.steps for loop in inspected.loops) == 1
    loop = step_loop(inspected.loops)
    assert loop is not None
    assert loop.trips == 64 // 4


def test_all_texts_and_figures_are_there(inspected, tmp_path):
    program = inspected.programs["simulation"]
    assert "threefry" in program.jaxpr
    assert "stablehlo.while" in program.stablehlo
    assert program.hlo.startswith("HloModule")
    assert program.memory.arguments > 0
    assert min(program.trace_s, program.lower_s, program.compile_s) > 0
    result = as_dict(inspected)
    assert json.loads(json.dumps(result)) == result
    assert result["step"]["kernels_per_step"] == 0.5
    said = text(inspected)
    assert "0.5 per step" in said
    assert "drift of S <- mu, S" in said
    written = write(inspected, tmp_path / "inside")
    assert {path.name for path in written} == {path.name for path in (tmp_path / "inside").iterdir()}
    assert (tmp_path / "inside" / "hlo.txt").read_text("utf-8") == program.hlo


def test_what_is_inspected_is_what_a_run_compiles():
    decay = {
        "model": {"ode": {"x": "-x"}},
        "initial": {"x": 1.0},
        "time": {"t1": 1.0, "steps": 3},
        "ensemble": {"devices": 1},
        "precision": "float32",
    }
    simkit.run(decay)
    simulation = load(decay)
    with jax.enable_x64(True):
        requests = chunk_requests(simulation, chunk_plan(simulation))
        keys = [request.key for request in requests]
        assert all(key in programs._cache for key in keys)
        other = dataclasses.replace(simulation, precision="float64")
        requests = chunk_requests(other, chunk_plan(other))
        assert not any(request.key in keys for request in requests)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_the_loop_over_steps_is_found_in_every_kind_of_run(kind):
    experiment = {"ensemble": {"paths": 64, "devices": 1}} | KINDS[kind]
    result = simkit.inspect(experiment)
    assert result.step is not None
    assert result.step.kernels > 0
    assert result.step.floating + result.step.integer > 0
    assert result.step.steps_per_iteration == (2 if kind == "ordinary" else 1)
    assert json.dumps(as_dict(result))


@pytest.mark.parametrize(("precision", "steps"), [("float32", 4), ("float64", 8)])
def test_steps_per_iteration_follow_the_block_of_the_integrator(precision, steps):
    assert steps_per_iteration(load(GBM | {"precision": precision})) == steps


def test_the_command_writes_graphs_and_does_not_overwrite(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arguments = ["inspect", str(EXAMPLES / "gbm.yaml"), "--what", "graph", "--out", "inside"]
    first = CliRunner().invoke(app, arguments)
    assert first.exit_code == 0, first.output
    names = {"report.json", "graph.dot", "graph.svg", "operations.dot", "operations.svg"}
    assert {path.name for path in Path("inside").iterdir()} == names
    before = Path("inside/report.json").stat().st_mtime_ns
    again = CliRunner().invoke(app, arguments)
    assert again.exit_code == 4
    assert "exists already; to replace it use --overwrite" in again.output
    assert Path("inside/report.json").stat().st_mtime_ns == before
    assert CliRunner().invoke(app, [*arguments, "--overwrite"]).exit_code == 0


def test_what_is_not_there_and_where_nothing_can_be_written_is_said_before(tmp_path, monkeypatch):
    def read_only(**place):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr("simkit.diagnostics.inspection.inspection.inspect", None)
    monkeypatch.setattr("tempfile.mkdtemp", read_only)
    (tmp_path / "file").touch()
    for arguments, code, message in [
        (["--what", "graf"], 2, "--what: there is no part 'graf'; did you mean 'graph'?\n"),
        (["--out", f"{tmp_path}/file/inside"], 4, "/file is not a directory; choose another output\n"),
        (["--out", f"{tmp_path}/a/inside"], 4, f"{tmp_path}: Read-only file system; choose another output\n"),
    ]:
        outcome = CliRunner().invoke(app, ["inspect", str(EXAMPLES / "gbm.yaml"), *arguments])
        assert (outcome.exit_code, outcome.stderr[-len(message) :]) == (code, message)


@pytest.mark.parametrize(
    ("paths", "line"), [(1, "1 path in 1 chunk of 64, "), (1000, "1,000 paths in 16 chunks of 64, ")]
)
def test_paths_and_chunks_are_counted_separately(inspected, paths, line):
    inspection = dataclasses.replace(inspected, paths=paths, chunks=-(-paths // 64), paths_per_chunk=64)
    assert text(inspection, ("memory",)).startswith(line)


def test_one_variant_is_requested():
    variants = GBM | {"variants": {"calm": {"model.sigma": 0.1}, "wild": {"model.sigma": 0.9}}}
    with pytest.raises(InputError, match="choose --variant of calm, wild"):
        simkit.inspect(variants, compiling=False)
    result = simkit.inspect(variants, variant="calm", compiling=False)
    assert result.programs == {}
    assert result.model == model_graph(load(GBM))
