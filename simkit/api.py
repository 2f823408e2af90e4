"""From an experiment to its dataset: load, build, run or differentiate, label, write."""

import os
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from simkit.config.option import Option
from simkit.config.overrides import Overrides
from simkit.engines.engine import Progress
from simkit.engines.loaded import Loaded, load_each
from simkit.errors import UnresolvedWarning, levels_to_caller
from simkit.results.claims import claimed

if TYPE_CHECKING:
    import xarray as xr


def run(
    source: str | os.PathLike | Mapping[str, Any],
    *,
    overrides: Overrides = (),
    variants: Iterable[str] | None = None,
    out: str | os.PathLike | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> "xr.Dataset":
    """Run an experiment and return its labelled results, as `simkit run` does.

    `source` is the path of a YAML file or a dictionary of the same shape; `overrides` are settings such as
    `["model.sigma=0.3"]` or `{"model.sigma": 0.3}`. With the key `system` it is one of molecular dynamics. An
    experiment with variants gives one dataset of all, or of those named in `variants`, with a dimension
    `variant`. The dataset is also written to `out`, or to the experiment's `output:`, where one of them is
    given. Raises `InputError` (a `ValueError`) that lists every error, `NumericalError` when a path becomes
    NaN or infinite, and `OutputError` (an `OSError`) when the output exists and `overwrite` is not set, or
    cannot be written. Warns with `UnresolvedWarning` of means for which the steps are too long, unless
    the experiment says `ensemble: {unresolved: keep}`.

    >>> import simkit
    >>> experiment = {
    ...     "model": {"type": "GBM", "mu": 0.05, "sigma": 0.2},
    ...     "initial": {"S": 100.0},
    ...     "solver": "ExactSampling",
    ...     "time": {"t1": 1.0, "steps": 1},
    ...     "ensemble": {"paths": 1000, "seed": 1},
    ... }
    >>> result = simkit.run(experiment, overrides={"model.sigma": 0.1})
    >>> result["S_mean"].dims
    ('time',)
    >>> print(f"{float(result['S_mean'][-1]):.1f} ± {float(result['S_stderr'][-1]):.1f}")
    105.6 ± 0.3
    """
    loaded = load_each(source, overrides, variants)
    return _run_and_write(loaded, out, overwrite, progress)


def sweep(
    source: str | os.PathLike | Mapping[str, Any],
    over: str | Mapping[str, Any] | None = None,
    *,
    zip: bool = False,
    overrides: Overrides = (),
    out: str | os.PathLike | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> "xr.Dataset":
    """Run an experiment at each combination of the values of some of its keys, as `simkit sweep` does.

    `over` has for each key, dotted as in `overrides`, a list of values or a range such as `"0.1:0.5:9"`, or
    is a text such as `"model.sigma=0.1:0.5:9"`; it stands in place of the experiment's `sweep.over`. With
    `zip` the lists are gone through side by side. The dataset is that of `simkit.run` with a dimension for
    each key, whose values are its coordinate; `S_difference` is from the first point. Paths have the same
    noise at all points. Raises and warns as `simkit.run` does.

    >>> import simkit
    >>> experiment = {
    ...     "model": {"type": "GBM", "mu": 0.05, "sigma": 0.2},
    ...     "initial": {"S": 100.0},
    ...     "solver": "ExactSampling",
    ...     "time": {"t1": 1.0, "steps": 1},
    ...     "ensemble": {"paths": 1000, "seed": 1},
    ... }
    >>> result = simkit.sweep(experiment, {"model.sigma": "0.1:0.3:3", "model.mu": [0.0, 0.05]})
    >>> dict(result["S_mean"].sizes)
    {'model.sigma': 3, 'model.mu': 2, 'time': 2}
    >>> end = result.sel({"model.sigma": 0.2, "model.mu": 0.05}).isel(time=-1)
    >>> print(f"{float(end['S_mean']):.0f} ± {float(end['S_stderr']):.1f}")
    106 ± 0.7
    """
    from simkit.sweeps.plan import load_sweep

    loaded = load_sweep(source, overrides, over, zip)
    return _run_and_write(loaded.points, out, overwrite, progress, loaded.labelled)


def sensitivity(
    source: str | os.PathLike | Mapping[str, Any],
    wrt: str | Iterable[str] | None = None,
    *,
    overrides: Overrides = (),
    variants: Iterable[str] | None = None,
    progress: Progress | None = None,
) -> "xr.Dataset":
    r"""The derivatives $\partial_\theta E[f]$ of an experiment, each with its standard error.

    `source` and `overrides` are as those of `simkit.run`; `wrt` is a name or names to differentiate with
    respect to, in place of the experiment's `sensitivity.wrt`. An experiment with variants gives one dataset
    of all, or of those named in `variants`, with a dimension `variant`. In molecular dynamics derivatives are
    those of averages at constant temperature, from fluctuations. Raises `InputError` that lists every
    error, or says why the requested estimator would be wrong, and `NumericalError` when a path or
    its derivative becomes NaN or infinite. Warns with `UnresolvedWarning` of means and derivatives that steps
    are too long for, unless the experiment says `ensemble: {unresolved: keep}`. Nothing is written.

    >>> import simkit
    >>> experiment = {
    ...     "model": {"type": "GBM", "mu": 0.05, "sigma": 0.2},
    ...     "initial": {"S": 100.0},
    ...     "solver": "ExactSampling",
    ...     "time": {"t1": 1.0, "steps": 1},
    ...     "ensemble": {"paths": 1000, "seed": 1},
    ... }
    >>> result = simkit.sensitivity(experiment, wrt="initial.S")
    >>> derivative = result["S_derivative"].sel(parameter="initial.S", time=1.0)
    >>> abs(float(derivative) - 1.051) < 0.05  # exactly, it is exp(0.05)
    True
    """
    given: list[Any] = []
    if isinstance(overrides, Mapping):
        given += [(str(key), value) for key, value in overrides.items()]
    else:
        given += [overrides] if isinstance(overrides, str) else overrides
    if wrt is not None:
        names = [wrt] if isinstance(wrt, str) else wrt
        given.append(Option(f"sensitivity.wrt=[{', '.join(map(str, names))}]", "wrt"))
    loaded = load_each(source, given, variants)
    dataset = loaded.differentiate(progress)
    if not loaded.keeps_unresolved:
        from simkit.derivatives.table import all_unresolved  # after the run, as xarray

        _warn(all_unresolved(dataset))
    return dataset


def _run_and_write(
    loaded: Loaded,
    out: str | os.PathLike | None,
    overwrite: bool,
    progress: Progress | None,
    labelled: Callable[["xr.Dataset"], "xr.Dataset"] = lambda dataset: dataset,
) -> "xr.Dataset":
    """Run what has been loaded, warn of what is no result, and write what `labelled` makes of the dataset."""
    target = out if out is not None else loaded.output
    if target is not None:
        from simkit.results.storage import check_output

        check_output(target, overwrite)
        loaded.check_target(target)
    loaded.check_files(target, overwrite)
    with claimed(loaded.files(target)):
        dataset = loaded.run(progress)
        if not loaded.keeps_unresolved:
            from simkit.results.step_notes import all_unresolved

            _warn(all_unresolved(dataset))
        dataset = labelled(dataset)
        if target is not None:
            from simkit.results.storage import write_or_rescue

            write_or_rescue(dataset, target, overwrite)
    return dataset


def _warn(notes: list[str]) -> None:
    """Warn, at the line that calls the public function, of figures that are no result."""
    if notes:
        warnings.warn("\n".join(notes), UnresolvedWarning, stacklevel=levels_to_caller())
