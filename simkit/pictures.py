"""The picture of any dataset: of a run, of derivatives, of a study."""

import contextlib
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from simkit.errors import InputError, OutputError
from simkit.records.incomplete import incomplete

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LOG = ("x", "y", "xy")
KINDS = (".png", ".pdf", ".svg", ".jpg", ".webp")


def save_picture(dataset: "xr.Dataset", path: str | Path) -> None:
    """Draw into a file whose suffix sets the format.

    Raises `InputError` for an unknown ending, `OutputError` when it cannot be written.

    >>> import pathlib, tempfile
    >>> import simkit
    >>> experiment = {
    ...     "model": {"type": "HarmonicOscillator", "m": 1.0, "k": 1.0},
    ...     "initial": {"q": 1.0, "p": 0.0},
    ...     "time": {"t1": 6.0, "steps": 60},
    ... }
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder) / "oscillator.png"
    ...     simkit.save_picture(simkit.run(experiment), file)
    ...     file.exists()
    True
    """
    path = Path(path)
    if path.suffix not in KINDS:
        raise InputError(f"{path}: a picture must end in one of {', '.join(KINDS)}")
    try:
        with incomplete(path) as temporary:
            plot_dataset(dataset).savefig(temporary, dpi=150)
            os.replace(temporary, path)
    except OSError as error:
        raise OutputError(f"{path}: could not be written: {error.strerror or error}") from error


def plot_dataset(
    dataset: "xr.Dataset",
    names: str | Iterable[str] | None = None,
    *,
    kind: str | None = None,
    ax: "Axes | None" = None,
    figsize: tuple[float, float] | None = None,
    dpi: float | None = None,
    log: Literal["x", "y", "xy"] | None = None,
    colors: Iterable[str] | None = None,
) -> "Figure":
    """The picture that `simkit plot` draws of a dataset, or panels of a run's quantities.

    With `names` or `kind` there is a panel for each quantity, by default for the first. One panel may be
    drawn into `ax`, without a name if there is a single quantity. Kinds: "mean" with a band of two standard
    errors, "quantiles" and "paths" over time; "distribution", "density" and "ecdf" at the end, from the
    histogram; "autocorrelation" of the stored paths. `log` names the logarithmic axes, which leave out time 0
    and a start at which every path is 0. `colors` are those of the variants. `figsize` is in inches. Raises
    `InputError` for what is no dataset of simkit, for a name or kind that it does not have, and for values
    up to 0 on a logarithmic axis.

    >>> import simkit
    >>> experiment = {
    ...     "model": {"type": "GBM", "mu": 0.05, "sigma": 0.2},
    ...     "initial": {"S": 100.0},
    ...     "solver": "ExactSampling",
    ...     "time": {"t1": 1.0, "steps": 10},
    ...     "ensemble": {"paths": 1000},
    ... }
    >>> figure = simkit.plot_dataset(simkit.run(experiment), "S", kind="mean")
    >>> figure.axes[0].get_xlabel()
    'time'
    """
    from matplotlib import rc_context

    checked(dataset)
    if log not in (None, *LOG):
        raise InputError(f"log: {log!r} is none of {', '.join(map(repr, LOG))}")
    if ax is not None and dpi is not None:
        raise InputError("dpi: ax is in a figure that has its own: give dpi where you make that figure")
    # a figure is saved with the dpi that it was made with: set_dpi would change only what the screen shows
    with complaining(), rc_context({} if dpi is None else {"figure.dpi": dpi}):
        if names is None and kind is None and ax is None:
            if log is not None or colors is not None:
                raise InputError("log and colors are for single panels: give names or kind too")
            figure = _whole(dataset)
        else:
            figure = _panels(dataset, names, kind, ax, log, colors)
    if figsize is not None:
        figure.set_size_inches(*figsize)
    return figure


def _panels(
    dataset: "xr.Dataset",
    names: str | Iterable[str] | None,
    kind: str | None,
    ax: "Axes | None",
    log: str | None,
    colors: Iterable[str] | None,
) -> "Figure":
    from simkit.results.plots.panels import draw_panel
    from simkit.results.plots.plot_layout import COLOURS, run_name, titled_figure
    from simkit.results.variants import each_variant

    if "simkit_kind" in dataset.attrs:
        raise InputError(
            "names, kind and ax are for runs of a model by themselves, and not for sweeps, studies, levels "
            "and molecular dynamics; leave them out for the picture of these, or draw the dataset's arrays"
        )
    every_name = " ".join(dataset.attrs[key] for key in ("state_variables", "observables")).split()
    chosen = every_name[: 1 if ax is None else None] if names is None else names
    shown = [chosen] if isinstance(chosen, str) else [*chosen]
    if not shown or (ax is not None and len(shown) != 1):
        raise InputError(f"names: must be one name for a panel in ax, or several without ax, got {shown}")
    if ax is not None:
        _refuse_no_axes(ax)
    variants, palette = each_variant(dataset), [*(colors or COLOURS)]
    with contextlib.ExitStack() as stack:
        if ax is None:
            size = (7.0, 3.4 * len(shown) + 0.6)
            figure = stack.enter_context(titled_figure(run_name(dataset), size))
            every = [figure.add_subplot(len(shown), 1, i + 1) for i in range(len(shown))]
        else:
            every = [ax]
        for axes, name in zip(every, shown, strict=True):
            draw_panel(axes, variants, name, kind, palette, log or "")
    return cast("Figure", every[0].get_figure(root=True))


def _refuse_no_axes(ax: Any) -> None:
    """Raise `InputError` for a figure, an array of axes, or whatever else is drawn into by mistake."""
    from matplotlib.axes import Axes

    if isinstance(ax, Axes):
        return
    import numpy as np

    size, first = np.size(ax), ", ".join("0" * np.ndim(ax))
    got, remedy = (f"an array of {size}", f"axes[{first}]") if first else (type(ax).__name__, "figure.gca()")
    raise InputError(f"ax: must be one Axes, got {got}; write ax={remedy}")


def _whole(dataset: "xr.Dataset") -> "Figure":
    kind = dataset.attrs.get("simkit_kind")
    if kind == "uncertainty":
        from simkit.studies.plot import plot_study as plot
    elif kind == "sensitivity":
        from simkit.derivatives.plot import plot_sensitivities as plot
    elif kind == "steady":
        raise InputError(
            "steady states have no picture: draw their `value` along `root` by xarray or matplotlib"
        )
    elif kind == "sweep":
        from simkit.sweeps.plot import plot_sweep as plot
    elif kind == "multilevel":
        from simkit.results.plots.plot_levels import plot_levels as plot
    elif kind == "particles":
        from simkit.md.plots.plot import plot_particles as plot
    else:
        from simkit.results.plots.plot import plot_run as plot
    return plot(dataset)


def checked(dataset: "xr.Dataset") -> "xr.Dataset":
    """The dataset, if simkit made it. Raises `InputError` for anything else."""
    import xarray as xr

    if not isinstance(dataset, xr.Dataset):
        remedy = "; simkit.read_dataset reads one from a file" if isinstance(dataset, str | Path) else ""
        raise InputError(f"a picture needs the dataset of a run, got {type(dataset).__name__}{remedy}")
    if not {"simkit_format", "simkit_kind"} & {*dataset.attrs}:
        raise InputError(
            "this dataset is not one of simkit, or lost its attributes (it has no simkit_format): give one "
            "that simkit.run or simkit.read_dataset returned; "
            "xarray.set_options(keep_attrs=True) keeps attributes"
        )
    return dataset


@contextlib.contextmanager
def complaining() -> "Iterator[None]":
    """Name what a dataset lacks, of which a part was taken."""
    try:
        yield
    except KeyError as error:
        name = re.findall(r"[\w.]+", str(error.args[0]).removeprefix("No variable named"))[0]
        raise InputError(
            f"this dataset has no {name!r}, which its picture needs: give the whole one that "
            "simkit.run or simkit.read_dataset returned"
        ) from error
