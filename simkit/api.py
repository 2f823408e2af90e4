"""From an experiment to its dataset: load, build, run or differentiate, label, write."""

import os
import warnings
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from simkit.config.option import Option
from simkit.config.overrides import Overrides
from simkit.engines.engine import Progress
from simkit.engines.loaded import load_each
from simkit.errors import UnresolvedWarning
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
        if target is not None:
            from simkit.results.storage import write_or_rescue

            write_or_rescue(dataset, target, overwrite)
    return dataset


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


def _warn(notes: list[str]) -> None:
    """Warn, at the line that calls the public function, of figures that are no result."""
    if notes:
        warnings.warn("\n".join(notes), UnresolvedWarning, stacklevel=3)
