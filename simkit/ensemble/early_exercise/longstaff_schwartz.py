r"""Early exercise by regression on simulated paths.

Backwards in time, the value of going on is regressed on functions of the state, over the paths on which
exercising would pay; a path exercises where its value is the greater (Longstaff & Schwartz 2001,
doi:10.1093/rfs/14.1.113). The policy so found is then an accumulator in the loop over other paths. Exercised
on those it knows nothing of their future, so that the mean there is that of an admissible policy: at most
the value of the option, but for its standard error. On its own paths it has seen the future, and the mean
there tends to be higher.

Where Brownian noise drives the paths a martingale is found first, on paths of its own (`martingale`). Its
value on each path is subtracted from what the path is worth in the regressions, which leaves them little
noise, and the mean of the largest value less the martingale is an upper bound of the value of the option.
"""

import dataclasses
import time
from collections.abc import Mapping

import numpy as np
from simkit_solvers.problems.schedule import curves_of, parameters_at

from simkit.config.settings import MAX_PATHS
from simkit.ensemble.early_exercise.exercise_sample import OptionGroup, Sample, option_groups
from simkit.ensemble.early_exercise.martingale import Martingale, fit_martingale, gains_of, shape_of
from simkit.ensemble.early_exercise.regression import regressed
from simkit.ensemble.simulation import Simulation
from simkit.errors import InputError
from simkit.observe.exercise import MARTINGALE_PATHS, PATHS_PER_TERM, Exercise, ExerciseFit, Policy
from simkit.observe.observer import Observer


def with_policies(
    simulation: Simulation,
) -> tuple[Simulation, dict[str, ExerciseFit], tuple[float, float]]:
    """The simulation with a policy for each observable with early exercise, and what they were fitted to.

    Also the seconds that this took, and those of compiling. The paths it uses have the last ids that there
    are, whatever the size of the ensemble. Raises `InputError` where too few of them are in the money, and
    `NumericalError` where one becomes NaN or infinite and `failures` is `stop`.
    """
    start = time.perf_counter()
    ((changed, fits),), compile_s = independent_policies(simulation, 1)
    return changed, fits, (time.perf_counter() - start - compile_s, compile_s)


def independent_policies(
    simulation: Simulation, count: int
) -> tuple[list[tuple[Simulation, dict[str, ExerciseFit]]], float]:
    """The simulation with each of `count` policies, fitted on separate paths, and the seconds of compiling.

    The first policy is that of `with_policies`.
    """
    fits: list[dict[str, ExerciseFit]] = [{} for _ in range(count)]
    compile_s = 0.0
    for group in option_groups(simulation):
        paths = group.shared.paths
        compile_s += group.compile(paths)
        martingales = _martingales(group)
        for number, result in enumerate(fits):
            first = MAX_PATHS - (number + 1) * paths
            for name, sample, gains in _samples_and_gains(group, martingales, first, paths):
                exercise = group.exercises[name]
                fit = fit_policy(name, exercise, sample.values, sample.basis, gains)
                policy = dataclasses.replace(fit.policy, held=_held(group, name))
                result[name] = dataclasses.replace(fit, policy=policy, martingale=martingales.get(name))
    return [_fitted(simulation, result) for result in fits], compile_s


def _fitted(
    simulation: Simulation, fits: Mapping[str, ExerciseFit]
) -> tuple[Simulation, dict[str, ExerciseFit]]:
    """The simulation with these policies, and the fits in the order of the observables."""
    observer = simulation.observer
    if not fits or not isinstance(observer, Observer):
        return simulation, {}
    ordered = {observable.name: fits[observable.name] for observable, _ in observer.exercised}
    policies = {name: fit.policy for name, fit in ordered.items()}
    observer = dataclasses.replace(observer, policies=policies)
    return simulation.with_run(observer=observer), ordered


def with_upper_bounds(
    simulation: Simulation, fits: Mapping[str, ExerciseFit]
) -> tuple[dict[str, ExerciseFit], tuple[float, float]]:
    """The fits with an upper bound of each value that has a martingale, from the first paths.

    Also the seconds that this took, and those of compiling. Paths that are not finite are left out.
    """
    start, compile_s, changed = time.perf_counter(), 0.0, dict(fits)
    for group in option_groups(dataclasses.replace(simulation, failures="exclude")):
        martingales = {name: fits[name].martingale for name in group.parts if fits[name].martingale}
        paths = min(simulation.paths, MARTINGALE_PATHS)
        if not martingales:
            continue
        compile_s += group.compile(paths)
        for name, sample, gains in _samples_and_gains(group, martingales, 0, paths):
            if gains is None:
                continue
            most = np.max(np.maximum(sample.values, 0.0) - np.cumsum(gains, axis=0), axis=0)
            changed[name] = dataclasses.replace(
                fits[name], upper=float(most.mean()), upper_stderr=_stderr(most)
            )
    return changed, (time.perf_counter() - start - compile_s, compile_s)


def _martingales(group: OptionGroup) -> dict[str, Martingale]:
    """The martingale of each option by name, none where no Brownian noise drives the paths."""
    if not group.components:
        return {}
    first, paths = MAX_PATHS - group.shared.reserved, group.martingale_paths
    chunks: list[dict[str, Sample]] = []
    group.sample(first, paths, chunks.append)
    result = {}
    for name, exercise in group.exercises.items():
        shape = shape_of(exercise, group.components, group.every, group.jumps is not None)
        sample = Sample(*(np.concatenate(x, axis=-1) for x in zip(*(c[name] for c in chunks), strict=True)))
        result[name] = fit_martingale(exercise, shape, sample, group.ends, group.jumps)
    return result


def _samples_and_gains(
    group: OptionGroup, martingales: Mapping[str, Martingale], first: int, count: int
) -> list[tuple[str, Sample, np.ndarray | None]]:
    """For each option, the values that its decisions use on these paths, and any martingale's gains."""
    result: dict[str, list[tuple[np.ndarray, ...]]] = {name: [] for name in group.parts}

    def add(chunk: dict[str, Sample]) -> None:
        for name, sample in chunk.items():
            gains = ()
            if name in martingales:
                gains = (gains_of(martingales[name], sample, group.ends),)
            result[name].append((sample.values, sample.basis, *gains))

    group.sample(first, count, add)
    samples = []
    for name, parts in result.items():
        values, basis, *gains = (np.concatenate(arrays, axis=-1) for arrays in zip(*parts, strict=True))
        none = np.zeros((0, 0, values.shape[1]))
        samples.append((name, Sample(values, basis, none, none, none), gains[0] if gains else None))
    return samples


def _held(group: OptionGroup, name: str) -> dict[str, np.ndarray]:
    """The numbers that a decision uses in addition to the state, by name, `(dates,)`, but for curves."""
    grid, problem, exercise = group.grid, group.simulation.problem, group.exercises[name]
    curves = curves_of(problem)
    parameters = {name: x for name, x in parameters_at(problem, grid.t0).items() if name not in curves}
    times = float(grid.t0) + float(grid.dt) * np.array(exercise.when)
    numbers = {"t": times, **group.observer.constants, **parameters}
    seen = {used for part in group.parts[name] for used in part.names}
    seen -= {*curves, *problem.State._fields}
    shape = (exercise.dates,)
    return {n: np.broadcast_to(np.float64(x), shape) for n, x in numbers.items() if n in seen}


def fit_policy(
    name: str,
    exercise: Exercise,
    values: np.ndarray,
    basis: np.ndarray,
    gains: np.ndarray | None = None,
) -> ExerciseFit:
    """The policy for exercise values, `(dates, paths)`, and a basis, `(functions, dates, paths)`.

    `gains`, `(dates, paths)`, are those of a martingale up to each date from the one before. Regressions are
    by QR in float64 on Hermite polynomials of the basis, at each date shifted and scaled to mean 0 and
    variance 1 over the paths in the money. A date with fewer such paths than ten per polynomial is passed
    over. Raises `InputError` where that is so at every date before the last, and where no path is in the
    money at the last.
    """
    dates, functions = exercise.dates, len(exercise.basis)
    _check_in_the_money(name, exercise, values)
    coefficients = np.zeros((dates, exercise.terms))
    coefficients[:-1, 0] = np.inf
    low, high, centre = (np.zeros((dates, functions)) for _ in range(3))
    scale = np.ones((dates, functions))
    payoff = np.maximum(values[-1], 0.0)
    future = payoff.copy()
    when = np.where(values[-1] > 0, dates - 1, dates)
    for j in reversed(range(dates - 1)):
        if gains is not None:
            future = future - gains[j + 1]
        fit = regressed(exercise, values[j], basis[:, j], future)
        if fit is None:
            continue
        low[j], high[j], centre[j], scale[j] = fit.low, fit.high, fit.centre, fit.scale
        coefficients[j], now = fit.coefficients, fit.exercised
        future[now] = payoff[now] = values[j, now]
        when[now] = j
    policy = Policy(coefficients, centre, scale, low, high, exercise.degree)
    first = [basis[0, j, when == j] for j in range(dates)]
    return ExerciseFit(
        policy=policy,
        dates=exercise.fractions,
        mean=float(payoff.mean()),
        stderr=_stderr(payoff),
        fraction=np.array([np.mean(when == j) for j in range(dates)]),
        low=np.array([x.min(initial=np.inf) if len(x) else np.nan for x in first]),
        high=np.array([x.max(initial=-np.inf) if len(x) else np.nan for x in first]),
    )


def _check_in_the_money(name: str, exercise: Exercise, values: np.ndarray) -> None:
    """Raise `InputError` where too few paths would be paid anything at any date."""
    dates, needed = exercise.dates, PATHS_PER_TERM * exercise.terms
    inside = values > 0
    most = int(inside[:-1].sum(axis=1).max(initial=0))
    if not inside.any() or (dates > 1 and most < needed):
        raise InputError(
            f"observe.{name}.early_exercise: of {values.shape[1]} paths at most {most} would be paid "
            f"anything at a date before the end, and {exercise.terms} polynomials need {needed}; use more "
            "early_exercise.paths, a lower degree or a smaller basis"
        )


def _stderr(values: np.ndarray) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else np.nan
