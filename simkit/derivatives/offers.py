"""Which estimators of a derivative are offered to the pilot, and why: the usual one first."""

from simkit_solvers.problems.schedule import schedule_of

from simkit.derivatives.estimator import Offer, Selection
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
from simkit.derivatives.facts import RATE, Facts, not_smooth, seen
from simkit.derivatives.refusals import refuse_moved_policy, refuse_moved_times
from simkit.derivatives.validity import (
    AT_AN_END,
    EXERCISE,
    MOVES_ROWS,
    ONE_NETWORK,
    moves_drift_alone,
    moves_payment_alone,
    release_interval,
    smooth,
    where_it_jumps,
)
from simkit.errors import InputError

PAYMENT = "moves what is paid, not when"
STEEP = "the chance not to touch a barrier is steep"


def offer_asked(facts: Facts, method: str, quantity: str, target: int) -> Offer:
    """The estimator asked for by `sensitivity.method`, or those that are right."""
    offer = first_offer(facts, quantity, target)
    right = offer.rivals[0]
    if method == "auto":
        return offer
    choice = right
    if method != right.estimator.key:
        estimator = next(each for each in ESTIMATORS if each.key == method)
        result = estimator.fits(facts, quantity, target, "asked for")
        if isinstance(result, str):
            names = {"name": estimator.name, "quantity": quantity, "label": facts.targets[target].label}
            reason = estimator.refusal.format(**names, reason=result)
            raise InputError(f"sensitivity.method: {reason}; leave method out for {right.method}")
        choice = result
    return Offer((choice,), wide_differences(facts, choice) if choice.estimator is DIFFERENCES else ())


def first_offer(facts: Facts, quantity: str, target: int) -> Offer:
    """The estimators of a first derivative."""
    if facts.simulation.grid.has_events:
        return Offer(_of_counts(facts, quantity, target))
    choice = _of_paths(facts, quantity, target)
    instead = wide_differences(facts, choice)
    if choice.estimator is SCORE and facts.noise_has_roots:
        smoothed = SMOOTHING.fits(facts, quantity, target, choice.reason)
        if isinstance(smoothed, Selection):
            instead = smoothed, *instead
    return Offer((choice,), instead)


def second_offer(facts: Facts, quantity: str, pair: tuple[int, int]) -> Offer:
    """The estimators of a second derivative."""
    choice = _second(facts, quantity, pair)
    if choice.estimator is SMOOTHING and facts.noise_has_roots:
        return Offer((choice, _by_differences(facts, choice)))  # weights are large where noise is small
    return Offer((choice,), wide_differences(facts, choice))


def wide_differences(facts: Facts, choice: Selection) -> tuple[Selection, ...]:
    """What is left where slopes without a bound make the derivative of a path vary without one."""
    return (_by_differences(facts, choice),) if facts.has_roots(choice.targets) else ()


def _by_differences(facts: Facts, choice: Selection) -> Selection:
    """The same derivative by finite differences."""
    reason, long_steps = choice.reason.split(":")[0], facts.has_roots(choice.targets)
    return Selection(choice.quantity, choice.targets, DIFFERENCES, reason, long_steps=long_steps)


def _of_paths(facts: Facts, quantity: str, target: int) -> Selection:
    """The estimator for what steps through time."""
    refuse_moved_times(facts, quantity, (target,), kinks=False)
    jumps = seen(facts.observable(quantity), "jumps") & facts.variables
    if facts.is_exercised(quantity):
        if not jumps and moves_payment_alone(facts, target):
            return Selection(quantity, (target,), PATHWISE, PAYMENT)
        return Selection(quantity, (target,), DIFFERENCES, EXERCISE)
    why = where_it_jumps(facts, quantity, target)
    if why is None:
        return _of_continuous(facts, quantity, target)
    result = _smoothed_or_scored(facts, quantity, target, why)
    if result is not None:
        return result
    smoothed, scored = (each.fits(facts, quantity, target, why) for each in (SMOOTHING, SCORE))
    what = why.split(" with ")[0]
    reason = f"{what}, and {scored}"
    if scored != smoothed:
        reason = f"{what}; no score: {scored}; no smoothing: {smoothed}"
    return Selection(quantity, (target,), DIFFERENCES, reason)


def _of_continuous(facts: Facts, quantity: str, target: int) -> Selection:
    """The estimator for a value that changes continuously with the path."""
    reason = not_smooth(facts, target)
    if reason is not None:
        return Selection(quantity, (target,), WEAK if reason == RATE else DIFFERENCES, reason)
    if facts.is_steep(quantity, (target,)):
        result = _smoothed_or_scored(facts, quantity, target, STEEP)
        return result or Selection(quantity, (target,), PATHWISE, "continuous in the path")
    extremes = "; the extreme is that of a step" if facts.has_extremes_of_steps(quantity) else ""
    return Selection(quantity, (target,), PATHWISE, f"continuous in the path{extremes}")


def _smoothed_or_scored(facts: Facts, quantity: str, target: int, why: str) -> Selection | None:
    """What does not need the path to be followed where it jumps: a score for the drift alone."""
    smoothed = SMOOTHING.fits(facts, quantity, target, why)
    if isinstance(smoothed, Selection) and not moves_drift_alone(facts, target):
        return smoothed
    scored = SCORE.fits(facts, quantity, target, why)
    return next((each for each in (scored, smoothed) if isinstance(each, Selection)), None)


def _of_counts(facts: Facts, quantity: str, target: int) -> tuple[Selection, ...]:
    """The estimators for a jump process: numbers of molecules jump with the rates."""
    label, exact = facts.targets[target].label, facts.simulation.solver.exact
    refuse_moved_times(facts, quantity, (target,), kinks=False)
    along, moves_along = facts.sees_path(quantity), facts.moves_functionals(quantity, target)
    if facts.moves_times(target):
        return (Selection(quantity, (target,), DIFFERENCES, MOVES_ROWS.format(label)),)
    if schedule_of(facts.simulation.problem) is not None:
        if moves_along:
            return (Selection(quantity, (target,), DIFFERENCES, f"{label} is in what is watched"),)
        return (Selection(quantity, (target,), SCORE, f"counts jump with the rates, and {ONE_NETWORK}"),)
    if facts.at_an_end(target):
        end = AT_AN_END.format(label, facts.targets[target].value)
        if exact and not along:
            return (Selection(quantity, (target,), WEAK, f"{end}: one event more"),)
        return (Selection(quantity, (target,), DIFFERENCES, end),)
    estimators, why = (COUPLED, WEAK, SCORE), "counts jump with the rates"
    if seen(facts.observable(quantity), "jumps") & facts.variables:
        estimators, why = (SCORE, WEAK, COUPLED), "the value jumps with the counts"
    result = (each.fits(facts, quantity, target, why) for each in estimators)
    return tuple(each for each in result if isinstance(each, Selection))


def _second(facts: Facts, quantity: str, pair: tuple[int, int]) -> Selection:
    """The estimator of a second derivative."""
    observable = facts.observable(quantity)
    refuse_moved_times(facts, quantity, pair, kinks=True)
    refuse_moved_policy(facts, quantity, pair)
    bent = None if facts.simulation.grid.has_events else facts.bends(pair)
    if bent is not None:
        return Selection(quantity, pair, DIFFERENCES, f"the slope of the equations jumps with {bent}")
    if seen(observable, "jumps") & facts.variables:
        smoothed = smooth(facts, quantity, pair, kinks=True)
        if isinstance(smoothed, str):
            return Selection(quantity, pair, DIFFERENCES, f"the value jumps, and {smoothed}")
        return Selection(quantity, pair, SMOOTHING, "the value jumps: smoothed twice", 0, smoothed)
    if observable is not None and observable.exercise is not None:
        return Selection(quantity, pair, DIFFERENCES, EXERCISE)
    for target in dict.fromkeys(pair):
        broken = facts.model_jumps(target)
        reason = f"the equations jump with {broken}" if broken else not_smooth(facts, target)
        if reason is not None:
            return Selection(quantity, pair, DIFFERENCES, reason)
    if not seen(observable, "kinks") & facts.variables:
        return Selection(quantity, pair, PATHWISE, "smooth in the path")
    steep = facts.is_steep(quantity, pair)
    smoothed = smooth(facts, quantity, pair, kinks=True)
    if steep and not isinstance(smoothed, str):
        return Selection(quantity, pair, SMOOTHING, f"{STEEP}: smoothed twice", 0, smoothed)
    reasons = []
    for first, last in dict.fromkeys([pair, pair[::-1]]):
        every = release_interval(facts, quantity, first, "kinks")
        if isinstance(every, int):
            why = f"the slope jumps: score for {facts.targets[first].label}, then pathwise"
            return Selection(quantity, (first, last), MIXED, why, every)
        reasons.append(every)
    if isinstance(smoothed, str):
        return Selection(quantity, pair, DIFFERENCES, f"the slope jumps, and {reasons[0]}")
    return Selection(quantity, pair, SMOOTHING, "the slope jumps: smoothed, then pathwise", 0, smoothed)
