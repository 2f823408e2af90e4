"""A directed graph without cycles, in topological order, and as a text for Graphviz."""

import dataclasses
import graphlib
import heapq
import json
from collections.abc import Iterable
from typing import Literal

Kind = Literal[
    "constant",
    "parameter",
    "time",
    "variable",
    "noise",
    "term",
    "next",
    "event",
    "settled",
    "functional",
    "observable",
    "operation",
]
COLOURS: dict[Kind, str] = {
    "constant": "#e8e8e8",
    "parameter": "#fde8c8",
    "time": "#e8e8e8",
    "variable": "#cfe3f7",
    "noise": "#f6d3d8",
    "term": "#ffffff",
    "next": "#9cc7ef",
    "event": "#ffffff",
    "settled": "#6fb0e8",
    "functional": "#eef6e6",
    "observable": "#cdeac0",
    "operation": "#ffffff",
}


@dataclasses.dataclass(frozen=True)
class Node:
    """Something that is given or computed; `name` is its own, `label` what is written on it."""

    name: str
    label: str
    kind: Kind


@dataclasses.dataclass(frozen=True)
class Graph:
    """Nodes in topological order: each edge leads from a node to one behind it.

    `Graph.of` puts them in order, and raises `ValueError` where there is a cycle or an edge to nowhere.
    """

    nodes: tuple[Node, ...]
    edges: tuple[tuple[str, str], ...]

    @staticmethod
    def of(nodes: Iterable[Node], edges: Iterable[tuple[str, str]]) -> "Graph":
        """The graph of these nodes and edges, each once; of several orders the one nearest to that given."""
        known = {node.name: node for node in nodes}
        links = tuple(dict.fromkeys(edges))
        missing = {end for link in links for end in link} - known.keys()
        if missing:
            raise ValueError(f"an edge ends at {min(missing)!r}, which is not a node")
        sorter = graphlib.TopologicalSorter(dict.fromkeys(known, ()))
        for source, target in links:
            sorter.add(target, source)
        try:
            sorter.prepare()
        except graphlib.CycleError as error:
            raise ValueError(f"a cycle goes through {min(error.args[1])!r}") from None
        names, ready, order = list(known), [], []
        places = {name: i for i, name in enumerate(names)}
        while sorter.is_active():
            for name in sorter.get_ready():
                heapq.heappush(ready, places[name])
            first = names[heapq.heappop(ready)]
            order.append(known[first])
            sorter.done(first)
        return Graph(tuple(order), links)

    def before(self, name: str) -> list[str]:
        """The nodes that have an edge to this one."""
        return [source for source, target in self.edges if target == name]

    def dot(self) -> str:
        """The graph in the language of Graphviz, from left to right."""
        lines = ["digraph simkit {", "  rankdir=LR;", '  node [shape=box, style="rounded,filled"];']
        for node in self.nodes:
            style = f'label={_quoted(node.label)}, fillcolor="{COLOURS[node.kind]}"'
            lines.append(f"  {_quoted(node.name)} [{style}];")
        lines += [f"  {_quoted(a)} -> {_quoted(b)};" for a, b in self.edges]
        return "\n".join([*lines, "}", ""])

    def as_dict(self) -> dict[str, list]:
        """Nodes in topological order and edges, as plain data."""
        return {
            "nodes": [dataclasses.asdict(node) for node in self.nodes],
            "edges": [list(e) for e in self.edges],
        }


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
