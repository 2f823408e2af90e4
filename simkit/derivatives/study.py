"""The sensitivities of an experiment: estimators chosen, run over all paths, and put together."""

import dataclasses
import time

import jax
import numpy as np
from simkit_solvers.problems.problem import AbstractSDE

from simkit.config.settings import Sensitivity
from simkit.derivatives.collected import Collected, Progress
from simkit.derivatives.differences import SMOOTH, step_of
from simkit.derivatives.estimates import EstimatedDerivative, EstimatedSensitivities
from simkit.derivatives.estimator import Selection
from simkit.derivatives.estimators import DIFFERENCES
from simkit.derivatives.facts import Facts
from simkit.derivatives.offers import offer_asked, second_offer
from simkit.derivatives.part import Part, requests_of
from simkit.derivatives.parts import parts_of
from simkit.derivatives.pilot import picked, remedy
from simkit.derivatives.step_errors import (
    error_of_derivative,
    has_means,
)
from simkit.derivatives.tails import FAULTS
from simkit.derivatives.targets import changes, find_target, in_time, program_of, shifted
from simkit.ensemble.early_exercise.longstaff_schwartz import independent_policies
from simkit.ensemble.programs import Request, compiled
from simkit.ensemble.simulation import Simulation
from simkit.ensemble.step_bias.coupled_steps import approximate_means, bias_run, unknown_errors
from simkit.experiments.sensitivity_names import named_pairs
from simkit.garbage import seldom_collected
from simkit.observe.exercise import POLICIES

FEWEST = 64  # paths of one policy, for its mean to say something


@seldom_collected()
def find_sensitivities(
    simulation: Simulation, section: Sensitivity, progress: Progress | None = None
) -> EstimatedSensitivities:
    """Estimate all derivatives that the section asks for.

    Raises `InputError` where the method asked for would be wrong, with the reason, and `NumericalError`
    where paths or derivatives become NaN or infinite and `failures` is `stop`.
    """
    with jax.enable_x64(True):
        return _find(simulation, section, progress)


def _find(simulation: Simulation, section: Sensitivity, progress: Progress | None) -> EstimatedSensitivities:
    simulation, replicas, compile_s = _with_policies(simulation)
    targets = tuple(find_target(simulation, label) for label in section.wrt)
    labels = [target.label for target in targets]
    pairs = [(labels.index(a), labels.index(b)) for a, b in named_pairs(section)]
    program, inputs = program_of(simulation)
    moves, _ = changes(simulation, targets)
    targets = in_time(simulation, targets, moves)
    facts = Facts(simulation, program, inputs, targets, moves)
    others = [dataclasses.replace(facts, simulation=x, inputs=program_of(x)[1]) for x in replicas]
    quantities = section.of or list(simulation.observables) or list(simulation.problem.State._fields)
    offers = [offer_asked(facts, section.method, q, i) for q in quantities for i in range(len(targets))]
    offers += [second_offer(facts, q, pair) for q in quantities for pair in pairs]
    bias = bias_run(simulation)

    def planned(choices: list[Selection]) -> tuple[list[Part], list[Request]]:
        checks = [_check_of(choice) for choice in choices if section.check and not _differs(choice)]
        parts = parts_of(facts, [*choices, *checks], quantities, others)
        requests = [request for part in parts for request in requests_of(simulation, part)]
        known = {name for part in parts if has_means(part) for name, _ in part.values}
        more = () if bias is None or known.issuperset(quantities) else bias.requests
        return parts, [*requests, *more]

    choices, seconds = picked(facts, offers, planned)
    compile_s += seconds
    start = time.perf_counter()
    parts, requests = planned(choices)
    # All at once: XLA compiles one while the next is traced.
    compiling_s = compiled(*requests)[1]
    biases = unknown_errors(simulation).errors
    collected = Collected(facts, others, parts, section.method == "auto", progress, biases)
    collected.run(bias)
    compiling_s += collected.compile_s
    elapsed = time.perf_counter() - start - compiling_s
    derivatives = tuple(_finished(collected, choice) for choice in choices)
    means = {name: collected.means[name] for name in quantities}
    values = {name: (result.mean[i], result.stderr[i]) for name, (result, i) in means.items()}
    sizes = simulation.paths, len(collected.failed), elapsed, compile_s + compiling_s
    return EstimatedSensitivities(targets, derivatives, values, *sizes, collected.biases)


def _finished(collected: Collected, choice: Selection) -> EstimatedDerivative:
    """The derivative with its step error, its tail, its check and what its reason should say."""
    facts, derivative = collected.facts, collected.derivatives[collected.replaced.get(choice, choice)]
    coupled = collected.coupled[derivative.choice]
    steps = error_of_derivative(facts.simulation, choice.quantity, coupled)
    check = None if _differs(derivative.choice) else collected.derivatives.get(_check_of(choice))
    derivative = dataclasses.replace(derivative, steps=steps, tail=coupled.tail)
    derivative = _unsettled(facts, _unmeasured(facts, _explained(facts, derivative)))
    return dataclasses.replace(derivative, check=check)


def _check_of(choice: Selection) -> Selection:
    """The same derivative by finite differences."""
    return Selection(choice.quantity, choice.targets, DIFFERENCES, "checks another")


def _differs(choice: Selection) -> bool:
    return choice.estimator is DIFFERENCES


def _explained(facts: Facts, result: EstimatedDerivative) -> EstimatedDerivative:
    """A derivative that is 0 on every path says so."""
    if np.any(result.mean) or np.any(np.nan_to_num(result.sd)):
        return result
    choice, reason = result.choice, "no path changes with it"
    if any(_is_idle(facts, i) for i in choice.targets):
        reason = "nothing in the experiment uses it"
    elif len(choice.targets) == 2:
        alone = len(set(choice.targets)) == 1
        reason = f"no path's slope{'' if alone else ' in one'} changes with {'it' if alone else 'the other'}"
    elif facts.is_rough(choice.quantity, choice.targets[0]) and facts.simulation.paths == 1:
        reason = "the value is a step, and flat around here"
    return dataclasses.replace(result, choice=dataclasses.replace(choice, reason=reason))


def _unmeasured(facts: Facts, result: EstimatedDerivative) -> EstimatedDerivative:
    """A derivative whose steps leave an error that is not measured says so."""
    simulation, choice = facts.simulation, result.choice
    exact = choice.quantity not in approximate_means(simulation)
    ordinary = not isinstance(simulation.problem, AbstractSDE)  # or jumps, whose leaps are compared
    if exact or ordinary or facts.levels:
        return result
    reason = f"{choice.reason}; the error of the steps is not measured"
    return dataclasses.replace(result, choice=dataclasses.replace(choice, reason=reason))


def _unsettled(facts: Facts, result: EstimatedDerivative) -> EstimatedDerivative:
    """A derivative without a variance says so, and what to do."""
    if result.verdict != "grows":
        return result
    choice = result.choice
    reason = f"no result: {FAULTS[result.verdict]}; {remedy(facts) or 'take another sensitivity.method'}"
    return dataclasses.replace(result, choice=dataclasses.replace(choice, reason=reason))


def _is_idle(facts: Facts, number: int) -> bool:
    """Whether no number of the run changes with a target."""
    if jax.tree.leaves(facts.moves[number]):
        return False
    target = facts.targets[number]
    pair = [shifted(facts.simulation, [target], [step]) for step in (0.0, step_of(target, SMOOTH))]
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
