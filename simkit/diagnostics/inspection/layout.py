"""Where the nodes of a graph are drawn: in layers from left to right, so that few edges cross.

Nodes lie in the layer of their longest path, in stages by their kind, those without predecessors just before
what reads them; an edge over several layers has a bend in each. The barycentre heuristic gives
the order in a layer.
Reference: Sugiyama, Tagawa & Toda (1981), Methods for visual understanding of hierarchical system structures,
doi:10.1109/TSMC.1981.4308636.
"""

import dataclasses

from simkit.diagnostics.inspection.graph import Graph

# Kinds that lie behind each other, whatever their edges; within a stage edges decide.
STAGES = (
    ("constant",),
    ("parameter", "variable", "noise", "time"),
    ("term", "operation"),
    ("next",),
    ("event",),
    ("settled",),
    ("functional",),
    ("observable",),
)
SWEEPS = 24
SETTLING = 40


@dataclasses.dataclass(frozen=True)
class Layout:
    """Layer and height of each node, and the bends of each edge, as (layer, height)."""

    places: dict[str, tuple[int, float]]
    bends: dict[tuple[str, str], tuple[tuple[int, float], ...]]
    layers: int


def layers_of(graph: Graph) -> dict[str, int]:
    """The layer of each node: edges lead to later ones."""
    layer: dict[str, int] = {}
    for kinds in STAGES:
        first = 1 + max(layer.values(), default=-1)
        for node in graph.nodes:
            if node.kind in kinds:
                before = [layer[a] + 1 for a in graph.before(node.name)]
                layer[node.name] = max([first, *before])
    sources = {node.name for node in graph.nodes} - {b for _, b in graph.edges}
    for node in reversed(graph.nodes):
        read = [layer[b] for a, b in graph.edges if a == node.name]
        if node.name in sources and node.kind != "variable" and read:
            layer[node.name] = min(read) - 1
    return layer


def layout(graph: Graph) -> Layout:
    """Place the nodes: a height of 1 is the least distance of two in a layer."""
    layer = layers_of(graph)
    rows: list[list[str]] = [[] for _ in range(max(layer.values(), default=0) + 1)]
    for node in graph.nodes:
        rows[layer[node.name]].append(node.name)
    up: dict[str, list[str]] = {}
    down: dict[str, list[str]] = {}
    chains: dict[tuple[str, str], list[str]] = {}
    for a, b in graph.edges:
        chain = [f"{a}\n{b}\n{i}" for i in range(layer[a] + 1, layer[b])]  # a name that no node has
        for i, bend in enumerate(chain, layer[a] + 1):
            rows[i].append(bend)
        chains[a, b] = chain
        for one, other in zip([a, *chain], [*chain, b], strict=True):
            down.setdefault(one, []).append(other)
            up.setdefault(other, []).append(one)
    _order(rows, up, down)
    height = _heights(rows, up, down)
    where = {name: i for i, row in enumerate(rows) for name in row}
    return Layout(
        places={node.name: (layer[node.name], height[node.name]) for node in graph.nodes},
        bends={edge: tuple((where[bend], height[bend]) for bend in chain) for edge, chain in chains.items()},
        layers=len(rows),
    )


def _order(rows: list[list[str]], up: dict[str, list[str]], down: dict[str, list[str]]) -> None:
    """Sort each layer by the mean place of its neighbours, to and fro."""
    for sweep in range(SWEEPS):
        forwards = sweep % 2 == 0
        near = up if forwards else down
        for row in rows if forwards else reversed(rows):
            place = {name: i / max(1, len(each)) for each in rows for i, name in enumerate(each)}
            means = {
                name: sum(place[x] for x in near[name]) / len(near[name]) if near.get(name) else place[name]
                for name in row
            }
            row.sort(key=means.__getitem__)


def _heights(rows: list[list[str]], up: dict[str, list[str]], down: dict[str, list[str]]) -> dict[str, float]:
    """Heights in the given order, near those of the neighbours, with at least 1 between two."""
    height = {name: i - (len(row) - 1) / 2 for row in rows for i, name in enumerate(row)}
    for sweep in range(SETTLING):
        for row in rows if sweep % 2 else reversed(rows):
            wanted = []
            for name in row:
                near = [height[x] for x in (*up.get(name, ()), *down.get(name, ()))]
                wanted.append(sum(near) / len(near) if near else height[name])
            for name, result in zip(row, _spaced(wanted), strict=True):
                height[name] = result
    return height


def _spaced(wanted: list[float]) -> list[float]:
    """The nearest heights in the same order, with at least 1 between two (pooled neighbours)."""
    blocks: list[list[float]] = []  # sum of wanted - offset, count
    for i, height in enumerate(wanted):
        blocks.append([height - i, 1])
        while len(blocks) > 1 and blocks[-2][0] / blocks[-2][1] > blocks[-1][0] / blocks[-1][1]:
            total, count = blocks.pop()
            blocks[-1][0] += total
            blocks[-1][1] += count
    means = [total / count for total, count in blocks for _ in range(int(count))]
    return [mean + i for i, mean in enumerate(means)]
