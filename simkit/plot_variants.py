"""The picture of variants: the same quantities laid over each other, a colour for each variant."""

from typing import TYPE_CHECKING, Any

import numpy as np

from simkit.plot import ceiling, final_mean, final_shares, is_truth
from simkit.plot_layout import COLOURS, GREY, Panels, arranged, label
from simkit.table import run_title
from simkit.variant_dataset import each_variant

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DASHES: tuple[Any, ...] = ("solid", (0, (5, 2)), (0, (1.5, 1.5)))  # of the first, second and third six
BAND = 0.13


def plot_variants(dataset: "xr.Dataset") -> "Figure":
    """A row for each quantity over time, a portrait of pairs, then final distributions of the observables.

    Over time there are the mean of each variant and the band between its outermost quantiles, of a single
    path its curve. In a portrait each variant has its first path.
    """
    variants = each_variant(dataset)
    single = int(dataset.attrs["paths"]) == 1
    return arranged(
        dataset,
        _title(dataset),
        Panels(
            over_time=lambda axes, name, first, last: _over_time(axes, variants, name, single),
            sideways=lambda axes, name, last: _sideways(axes, variants, name, last),
            portrait=lambda axes, pairs: _portrait(axes, dataset, variants, pairs),
            distribution=lambda axes, name, first: _distributions(axes, dataset, variants, name, first),
        ),
    )


def _style(number: int) -> dict[str, Any]:
    dashes = DASHES[number // len(COLOURS) % len(DASHES)]
    return {"color": COLOURS[number % len(COLOURS)], "linestyle": dashes}


def _over_time(axes: "Axes", variants: "dict[str, xr.Dataset]", name: str, single: bool) -> None:
    banded = not single and not any(is_truth(one, name) for one in variants.values())
    for number, (variant, one) in enumerate(variants.items()):
        times, style = one["time"].values, _style(number)
        marker = {"marker": "o", "markersize": 4.5} if len(times) < 5 else {}
        levels = one["quantile"].values
        if banded and len(levels) > 1:
            quantiles = one[f"{name}_quantile"].values
            shade = {"color": style["color"], "alpha": BAND, "linewidth": 0}
            axes.fill_between(times, quantiles[:, 0], quantiles[:, -1], **shade)
            text = f"means, and {100 * levels[0]:g}–{100 * levels[-1]:g} % of paths"
            axes.set_title(text, loc="right", fontsize=9, color=GREY)
        width = (1.2 if single else 1.8) * _width(number, len(variants))
        values = one[f"{name}_mean"].values
        axes.plot(times, values, label=variant, linewidth=width, zorder=3, **marker, **style)


def _width(number: int, variants: int) -> float:
    """The first is widest, so that it is seen below others that hide it."""
    return 1 + 0.8 * (variants - 1 - number) / max(variants - 1, 1)


def _outline(axes: "Axes", one: "xr.Dataset", name: str, number: int, orientation: Any) -> np.ndarray:
    """The final density as a line around its bins, whose widths differ; of equal values none."""
    found, edges = final_shares(one, name)
    found = found / np.diff(edges)
    if _final_variance(one, name) == 0:
        return np.zeros(2)
    if np.all(np.isfinite(edges)):
        axes.stairs(found, edges, orientation=orientation, linewidth=1.4, **_style(number))
        fill = {"color": COLOURS[number % len(COLOURS)], "alpha": BAND, "linewidth": 0}
        axes.stairs(found, edges, orientation=orientation, fill=True, **fill)
    return found


def _ceiling(outlines: list[np.ndarray]) -> float:
    """How high to draw; 1 where no variant has a density."""
    return max((ceiling(found) for found in outlines if found.any()), default=1.0)


def _final_variance(one: "xr.Dataset", name: str) -> float:
    return float(np.atleast_1d(one[f"{name}_variance"].values)[-1])


def _sideways(axes: "Axes", variants: "dict[str, xr.Dataset]", name: str, last: bool) -> None:
    tops = []
    for number, one in enumerate(variants.values()):
        tops.append(_outline(axes, one, name, number, "horizontal"))
        axes.axhline(final_mean(one, name), linewidth=1.6, zorder=4, **_style(number))
    axes.set_xlim(0, _ceiling(tops))
    axes.tick_params(labelleft=False, labelbottom=any(map(np.any, tops)))
    axes.locator_params(axis="x", nbins=4)
    end = float(next(iter(variants.values()))["time"].values[-1])
    axes.set_title(f"at t = {end:g}", fontsize=10, loc="left", color=GREY)
    if last:
        axes.set_xlabel("% of paths per unit")


def _distributions(
    axes: "Axes", dataset: "xr.Dataset", variants: "dict[str, xr.Dataset]", name: str, first: bool
) -> None:
    tops = []
    for number, one in enumerate(variants.values()):
        tops.append(_outline(axes, one, name, number, "vertical"))
        axes.axvline(final_mean(one, name), linewidth=1.6, zorder=4, **_style(number))
    axes.set_ylim(0, _ceiling(tops))
    axes.tick_params(labelleft=any(map(np.any, tops)))
    units = dataset[f"{name}_mean"].attrs["units"]
    axes.set_xlabel(f"{name} [{units}]" if units else name)
    if first and any(map(np.any, tops)):
        axes.set_ylabel("% of paths per unit")


def _portrait(
    axes: "Axes", dataset: "xr.Dataset", variants: "dict[str, xr.Dataset]", pairs: list[list[str]]
) -> None:
    """Quantities against each other along each variant's first path, from a dot where it begins."""
    for across, up in pairs:
        for number, (variant, one) in enumerate(variants.items()):
            key = "path" if f"{across}_path" in one and one.sizes["path"] else "mean"
            x, y = (np.atleast_2d(one[f"{name}_{key}"].values)[0] for name in (across, up))
            width = (0.9 if len(x) > 300 else 1.3) * _width(number, len(variants))
            axes.plot(x, y, linewidth=width, label=variant, **_style(number))
            axes.plot(x[:1], y[:1], "o", color=_style(number)["color"], markersize=5)
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
    seed = f", seed {int(a['seed'])}" if random and "seed" in a else ""
    each = "1 path" if paths == 1 else f"{paths:,} paths"
    return f"{run_title(dataset)}   {dataset.sizes['variant']} variants × {each}{seed}"
