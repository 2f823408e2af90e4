"""The sensitivities of an experiment: `offers.py` names the estimators that fit, `pilot.py` selects, all
paths run.
"""

import dataclasses
import time

import jax
import numpy as np

from simkit.config.settings import Sensitivity
from simkit.derivatives.collected import Collected, Progress
from simkit.derivatives.differences import SMOOTH, step_of
from simkit.derivatives.differentiated_run import DifferentiatedRun
from simkit.derivatives.estimates import EstimatedDerivative, EstimatedSensitivities
from simkit.derivatives.estimator import Part, Selection
from simkit.derivatives.estimators import COUPLED, DIFFERENCES, SCORE, SMOOTHING
from simkit.derivatives.offers import requested_offer, second_offer
from simkit.derivatives.parts import parts_of, requests_of
from simkit.derivatives.pilot import remedy, select_estimators
from simkit.derivatives.smoothness import why_discontinuous
from simkit.derivatives.step_errors import error_of_derivative, has_means
from simkit.derivatives.tails import FAULTS, UNMOVED
from simkit.derivatives.targets import find_target, program_of, shifted
from simkit.ensemble.early_exercise.longstaff_schwartz import independent_policies
from simkit.ensemble.programs import Request, compiled
from simkit.ensemble.run import mean_steps_of_few, waiting_paths
from simkit.ensemble.simulation import Simulation
from simkit.ensemble.step_bias.coupled_steps import (
    approximate_means,
    bias_run,
    unknown_errors,
)
from simkit.experiments.sensitivity_names import named_pairs
from simkit.garbage import seldom_collected
from simkit.observe.exercise import POLICIES

OF_STEPS = (
    "the extreme is the value at a step, whose time stays where it is while that of the true one moves; "
    "compare with many more steps"
)
FEWEST = 64  # paths of one policy, for its mean to say something


@seldom_collected()
def find_sensitivities(
    simulation: Simulation, section: Sensitivity, progress: Progress | None = None
) -> EstimatedSensitivities:
    """Estimate all derivatives that the section asks for.

    Raises `InputError` where the requested method would be wrong, with the reason, and `NumericalError`
    where paths or derivatives become NaN or infinite and `failures` is `stop`.
    """
    with jax.enable_x64(True):
        return _find(simulation, section, progress)


def _find(simulation: Simulation, section: Sensitivity, progress: Progress | None) -> EstimatedSensitivities:
    simulation, replicas, compile_s = _with_policies(simulation)
    targets = tuple(find_target(simulation, label) for label in section.wrt)
    labels = [target.label for target in targets]
    pairs = [(labels.index(a), labels.index(b)) for a, b in named_pairs(section)]
    run = DifferentiatedRun.of(simulation, targets)
    others = [dataclasses.replace(run, simulation=x, inputs=program_of(x)[1]) for x in replicas]
    quantities = section.of or list(simulation.observables) or list(simulation.problem.State._fields)
    offers = [requested_offer(run, section.method, q, i) for q in quantities for i in range(len(targets))]
    offers += [second_offer(run, q, pair) for q in quantities for pair in pairs]
    bias = bias_run(simulation)

    def planned(choices: list[Selection]) -> tuple[list[Part], list[Request]]:
        checks = [_check_of(choice) for choice in choices if section.check and not _differs(choice)]
        parts = parts_of(run, [*choices, *checks], quantities, others)
        requests = [request for part in parts for request in requests_of(simulation, part)]
        known = {name for part in parts if has_means(part) for name, _ in part.values}
        more = () if bias is None or known.issuperset(quantities) else bias.requests
        return parts, [*requests, *more]

    choices, seconds = select_estimators(run, offers, planned)
    parts, requests = planned(choices)
    # All at once: XLA compiles one while the next is traced.
    compile_s += seconds + compiled(*requests)[1]
    start = time.perf_counter()
    biases = unknown_errors(simulation).errors
    collected = Collected(run, others, parts, section.method == "auto", progress, biases)
    collected.run(bias)
    capped = simulation.stepping.is_capped(lambda: mean_steps_of_few(simulation))
    if capped:  # what other tolerances say of the means is nothing
        collected.biases = unknown_errors(simulation).errors
    compile_s += collected.compile_s
    elapsed = time.perf_counter() - start - collected.compile_s
    derivatives = tuple(_finished(collected, choice, capped) for choice in choices)
    means = {name: collected.means[name] for name in quantities}
    values = {name: (result.mean[i], result.stderr[i]) for name, (result, i) in means.items()}
    sizes = simulation.paths, len(collected.failed), elapsed, compile_s
    timed = any(each.first_time and each.name in quantities for each in simulation.observed)
    waiting = waiting_paths(simulation) if timed else {}
    return EstimatedSensitivities(tuple(run.targets), derivatives, values, *sizes, collected.biases, waiting)


def _finished(collected: Collected, choice: Selection, capped: bool) -> EstimatedDerivative:
    """The derivative with its step error, its tail, its check and what its reason should say.

    The step error is unknown where steps are `capped`, so that other tolerances do not show it.
    """
    run = collected.differentiated
    derivative = collected.derivatives[collected.replaced.get(choice, choice)]
    values = collected.level_values[derivative.choice]
    steps = None if capped else error_of_derivative(run.simulation, choice.quantity, values)
    check = None if _differs(derivative.choice) else collected.derivatives.get(_check_of(choice))
    derivative = dataclasses.replace(derivative, steps=steps, tail=values.tail, check=check)
    unknown = OF_STEPS if run.has_extremes_of_steps(choice.quantity) else ""
    if derivative.is_uncompared:
        unknown = _why_uncompared(run, derivative)
    selected = dataclasses.replace(derivative.choice, reason=_reason(run, derivative, capped))
    return dataclasses.replace(derivative, choice=selected, unknown=unknown)


def _check_of(choice: Selection) -> Selection:
    """The check of a derivative: finite differences."""
    return Selection(choice.quantity, choice.targets, DIFFERENCES, "checks another")


def _differs(choice: Selection) -> bool:
    return choice.estimator is DIFFERENCES


def _reason(run: DifferentiatedRun, derivative: EstimatedDerivative, capped: bool) -> str:
    """Why this estimator, or what to know first: there is no result, it is 0 on every path, or a step error
    is not measured."""
    simulation, choice = run.simulation, derivative.choice
    if derivative.verdict == "grows":
        return f"no result: {FAULTS['grows']}; {remedy(run) or f'use {_other_methods(run, choice)}'}"
    reason = choice.reason
    if derivative.verdict == "heavy":
        reason = f"{reason}; or {_other_methods(run, choice)}"
    if not np.any(derivative.mean) and not np.any(np.nan_to_num(derivative.sd)):
        reason = _reason_for_zero(run, choice)
    exact = choice.quantity not in approximate_means(simulation)
    ordinary = not simulation.problem.stochastic  # or jumps, whose leaps are compared
    if capped:
        return f"{reason}; step error unknown: most steps are as long as first_step or the saved times allow"
    unmeasured = "" if exact or ordinary or run.levels else "; the error of the steps is not measured"
    return f"{reason}{unmeasured}"


def _why_uncompared(run: DifferentiatedRun, derivative: EstimatedDerivative) -> str:
    """Why no other run shows the step error of a derivative, and what to do."""
    simulation = run.simulation
    if derivative.steps is not None and np.isnan(derivative.steps.bias):
        # Of steps of fixed length more are asked for in any case.
        failed = "leaps" if simulation.stepping.whole else "tolerances"
        return "" if simulation.grid.steps else f"paths fail with other {failed}; use a larger time.max_steps"
    if derivative.choice.estimator is COUPLED:
        return (
            "paths fail, or leave the range of a parameter, at the values farther apart that would show it, "
            "however near these are; use another sensitivity.method"
        )
    if simulation.stepping.exact_by == "tolerances":
        return "paths fail with the tighter tolerances that would show it; use a larger time.max_steps"
    return "paths fail with the twice as many steps that would show it; use more steps"


def _other_methods(run: DifferentiatedRun, choice: Selection) -> str:
    """The settings of other estimators that fit a first derivative of what steps through time."""
    if choice.is_second or run.simulation.stepping.whole:
        return "another sensitivity.method"
    others = [each for each in (SCORE, SMOOTHING) if each is not choice.estimator]
    fits = (each.fits(run, choice.quantity, choice.targets, choice.reason) for each in others)
    keys = [each.key for each, fit in zip(others, fits, strict=True) if isinstance(fit, Selection)]
    if not keys and not _differs(choice):
        keys = [DIFFERENCES.key]
    return f"sensitivity.method: {' or '.join(keys)}" if keys else "more paths"


def _reason_for_zero(run: DifferentiatedRun, choice: Selection) -> str:
    """Why a derivative is 0 on every path."""
    if any(_is_idle(run, i) for i in choice.targets):
        return "nothing in the experiment uses it"
    if choice.is_second:
        alone = len(set(choice.targets)) == 1
        return f"no path's slope{'' if alone else ' in one'} changes with {'it' if alone else 'the other'}"
    if run.simulation.paths == 1 and why_discontinuous(run, choice.quantity, choice.targets[0]):
        return "the value is a step, and flat around here"
    return UNMOVED


def _is_idle(run: DifferentiatedRun, number: int) -> bool:
    """Whether no number of the run changes with a target."""
    if jax.tree.leaves(run.moves[number]):
        return False
    target = run.targets[number]
    pair = [shifted(run.simulation, [target], [step]) for step in (0.0, step_of(target, SMOOTH))]
    here, there = map(jax.tree.leaves, pair)
    return all(np.array_equal(a, b) for a, b in zip(here, there, strict=True))


def _with_policies(simulation: Simulation) -> tuple[Simulation, list[Simulation], float]:
    """The simulation with a policy for what is exercised early, others with policies of their own, seconds.

    Their chunks are as long as the paths of one policy.
    """
    count = POLICIES if simulation.paths >= POLICIES * FEWEST else 1
    result, compile_s = independent_policies(simulation, count)
    if not result[0][1]:
        return simulation, [], compile_s
    each = -(-simulation.paths // count)
    chunk = min(simulation.chunk or each, each)
    first, *others = (dataclasses.replace(x, chunk=chunk) for x, _ in result)
    return first, others, compile_s
