"""Lines through saved rows: dotted up to an event, steps for counts, points where chords would mislead."""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from simkit.results.plots.plot_layout import GREY, states_in

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes

DOTTED = (0, (1, 1.5))
FEW = 50  # rows, of which chords hide how few they are
BEND = np.radians(20)  # from chord to chord: a curve that turns more at most rows looks like a polygon
NOTE = "points at the saved times: a larger save.points gives lines"


class SavedRows(NamedTuple):
    """The times of the rows, before which of them an event lies, and whether values stay until the next row.

    A row at the time of an event has the values after it; those just before it are not saved.
    """

    times: np.ndarray
    gaps: np.ndarray
    stepped: bool = False

    @classmethod
    def of(cls, dataset: "xr.Dataset", *names: str, path: int | None = None) -> "SavedRows":
        """The rows of quantities drawn together: state variables, or expressions of them.

        Of one stored `path`, as of the only one, also with the events that a condition decides. One path of
        a reaction network is drawn in steps, as its counts are constant between reactions.
        """
        times = dataset["time"].values
        changed = np.zeros(len(times), bool)
        if int(dataset.attrs["paths"]) == 1:
            path = 0
        for state in states_in(dataset, names):
            if f"{state}_events" in dataset:
                changed |= dataset[f"{state}_events"].values > 0
            if f"{state}_path_events" in dataset and path is not None:
                changed |= dataset[f"{state}_path_events"].values[path] > 0
        stepped = path is not None and dataset.attrs["kind"] == "jump"
        return cls(times, np.flatnonzero(changed[1:]) + 1, stepped)

    def broken(self, values: np.ndarray) -> np.ndarray:
        """Values with a NaN before each event, by row."""
        return np.insert(values, self.gaps, np.nan, axis=0) if self.gaps.size else values

    def held(self, values: np.ndarray) -> np.ndarray:
        """Before each event the values of the row before it, twice and then a NaN."""
        last = np.repeat(values[self.gaps - 1].astype(float), 3, axis=0)
        last[2::3] = np.nan
        return last

    @property
    def held_times(self) -> np.ndarray:
        """From the row before each event to the one that has it."""
        gaps = self.gaps
        return np.column_stack([self.times[gaps - 1], self.times[gaps], self.times[gaps]]).reshape(-1)

    @property
    def broken_times(self) -> np.ndarray:
        return np.insert(self.times, self.gaps, self.times[self.gaps]) if self.gaps.size else self.times

    def marker(self, few: int, size: float) -> dict[str, Any]:
        """A marker at each row if these are few; else at those between two events, which have no line."""
        begins, rows = np.array([0, *self.gaps]), np.diff([0, *self.gaps, len(self.times)])
        style = {"marker": "o", "markersize": size}
        if len(self.times) < few:
            return style
        alone = (begins + np.arange(len(begins)))[rows == 1]  # a NaN is before each event
        return style | {"markevery": alone.tolist()} if alone.size else {}


def draw_rows(axes: "Axes", rows: SavedRows, values: np.ndarray, few: int, size: float, **style: Any) -> None:
    """Lines through rows, with markers if there are `few`; up to an event their last values, dotted.

    The values just before it are not saved, and a gap would look like a time without any.
    """
    steps = {"drawstyle": "steps-post"} if rows.stepped else {}
    lines = axes.plot(rows.broken_times, rows.broken(values), **style, **steps, **rows.marker(few, size))
    for line in lines[1:]:
        line.set_label(None)
    if rows.gaps.size:
        axes.plot(rows.held_times, rows.held(values), **style | {"linestyle": DOTTED, "label": None})


def draw_paths(
    axes: "Axes", dataset: "xr.Dataset", name: str, paths: np.ndarray, few: int, size: float, **style: Any
) -> None:
    """Lines through the rows of the first stored paths `(paths, rows)`, each broken at its own events."""
    if not any(f"{state}_path_events" in dataset for state in states_in(dataset, (name,))):
        draw_rows(axes, SavedRows.of(dataset, name, path=0), paths.T, few, size, **style)
        return
    for i, values in enumerate(paths):
        draw_rows(axes, SavedRows.of(dataset, name, path=i), values, few, size, **style)
        style = style | {"label": None}


def shade_rows(axes: "Axes", rows: SavedRows, low: np.ndarray, high: np.ndarray, **style: Any) -> None:
    """A band through rows, paler up to an event."""
    axes.fill_between(rows.broken_times, rows.broken(low), rows.broken(high), linewidth=0, **style)
    if rows.gaps.size:
        paler = style | {"alpha": style["alpha"] / 2, "label": None}
        axes.fill_between(rows.held_times, rows.held(low), rows.held(high), linewidth=0, **paler)


def shade_errors(axes: "Axes", rows: SavedRows, dataset: "xr.Dataset", name: str, **style: Any) -> None:
    """A band of two standard errors to either side of a mean."""
    mean, error = (dataset[f"{name}_{key}"].values for key in ("mean", "stderr"))
    shade_rows(axes, rows, mean - 2 * error, mean + 2 * error, **style)
    known = "mean ± two standard errors" if np.isfinite(mean[1:]).any() else "no mean: see the title"
    axes.set_title(known, loc="right", fontsize=9, color=GREY)


def draw_orbit(
    axes: "Axes",
    dataset: "xr.Dataset",
    names: tuple[str, str],
    x: np.ndarray,
    y: np.ndarray,
    path: int | None = None,
    **style: Any,
) -> None:
    """Two quantities against each other, of a stored `path` or in the mean, from a dot where they begin."""
    rows = SavedRows.of(dataset, *names, path=path)
    if are_too_few(x, y, smooth=dataset.attrs["kind"] == "ode"):
        style |= {"linestyle": "none", "marker": "o", "markersize": 2.5 if len(x) < 300 else 1.2}
        axes.set_title(NOTE, loc="left", fontsize=9, color=GREY)
    axes.plot(rows.broken(x), rows.broken(y), **style)
    axes.plot(x[:1], y[:1], "o", color=style["color"], markersize=5)


def are_too_few(x: np.ndarray, y: np.ndarray, smooth: bool) -> bool:
    """Whether chords between the rows of an orbit would not look like it; `smooth` orbits have no corners."""
    if len(x) < FEW:
        return True
    chords = np.array([np.diff(x) / (np.ptp(x) or 1), np.diff(y) / (np.ptp(y) or 1)])
    chords = chords[:, np.hypot(*chords) > 1e-6]  # at rest it has no direction
    if not smooth or chords.shape[1] < 2:
        return False
    directions = chords[0] + 1j * chords[1]
    return bool(np.median(np.abs(np.angle(directions[1:] / directions[:-1]))) > BEND)
