"""The picture of variants: the same quantities overlaid, with a colour for each variant."""

from typing import TYPE_CHECKING, Any

import numpy as np

from simkit.progress import counted
from simkit.results.plots.final_histograms import (
    LOGARITHMIC,
    comparable_label,
    comparable_percentages,
    final_ends,
    final_means,
    is_boolean,
    scale_bars,
)
from simkit.results.plots.first_times import unmet_note
from simkit.results.plots.plot_layout import (
    COLOURS,
    GREY,
    Panels,
    arranged,
    has_only_means,
    label,
    rowless_note,
    run_name,
    say,
)
from simkit.results.plots.plot_strong_order import plot_strong_orders, with_strong_orders
from simkit.results.plots.saved_rows import SavedRows, draw_orbit, draw_rows, shade_errors, shade_rows
from simkit.results.variants import each_variant

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DASHES: tuple[Any, ...] = ("solid", (0, (5, 2)), (0, (1.5, 1.5)))  # of the first, second and third six
BAND = 0.13


def plot_variants(dataset: "xr.Dataset") -> "Figure":
    """A row for each quantity over time, a phase portrait of pairs, and final distributions of observables.

    Over time there are the mean of each variant and the band between its outermost quantiles, of a single
    path its curve. In a phase portrait each variant has its first path. Variants on the same Brownian paths
    would hide each other: of those the picture shows the strong errors.
    """
    converging = with_strong_orders(dataset)
    if converging:
        return plot_strong_orders(dataset, converging)
    variants = each_variant(dataset)
    single = int(dataset.attrs["paths"]) == 1
    only_means = has_only_means(dataset)
    return arranged(
        dataset,
        _title(dataset),
        Panels(
            over_time=lambda axes, name, first: _over_time(axes, variants, name, single, only_means),
            sideways=lambda axes, name, extent: _sideways(axes, variants, name, extent),
            phase_portrait=lambda axes, pairs: _phase_portrait(axes, dataset, variants, pairs),
            distribution=lambda axes, name: _distributions(axes, dataset, variants, name),
            ends=lambda name: final_ends(variants.values(), name),
        ),
    )


def _style(number: int) -> dict[str, Any]:
    dashes = DASHES[number // len(COLOURS) % len(DASHES)]
    return {"color": COLOURS[number % len(COLOURS)], "linestyle": dashes}


def _over_time(
    axes: "Axes", variants: "dict[str, xr.Dataset]", name: str, single: bool, only_means: bool
) -> None:
    banded = not only_means and not is_boolean(variants.values(), name)
    for number, (variant, one) in enumerate(variants.items()):
        rows, style = SavedRows.of(one, name), _style(number)
        levels = one["quantile"].values
        if banded and len(levels) > 1:
            quantiles = one[f"{name}_quantile"].values
            shade_rows(axes, rows, quantiles[:, 0], quantiles[:, -1], color=style["color"], alpha=BAND)
            text = f"means, and {100 * levels[0]:g}–{100 * levels[-1]:g} % of paths"
            axes.set_title(text, loc="right", fontsize=9, color=GREY)
        elif not single and not banded:
            shade_errors(axes, rows, one, name, color=style["color"], alpha=BAND)
        width = (1.2 if single else 1.8) * _width(number, len(variants))
        style |= {"label": variant, "linewidth": width, "zorder": 3}
        draw_rows(axes, rows, one[f"{name}_mean"].values, 5, 4.5, **style)


def _width(number: int, variants: int) -> float:
    """The first is widest, so that it is seen below others that hide it."""
    return 1 + 0.8 * (variants - 1 - number) / max(variants - 1, 1)


def _outlines(
    axes: "Axes", variants: "dict[str, xr.Dataset]", name: str, orientation: Any, extent: float
) -> str | None:
    """Draw the percentages of each variant as a line around its bins, of equal values none.

    Returns what the lengths are, also that their axis is logarithmic; `None` where nothing was drawn.
    """
    boolean = is_boolean(variants.values(), name)
    drawn = []
    for number, one in enumerate(variants.values()):
        bars = comparable_percentages(one, name, boolean, extent)
        if bars is None:
            continue
        result, edges = bars
        drawn.append(result)
        axes.stairs(result, edges, orientation=orientation, linewidth=1.4, **_style(number))
        fill = {"color": COLOURS[number % len(COLOURS)], "alpha": BAND, "linewidth": 0}
        axes.stairs(result, edges, orientation=orientation, fill=True, **fill)
    side = "x" if orientation == "horizontal" else "y"
    log = scale_bars(axes, side, drawn, log=False if boolean else None)
    if not drawn:
        return None
    return f"{comparable_label(variants.values(), name)}{LOGARITHMIC if log else ''}"


def _sideways(axes: "Axes", variants: "dict[str, xr.Dataset]", name: str, extent: float) -> None:
    text = _outlines(axes, variants, name, "horizontal", extent)
    for number, one in enumerate(variants.values()):
        for mean in final_means(one, name)[:1]:
            axes.axhline(mean, linewidth=1.6, zorder=4, **_style(number))
    axes.tick_params(labelbottom=text is not None)
    if axes.get_xscale() == "linear":
        axes.locator_params(axis="x", nbins=4)
    axes.set_xlabel(text or "")


def _distributions(axes: "Axes", dataset: "xr.Dataset", variants: "dict[str, xr.Dataset]", name: str) -> None:
    low, high = final_ends(variants.values(), name)
    text, note = _outlines(axes, variants, name, "vertical", high - low), unmet_note(dataset, name)
    if text is None and note:
        say(axes, note)
        axes.set_title(name, fontsize=9, loc="left", color=GREY)
        return
    for number, one in enumerate(variants.values()):
        for mean in final_means(one, name)[:1]:
            axes.axvline(mean, linewidth=1.6, zorder=4, **_style(number))
    heading = [line for line in (rowless_note(dataset, name), note) if line]
    axes.set_title("\n".join(heading), fontsize=9, loc="left", color=GREY)
    axes.tick_params(labelleft=text is not None)
    units = dataset[f"{name}_mean"].attrs["units"]
    axes.set_xlabel(f"{name} [{units}]" if units else name)
    axes.set_ylabel(text or "")


def _phase_portrait(
    axes: "Axes", dataset: "xr.Dataset", variants: "dict[str, xr.Dataset]", pairs: list[list[str]]
) -> None:
    """Quantities against each other along each variant's first path, from a dot where it begins."""
    for across, up in pairs:
        for number, (variant, one) in enumerate(variants.items()):
            key = "path" if f"{across}_path" in one and one.sizes["path"] else "mean"
            x, y = (np.atleast_2d(one[f"{name}_{key}"].values)[0] for name in (across, up))
            width = (0.9 if len(x) > 300 else 1.3) * _width(number, len(variants))
            path = 0 if key == "path" else None
            draw_orbit(axes, one, (across, up), x, y, path, linewidth=width, label=variant, **_style(number))
    if dataset.attrs["paths"] > 1:
        axes.set_title("the first path of each", loc="right", fontsize=9, color=GREY)
    sides = [", ".join(pair[side] for pair in pairs) for side in (0, 1)]
    names = [label(dataset, name) for name in pairs[0]] if len(pairs) == 1 else sides
    axes.set_xlabel(names[0])
    axes.set_ylabel(names[1])


def _title(dataset: "xr.Dataset") -> str:
    a = dataset.attrs
    paths = int(a["paths"])
    random = a.get("kind") in ("sde", "jump") or paths > 1
    solver = f", {a['solver']}" if "solver" in a else ""
    seed = f", seed {int(a['seed'])}" if random and "seed" in a else ""
    variants = counted(dataset.sizes["variant"], "variant")
    return f"{run_name(dataset)}{solver}   {variants} × {counted(paths, 'path')}{seed}"
