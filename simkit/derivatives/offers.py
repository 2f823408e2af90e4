"""Which estimators of a derivative are offered to the pilot, and why: the usual one first."""

from simkit.derivatives.differentiated_run import DifferentiatedRun
from simkit.derivatives.estimator import AbstractEstimator, Offer, Selection, Targets
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
    SLOPE,
    jumping_variables,
    moves_barrier_survival,
    moves_roots,
    noise_has_roots,
    why_path_jumps,
    why_value_jumps,
)
from simkit.derivatives.validity import ONE_NETWORK, VARYING, moves_drift_alone, moves_payment_alone
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
        result = estimator.fits(run, quantity, (target,), "requested")
        if isinstance(result, str):
            names = {"name": estimator.name, "quantity": quantity, "label": run.targets[target].label}
            reason = estimator.refusal.format(**names, reason=result)
            raise InputError(f"sensitivity.method: {reason}; leave method out for {right.method}")
        choice = result
    return Offer((choice,), wide_differences(run, choice) if choice.estimator is DIFFERENCES else ())


def first_offer(run: DifferentiatedRun, quantity: str, target: int) -> Offer:
    """The estimators of a first derivative."""
    refuse_moved_times(run, quantity, (target,), kinks=False)
    if run.simulation.stepping.whole:
        return Offer(_of_counts(run, quantity, target))
    choice = _of_paths(run, quantity, target)
    instead = wide_differences(run, choice)
    if choice.estimator is SCORE and noise_has_roots(run):
        smoothed = SMOOTHING.fits(run, quantity, (target,), choice.reason)
        if isinstance(smoothed, Selection):
            instead = smoothed, *instead
    return Offer((choice,), instead)


def second_offer(run: DifferentiatedRun, quantity: str, pair: tuple[int, int]) -> Offer:
    """The estimators of a second derivative."""
    refuse_moved_times(run, quantity, pair, kinks=True)
    refuse_moved_policy(run, quantity, pair)
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


def _first_fitting(
    run: DifferentiatedRun, quantity: str, targets: Targets, why: str, *estimators: AbstractEstimator
) -> Selection | dict[AbstractEstimator, str]:
    """The first of some estimators that fits; or why each of them does not."""
    refusals = {}
    for each in estimators:
        result = each.fits(run, quantity, targets, why)
        if isinstance(result, Selection):
            return result
        refusals[each] = result
    return refusals


def _of_paths(run: DifferentiatedRun, quantity: str, target: int) -> Selection:
    """The estimator for what steps through time."""

    def selected(estimator: AbstractEstimator, reason: str) -> Selection:
        return Selection(quantity, (target,), estimator, reason)

    if run.is_exercised(quantity):
        if not jumping_variables(run, quantity) and moves_payment_alone(run, target):
            return selected(PATHWISE, PAYMENT)
        return selected(DIFFERENCES, EXERCISE)
    # Neither follows a jump: a score has the smaller variance for a drift alone.
    weighted = (SCORE, SMOOTHING) if moves_drift_alone(run, target) else (SMOOTHING, SCORE)
    why = why_value_jumps(run, quantity, target)
    if why is not None:
        result = _first_fitting(run, quantity, (target,), why, *weighted)
        if isinstance(result, Selection):
            return result
        what, scored, smoothed = why.split(" with ")[0], result[SCORE], result[SMOOTHING]
        both = f", and {scored}" if scored == smoothed else f"; no score: {scored}; no smoothing: {smoothed}"
        return selected(DIFFERENCES, f"{what}{both}")
    why = why_path_jumps(run, target)
    if why is not None:
        result = WEAK.fits(run, quantity, (target,), why)
        return result if isinstance(result, Selection) else selected(DIFFERENCES, why)
    if moves_barrier_survival(run, quantity, (target,)):
        result = _first_fitting(run, quantity, (target,), STEEP, *weighted)
        if isinstance(result, Selection):
            return result
    extremes = "; the extreme is that of a step" if run.has_extremes_of_steps(quantity) else ""
    return selected(PATHWISE, f"{CONTINUOUS}{extremes}")


def _of_counts(run: DifferentiatedRun, quantity: str, target: int) -> tuple[Selection, ...]:
    """The estimators for a jump process: numbers of molecules jump with the rates."""
    estimators, why = (COUPLED, WEAK, SCORE), "counts jump with the rates"
    if jumping_variables(run, quantity):
        estimators, why = (SCORE, WEAK, COUPLED), "the value jumps with the counts"
    refusal = COUPLED.fits(run, quantity, (target,), why)
    if refusal == ONE_NETWORK:
        why = f"counts jump with the rates, and {refusal}"
        scored = SCORE.fits(run, quantity, (target,), why)
        refusal = scored if scored == VARYING else f"{run.targets[target].label} is in what is observed"
    elif isinstance(refusal, str):
        estimators, why = (WEAK,), f"{refusal}: one event more"
    results = [each.fits(run, quantity, (target,), why) for each in estimators]
    fitting = tuple(each for each in results if isinstance(each, Selection))
    return fitting or (Selection(quantity, (target,), DIFFERENCES, str(refusal)),)


def _second(run: DifferentiatedRun, quantity: str, pair: tuple[int, int]) -> Selection:
    """The estimator of a second derivative."""
    why = PATHWISE.fits(run, quantity, pair, "smooth in the path")
    if isinstance(why, Selection):
        return why
    if why == SLOPE and moves_barrier_survival(run, quantity, pair):
        smoothed = SMOOTHING.fits(run, quantity, pair, STEEP)
        if isinstance(smoothed, Selection):
            return smoothed
    estimators = (SMOOTHING, MIXED) if jumping_variables(run, quantity) else (MIXED, SMOOTHING)
    result = _first_fitting(run, quantity, pair, why, *estimators)
    if isinstance(result, Selection):
        return result
    refusal = result[estimators[0]]
    return Selection(quantity, pair, DIFFERENCES, why if refusal == why else f"{why}, and {refusal}")
