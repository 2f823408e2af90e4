"""A graph as a picture, drawn with matplotlib: nobody needs Graphviz."""

from pathlib import Path as File
from typing import TYPE_CHECKING

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


def figure_of(graph: Graph) -> "Figure":
    """The picture, from left to right. Raises `ValueError` for more than 600 nodes."""
    from matplotlib.figure import Figure
    from matplotlib.patches import FancyArrowPatch, FancyBboxPatch
    from matplotlib.path import Path

    if len(graph.nodes) > LARGEST:
        raise ValueError(f"a graph of {len(graph.nodes)} nodes is too large to draw; at most {LARGEST}")
    plan = layout(graph)
    widths = {node.name: LETTER * len(node.label) + 0.24 for node in graph.nodes}
    widest = [0.0] * plan.layers
    for name, (layer, _) in plan.places.items():
        widest[layer] = max(widest[layer], widths[name])
    lefts = [MARGIN + sum(widest[:i]) + i * GAP for i in range(plan.layers)]
    heights = [h for _, h in plan.places.values()] + [h for bends in plan.bends.values() for _, h in bends]
    top = max(heights, default=0.0)
    size = (
        lefts[-1] + widest[-1] + MARGIN if lefts else 1.0,
        (top - min(heights, default=0.0)) * ROW + HEIGHT + 2 * MARGIN,
    )

    def y(height: float) -> float:
        return size[1] - MARGIN - HEIGHT / 2 - (height - min(heights)) * ROW

    figure = Figure(figsize=size)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, size[0]), ylim=(0, size[1]))
    axes.axis("off")
    for (a, b), bends in plan.bends.items():
        (layer, height), (end, last) = plan.places[a], plan.places[b]
        middle = lefts[layer] + widest[layer] / 2
        points = [(middle + widths[a] / 2, y(height))]
        for place, at in bends:
            points += [(lefts[place], y(at)), (lefts[place] + widest[place], y(at))]
        points.append((lefts[end] + widest[end] / 2 - widths[b] / 2, y(last)))
        vertices, codes = [points[0]], [Path.MOVETO]
        for i in range(0, len(points) - 1, 2):
            (x0, y0), (x1, y1) = points[i], points[i + 1]
            half = (x1 - x0) / 2
            vertices += [(x0 + half, y0), (x1 - half, y1), (x1, y1)]
            codes += [Path.CURVE4] * 3
            if i + 2 < len(points):
                vertices.append(points[i + 2])
                codes.append(Path.LINETO)
        arrow = FancyArrowPatch(
            path=Path(vertices, codes), arrowstyle="-|>", mutation_scale=7, lw=0.8, color="#888888"
        )
        axes.add_patch(arrow)
    for node in graph.nodes:
        layer, height = plan.places[node.name]
        x, width = lefts[layer] + widest[layer] / 2, widths[node.name]
        axes.add_patch(
            FancyBboxPatch(
                (x - width / 2 + 0.05, y(height) - HEIGHT / 2 + 0.05),
                width - 0.1,
                HEIGHT - 0.1,
                boxstyle="round,pad=0.05",
                facecolor=COLOURS[node.kind],
                edgecolor="#555555",
                lw=0.8,
                zorder=3,
            )
        )
        axes.text(x, y(height), node.label, ha="center", va="center", fontsize=9, zorder=4)
    return figure


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
