"""Which estimators of a derivative are offered to the pilot, and why: the usual one first."""

from simkit_solvers.problems.schedule import schedule_of

from simkit.derivatives.differentiated_run import DifferentiatedRun
from simkit.derivatives.estimator import AbstractEstimator, Offer, Selection
from simkit.derivatives.estimators import (
    COUPLED,
    DIFFERENCES,
    ESTIMATORS,
    MIXED,
    PATHWISE,
    SCORE,
    SMOOTHING,
    WEAK,
)
from simkit.derivatives.refusals import refuse_moved_policy, refuse_moved_times
from simkit.derivatives.smoothness import (
    EXERCISE,
    RATE,
    discontinuous_names,
    jumping_variables,
    moves_barrier_survival,
    moves_roots,
    noise_has_roots,
    shared_kink,
    why_equations_jump,
    why_path_jumps,
    why_value_jumps,
)
from simkit.derivatives.validity import (
    MOVES_ROWS,
    ONE_NETWORK,
    at_range_end,
    moves_drift_alone,
    moves_payment_alone,
    release_interval,
    smooth,
)
from simkit.errors import InputError

PAYMENT = "moves what is paid, not when"
CONTINUOUS = "continuous in the path"
STEEP = "the chance not to touch a barrier is steep"


def requested_offer(run: DifferentiatedRun, method: str, quantity: str, target: int) -> Offer:
    """The estimator that `sensitivity.method` names, or those that are right."""
    offer = first_offer(run, quantity, target)
    right = offer.rivals[0]
    if method == "auto":
        return offer
    choice = right
    if method != right.estimator.key:
        estimator = next(each for each in ESTIMATORS if each.key == method)
        result = estimator.fits(run, quantity, target, "requested")
        if isinstance(result, str):
            names = {"name": estimator.name, "quantity": quantity, "label": run.targets[target].label}
            reason = estimator.refusal.format(**names, reason=result)
            raise InputError(f"sensitivity.method: {reason}; leave method out for {right.method}")
        choice = result
    return Offer((choice,), wide_differences(run, choice) if choice.estimator is DIFFERENCES else ())


def first_offer(run: DifferentiatedRun, quantity: str, target: int) -> Offer:
    """The estimators of a first derivative."""
    if run.simulation.stepping.whole:
        return Offer(_of_counts(run, quantity, target))
    choice = _of_paths(run, quantity, target)
    instead = wide_differences(run, choice)
    if choice.estimator is SCORE and noise_has_roots(run):
        smoothed = SMOOTHING.fits(run, quantity, target, choice.reason)
        if isinstance(smoothed, Selection):
            instead = smoothed, *instead
    return Offer((choice,), instead)


def second_offer(run: DifferentiatedRun, quantity: str, pair: tuple[int, int]) -> Offer:
    """The estimators of a second derivative."""
    choice = _second(run, quantity, pair)
    if choice.estimator is SMOOTHING and noise_has_roots(run):
        return Offer((choice, _by_differences(run, choice)))  # weights are large where noise is small
    return Offer((choice,), wide_differences(run, choice))


def wide_differences(run: DifferentiatedRun, choice: Selection) -> tuple[Selection, ...]:
    """The choices that remain where unbounded slopes give the pathwise derivative infinite variance."""
    return (_by_differences(run, choice),) if moves_roots(run, choice.targets) else ()


def _by_differences(run: DifferentiatedRun, choice: Selection) -> Selection:
    """The derivative of `choice` by finite differences."""
    reason, long_steps = choice.reason.split(":")[0], moves_roots(run, choice.targets)
    return Selection(choice.quantity, choice.targets, DIFFERENCES, reason, long_steps=long_steps)


def _of_paths(run: DifferentiatedRun, quantity: str, target: int) -> Selection:
    """The estimator for what steps through time."""

    def selected(estimator: AbstractEstimator, reason: str) -> Selection:
        return Selection(quantity, (target,), estimator, reason)

    refuse_moved_times(run, quantity, (target,), kinks=False)
    if run.is_exercised(quantity):
        if not jumping_variables(run, quantity) and moves_payment_alone(run, target):
            return selected(PATHWISE, PAYMENT)
        return selected(DIFFERENCES, EXERCISE)
    why = why_value_jumps(run, quantity, target)
    if why is not None:
        result = _smoothed_or_scored(run, quantity, target, why)
        if isinstance(result, Selection):
            return result
        what, scored, smoothed = why.split(" with ")[0], result[SCORE], result[SMOOTHING]
        if scored == smoothed:
            return selected(DIFFERENCES, f"{what}, and {scored}")
        return selected(DIFFERENCES, f"{what}; no score: {scored}; no smoothing: {smoothed}")
    reason = why_path_jumps(run, target)
    if reason is not None:
        return selected(WEAK if reason == RATE else DIFFERENCES, reason)
    if moves_barrier_survival(run, quantity, (target,)):
        result = _smoothed_or_scored(run, quantity, target, STEEP)
        return result if isinstance(result, Selection) else selected(PATHWISE, CONTINUOUS)
    extremes = "; the extreme is that of a step" if run.has_extremes_of_steps(quantity) else ""
    return selected(PATHWISE, f"{CONTINUOUS}{extremes}")


def _smoothed_or_scored(
    run: DifferentiatedRun, quantity: str, target: int, why: str
) -> Selection | dict[AbstractEstimator, str]:
    """One of two estimators that do not follow a jump, a score for the drift alone; or why neither fits."""
    smoothed = SMOOTHING.fits(run, quantity, target, why)
    if isinstance(smoothed, Selection) and not moves_drift_alone(run, target):
        return smoothed
    scored = SCORE.fits(run, quantity, target, why)
    if isinstance(scored, str):
        return {SCORE: scored, SMOOTHING: smoothed} if isinstance(smoothed, str) else smoothed
    return scored


def _of_counts(run: DifferentiatedRun, quantity: str, target: int) -> tuple[Selection, ...]:
    """The estimators for a jump process: numbers of molecules jump with the rates."""

    def selected(estimator: AbstractEstimator, reason: str) -> tuple[Selection, ...]:
        return (Selection(quantity, (target,), estimator, reason),)

    label = run.targets[target].label
    refuse_moved_times(run, quantity, (target,), kinks=False)
    if run.moves_times(target):
        return selected(DIFFERENCES, MOVES_ROWS.format(label))
    if schedule_of(run.simulation.problem) is not None:
        if run.moves_functionals(quantity, target):
            return selected(DIFFERENCES, f"{label} is in what is observed")
        return selected(SCORE, f"counts jump with the rates, and {ONE_NETWORK}")
    end = at_range_end(run, target)
    if end is not None:
        if run.simulation.solver.exact and not run.functionals(quantity):
            return selected(WEAK, f"{end}: one event more")
        return selected(DIFFERENCES, end)
    estimators, why = (COUPLED, WEAK, SCORE), "counts jump with the rates"
    if jumping_variables(run, quantity):
        estimators, why = (SCORE, WEAK, COUPLED), "the value jumps with the counts"
    result = (each.fits(run, quantity, target, why) for each in estimators)
    return tuple(each for each in result if isinstance(each, Selection))


def _second(run: DifferentiatedRun, quantity: str, pair: tuple[int, int]) -> Selection:
    """The estimator of a second derivative."""

    def selected(estimator: AbstractEstimator, reason: str, *details) -> Selection:
        return Selection(quantity, pair, estimator, reason, *details)

    refuse_moved_times(run, quantity, pair, kinks=True)
    refuse_moved_policy(run, quantity, pair)
    kink = None if run.simulation.stepping.whole else shared_kink(run, pair)
    if kink is not None:
        return selected(DIFFERENCES, f"the slope of the equations jumps with {kink}")
    if jumping_variables(run, quantity):
        smoothed = smooth(run, quantity, pair, kinks=True)
        if isinstance(smoothed, str):
            return selected(DIFFERENCES, f"the value jumps, and {smoothed}")
        return selected(SMOOTHING, "the value jumps: smoothed twice", 0, smoothed)
    if run.is_exercised(quantity):
        return selected(DIFFERENCES, EXERCISE)
    for target in dict.fromkeys(pair):
        reason = why_equations_jump(run, target) or why_path_jumps(run, target)
        if reason is not None:
            return selected(DIFFERENCES, reason)
    if not discontinuous_names(run, quantity, kinks=True) & run.variables:
        return selected(PATHWISE, "smooth in the path")
    smoothed = smooth(run, quantity, pair, kinks=True)
    if not isinstance(smoothed, str) and moves_barrier_survival(run, quantity, pair):
        return selected(SMOOTHING, f"{STEEP}: smoothed twice", 0, smoothed)
    reasons = []
    for first, last in dict.fromkeys([pair, pair[::-1]]):
        every = release_interval(run, quantity, first, kinks=True)
        if isinstance(every, int):
            why = f"the slope jumps: score for {run.targets[first].label}, then pathwise"
            return Selection(quantity, (first, last), MIXED, why, every)
        reasons.append(every)
    if isinstance(smoothed, str):
        return selected(DIFFERENCES, f"the slope jumps, and {reasons[0]}")
    return selected(SMOOTHING, "the slope jumps: smoothed, then pathwise", 0, smoothed)
