"""Looking inside a run: programs read as loops and kernels, graphs, and the command."""

import dataclasses
import errno
import itertools
import json
import os
import xml.etree.ElementTree as ET
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest
from checkout import EXAMPLES
from hypothesis import given, settings
from hypothesis import strategies as st
from simkit_solvers.numerics.scopes import STEPS
from typer.testing import CliRunner

import simkit
from simkit import InputError, OutputError, load
from simkit.cli import app
from simkit.diagnostics.inspection.drawing import save_graph
from simkit.diagnostics.inspection.flat import flat, influences
from simkit.diagnostics.inspection.graph import Graph, Node
from simkit.diagnostics.inspection.hlo import Work, parse, work_of
from simkit.diagnostics.inspection.inspection import steps_per_iteration
from simkit.diagnostics.inspection.layout import layout
from simkit.diagnostics.inspection.loops import loops_of, step_loop
from simkit.diagnostics.inspection.model_graph import model_graph
from simkit.diagnostics.inspection.operation_graph import operation_graph
from simkit.diagnostics.inspection.report import as_dict, text, write
from simkit.engines.loaded import load_each
from simkit.ensemble import programs
from simkit.ensemble.run import chunk_plan, chunk_requests

FILES = sorted(
    path
    for path in EXAMPLES.rglob("*.yaml")
    if path.stem != "uncertainty" and path.parent.name != "particles"
)
GBM = {
    "constants": {"r": 0.05},
    "model": {"type": "GBM", "mu": "r", "sigma": 0.2},
    "initial": {"S": 100.0},
    "time": {"t1": 1.0, "steps": 64},
    "ensemble": {"paths": 64, "seed": 1, "devices": 1},
    "observe": {"call": "exp(-r*t) * maximum(S - 100, 0)", "asian": "mean(S)"},
}
LANES = 64


def hand_made(kernels: int):
    """A loop of 7 iterations, each of which changes as many arrays, in a different way each."""

    def function(arrays):
        @jax.named_scope(STEPS)
        def body(carry, _):
            return [jnp.sin(x) * (1.0 + i) + 0.25 for i, x in enumerate(carry)], None

        return jax.lax.scan(body, arrays, None, length=7)[0]

    arrays = [jnp.linspace(0, 1, LANES) + i for i in range(kernels)]
    return jax.jit(function).lower(arrays).compile()


@pytest.mark.parametrize("kernels", [1, 3])
def test_the_kernels_of_a_loop_made_by_hand_are_counted(kernels):
    compiled = hand_made(kernels)
    (loop,) = loops_of(parse(compiled.as_text()), LANES)
    assert (loop.trips, loop.steps, loop.depth) == (7, True, 0)
    # XLA may make one kernel of all arrays, but each has its own sine, product and sum.
    assert 1 <= loop.path_kernels <= kernels
    assert loop.work.transcendental == kernels * LANES
    assert loop.work.floating == (2 * kernels - 1) * LANES  # the product with 1.0 is none


def test_operations_without_a_loop_are_those_that_xla_counts():
    def function(x, n):
        return jnp.exp(x) * x - jnp.sqrt(x) / (1.5 + jnp.tanh(x)), (n ^ (n >> 3)) + n

    arguments = jnp.linspace(0.1, 1, LANES), jnp.arange(LANES, dtype=jnp.uint32)
    compiled = jax.jit(function).lower(*arguments).compile()
    module = parse(compiled.as_text() or "")
    work = work_of(module, list(module.computations[module.entry]))
    cost = compiled.cost_analysis()
    assert work == Work(floating=4 * LANES, integer=3 * LANES, transcendental=3 * LANES)
    assert work.floating + work.integer == cost["flops"]
    assert work.transcendental == cost["transcendentals"]


def test_a_text_that_is_no_program_is_refused():
    with pytest.raises(ValueError, match="no ENTRY"):
        parse("HloModule nothing")


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


KINDS = {
    "ordinary": {
        "model": {"ode": {"x": "v", "v": "-x"}},
        "initial": {"x": 1.0, "v": {"uniform": [0, 1]}},
        "time": {"t1": 1.0, "steps": 40},
    },
    "adaptive": {
        "model": {"ode": {"x": "v", "v": "-x"}},
        "initial": {"x": 1.0, "v": {"uniform": [0, 1]}},
        "time": {"t1": 1.0, "rtol": 1e-6, "atol": 1e-6},
    },
    "adaptive_sde": GBM | {"time": {"t1": 1.0, "rtol": 1e-2, "atol": 1e-2}, "observe": {}},
    "jumps": {
        "model": {"type": "ImmigrationDeath", "alpha": 2.0, "mu": 1.0},
        "initial": {"X": 3},
        "time": {"t1": 1.0},
    },
}


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


def is_sorted(graph: Graph) -> bool:
    place = {node.name: i for i, node in enumerate(graph.nodes)}
    return all(place[a] < place[b] for a, b in graph.edges) and len(place) == len(graph.nodes)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_graphs_of_every_example_are_in_topological_order(path):
    simulation = next(iter(load_each(path).each.values()))
    model, operations = model_graph(simulation), operation_graph(simulation)
    assert is_sorted(model)
    assert is_sorted(operations)
    kinds = {node.kind for node in model.nodes}
    assert {"variable", "next", "term"} <= kinds
    assert {node.label for node in model.nodes if node.kind == "observable"} == set(simulation.observables)
    ends = {b for _, b in operations.edges} - {a for a, _ in operations.edges}
    assert ends <= {node.name for node in operations.nodes if node.kind == "next"}


def test_the_graph_of_a_model_has_exactly_its_dependencies():
    experiment = {
        "constants": {"r": 0.05, "K": 1.0, "idle": 2.0},
        "model": {
            "sde": {
                "x": {"drift": "a*v + 0*0", "noise": {"W": "b*x"}},
                "v": {"drift": "where(t > 1, 1, 2)"},
            },
            "parameters": {"a": "2*r", "b": 0.5},
        },
        "initial": {"x": 1.0, "v": "idle"},
        "time": {"t1": 1.0, "steps": 8},
        "observe": {"far": "K * max(x*v) + x"},
    }
    graph = model_graph(load(experiment))
    assert {(a, b) for a, b in graph.edges} == {
        ("constant r", "parameter a"),
        ("parameter a", "term drift of x"),
        ("variable v", "term drift of x"),
        ("time t", "term drift of v"),
        ("parameter b", "term noise of x"),
        ("variable x", "term noise of x"),
        ("noise dW", "term noise of x"),
        ("term drift of x", "next x"),
        ("term noise of x", "next x"),
        ("variable x", "next x"),
        ("term drift of v", "next v"),
        ("variable v", "next v"),
        ("next x", "functional max(x * v)"),
        ("next v", "functional max(x * v)"),
        ("functional max(x * v)", "observable far"),
        ("constant K", "observable far"),
        ("next x", "observable far"),
    }


def test_events_of_all_kinds_stand_in_the_graph():
    """With edges from their conditions and values; variables that none sets are read after the step."""
    experiment = {
        "constants": {"c": 0.5},
        "model": {
            "ode": {"x": "-a*x", "v": "-v", "unset": 1},
            "parameters": {"a": 1.0, "b": 2.0},
        },
        "initial": {"x": 1.0, "v": 1.0, "unset": 0.0},
        "time": {"t1": 2.0, "rtol": 1e-6, "atol": 1e-6},
        "events": {
            "kick": {"when": "x < b/4", "set": {"v": "v + 0*x"}},
            "dose": {"at": 1.0, "set": {"x": "x + c*t"}},
        },
        "observe": {"sum": "x + unset"},
    }
    edges = set(model_graph(load(experiment)).edges)
    assert {edge for edge in edges if any("event" in end or "settled" in end for end in edge)} == {
        ("next x", "event kick"),
        ("parameter b", "event kick"),
        ("next v", "event kick"),
        ("event kick", "settled v"),
        ("next v", "settled v"),
        ("next x", "event dose"),
        ("constant c", "event dose"),
        ("time t", "event dose"),
        ("event dose", "settled x"),
        ("next x", "settled x"),
        ("settled x", "observable sum"),
    }
    assert ("next unset", "observable sum") in edges


def test_a_network_event_by_event_has_its_reactions():
    graph = model_graph(load(KINDS["jumps"] | {"ensemble": {"paths": 2}}))
    rates = {node.label for node in graph.nodes if node.kind == "term"}
    assert rates == {"rate of immigration", "rate of death"}
    assert set(graph.before("next X")) == {"variable X", *(f"term {rate}" for rate in rates)}
    assert "variable X" in graph.before("term rate of death")
    assert "variable X" not in graph.before("term rate of immigration")


def test_influences_go_through_calls_and_not_through_what_is_unused():
    def function(a, b, c):
        twice = jax.jit(lambda x, unused: 2 * x)
        last, _ = jax.lax.scan(lambda s, _: (s + b, None), a, None, length=2)
        return twice(a, c), jnp.zeros_like(c), last, jax.checkpoint(jnp.sin)(c)

    ones = [jnp.ones(())] * 3
    result = influences(flat(jax.make_jaxpr(function)(*ones)))
    assert result == [{0}, frozenset(), {0, 1}, {2}]


@st.composite
def graphs(draw):
    count = draw(st.integers(1, 12))
    nodes = [Node(f"n{i}", f"n{i}", "operation") for i in range(count)]
    pairs = [(i, j) for i in range(count) for j in range(i + 1, count)]
    edges = draw(st.lists(st.sampled_from(pairs), max_size=20)) if pairs else []
    shuffled = draw(st.permutations(nodes))
    return Graph.of(shuffled, [(f"n{i}", f"n{j}") for i, j in edges])


@given(graphs())
def test_edges_lead_to_later_layers_and_nothing_overlaps(graph):
    assert is_sorted(graph)
    plan = layout(graph)
    for (a, b), bends in plan.bends.items():
        layers = [plan.places[a][0], *(layer for layer, _ in bends), plan.places[b][0]]
        assert layers == list(range(layers[0], layers[-1] + 1))
        assert len(layers) > 1
    everything = [*plan.places.values(), *(place for bends in plan.bends.values() for place in bends)]
    for layer in range(plan.layers):
        heights = sorted(height for own, height in everything if own == layer)
        assert all(b - a > 1 - 1e-9 for a, b in itertools.pairwise(heights))


def test_a_cycle_and_an_edge_to_nowhere_are_refused():
    nodes = [Node(name, name, "operation") for name in "ab"]
    with pytest.raises(ValueError, match="cycle"):
        Graph.of(nodes, [("a", "b"), ("b", "a")])
    with pytest.raises(ValueError, match="'c', which is not a node"):
        Graph.of(nodes, [("a", "c")])


@settings(max_examples=5)
@given(graphs())
def test_dot_has_every_node_and_edge(graph):
    lines = graph.dot().splitlines()
    assert sum(" -> " in line for line in lines) == len(graph.edges)
    assert sum("[label=" in line for line in lines) == len(graph.nodes)


def test_the_picture_is_the_same_file_every_time(tmp_path):
    graph = model_graph(load(GBM))
    for name in ("one.svg", "two.svg"):
        save_graph(graph, tmp_path / name)
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()
    assert ET.parse(tmp_path / "one.svg").getroot().tag.endswith("svg")
    too_many = Graph.of([Node(str(i), "", "operation") for i in range(601)], [])
    with pytest.raises(OutputError, match="601 nodes is too large"):
        save_graph(too_many, tmp_path / "large.svg")


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
