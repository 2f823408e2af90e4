"""From `ensemble.variance_reduction` and `driver` to what is averaged, and whether a run can have it."""

import dataclasses
from collections.abc import Mapping, Sequence

from simkit_solvers.problems.jump_diffusion import AbstractJumpDiffusion
from simkit_solvers.problems.problem import AbstractExactMoments, AbstractODE
from simkit_solvers.problems.schedule import model_of
from simkit_solvers.random.sobol import LONGEST_GROUP, MOST_DIMENSIONS, SobolNoise

from simkit.config.diagnostics import Diagnostics
from simkit.config.settings import FEWEST_SCRAMBLINGS, Ensemble
from simkit.ensemble.replicates import PAIR, VarianceReduction
from simkit.ensemble.simulation import ObservableInfo, Simulation
from simkit.experiments.defaults import default_paths, has_points, scramblings_of
from simkit.observe.observable import Observable
from simkit.suggestions import did_you_mean

ONE_PAIR = f"one pair of antithetic paths shows no error of a mean; use {2 * PAIR} or more"
PLACE = ("ensemble", "variance_reduction")
POINTS = VarianceReduction(scramblings=FEWEST_SCRAMBLINGS)


def plan_reduction(
    ensemble: Ensemble,
    problem: AbstractODE,
    fixed_steps: bool,
    observables: Sequence[Observable],
    info: Mapping[str, ObservableInfo],
    diagnostics: Diagnostics,
) -> VarianceReduction | None:
    """What is averaged; None where these are single paths. What is wrong goes to `diagnostics`."""
    section = ensemble.variance_reduction
    if has_points(ensemble):
        return _plan_points(ensemble, problem, fixed_steps, observables, diagnostics)
    if ensemble.scramblings is not None:
        message = "is for Sobol' points; set driver: sobol or variance_reduction: stratified, or leave it out"
        diagnostics.add(("ensemble", "scramblings"), message, at_key=True)
    if section is None or not (section.antithetic or section.control or section.importance):
        return None
    exercised = [observable.name for observable in observables if observable.exercise is not None]
    if exercised:
        message = f"{exercised[0]} is exercised early, which takes plain paths; leave variance_reduction out"
        diagnostics.add(PLACE, message, at_key=True)
    if ensemble.couple is not None:
        message = "strong errors are those of plain paths; leave variance_reduction or couple out"
        diagnostics.add(PLACE, message, at_key=True)
    if section.antithetic:
        reason = _not_mirrored(problem, fixed_steps)
        if reason:
            diagnostics.add(PLACE, f"antithetic: {reason}", at_key=True)
        elif ensemble.target is None and (message := _not_paired(ensemble.paths or 0)):
            diagnostics.add(("ensemble", "paths"), message)
        elif ensemble.target and (most := ensemble.target.max_paths) and most < 2 * PAIR:
            diagnostics.add(("ensemble", "target", "max_paths"), ONE_PAIR)
    if section.importance:
        return VarianceReduction(importance=True)
    controls = _controls(section.control, problem, info, diagnostics)
    return VarianceReduction(section.antithetic, controls=controls)


def _plan_points(
    ensemble: Ensemble,
    problem: AbstractODE,
    fixed_steps: bool,
    observables: Sequence[Observable],
    diagnostics: Diagnostics,
) -> VarianceReduction:
    """The Sobol' points of a scrambling."""
    section = ensemble.variance_reduction
    key, value = ("driver", "sobol") if ensemble.driver == "sobol" else (PLACE[-1], "stratified")
    exercised = [observable.name for observable in observables if observable.exercise is not None]
    reasons = {
        f"drives Brownian noise, and this model has none; leave {key} out": not problem.stochastic,
        "needs steps of one length; give time.steps": problem.stochastic and not fixed_steps,
        f"strong errors are those of independent paths; leave {key} or couple out": ensemble.couple,
        "variance_reduction is for independent paths; leave one of the two out": key == "driver" and section,
        "antithetic, control and importance are for independent paths; use stratified alone": key != "driver"
        and section is not None
        and (section.antithetic or section.control or section.importance),
        f"{''.join(exercised[:1])} is exercised early, by independent paths; leave {key} out": exercised,
    }
    for reason in (text for text, applies in reasons.items() if applies):
        diagnostics.add(("ensemble", key), f"{value}: {reason}")
    paths, scramblings = ensemble.paths or default_paths(ensemble), scramblings_of(ensemble)
    if scramblings & (scramblings - 1):
        message = f"{scramblings} is no power of two; use {1 << scramblings.bit_length()}"
        diagnostics.add(("ensemble", "scramblings"), message)
    elif paths & (paths - 1) or paths < scramblings:
        below = 1 << paths.bit_length() - 1
        choices = f"{below} or {2 * below}" if below >= scramblings else scramblings
        message = f"Sobol' points in {scramblings} scramblings are a power of two paths; use {choices}"
        diagnostics.add(("ensemble", "paths"), message)
    if ensemble.target and (most := ensemble.target.max_paths) and most < scramblings:
        message = f"{scramblings} scramblings are as many paths at least; use {scramblings} or more"
        diagnostics.add(("ensemble", "target", "max_paths"), message)
    return VarianceReduction(scramblings=scramblings, ends_only=value == "stratified")


def refuse_dimensions(simulation: Simulation, diagnostics: Diagnostics) -> None:
    """Add that a path has more normals than Sobol' points have dimensions."""
    reduction = simulation.reduction
    if reduction is None or not reduction.scramblings or reduction.ends_only:
        return
    steps, needed = simulation.grid.steps or 0, _dimensions(simulation.problem, simulation.grid.steps)
    if needed > MOST_DIMENSIONS:
        most = MOST_DIMENSIONS // len(simulation.problem.Noise._fields) // LONGEST_GROUP * LONGEST_GROUP
        message = (
            f"{steps} steps take {needed} dimensions, and Sobol' points have {MOST_DIMENSIONS}; use "
            f"{most} or fewer, or leave driver out"
        )
        diagnostics.add(("time", "steps"), message)


def _dimensions(problem: AbstractODE, steps: int | None) -> int:
    """How many coordinates the points of a run have; none where there are no points."""
    return SobolNoise.dimensions(steps, len(problem.Noise._fields)) if steps and problem.stochastic else 0


def possible_reductions(
    problem: AbstractODE, steps: int | None, info: Mapping[str, ObservableInfo]
) -> dict[str, VarianceReduction]:
    """The ways to reduce variances of a run without early exercise, as `ensemble` has them."""
    mirrored, known = not _not_mirrored(problem, steps is not None), tuple(_known_means(problem, info))
    both, dimensions = VarianceReduction(True, controls=known), _dimensions(problem, steps)
    ways = {
        "antithetic": (VarianceReduction(True), mirrored),
        "control": (VarianceReduction(controls=known), bool(known)),
        "{antithetic: true, control: true}": (both, mirrored and bool(known)),
        "driver: sobol": (POINTS, 0 < dimensions <= MOST_DIMENSIONS),
        "stratified": (dataclasses.replace(POINTS, ends_only=True), dimensions > MOST_DIMENSIONS),
    }
    return {name: way for name, (way, possible) in ways.items() if possible}


def _known_means(problem: AbstractODE, info: Mapping[str, ObservableInfo]) -> list[str]:
    """The state variables that may have a known mean; where there are none the observables that have."""
    states = [*problem.State._fields] if isinstance(model_of(problem), AbstractExactMoments) else []
    return states or [name for name, each in info.items() if each.exact is not None]


def _not_mirrored(problem: AbstractODE, fixed_steps: bool) -> str:
    """Why there are no antithetic paths; empty where there are."""
    model = model_of(problem)
    if not problem.stochastic:
        return "mirrors Brownian noise, and this model has none; leave it out"
    if isinstance(model, AbstractJumpDiffusion):
        return f"the jumps of {type(model).__name__} have no mirror image; leave it out, or use control"
    if not fixed_steps:
        return "needs steps of one length; give time.steps"
    return ""


def _not_paired(paths: int) -> str:
    """What is wrong with a number of antithetic paths; empty where nothing is."""
    if paths and paths <= PAIR:
        return ONE_PAIR
    return f"antithetic paths come in pairs; use {paths + 1}" if paths % PAIR else ""


def _controls(
    given: list[str] | bool,
    problem: AbstractODE,
    info: Mapping[str, ObservableInfo],
    diagnostics: Diagnostics,
) -> tuple[str, ...]:
    """The controls by name; of `true` the state, or observables, that may have a known mean."""
    known = _known_means(problem, info)
    if given is False:
        return ()
    if given is True:
        if not known:
            message = "no mean is known here; give an observable its exact: mean, and name it in control"
            diagnostics.add((*PLACE, "control"), message)
        return tuple(known)
    everything = [*info, *problem.State._fields]
    for i, name in enumerate(given):
        if name not in everything:
            message = f"there is no {name}{did_you_mean(name, everything)}"
            diagnostics.add((*PLACE, "control", i), message)
        elif name not in known and (name not in info or info[name].exact is None):
            hint = "make it an observable with exact:" if name not in info else f"give observe.{name}.exact"
            message = f"the mean of {name} is not known; {hint}, or leave it out"
            diagnostics.add((*PLACE, "control", i), message)
    return tuple(given)
