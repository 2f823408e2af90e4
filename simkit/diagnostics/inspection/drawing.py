"""A graph as a picture, drawn with matplotlib: nobody needs Graphviz."""

from pathlib import Path as File
from typing import TYPE_CHECKING, Any

from simkit.diagnostics.inspection.graph import COLOURS, Graph
from simkit.diagnostics.inspection.layout import layout
from simkit.errors import OutputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LETTER = 0.078  # inches, at 9 points
ROW = 0.42
HEIGHT = 0.28
GAP = 0.55  # between layers, for the edges
MARGIN = 0.2
LARGEST = 600  # nodes


class _Places:
    """Where the boxes of nodes are, in inches, and the lines between them."""

    def __init__(self, graph: Graph):
        self.plan = plan = layout(graph)
        self.widths = {node.name: LETTER * len(node.label) + 0.24 for node in graph.nodes}
        self.widest = [0.0] * plan.layers
        for name, (layer, _) in plan.places.items():
            self.widest[layer] = max(self.widest[layer], self.widths[name])
        self.lefts = [MARGIN + sum(self.widest[:i]) + i * GAP for i in range(plan.layers)]
        bends = (height for bends in plan.bends.values() for _, height in bends)
        heights = [*(height for _, height in plan.places.values()), *bends]
        self.lowest = min(heights, default=0.0)
        self.size = (
            self.lefts[-1] + self.widest[-1] + MARGIN if self.lefts else 1.0,
            (max(heights, default=0.0) - self.lowest) * ROW + HEIGHT + 2 * MARGIN,
        )

    def y(self, height: float) -> float:
        """Where a row is."""
        return self.size[1] - MARGIN - HEIGHT / 2 - (height - self.lowest) * ROW

    def centre(self, name: str) -> tuple[float, float]:
        """The middle of a node's box."""
        layer, height = self.plan.places[name]
        return self.lefts[layer] + self.widest[layer] / 2, self.y(height)

    def points(self, a: str, b: str) -> list[tuple[float, float]]:
        """The ends of the curves that an edge is made of, with straight lines between one and the next."""
        (start, first), (end, last) = self.centre(a), self.centre(b)
        points = [(start + self.widths[a] / 2, first)]
        for layer, height in self.plan.bends[a, b]:
            left, y = self.lefts[layer], self.y(height)
            points += [(left, y), (left + self.widest[layer], y)]
        return [*points, (end - self.widths[b] / 2, last)]


def figure_of(graph: Graph) -> "Figure":
    """The picture, from left to right. Raises `ValueError` for more than 600 nodes."""
    from matplotlib.figure import Figure

    if len(graph.nodes) > LARGEST:
        raise ValueError(f"a graph of {len(graph.nodes)} nodes is too large to draw; at most {LARGEST}")
    places = _Places(graph)
    figure = Figure(figsize=places.size)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, places.size[0]), ylim=(0, places.size[1]))
    axes.axis("off")
    for a, b in places.plan.bends:
        axes.add_patch(_arrow(places.points(a, b)))
    for node in graph.nodes:
        x, y = places.centre(node.name)
        axes.add_patch(_box(x, y, places.widths[node.name], COLOURS[node.kind]))
        axes.text(x, y, node.label, ha="center", va="center", fontsize=9, zorder=4)
    return figure


def _arrow(points: list[tuple[float, float]]) -> Any:
    from matplotlib.patches import FancyArrowPatch
    from matplotlib.path import Path

    vertices, codes = [points[0]], [Path.MOVETO]
    for i in range(0, len(points) - 1, 2):
        (x0, y0), (x1, y1) = points[i], points[i + 1]
        half = (x1 - x0) / 2
        vertices += [(x0 + half, y0), (x1 - half, y1), (x1, y1)]
        codes += [Path.CURVE4] * 3
        if i + 2 < len(points):
            vertices.append(points[i + 2])
            codes.append(Path.LINETO)
    path = Path(vertices, codes)
    return FancyArrowPatch(path=path, arrowstyle="-|>", mutation_scale=7, lw=0.8, color="#888888")


def _box(x: float, y: float, width: float, colour: str) -> Any:
    from matplotlib.patches import FancyBboxPatch

    corner = (x - width / 2 + 0.05, y - HEIGHT / 2 + 0.05)
    style = {"boxstyle": "round,pad=0.05", "edgecolor": "#555555", "lw": 0.8, "zorder": 3}
    return FancyBboxPatch(corner, width - 0.1, HEIGHT - 0.1, facecolor=colour, **style)


def save_graph(graph: Graph, path: File) -> None:
    """Write the picture; the ending of the name says which kind. Raises `OutputError`, also if too large."""
    import matplotlib as mpl

    try:
        with mpl.rc_context({"svg.hashsalt": "simkit", "svg.fonttype": "path"}):
            figure_of(graph).savefig(
                path, metadata={"Date": None} if path.suffix == ".svg" else None, dpi=150
            )
    except (OSError, ValueError) as error:
        raise OutputError(f"{path}: {error}") from error
