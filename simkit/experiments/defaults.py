"""The defaults of an experiment that depend on its model."""

from typing import Any

from simkit.config.settings import FEWEST_SCRAMBLINGS, Ensemble, Experiment, InlineSDE, RandomValue
from simkit.experiments.sections.initial_plan import starts_per_path
from simkit.experiments.sections.jump_plan import solves_jumps, takes_langevin
from simkit.experiments.sections.solver_plan import is_network, model_class, usual_solver

PATHS = 10_000  # unless said otherwise, where they differ
POINTS = 1024  # of a scrambling of Sobol' points, then


def default_paths(ensemble: Ensemble) -> int:
    """The paths of a random run that says nothing of them."""
    return scramblings_of(ensemble) * POINTS if has_points(ensemble) else PATHS


def has_points(ensemble: Ensemble) -> bool:
    """Whether Brownian noise, or its end, is that of Sobol' points."""
    reduction = ensemble.variance_reduction
    return ensemble.driver == "sobol" or (reduction is not None and reduction.stratified)


def scramblings_of(ensemble: Ensemble) -> int:
    """How many scramblings Sobol' points would have."""
    return ensemble.scramblings or FEWEST_SCRAMBLINGS


def with_defaults(experiment: Experiment) -> Experiment:
    """The experiment with the defaults that depend on its model filled in."""
    changes: dict[str, Any] = {}
    model, cls = experiment.model, model_class(experiment.model)
    stochastic = isinstance(model, InlineSDE) or (cls is not None and cls.stochastic)
    solver = experiment.solver
    if solver is None:
        solver = changes["solver"] = usual_solver(model, adaptive=experiment.time.steps is None)
    if is_network(model):
        stochastic = solves_jumps(solver) or takes_langevin(solver)
    given = experiment.ensemble.paths is not None or experiment.ensemble.target is not None
    if not given and not starts_per_path(experiment.initial):
        random = stochastic or any(isinstance(value, RandomValue) for value in experiment.initial.values())
        paths = default_paths(experiment.ensemble) if random else 1
        changes["ensemble"] = experiment.ensemble.model_copy(update={"paths": paths})
    if experiment.save.points is None and experiment.save.every is None:
        changes["save"] = experiment.save.model_copy(update={"points": 1})
    return experiment.model_copy(update=changes) if changes else experiment
