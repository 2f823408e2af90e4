"""The layout of a picture: rows over time, a phase portrait next to them, distributions below."""

import contextlib
import re
import textwrap
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from simkit.results.plots.first_times import distribution_note
from simkit.results.step_notes import marked_in_table
from simkit.results.titles import EQUATIONS, end_of, model_title

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

# Okabe & Ito's palette: distinct with any kind of colour vision.
BLUE, VERMILION, GREY = "#0072B2", "#D55E00", "#5b6770"
COLOURS = (BLUE, VERMILION, "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
MAX_STATES = 12
BESIDE_PORTRAIT = 4  # state variables, in the half of the width that a phase portrait leaves
FILE = 40  # letters
MAX_ROWS = 5  # in one column
NAMED = 2  # of the quantities that are not drawn
MAX_OBSERVABLES = 9
COLUMNS = 3
ENLARGED = 0.1  # of a row: final values closer together than that have a scale of their own
PADS = {"w_pad": 0.08, "h_pad": 0.08, "hspace": 0.03, "wspace": 0.03}
ROWS_BETWEEN = 4  # between events, for a quantity that rises and falls after each
VISIBLE = 0.01  # of the axis of time
EQUAL = 1e-9  # of a row: a spread of less is rounding

STYLE: Any = {
    "font.size": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": GREY,
    "axes.labelcolor": "#222222",
    "xtick.color": GREY,
    "ytick.color": GREY,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e6e9ec",
    "grid.linewidth": 0.8,
    "axes.formatter.useoffset": False,
    "axes.formatter.limits": (-4, 6),
    "lines.solid_capstyle": "round",
}


class Panels(NamedTuple):
    """What is drawn in each kind of panel.

    For each quantity over time `over_time(axes, name, first)`, where `first` is of the picture, and next to
    it, where there are several paths, `sideways(axes, name, extent)` of values between `ends(name)`, along an
    axis that shows `extent`; `phase_portrait(axes, pairs)`; for each observable that is not in them
    `distribution(axes, name)`. What the lengths of bars are, neighbours say once where it is the same.
    """

    over_time: Callable[..., None]
    sideways: Callable[..., None]
    phase_portrait: Callable[..., None]
    distribution: Callable[..., None]
    ends: Callable[[str], tuple[float, float]]


@contextlib.contextmanager
def titled_figure(
    title: str, size: tuple[float, float], fontsize: int = 13, pads: Mapping[str, Any] = PADS
) -> "Iterator[Figure]":
    """A figure in the style of all pictures, to be filled within it; `pads` are between its panels."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    with rc_context(STYLE):
        figure = Figure(figsize=size, layout=ConstrainedLayoutEngine(**pads))
        figure.suptitle(title, x=0.012, ha="left", fontsize=fontsize, fontweight="bold")
        yield figure


def spread_numbers(axis: "Axis", inches: float) -> None:
    """As many numbers along a linear axis as there are before the layout, or fewer where they touch."""
    from matplotlib.textpath import TextPath
    from matplotlib.ticker import MaxNLocator

    locator, size = axis.get_major_locator(), STYLE["font.size"]
    low, high = sorted(axis.get_view_interval())
    ticks = [tick for tick in locator() if low <= tick <= high]
    for bins in range(len(ticks) + 1, 0, -1) if isinstance(locator, MaxNLocator) else ():
        locator.set_params(nbins=bins)
        ticks = [tick for tick in locator() if low <= tick <= high]
        texts = axis.get_major_formatter().format_ticks(ticks)
        widest = max((TextPath((0, 0), text, size=size).get_extents().width for text in texts), default=0)
        if len(ticks) < 2 or 72 * inches * (ticks[1] - ticks[0]) / (high - low) > widest + size / 2:
            return


def has_only_means(dataset: "xr.Dataset") -> bool:
    """Whether there are no quantiles, distributions and paths: of one path, or where paths are weighted."""
    return int(dataset.attrs["paths"]) == 1 or not any(
        str(x).endswith("_histogram") for x in dataset.data_vars
    )


def columns_for(panels: int) -> int:
    """In how many columns equal panels stand: as a square where that leaves no gap."""
    return 2 if panels == 4 else min(COLUMNS, max(panels, 1))


def arranged(dataset: "xr.Dataset", title: str, panels: Panels) -> "Figure":
    """The picture of a dataset. What stands over time and which pairs, its attributes say."""
    rows, pairs = over_time_names(dataset), phase_portrait_pairs(dataset)
    single = has_only_means(dataset)
    drawn = {*rows, *(name for pair in pairs for name in pair)}
    observables = [] if single else [n for n in dataset.attrs["observables"].split() if n not in drawn]
    observables = [n for n in observables if not _repeats(dataset, n, rows)][:MAX_OBSERVABLES]
    columns = columns_for(len(observables))
    below = -(-len(observables) // columns)
    across = 2 if len(rows) > MAX_ROWS and not pairs else 1
    down = -(-len(rows) // across)
    each = 4.2 if len(rows) == 1 else 3.1 if across == 1 else 2.6
    heights = [max(down * each, 6.0 if pairs else 0), below * 2.7]
    title += marked_in_table(dataset)
    with titled_figure(title, (12, sum(heights) + 0.9 + 0.2 * title.count("\n"))) as figure:
        blocks = figure.add_gridspec(2 if below else 1, 1, height_ratios=heights[: 2 if below else 1])
        upper = blocks[0].subgridspec(1, 2, width_ratios=(1, 1)) if pairs else [blocks[0]]
        ratios = (1,) if single else (3.4, 1)
        cells = upper[0].subgridspec(down, across * len(ratios), width_ratios=across * ratios)
        ends: list[Axes | None] = []
        for number, name in enumerate(rows):
            row, column = divmod(number, across)
            last = number + across >= len(rows)
            axes = figure.add_subplot(cells[row, column * len(ratios)])
            panels.over_time(axes, name, number == 0)
            time_axis(axes, dataset, last, ticks=6 if pairs or across > 1 else 10)
            if not single:
                ends.append(_end_of_row(figure, cells[row, column * 2 + 1], axes, dataset, panels, name))
            axes.set_ylabel(label(dataset, name, 34 if len(rows) < 3 and not pairs else 24))
            notes = [_delay_of_events(dataset, name), _unseen_peaks(dataset, name)]
            notes += [_left_out(dataset, drawn)] if number == 0 else []
            if text := "\n".join(filter(None, notes)):
                above = "\n" if axes.get_title("right") else ""
                axes.set_title(f"{text}{above}", loc="left", fontsize=9, color=GREY)
        if pairs:
            panels.phase_portrait(figure.add_subplot(upper[1]), pairs)
        lower = blocks[-1].subgridspec(max(below, 1), columns)
        distributions = [figure.add_subplot(lower[divmod(i, columns)]) for i in range(len(observables))]
        for axes, name in zip(distributions, observables, strict=True):
            panels.distribution(axes, name)
            spread_numbers(axes.xaxis, axes.bbox.width / figure.dpi)
        for upper_end, lower_end in zip(ends, ends[across:], strict=False):
            if upper_end and lower_end and upper_end.get_xlabel() == lower_end.get_xlabel():
                upper_end.set_xlabel("")
        for i in range(len(distributions) - 1, 0, -1):
            if i % columns and distributions[i].get_ylabel() == distributions[i - 1].get_ylabel():
                distributions[i].set_ylabel("")
        figure_legend(figure)
    return figure


def _end_of_row(
    figure: "Figure", cell: Any, row: "Axes", dataset: "xr.Dataset", panels: Panels, name: str
) -> "Axes | None":
    """The end of a row on its scale, or on one of its own where its bars would be a line on the row's.

    None where there are no bars.
    """
    low, high = panels.ends(name)
    bottom, top = row.get_ylim()
    end, note = f"at {end_of(dataset)}", distribution_note(dataset, name)
    if high - low <= EQUAL * (top - bottom):
        value = 0.0 if abs(high) < EQUAL * (top - bottom) else high
        say(figure.add_subplot(cell), note or f"all paths {end}: {value:.4g}")
        return None
    enlarged = high - low < ENLARGED * (top - bottom)
    axes = figure.add_subplot(cell, sharey=None if enlarged else row)
    extent = high - low if enlarged else max(high, top) - min(low, bottom)
    panels.sideways(axes, name, extent)
    axes.tick_params(labelleft=enlarged)
    heading = [f"{end}, enlarged" if enlarged else end, note]
    axes.set_title("\n".join(filter(None, heading)), fontsize=10, loc="left", color=GREY)
    return axes


def run_name(dataset: "xr.Dataset") -> str:
    """The file and the model; of equations in the file it alone, without a file what they are of."""
    file, model = shortened_file(dataset), str(dataset.attrs.get("model", ""))
    model = "" if file and model in EQUATIONS else model_title(dataset)
    return ": ".join(part for part in (file, model) if part) or "variants"


def shortened_file(dataset: "xr.Dataset") -> str:
    """The name of the experiment's file, cut where it is very long; nothing without a file."""
    file = str(dataset.attrs.get("file", ""))
    return f"{file[: FILE - 1]}…" if len(file) > FILE else file


def say(axes: "Axes", text: str) -> None:
    """In place of a distribution without spread: the value of all paths, or that there is none."""
    axes.axis("off")
    axes.text(0, 0.5, text, transform=axes.transAxes, fontsize=10, color=GREY)


def over_time_names(dataset: "xr.Dataset") -> list[str]:
    """The quantities that have a row over time."""
    chosen = dataset.attrs.get("plot_over_time", "").split()
    most = BESIDE_PORTRAIT if phase_portrait_pairs(dataset) else MAX_STATES
    states = dataset.attrs["state_variables"].split()[:most]
    return chosen or [*states, *_observed_over_time(dataset, states)][: max(MAX_ROWS, len(states))]


def _observed_over_time(dataset: "xr.Dataset", drawn: Collection[str]) -> list[str]:
    """The observables that are known over time and are not one of those that are drawn already."""
    each = [n for n in dataset.attrs["observables"].split() if "time" in dataset[f"{n}_mean"].dims]
    return [n for n in each if not _repeats(dataset, n, drawn)]


def _left_out(dataset: "xr.Dataset", drawn: Collection[str]) -> str:
    """Which quantities are in no panel, and the remedy; nothing where the user chose them."""
    if dataset.attrs.get("plot_over_time"):
        return ""
    known = dataset.attrs["state_variables"].split()
    if int(dataset.attrs["paths"]) == 1:  # of several paths observables have a distribution
        known += _observed_over_time(dataset, known)
    names = [name for name in known if name not in drawn]
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"not drawn: {', '.join(names[:NAMED])}{more}; choose by plot.over_time" if names else ""


def _delay_of_events(dataset: "xr.Dataset", name: str) -> str:
    """How much later than events of equal size a quantity is saved, by which these look unequal."""
    times = dataset["time"].values
    counts = [dataset[f"{x}_events"] for x in states_in(dataset, (name,)) if f"{x}_events" in dataset]
    delay = max((float(np.max(each.attrs.get("longest_delay", 0.0))) for each in counts), default=0.0)
    if delay <= VISIBLE * (times[-1] - times[0]):
        return ""
    return f"events are up to {delay:.3g} before the next saved time (save.points)"


def _unseen_peaks(dataset: "xr.Dataset", name: str) -> str:
    """That a quantity may rise and fall between rows, as a drug in blood after doses into the gut."""
    events = [x for x in dataset.attrs["state_variables"].split() if f"{x}_events" in dataset]
    if not {*events}.isdisjoint(states_in(dataset, (name,))):
        return ""  # its rows at events have the values after them
    count = max((int(dataset[f"{x}_events"].sum("time").max()) for x in events), default=0)
    rows = dataset.sizes["time"] - 1
    if count < 2 or rows >= ROWS_BETWEEN * count:
        return ""
    return f"{rows} saved times for {count} events: peaks between them are not seen (save.points)"


def states_in(dataset: "xr.Dataset", names: Iterable[str]) -> list[str]:
    """The state variables on which any of the quantities depends."""
    states = dataset.attrs["state_variables"].split()
    return [state for state in states if any(_depends(dataset, name, state) for name in names)]


def _depends(dataset: "xr.Dataset", name: str, state: str) -> bool:
    text = str(dataset[f"{name}_mean"].attrs["description"])
    return name == state or re.search(rf"\b{re.escape(state)}\b", text) is not None


def rowless_note(dataset: "xr.Dataset", name: str) -> str:
    """Of a quantity known over time that has no row: that its distribution is at the end, and the remedy."""
    if "time" not in dataset[f"{name}_mean"].dims:
        return ""
    remedy = "" if dataset.attrs.get("plot_over_time") else "; over time with plot.over_time"
    return f"at {end_of(dataset)}{remedy}"


def _repeats(dataset: "xr.Dataset", name: str, drawn: Collection[str]) -> bool:
    """Whether an observable is nothing but the value of a quantity that is drawn already, nor more exact."""
    value = str(dataset[f"{name}_mean"].attrs["description"])
    return value in drawn and (f"{name}_exact" not in dataset or f"{value}_exact" in dataset)


def phase_portrait_pairs(dataset: "xr.Dataset") -> list[list[str]]:
    return [pair.split() for pair in dataset.attrs.get("plot_portrait", "").split(";") if pair.strip()]


def label(dataset: "xr.Dataset", name: str, width: int = 34) -> str:
    """Name, description and unit; without the description where it is a formula or has no room whole."""
    mean = dataset[f"{name}_mean"].attrs
    unit = f" [{mean['units']}]" if mean["units"] not in ("", "1") else ""
    description = shortened(str(mean["description"]), max(width - len(unit), 0))
    plain = (
        description in (name, "") or description.endswith("…") or name in dataset.attrs["observables"].split()
    )
    return f"{name}{unit}" if plain else f"{name}, {description}{unit}"


def shortened(text: str, width: int) -> str:
    return textwrap.shorten(text, width, placeholder=" …")


def time_axis(axes: "Axes", dataset: "xr.Dataset", last: bool, ticks: int = 10) -> None:
    times = dataset["time"].values
    axes.set_xlim(times[0], times[-1])
    axes.locator_params(axis="x", nbins=ticks)
    if last:
        axes.set_xlabel(time_label(dataset))
    else:
        axes.tick_params(labelbottom=False)


def time_label(dataset: "xr.Dataset") -> str:
    """The word with the unit, where the experiment says which."""
    unit = str(dataset["time"].attrs.get("units", ""))
    return "time" if unit in ("", "1", "time") else f"time [{unit}]"


def figure_legend(figure: "Figure") -> None:
    entries = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    if entries:
        style: Any = {"handlelength": 1.8, "columnspacing": 1.8}
        columns = _legend_columns([*entries], figure.get_figwidth(), sum(style.values()))
        style |= {"loc": "outside lower center", "ncols": columns, "frameon": False}
        figure.legend(entries.values(), entries.keys(), **style)


def _legend_columns(texts: list[str], inches: float, ems: float) -> int:
    """How many columns of a legend fit side by side: all, or as many as the widest entry allows.

    An entry is wider than its text by the handle, the space behind it and that between columns, `ems` in all.
    """
    from matplotlib.textpath import TextPath

    size = STYLE["font.size"]
    widths = [
        TextPath((0, 0), f"{text}.", size=size).get_extents().width + (ems + 1) * size for text in texts
    ]
    fit = int(72 * inches / max(widths))
    return len(texts) if sum(widths) <= 72 * inches else max(fit, 1)


def plain_ticks(axis: "Axis", low: float, high: float) -> None:
    """Few ticks of a logarithmic axis, in plain numbers over less than two decades, else powers of ten."""
    from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

    short = high < 100 * low
    few = MaxNLocator(5) if high < 5 * low else LogLocator(subs=(1, 2, 5) if short else (1,))
    axis.set_major_locator(few)
    if short:
        axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter(NullFormatter())
