"""Derivatives of the means of a simulation, each with its standard error.

`sensitivities("gbm.yaml")` is what `simkit sensitivity gbm.yaml` does and returns the labelled results.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from simkit.build import build
from simkit.errors import InputError
from simkit.execution import provenance
from simkit.experiment import load
from simkit.mistakes import placed
from simkit.overrides import Overrides
from simkit.sensitivity.result import to_dataset
from simkit.sensitivity.study import find_sensitivities
from simkit.settings import Experiment, Sensitivity
from simkit.simulation import Simulation

if TYPE_CHECKING:
    import xarray as xr


def sensitivities(
    source: str | os.PathLike | Mapping[str, Any],
    wrt: Iterable[str] | None = None,
    *,
    overrides: Overrides = (),
    progress: Callable[[int, int], None] | None = None,
) -> "xr.Dataset":
    r"""The derivatives $\partial_\theta E[f]$ of an experiment, each with its standard error.

    `source` and `overrides` are as those of `simkit.run`; `wrt` are names to differentiate with respect to,
    in place of the experiment's `sensitivity.wrt`. Raises `InputError` that lists every mistake, or says why
    an estimator that was asked for would be wrong, and `NumericalError` when a path or its derivative becomes
    NaN or infinite. Nothing is written.
    """
    given: list[str | tuple[str, Any]] = []
    if isinstance(overrides, Mapping):
        given += [(str(key), value) for key, value in overrides.items()]
    else:
        given += [overrides] if isinstance(overrides, str) else overrides
    if wrt is not None:
        given.append(("sensitivity.wrt", f"[{', '.join(wrt)}]"))
    experiment = load(source, given)
    return run_study(experiment, build(experiment), asked(experiment), progress)


def asked(experiment: Experiment) -> Sensitivity:
    """The section of the experiment. Raises `InputError` where there is none."""
    if experiment.sensitivity is None:
        raise InputError(
            "sensitivity: is missing; say what to differentiate with respect to, as in "
            "sensitivity: {wrt: [sigma]}, or --wrt sigma"
        )
    return experiment.sensitivity


def run_study(
    experiment: Experiment,
    simulation: Simulation,
    section: Sensitivity,
    progress: Callable[[int, int], None] | None = None,
) -> "xr.Dataset":
    """Find the sensitivities of what was built, and label them; nothing is written."""
    with placed(experiment.document):
        study = find_sensitivities(simulation, section, progress)
    return to_dataset(simulation, study, provenance(experiment))
