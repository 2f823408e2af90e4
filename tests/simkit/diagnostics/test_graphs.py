"""Graphs of models and operations: their nodes and edges, and how they are drawn."""

import itertools
import xml.etree.ElementTree as ET

import pytest
from checkout import EXAMPLES
from hypothesis import given, settings
from hypothesis import strategies as st
from inspected_examples import GBM, KINDS

from simkit import OutputError, load
from simkit.diagnostics.inspection.drawing import save_graph
from simkit.diagnostics.inspection.graph import Graph, Node
from simkit.diagnostics.inspection.layout import layout
from simkit.diagnostics.inspection.model_graph import model_graph
from simkit.diagnostics.inspection.operation_graph import operation_graph
from simkit.engines.loaded import load_each

FILES = sorted(
    path
    for path in EXAMPLES.rglob("*.yaml")
    if path.stem != "uncertainty" and path.parent.name != "particles"
)


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
