"""The picture of a run: quantiles over time, sample paths, distributions at the end."""

from typing import TYPE_CHECKING, Any

import numpy as np

from simkit.progress import counted, steps_text
from simkit.results.plots.final_histograms import (
    bars_label,
    final_ends,
    final_means,
    final_percentages,
    is_boolean,
    scale_bars,
    write_fractions,
)
from simkit.results.plots.first_times import distribution_note
from simkit.results.plots.plot_layout import (
    BLUE,
    COLOURS,
    COLUMNS,
    GREY,
    VERMILION,
    Panels,
    arranged,
    has_only_means,
    label,
    rowless_note,
    run_name,
    say,
    shortened,
)
from simkit.results.plots.saved_rows import (
    FEW,
    SavedRows,
    draw_orbit,
    draw_paths,
    draw_rows,
    shade_errors,
    shade_rows,
)

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SAMPLES = 8
HEADING = 132  # letters over the width of a picture
MEANS: tuple[Any, ...] = (
    {"color": VERMILION, "linewidth": 2, "label": "mean", "zorder": 4},
    {"color": "black", "linewidth": 1.6, "linestyle": (0, (4, 3)), "label": "exact mean", "zorder": 5},
)


def plot_run(dataset: "xr.Dataset") -> "Figure":
    """A row for each quantity over time, a phase portrait of pairs, and final distributions of observables.

    What stands over time and which pairs, the run's `plot` section says. A single path is drawn as a curve,
    and so are means of weighted paths, without quantiles or distributions. Variants are laid over each other.
    """
    if "variant" in dataset.dims:
        from simkit.results.plots.plot_variants import plot_variants

        return plot_variants(dataset)
    single = has_only_means(dataset)

    def over_time(axes, name: str, first: bool) -> None:
        if single:
            _curve(axes, dataset, name)
        else:
            _fan(axes, dataset, name, first)

    return arranged(
        dataset,
        _title(dataset),
        Panels(
            over_time,
            sideways=lambda axes, name, extent: _sideways_histogram(axes, dataset, name, extent),
            phase_portrait=lambda axes, pairs: _phase_portrait(axes, dataset, pairs),
            distribution=lambda axes, name: _histogram(axes, dataset, name),
            ends=lambda name: final_ends([dataset], name),
        ),
    )


def _title(dataset: "xr.Dataset") -> str:
    a = dataset.attrs
    paths, failed = int(a["paths"]), int(a["failed_paths"])
    size = counted(paths, "path")
    if failed:
        size += f" ({failed:,} failed)"
    steps = steps_text(a)
    seed = f", seed {int(a['seed'])}" if a["kind"] in ("sde", "jump") or paths > 1 else ""
    return f"{run_name(dataset)}   {size} × {steps}   {a['solver']}{seed}"


def _curve(axes: "Axes", dataset: "xr.Dataset", name: str) -> None:
    rows, values = SavedRows.of(dataset, name), dataset[f"{name}_mean"].values
    draw_rows(axes, rows, values, FEW, 3, color=BLUE, linewidth=1.4)
    if int(dataset.attrs["paths"]) > 1:
        shade_errors(axes, rows, dataset, name, color=BLUE, alpha=0.25)
    if f"{name}_exact" in dataset:
        _exact(axes, dataset, name)


def _phase_portrait(axes: "Axes", dataset: "xr.Dataset", pairs: list[list[str]]) -> None:
    """Quantities against each other along the first paths, from a dot where they begin."""
    single = int(dataset.attrs["paths"]) == 1
    for number, (across, up) in enumerate(pairs):
        key = "mean" if single or f"{across}_path" not in dataset else "path"
        xs, ys = (np.atleast_2d(dataset[f"{name}_{key}"].values)[:SAMPLES] for name in (across, up))
        for i, (x, y) in enumerate(zip(xs, ys, strict=True)):
            colour = COLOURS[(number if len(pairs) > 1 else i) % len(COLOURS)]
            width = 1.0 if len(x) > 300 else 1.4
            path = i if key == "path" else None
            draw_orbit(axes, dataset, (across, up), x, y, path, color=colour, linewidth=width)
    names = pairs[0] if len(pairs) == 1 else None
    labels = (
        [label(dataset, name) for name in names] if names else [_listed(dataset, pairs, i) for i in (0, 1)]
    )
    axes.set_xlabel(labels[0])
    axes.set_ylabel(labels[1])
    width, height = (np.ptp(limits()) for limits in (axes.get_xlim, axes.get_ylim))
    if 1 / 4 < width / height < 4:
        axes.set_aspect("equal", adjustable="box")


def _listed(dataset: "xr.Dataset", pairs: list[list[str]], side: int) -> str:
    """The names along an axis, and their unit where it is that of all."""
    names = [pair[side] for pair in pairs]
    units = {str(dataset[f"{name}_mean"].attrs["units"]) for name in names} - {"", "1"}
    return ", ".join(names) + (f" [{units.pop()}]" if len(units) == 1 else "")


def _exact(axes: "Axes", dataset: "xr.Dataset", name: str) -> None:
    if "time" not in dataset[f"{name}_exact"].dims:
        return  # known at the end only, which the distribution there shows
    rows = SavedRows.of(dataset, name)
    draw_rows(axes, rows, dataset[f"{name}_exact"].values, 0, 3, **MEANS[1])


def _fan(axes: "Axes", dataset: "xr.Dataset", name: str, first: bool) -> None:
    rows, levels = SavedRows.of(dataset, name), dataset["quantile"].values
    if is_boolean([dataset], name):  # whose quantiles and paths jump between nought and one
        levels = levels[:0]
        shade_errors(axes, rows, dataset, name, color=VERMILION, alpha=0.25)
    quantiles = dataset[f"{name}_quantile"].values
    pairs = [
        (i, j) for i, a in enumerate(levels) for j, b in enumerate(levels) if a < b and abs(a + b - 1) < 1e-9
    ]
    pairs.sort(key=lambda pair: levels[pair[0]])
    for depth, (i, j) in enumerate(pairs):
        shade = 0.18 + 0.2 * depth / max(len(pairs) - 1, 1)
        text = f"{100 * levels[i]:g}–{100 * levels[j]:g} % of paths"
        shade_rows(axes, rows, quantiles[:, i], quantiles[:, j], color=BLUE, alpha=shade, label=text)
    if f"{name}_path" in dataset and len(levels):
        paths = dataset[f"{name}_path"].values[:SAMPLES]
        style = {"color": GREY, "linewidth": 0.8, "alpha": 0.8, "zorder": 2.5, "label": "sample paths"}
        draw_paths(axes, dataset, name, paths, FEW, 2, **style)
    middle = np.flatnonzero(np.abs(levels - 0.5) < 1e-9)
    if len(middle):
        style = {"color": BLUE, "linewidth": 2, "label": "median", "zorder": 3}
        draw_rows(axes, rows, quantiles[:, middle[0]], 5, 4.5, **style)
    draw_rows(axes, rows, dataset[f"{name}_mean"].values, 5, 4.5, **MEANS[0])
    if f"{name}_exact" in dataset:
        _exact(axes, dataset, name)
    if len(rows.times) < 5 and first:
        note = f"only {len(rows.times)} times were saved: set save.points for the shape between"
        axes.set_title(note, loc="right", fontsize=9, color=GREY)


def _sideways_histogram(axes: "Axes", dataset: "xr.Dataset", name: str, extent: float) -> None:
    boolean = is_boolean([dataset], name)
    percentages, edges = final_percentages(dataset, name, boolean, extent)
    if np.all(np.isfinite(edges)):
        axes.stairs(
            percentages, edges, orientation="horizontal", fill=True, color=BLUE, alpha=0.45, linewidth=0
        )
    for value, style in zip(final_means(dataset, name), MEANS, strict=False):
        axes.axhline(value, **style)
    log = scale_bars(axes, "x", [percentages], log=False if boolean else None)
    if boolean:
        write_fractions(axes, percentages, "x")
    if not log:
        axes.locator_params(axis="x", nbins=4, integer=True)  # decimals do not fit next to a phase portrait
    axes.set_xlabel(bars_label(edges, boolean, log), fontsize=9)


def _histogram(axes: "Axes", dataset: "xr.Dataset", name: str) -> None:
    boolean, means = is_boolean([dataset], name), final_means(dataset, name)
    low, high = final_ends([dataset], name)  # a rare large value may move the mean out of all bins
    note = distribution_note(dataset, name)
    if low == high:
        say(axes, note or f"all paths: {low:.4g}")
        axes.set_title(name, fontsize=9, loc="left", color=GREY)
        return
    percentages, edges = final_percentages(dataset, name, boolean, high - low)
    for value, style in zip(means, MEANS, strict=False):
        axes.axvline(value, **style)
    if np.all(np.isfinite(edges)):
        axes.stairs(percentages, edges, fill=True, color=BLUE, alpha=0.45, linewidth=0)
        low, high = min([edges[0], *means]), max([edges[-1], *means])
        margin = 0.05 * (high - low)
        axes.set_xlim(low - margin * (low < edges[0]), high + margin * (high > edges[-1]))
    log = scale_bars(axes, "y", [percentages], log=False if boolean else None)
    axes.set_ylabel(bars_label(edges, boolean, log), fontsize=9)
    if boolean:
        write_fractions(axes, percentages, "y")
    attributes = dataset[f"{name}_mean"].attrs
    axes.set_xlabel(f"{name} [{attributes['units']}]" if attributes["units"] else name)
    heading = [text for text in (rowless_note(dataset, name), note) if text]
    if attributes["description"] != name:
        place = axes.get_subplotspec()
        columns = place.get_gridspec().ncols if place else COLUMNS
        heading.insert(0, shortened(str(attributes["description"]), HEADING // columns))
    axes.set_title("\n".join(heading), fontsize=9, loc="left", color=GREY)
