"""The picture of a run of particles: the box, observables over time, and distribution functions."""

from typing import TYPE_CHECKING

from simkit.md.plots.box import draw_box
from simkit.md.plots.functions import panels_of
from simkit.md.plots.overlay import plot_overlay, size_text
from simkit.md.plots.time_rows import draw_row, time_rows
from simkit.results.plots.plot_layout import titled_figure
from simkit.results.variants import each_variant

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

WIDTH, ROW, PANEL = 11.0, 1.75, 3.6  # inches: of the figure, and the heights of a row over time and a panel
BOX = 4.4  # inches, at least


def plot_particles(dataset: "xr.Dataset") -> "Figure":
    """The particles at the end, next to what was measured over time; functions such as g(r) below.

    A single point has the particles alone. Variants are overlaid.
    """
    variants = each_variant(dataset)
    if "" not in variants:
        return plot_overlay(variants)
    rows = time_rows(dataset)
    panels = [panel for name in dataset.attrs["functions"].split() for panel in panels_of(dataset, name)]
    below = -(-len(panels) // 2)
    upper = max(ROW * len(rows), BOX)
    with titled_figure(
        _title(dataset), (WIDTH if rows or panels else 7.0, upper + PANEL * below + 0.6)
    ) as figure:
        blocks = figure.add_gridspec(
            1 + bool(below), 1, height_ratios=[upper, PANEL * below][: 1 + bool(below)]
        )
        top = blocks[0].subgridspec(1, 1 + bool(rows), width_ratios=[1, 1.25][: 1 + bool(rows)])
        draw_box(figure.add_subplot(top[0]), dataset)
        if rows:
            lines = top[1].subgridspec(len(rows), 1)
            for i, row in enumerate(rows):
                draw_row(figure.add_subplot(lines[i]), dataset, row, last=row is rows[-1])
        if below:
            grid = blocks[1].subgridspec(below, 2)
            for i, draw in enumerate(panels):
                alone = i == len(panels) - 1 and i % 2 == 0
                draw(figure.add_subplot(grid[i // 2, :] if alone else grid[divmod(i, 2)]))
    return figure


def _title(dataset: "xr.Dataset") -> str:
    a = dataset.attrs
    method = f"{a['solver']} ({a['ensemble']}), " if int(a["steps"]) else ""
    text = f"{a['potential']}, {method}{size_text(dataset)}"
    return f"{a['file']}: {text}" if a.get("file") else text
