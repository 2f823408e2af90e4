"""Studies of experiments: from a file with distributions to a dataset."""

import dataclasses
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from simkit.config.diagnostics import placed
from simkit.config.overrides import Overrides
from simkit.ensemble.could_differ import is_random
from simkit.ensemble.run import run_ensemble
from simkit.ensemble.simulation import Simulation, experiment_of
from simkit.ensemble.step_bias.coupled_steps import BIAS_PATHS, approximate_means
from simkit.ensemble.step_bias.step_error import StepError
from simkit.machine.memory import failures_named
from simkit.results.claims import claimed
from simkit.results.provenance import provenance
from simkit.studies.checks import made
from simkit.studies.dataset import to_dataset
from simkit.studies.limits import PATHS
from simkit.studies.method import PER_GROUP, AbstractMethod
from simkit.studies.methods import METHODS, UNUSED
from simkit.studies.plan import UncertainExperiment, load_uncertain
from simkit.studies.simulations import simulated_design
from simkit.studies.study import Study, StudyPlan, check_budget, run_study

if TYPE_CHECKING:
    import xarray as xr

LIGHTER = "take fewer points (uncertainty.points) or fewer paths of each (uncertainty.paths)"


def uncertainty(
    source: str | os.PathLike | Mapping[str, Any],
    *,
    overrides: Overrides = (),
    out: str | os.PathLike | None = None,
    overwrite: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> "xr.Dataset":
    """Study an experiment whose parameters are distributions, as `simkit uncertainty` does.

    `source` and `overrides` are as for `simkit.run`. The dataset has dimensions observable and parameter and
    is also written to `out`, where it is given; the `output:` of a file is for the command. Raises
    `InputError` that lists the errors, `NumericalError` where runs become NaN or infinite, `OutputError`
    where the output cannot be written.

    >>> import simkit
    >>> experiment = {
    ...     "constants": {"k": {"uniform": [0.9, 1.1]}, "m": {"uniform": [0.5, 1.5]}},
    ...     "model": {"type": "HarmonicOscillator", "m": "m", "k": "k"},
    ...     "initial": {"q": 1.0, "p": 0.0},
    ...     "time": {"t1": 1.0, "steps": 20},
    ...     "uncertainty": {"method": "sobol", "points": 64, "replicates": 4},
    ... }
    >>> result = simkit.uncertainty(experiment)
    >>> result["total"].sel(observable="q").round(1).to_series().to_dict()
    {'k': 0.0, 'm': 1.0}
    """
    loaded = load_uncertain(source, overrides)
    if out is not None:
        from simkit.results.storage import check_output

        loaded.centre.check_target(out)
        check_output(out, overwrite)
    with claimed([] if out is None else [Path(out)]):
        dataset = study_experiment(loaded, progress)
        if out is not None:
            from simkit.results.storage import write_or_rescue

            write_or_rescue(dataset, out, overwrite)
    return dataset


def study_experiment(
    loaded: UncertainExperiment, progress: Callable[[int, int], None] | None = None
) -> "xr.Dataset":
    """Run the study and label its results; nothing is written."""
    simulation, settings = loaded.simulation, loaded.settings
    method = method_of(loaded)
    names = tuple(settings.of or simulation.observables or simulation.problem.State._fields)
    paths = (settings.paths or PATHS) if is_random(simulation) else 1
    plan = StudyPlan(**{field.name: getattr(settings, field.name) for field in dataclasses.fields(StudyPlan)})
    start = time.perf_counter()
    with placed(experiment_of(simulation).document), failures_named(LIGHTER):
        check_budget(method, plan, paths, "uncertainty.budget")
        design = simulated_design(
            simulation,
            tuple(loaded.distributions),
            names,
            paths,
            settings.replicates,
            gradient=method.wants_gradient,
            keep=method.wants_each,
            progress=progress,
        )
        study = _without_unused(run_study(method, plan, design, paths), method, design.bindings.unused)
    states = simulation.problem.State._fields
    units = {name: info.unit for name, info in simulation.observables.items() if name not in states}
    steps = step_errors_at_the_centre(simulation, names)
    times = {o.name: o.first_time.functional.unmet for o in simulation.observed if o.first_time is not None}
    counts_as = "; ".join(f"{name}: {value}" for name, value in times.items() if name in names)
    size = {"paths": paths, "elapsed_s": time.perf_counter() - start, "counts_as": counts_as}
    known = provenance(loaded.resolved(), experiment_of(simulation).document.name) | size
    return loaded.centre.with_inputs(to_dataset(method, plan, study, units, known, steps))


def step_errors_at_the_centre(simulation: Simulation, names: tuple[str, ...]) -> dict[str, StepError]:
    """The step error of each mean with all parameters at their centre, of those that have one.

    Intervals of the measures do not include it: that would take it at every point.
    """
    if {*names}.isdisjoint(approximate_means(simulation)):
        return {}
    paths = min(BIAS_PATHS, simulation.paths) if is_random(simulation) else 1
    errors = run_ensemble(dataclasses.replace(simulation, paths=paths)).bias
    return {name: errors[name] for name in names if name in errors}


def method_of(loaded: UncertainExperiment) -> AbstractMethod:
    """The method of the settings."""
    distributions, settings = loaded.distributions, loaded.settings
    kind = METHODS[settings.method]
    return made(kind, distributions, {key: getattr(settings, key) for key in kind.settings})


def _without_unused(study: Study, method: AbstractMethod, unused: tuple[str, ...]) -> Study:
    """The study with exact zeros, and the reason, for parameters that nothing uses."""
    names = list(method.distributions)
    idle = np.asarray([all(names[i] in unused for i in group) for group in method.groups.values()])
    notes = {
        name: [UNUSED if none else note for none, note in zip(idle, own, strict=True)]
        for name, own in study.notes.items()
    }
    estimates = {
        name: {
            key: each._replace(value=np.where(idle, 0.0, each.value), half=np.where(idle, 0.0, each.half))
            if each.dims == PER_GROUP
            else each
            for key, each in own.items()
        }
        for name, own in study.estimates.items()
    }
    return dataclasses.replace(study, notes=notes, estimates=estimates)
