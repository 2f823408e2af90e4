"""Studies of experiments: from a file with distributions to a dataset."""

import dataclasses
import os
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from simkit_solvers.grids.jump_grid import JumpGrid

from simkit.config.diagnostics import placed
from simkit.config.overrides import Overrides
from simkit.derivatives.facts import Facts, not_smooth
from simkit.derivatives.targets import changes, find_target, program_of
from simkit.ensemble.could_differ import is_random
from simkit.ensemble.simulation import Simulation
from simkit.errors import InputError
from simkit.experiments.assembly import build
from simkit.experiments.variants import refuse_paths
from simkit.observe.observables import Observer
from simkit.results.provenance import provenance_of
from simkit.studies.api import each_alone, grouped
from simkit.studies.dataset import to_dataset
from simkit.studies.methods import PER_GROUP, AbstractMethod, Derivatives, Morris, Propagate, Rank, Sobol
from simkit.studies.plan import UncertainExperiment, load_uncertain
from simkit.studies.ranks import FEWEST_PATHS
from simkit.studies.simulations import evaluate_simulation
from simkit.studies.study import Plan, Study, check_budget, run_study
from simkit.suggestions import did_you_mean, shown

if TYPE_CHECKING:
    import xarray as xr

PATHS = 16
UNUSED = "no influence: nothing in the experiment uses it"


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
    is also written to `out`, where it is given. Raises `InputError` that lists the mistakes, `NumericalError`
    where runs become NaN or infinite, `OutputError` where the output cannot be written.
    """
    loaded = load_uncertain(source, overrides)
    simulation = build_uncertain(loaded)
    if out is not None:
        from simkit.results.storage import check_output

        refuse_paths(loaded.experiment, out)
        check_output(out, overwrite)
    dataset = study_experiment(loaded, simulation, progress)
    if out is not None:
        from simkit.results.storage import write_dataset

        write_dataset(dataset, out, overwrite)
    return dataset


def build_uncertain(loaded: UncertainExperiment) -> Simulation:
    """The simulation at the centres of the laws. Raises `InputError` for what a study cannot do."""
    simulation, settings = build(loaded.experiment), loaded.settings
    problems = []
    known = [*simulation.observables, *simulation.problem.State._fields]
    for name in settings.of or ():
        if name not in known:
            problems.append(
                f"uncertainty.of: no observable or state variable {shown(name)}{did_you_mean(name, known)}"
            )
    if isinstance(simulation.observer, Observer) and simulation.observer.exercised:
        problems.append(
            "uncertainty: early exercise finds a policy for one set of parameters; remove early_exercise"
        )
    fewest, why = 2, "to tell noise from parameters"
    if settings.method == "rank":
        fewest, why = FEWEST_PATHS, "whose quarters say what noise does to ranks"
    if is_random(simulation) and (settings.paths or PATHS) < fewest:
        problems.append(
            f"uncertainty.paths: must be at least {fewest} where paths differ, {why}, got {settings.paths}"
        )
    if not is_random(simulation) and (settings.paths or 1) > 1:
        problems.append(
            f"uncertainty.paths: {settings.paths} paths of the same parameters would all be one, since "
            "nothing else is random; leave it out"
        )
    if settings.method == "derivatives" and isinstance(simulation.grid, JumpGrid):
        problems.append(
            "uncertainty.method: events jump, and have no derivative along a path; choose sobol, or the rate "
            "equation by a solver such as Tsit5"
        )
    if settings.method == "derivatives" and isinstance(simulation.observer, Observer):
        for observable in simulation.observer.observables:
            wanted = settings.of is None or observable.name in settings.of
            if wanted and observable.expression.jumps - {"t"}:
                problems.append(
                    f"observe.{observable.name}: a condition jumps, and the derivative along a path is 0 "
                    "where the mean's is not; name others in uncertainty.of, or choose method sobol"
                )
    if settings.method == "derivatives" and not isinstance(simulation.grid, JumpGrid):
        problems += [
            f"uncertainty.method: a path has no derivative in {name}: {reason}; choose sobol or morris"
            for name, reason in _not_differentiable(simulation, loaded.laws).items()
        ]
    with placed(loaded.experiment.document):
        if problems:
            raise InputError(problems)
    return simulation


def _not_differentiable(simulation: Simulation, names: Iterable[str]) -> dict[str, str]:
    """Why paths jump as parameters move, under their own random numbers, by name."""
    with jax.enable_x64(True):
        targets = [find_target(simulation, name) for name in names]
        program, inputs = program_of(simulation)
        facts = Facts(simulation, program, inputs, targets, changes(simulation, targets)[0])
        found = {}
        for i, target in enumerate(targets):
            broken = facts.model_jumps(i)
            reason = f"the equations jump with {broken}" if broken else not_smooth(facts, i)
            if reason is not None:
                found[target.label] = reason
    return found


def study_experiment(
    loaded: UncertainExperiment, simulation: Simulation, progress: Callable[[int, int], None] | None = None
) -> "xr.Dataset":
    """Run the study and label its results; nothing is written."""
    settings = loaded.settings
    method = method_of(loaded)
    names = tuple(settings.of or simulation.observables or simulation.problem.State._fields)
    paths = (settings.paths or PATHS) if is_random(simulation) else 1
    plan = Plan(
        settings.points or 1,
        settings.replicates,
        settings.seed,
        settings.confidence,
        settings.width,
        settings.budget,
    )
    start = time.perf_counter()
    with placed(loaded.experiment.document):
        check_budget(method, plan, paths, "uncertainty.budget")
        evaluate, unused = evaluate_simulation(
            simulation,
            tuple(loaded.laws),
            names,
            paths,
            settings.replicates,
            gradient=method.wants_gradient,
            keep=method.wants_each,
            progress=progress,
        )
        study = _without_unused(run_study(method, plan, evaluate, paths), method, unused)
    states = simulation.problem.State._fields
    units = {name: info.unit for name, info in simulation.observables.items() if name not in states}
    facts = {"paths": paths, "elapsed_s": time.perf_counter() - start}
    return to_dataset(method, plan, study, units, provenance_of(loaded.resolved()) | facts)


def method_of(loaded: UncertainExperiment) -> AbstractMethod:
    """The method that the settings ask for."""
    laws, settings = loaded.laws, loaded.settings
    alone = each_alone(laws)
    match settings.method:
        case "sobol":
            return Sobol(laws, grouped(laws, settings.groups), settings.estimator, settings.order)
        case "morris":
            return Morris(laws, alone, settings.levels)
        case "derivatives":
            return Derivatives(laws, alone)
        case "rank":
            return Rank(laws, alone)
        case _:
            return Propagate(laws, alone)


def _without_unused(study: Study, method: AbstractMethod, unused: tuple[str, ...]) -> Study:
    """The study with exact zeros, and the reason, for parameters that nothing uses."""
    laws = list(method.laws)
    idle = np.asarray([all(laws[i] in unused for i in group) for group in method.groups.values()])
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
