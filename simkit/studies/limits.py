"""What a study cannot do with a simulation, or with the settings it is given."""

from collections.abc import Iterable

import jax
import numpy as np

from simkit.config.settings import Uncertainty
from simkit.derivatives.differentiated_run import DifferentiatedRun
from simkit.derivatives.smoothness import why_equations_jump, why_path_jumps
from simkit.derivatives.targets import find_target
from simkit.distributions.distribution import AbstractDrawn
from simkit.ensemble.could_differ import is_random
from simkit.ensemble.initial import numbers_of
from simkit.ensemble.ranges import ranged_values, ranges_of
from simkit.ensemble.simulation import Simulation
from simkit.errors import InputError
from simkit.observe.observer import Observer
from simkit.studies.ranks import FEWEST_PATHS
from simkit.suggestions import did_you_mean, shown

PATHS = 16


def beyond_a_study(simulation: Simulation, settings: Uncertainty, uncertain: Iterable[str]) -> list[str]:
    """What a study of the `uncertain` constants cannot do, as `key: message`."""
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
    if settings.method == "derivatives":
        problems += _without_derivative(simulation, settings, uncertain)
    return problems


def _without_derivative(simulation: Simulation, settings: Uncertainty, uncertain: Iterable[str]) -> list[str]:
    """Why paths or their observables have no derivatives, as `key: message`."""
    observables = [
        f"observe.{observable.name}: a condition jumps, and the derivative along a path is 0 "
        "where the mean's is not; name others in uncertainty.of, or choose method sobol"
        for observable in simulation.observed
        if (settings.of is None or observable.name in settings.of)
        and observable.expression.discontinuities.jumps - {"t"}
    ]
    if simulation.stepping.whole:
        events = (
            "uncertainty.method: events jump, and have no derivative along a path; choose sobol, or the rate "
            "equation by a solver such as Tsit5"
        )
        return [events, *observables]
    paths = [
        f"uncertainty.method: a path has no derivative in {name}: {reason}; choose sobol or morris"
        for name, reason in _not_differentiable(simulation, uncertain).items()
    ]
    return [*observables, *paths]


def _not_differentiable(simulation: Simulation, names: Iterable[str]) -> dict[str, str]:
    """Why paths jump as parameters move, under their own random numbers, by name."""
    with jax.enable_x64(True):
        targets = [find_target(simulation, name) for name in names]
        run = DifferentiatedRun.of(simulation, targets)
        reasons = {
            x.label: why_equations_jump(run, i) or why_path_jumps(run, i) for i, x in enumerate(targets)
        }
        return {label: reason for label, reason in reasons.items() if reason is not None}


def check_streams(replicates: int, rows: int, paths: int) -> None:
    """Raise `InputError` where a design needs more streams of noise than there are."""
    most = 2 * replicates * rows * paths
    if most > 2**32:
        raise InputError(
            f"uncertainty: {replicates} replicates of {rows} points with {paths} paths each need {most:,} "
            "streams of noise, and there are 2^32; use fewer"
        )


def _check_drawn(name: str, start: AbstractDrawn) -> None:
    """Raise `InputError` where the distribution of an initial value has invalid numbers."""
    for numbers in np.unique(np.stack(jax.tree.leaves(start), 1), axis=0):
        try:
            type(start)(*map(float, numbers))
        except ValueError as error:
            raise InputError(
                f"initial.{name}: {start.key}: {error}; give parameters distributions that do not allow it"
            ) from error


def check_ranges(simulation: Simulation, parameters: tuple[str, ...], points: np.ndarray) -> None:
    """Raise `InputError` where a distribution gives a parameter or an initial value what it may not have."""
    if simulation.bind is None:
        return
    bind = simulation.bind

    def ranged(point):
        return ranged_values(bind({name: point[i] for i, name in enumerate(parameters)}))

    starts = jax.vmap(lambda point: numbers_of(bind(dict(zip(parameters, point, strict=True))).initial))(
        points
    )
    for name, start in starts.items():
        if isinstance(start, AbstractDrawn):
            _check_drawn(name, start)
    if simulation.stepping.whole:
        for name, counts in starts.items():
            parts = np.flatnonzero(np.asarray(counts) != np.rint(counts))
            if len(parts):
                raise InputError(
                    f"initial.{name}: must be a whole number of molecules, and the distributions give it "
                    f"{float(counts.ravel()[parts[0]]):.6g}; choose a discrete one, or give the rates a "
                    "constant of their own"
                )
    ranges = ranges_of(simulation.problem)
    for name, values in jax.vmap(ranged)(points).items():
        for extreme in (float(np.min(values)), float(np.max(values))):
            if not ranges[name].admits(extreme):
                raise InputError(
                    f"{name}: must be {ranges[name].range}, and the distributions give it {extreme:.6g}"
                    "; choose one that stays inside, such as lognormal, uniform or truncated_normal"
                )
