"""Pictures of sensitivities: a tornado chart for each quantity, and derivatives over time."""

import functools
from typing import TYPE_CHECKING

import numpy as np

from simkit.derivatives.summary import elasticity, is_zero
from simkit.derivatives.tails import FLAGS
from simkit.results.plots.plot_layout import (
    BLUE,
    COLOURS,
    GREY,
    VERMILION,
    run_name,
    time_label,
    titled_figure,
)
from simkit.results.variants import each_variant

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST = 6  # quantities
FEW = 3  # names of what is left out
MARKS = {"": "", FLAGS["heavy"]: " !", FLAGS["grows"]: ":\nno result"}  # behind names
MARKED = "; !: heavy tail, of which these say little"
BARS = 12
ERRORS = 2.0  # standard errors to either side, of bars and bands
LEAST = {"bars": 2, "curves": 4}  # bars for which there is room, in panels with such beside them
KINDS = {"derivative": "parameter", "second": "pair"}
PLAIN = {"derivative": ("derivative", "the parameter"), "second": ("second derivative", "each parameter")}


def plot_sensitivities(dataset: "xr.Dataset") -> "Figure":
    """For each quantity its elasticities as bars, largest first, and what is saved over time.

    Second derivatives have bars and panels of their own. Of variants the panels of each.
    """
    variants = each_variant(dataset)
    first = next(iter(variants.values()))
    names = first.attrs["quantities"].split()
    shown = {kind: [n for n in names if f"{n}_{kind}" in first][:MOST] for kind in KINDS}
    curves = [
        (functools.partial(_over_time, kind=kind), name, *each)
        for kind in KINDS
        for name in shown[kind]
        if "time" in first[f"{name}_{kind}"].dims
        for each in variants.items()
    ]
    bars = min(BARS, max(first.sizes.get(dimension, 0) for dimension in KINDS.values()))
    room = max(bars, LEAST["curves" if curves else "bars"])
    panels = [
        (functools.partial(_tornado, kind=kind, room=room), name, *each)
        for kind in KINDS
        for name in shown[kind]
        for each in variants.items()
    ]
    panels += curves
    columns = min(2, len(panels))
    rows = -(-len(panels) // columns)
    when = "" if first.attrs["kind"] == "particles" else f" at t = {float(first.attrs['t1']):g}"
    title = f"{run_name(first)}, {first.attrs['solver']}: what the mean{when} depends on"
    with titled_figure(title, (6.5 * columns, 0.8 + rows * (1.2 + 0.42 * room))) as figure:
        for number, (draw, name, variant, one) in enumerate(panels, 1):
            end = number if number < len(panels) else rows * columns  # the last one fills its row
            axes = figure.add_subplot(rows, columns, (number, end))
            draw(axes, one, name)
            if variant:
                axes.set_title(variant, fontsize=9, loc="right", color=GREY)
        if any(
            np.any(one[f"{name}_{kind}_stderr"] > 0)
            for one in variants.values()
            for kind in KINDS
            for name in shown[kind]
        ):
            ticks = (label.get_text() for axes in figure.axes for label in axes.get_yticklabels())
            note = MARKED if any(tick.endswith(MARKS[FLAGS["heavy"]]) for tick in ticks) else ""
            unknown = [name for kind in KINDS for name in shown[kind] if _lacks_steps(first, name, kind)]
            if unknown:
                note += f"; without the error of steps, which is unknown: {', '.join(dict.fromkeys(unknown))}"
            figure.supxlabel(
                f"error bars: two standard errors{note}", x=0.988, ha="right", fontsize=9, color=GREY
            )
    return figure


def _lacks_steps(dataset: "xr.Dataset", name: str, kind: str) -> bool:
    """Whether some derivatives of a quantity have an error that says nothing of that of steps."""
    unknown = dataset.get(f"{name}_{kind}_unknown")
    errors = dataset[f"{name}_{kind}_stderr"].values.reshape(dataset.sizes[KINDS[kind]], -1)[:, -1]
    return unknown is not None and bool(np.any((unknown.values != "") & np.isfinite(errors)))


def relative(dataset: "xr.Dataset", name: str, kind: str) -> tuple[np.ndarray, np.ndarray, str, list[str]]:
    """Derivatives at the end and their errors, made comparable, what they then are, and their names.

    They are elasticities, or where the mean is 0 within its error, changes in its unit. What cannot be
    compared is left out (`_comparable`). Names have marks where errors are not reliable.
    """
    end = [dataset[f"{name}_{kind}{suffix}"].values for suffix in ("", "_stderr")]
    derivative, error = (array[:, -1] if array.ndim == 2 else array for array in end)
    flags = dataset.get(f"{name}_{kind}_flag")  # none in files of earlier versions
    if flags is not None:
        none = flags.values == FLAGS["grows"]
        derivative, error = (np.where(none, np.nan, array) for array in (derivative, error))
    mean, mean_stderr = (
        float(np.atleast_1d(dataset[f"{name}_mean{suffix}"].values)[-1]) for suffix in ("", "_stderr")
    )
    shown, scales, note = _comparable(dataset, kind)
    labels = _labels(dataset, name, kind, units=scales is None)
    if scales is None:
        pair, text = (derivative, error), _plain(dataset, name, kind)
    elif is_zero(mean, mean_stderr):
        pair, text = (derivative * scales, error * np.abs(scales)), _change(dataset, name, kind)
    else:
        text = {
            "derivative": f"change of the mean of {name} in %, for 1 % more",
            "second": f"second derivative of the mean of {name},\ntimes both parameters over the mean",
        }[kind]
        pair = elasticity(derivative, error, mean, mean_stderr, _sizes(dataset, kind))
    values, errors = (array[shown] for array in pair)
    return values, errors, text + note, [label for label, x in zip(labels, shown, strict=True) if x]


def _comparable(dataset: "xr.Dataset", kind: str) -> tuple[np.ndarray, np.ndarray | None, str]:
    """Which derivatives can be compared, their scales, and a line that names the others.

    Scales make of them the changes of the mean for 1 % more of each parameter, which a parameter of 0 does
    not have. If all are 0 there are no scales, and those with the unit of the first are compared.
    """
    sizes, names = _sizes(dataset, kind), dataset[KINDS[kind]].values
    shown, scales, why = sizes != 0, sizes * {"derivative": 0.01, "second": 1.0}[kind], "1 % of 0 is 0"
    if not np.any(shown):
        units = _units(dataset, kind)
        shown, scales, why = np.array([unit == units[0] for unit in units]), None, "units differ"
    left_out = [str(name) for name in names[~shown]]
    which = "; ".join(left_out) if len(left_out) <= FEW else f"{len(left_out)} of {len(names)}"
    return shown, scales, f"\nnot shown, as {why}: {which}" if left_out else ""


def _units(dataset: "xr.Dataset", kind: str) -> list[tuple[str, ...]]:
    """The units of the parameters, of pairs those of both in any order."""
    parameters, units = (map(str, dataset[key].values) for key in ("parameter", "parameter_unit"))
    of = dict(zip(parameters, units, strict=True))
    if kind == "derivative":
        return [(unit,) for unit in of.values()]
    by_pair = {f"{a}, {b}": tuple(sorted((of[a], of[b]))) for a in of for b in of}
    return [by_pair[str(pair)] for pair in dataset["pair"].values]


def _change(dataset: "xr.Dataset", name: str, kind: str) -> str:
    """A derivative made a change of the mean, in its unit."""
    unit = _unit(dataset, name)
    return {
        "derivative": f"change of the mean of {name}{unit}, for 1 % more",
        "second": f"second derivative of the mean of {name}{unit}, times both parameters",
    }[kind]


def _sizes(dataset: "xr.Dataset", kind: str) -> np.ndarray:
    """The values of the parameters, of pairs their products."""
    values = dataset["parameter_value"].values
    if kind == "derivative":
        return values
    of = dict(zip(dataset["parameter"].values, values, strict=True))
    products = {f"{a}, {b}": of[a] * of[b] for a in of for b in of}
    return np.array([products[str(pair)] for pair in dataset["pair"].values])


def _plain(dataset: "xr.Dataset", name: str, kind: str) -> str:
    """A derivative as it is, in its unit."""
    what, per = PLAIN[kind]
    unit = _unit(dataset, name, f" per unit of {per}")
    if kind == "second":  # for which a line is too short
        unit = unit.replace(" ", "\n", 1)
    return f"{what} of the mean of {name}{unit}"


def _unit(dataset: "xr.Dataset", name: str, per: str = "") -> str:
    return _bracketed(dataset[f"{name}_mean"].attrs["units"], per)


def _bracketed(unit: str, per: str = "") -> str:
    return f" [{unit}{per}]" if unit not in ("", "1") else ""


def _labels(dataset: "xr.Dataset", name: str, kind: str, units: bool) -> list[str]:
    """The names of the parameters or pairs with marks, of parameters with units where these are wanted."""
    names = [str(name) for name in dataset[KINDS[kind]].values]
    if units and kind != "second":
        all_units = map(str, dataset["parameter_unit"].values)
        names = [f"{label}{_bracketed(unit)}" for label, unit in zip(names, all_units, strict=True)]
    flags = dataset.get(f"{name}_{kind}_flag")
    marks = [""] * len(names) if flags is None else [MARKS[str(flag)] for flag in flags.values]
    return [f"{label}{mark}" for label, mark in zip(names, marks, strict=True)]


def _tornado(axes: "Axes", dataset: "xr.Dataset", name: str, kind: str, room: int) -> None:
    """Bars in the middle of a panel with room for so many, so that all panels have equally thick ones."""
    values, errors, text, names = relative(dataset, name, kind)
    order = np.argsort(-np.abs(np.nan_to_num(values)), kind="stable")[:BARS]
    places = np.arange(len(order))
    colours = [BLUE if values[i] >= 0 else VERMILION for i in order]
    axes.barh(places, values[order], color=colours, alpha=0.75, height=0.62)
    axes.errorbar(
        values[order],
        places,
        xerr=ERRORS * errors[order],
        fmt="none",
        ecolor="black",
        elinewidth=1.2,
        capsize=3,
    )
    axes.set_yticks(places, [names[i] for i in order])
    middle = (len(order) - 1) / 2
    axes.set_ylim(middle + room / 2, middle - room / 2)
    axes.axvline(0, color=GREY, linewidth=1)
    axes.grid(axis="y", visible=False)
    axes.set_xlabel(text)


def _over_time(axes: "Axes", dataset: "xr.Dataset", name: str, kind: str) -> None:
    """The derivatives that become largest, as many as are legible, in bands of two standard errors."""
    times = dataset["time"].values
    # Parameters in units of their own would leave all but one of them flat.
    shown, scales, note = _comparable(dataset, kind)
    by_row = (np.ones(len(shown)) if scales is None else scales)[shown, None]
    means = by_row * dataset[f"{name}_{kind}"].values[shown]
    errors = ERRORS * np.abs(by_row) * dataset[f"{name}_{kind}_stderr"].values[shown]
    labels = np.array(_labels(dataset, name, kind, units=scales is None))[shown]
    largest = np.argsort(-np.max(np.nan_to_num(np.abs(means)), axis=1), kind="stable")[: len(COLOURS)]
    for colour, i in zip(COLOURS, sorted(largest), strict=False):
        axes.plot(times, means[i], color=colour, label=labels[i])
        low, high = means[i] - errors[i], means[i] + errors[i]
        axes.fill_between(times, low, high, color=colour, alpha=0.25, linewidth=0)
    axes.axhline(0, color=GREY, linewidth=1)
    axes.set_xlabel(time_label(dataset))
    unit = _unit(dataset, name)
    short = {"derivative": f"change of {name}{unit}", "second": f"second derivative{unit}"}[kind]
    axes.set_ylabel(f"{PLAIN[kind][0]} of {name}" if scales is None else short)
    below = ["bands: two standard errors, where wider than the lines"] if np.any(errors > 0) else []
    if len(largest) < len(means):
        below.append(f"the {len(largest)} largest of {len(means)}")
    title = (_plain if scales is None else _change)(dataset, name, kind)
    text = "\n".join(filter(None, [title, "; ".join(below)]))
    axes.set_title(f"{text}{note}", fontsize=9, loc="left", color=GREY)
    axes.legend(loc="best", fontsize=9)
