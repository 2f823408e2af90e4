"""The sensitivities of an experiment: estimators chosen, run over all paths, and put together."""

import dataclasses
import time
from collections.abc import Callable, Sequence

import jax
import numpy as np
from simkit_solvers.problems.problem import AbstractSDE

from simkit.config.settings import Sensitivity
from simkit.derivatives.differences import SMOOTH, step_of
from simkit.derivatives.estimator import Selection
from simkit.derivatives.estimators import DIFFERENCES
from simkit.derivatives.facts import Facts
from simkit.derivatives.moments import Found, MomentsReduction, average, pooled
from simkit.derivatives.offers import offer_asked, second_offer
from simkit.derivatives.part import Errors, Part, chunks_of, requests_of
from simkit.derivatives.parts import parts_of
from simkit.derivatives.pilot import picked, remedy
from simkit.derivatives.step_errors import (
    Coupled,
    LastRows,
    bias_of_part,
    coupled_values,
    error_of_derivative,
    errors_of_means,
    has_means,
)
from simkit.derivatives.tails import FAULTS, Tail, Verdict
from simkit.derivatives.targets import Target, changes, find_target, in_time, program_of, shifted
from simkit.ensemble.early_exercise.longstaff_schwartz import independent_policies
from simkit.ensemble.failures import failed_paths
from simkit.ensemble.programs import Request, compiled
from simkit.ensemble.simulation import Simulation
from simkit.ensemble.step_bias.coupled_steps import approximate_means, bias_run, unknown_errors
from simkit.ensemble.step_bias.step_error import StepError
from simkit.ensemble.work import workers_of
from simkit.errors import NumericalError
from simkit.experiments.sensitivity_names import named_pairs
from simkit.garbage import seldom_collected
from simkit.observe.exercise import POLICIES

Progress = Callable[[int, int], None]
FEWEST = 64  # paths of one policy, for its mean to say something


@dataclasses.dataclass(frozen=True)
class EstimatedDerivative:
    """A derivative of a mean: its estimate, standard error and standard deviation per path, by row.

    `step_error` is, of ordinary equations, how much a run to a tenth of the tolerances or with twice as many
    steps differs, for finite differences how much a formula of lower order does, and for coupled copies what
    is left of their distance; `steps` what the steps of a stochastic run leave at the end. `tail` says
    whether `stderr` can be believed.
    `check` is the same by finite differences, where that was asked for and is something else.
    """

    choice: Selection
    mean: np.ndarray
    stderr: np.ndarray
    sd: np.ndarray
    step_error: np.ndarray | None = None
    check: "EstimatedDerivative | None" = None
    steps: StepError | None = None
    tail: Tail | None = None

    @property
    def verdict(self) -> Verdict:
        """Whether `stderr` can be believed."""
        return "settled" if self.tail is None else self.tail.verdict


@dataclasses.dataclass(frozen=True)
class Sensitivities:
    """The sensitivities of an experiment.

    `values` are means and standard errors of the quantities, `bias` what steps leave in those at the end.
    """

    targets: tuple[Target, ...]
    derivatives: tuple[EstimatedDerivative, ...]
    values: dict[str, tuple[np.ndarray, np.ndarray]]
    paths: int
    failed: int
    elapsed_s: float
    compile_s: float
    bias: dict[str, StepError] = dataclasses.field(default_factory=dict)


@seldom_collected()
def find_sensitivities(
    simulation: Simulation, section: Sensitivity, progress: Progress | None = None
) -> Sensitivities:
    """Estimate all derivatives that the section asks for.

    Raises `InputError` where the method asked for would be wrong, with the reason, and `NumericalError`
    where paths or derivatives become NaN or infinite and `failures` is `stop`.
    """
    with jax.enable_x64(True):
        return _find(simulation, section, progress)


def _find(simulation: Simulation, section: Sensitivity, progress: Progress | None) -> Sensitivities:
    simulation, others, compile_s = _with_policies(simulation)
    targets = tuple(find_target(simulation, label) for label in section.wrt)
    labels = [target.label for target in targets]
    pairs = [(labels.index(a), labels.index(b)) for a, b in named_pairs(section)]
    program, inputs = program_of(simulation)
    moves, _ = changes(simulation, targets)
    targets = in_time(simulation, targets, moves)
    facts = Facts(simulation, program, inputs, targets, moves)
    beside = [dataclasses.replace(facts, simulation=x, inputs=program_of(x)[1]) for x in others]
    quantities = section.of or list(simulation.observables) or list(simulation.problem.State._fields)
    offers = [offer_asked(facts, section.method, q, i) for q in quantities for i in range(len(targets))]
    offers += [second_offer(facts, q, pair) for q in quantities for pair in pairs]
    bias = bias_run(simulation)

    def planned(choices: list[Selection]) -> tuple[list[Part], list[Request]]:
        checks = [_check_of(choice) for choice in choices if section.check and not _differs(choice)]
        parts = parts_of(facts, [*choices, *checks], quantities, beside)
        requests = [request for part in parts for request in requests_of(simulation, part)]
        known = {name for part in parts if has_means(part) for name, _ in part.values}
        return parts, requests if bias is None or known.issuperset(quantities) else [
            *requests,
            *bias.requests,
        ]

    choices, seconds = picked(facts, offers, planned)
    compile_s += seconds
    start, compile_before = time.perf_counter(), compile_s
    parts, requests = planned(choices)
    # All at once: XLA compiles one while the next is traced.
    compile_s += compiled(*requests)[1]
    total = sum(part.cost for part in parts)
    done = 0.0
    derivatives: dict[Selection, EstimatedDerivative] = {}
    means: dict[str, tuple[Found, int]] = {}
    elsewhere: dict[str, tuple[Found, int]] = {}  # those of them without a step bias so far
    biases = unknown_errors(simulation).errors
    coupled: dict[Selection, Coupled] = {}
    lost: set[int] = set()
    instead: dict[Selection, Selection] = {}
    for part in parts:
        weight = part.cost / total
        progressed = _share(progress, simulation.paths, done, weight)
        found, errors, pairs, levels, seconds = _run(simulation, part, progressed)
        done += weight
        compile_s += seconds
        if len(found.failed) and section.method == "auto" and _is_weighted(part):
            again = {choice: _without_weight(simulation, choice) for choice, _ in part.found}
            instead |= again
            more = parts_of(facts, list(again.values()), [name for name, _ in part.values], beside)
            total += sum(each.cost for each in more)
            parts += more
            continue
        if len(found.failed) and simulation.failures == "stop":
            raise _failure(simulation, part, found)
        if len(found.failed) == simulation.paths:
            raise NumericalError(
                f"none of the {simulation.paths} paths has finite values and derivatives: there is nothing "
                "to average; `failures: stop` says why"
            )
        lost |= {int(x) for x in found.failed}
        coupled |= pairs
        new = {name: (found, place) for name, place in part.values if name not in means}
        means |= new
        if new and has_means(part):
            biases |= errors_of_means(simulation, bias_of_part(simulation, part), levels, new)
            new = {}
        elsewhere |= new
        for choice, place in part.found:
            figures = found.mean[place], found.stderr[place], found.sd[place]
            derivatives[choice] = EstimatedDerivative(choice, *figures, errors.get(choice))
        shorter = part.again(found, errors)
        if shorter is not None:
            total += shorter.cost
            parts.append(shorter)
    if bias is not None and elsewhere:
        biases |= errors_of_means(simulation, bias, compiled(*bias.requests)[0], elsewhere)
    elapsed = time.perf_counter() - start - (compile_s - compile_before)
    ordered = []
    for choice in choices:
        found = derivatives[instead.get(choice, choice)]
        pairs, name = coupled[found.choice], choice.quantity
        steps = error_of_derivative(simulation, name, pairs)
        found = dataclasses.replace(found, steps=steps, tail=pairs.tail)
        check = None if _differs(found.choice) else derivatives.get(_check_of(choice))
        found = _unsettled(facts, _unmeasured(facts, _explained(facts, found)))
        ordered.append(dataclasses.replace(found, check=check))
    # In the order of the file.
    values = {name: (found.mean[i], found.stderr[i]) for name in quantities for found, i in [means[name]]}
    return Sensitivities(
        targets, tuple(ordered), values, simulation.paths, len(lost), elapsed, compile_s, biases
    )


def _without_weight(simulation: Simulation, choice: Selection) -> Selection:
    """The same derivative where a weight would not be finite."""
    reason = "the noise vanishes on some paths, where the weight is infinite"
    if simulation.grid.has_events:
        reason = "some paths are impossible at other values, so there is no score"
    return Selection(choice.quantity, choice.targets, DIFFERENCES, reason)


def _check_of(choice: Selection) -> Selection:
    """The same derivative by finite differences."""
    return Selection(choice.quantity, choice.targets, DIFFERENCES, "checks another")


def _differs(choice: Selection) -> bool:
    return choice.estimator is DIFFERENCES


def _explained(facts: Facts, found: EstimatedDerivative) -> EstimatedDerivative:
    """A derivative that is 0 on every path says so."""
    if np.any(found.mean) or np.any(np.nan_to_num(found.sd)):
        return found
    choice, reason = found.choice, "no path changes with it"
    if any(_is_idle(facts, i) for i in choice.targets):
        reason = "nothing in the experiment uses it"
    elif len(choice.targets) == 2:
        alone = len(set(choice.targets)) == 1
        reason = f"no path's slope{'' if alone else ' in one'} changes with {'it' if alone else 'the other'}"
    elif facts.is_rough(choice.quantity, choice.targets[0]) and facts.simulation.paths == 1:
        reason = "the value is a step, and flat around here"
    return dataclasses.replace(found, choice=dataclasses.replace(choice, reason=reason))


def _unmeasured(facts: Facts, found: EstimatedDerivative) -> EstimatedDerivative:
    """A derivative whose steps leave an error that is not measured says so."""
    simulation, choice = facts.simulation, found.choice
    exact = choice.quantity not in approximate_means(simulation)
    ordinary = not isinstance(simulation.problem, AbstractSDE)  # or jumps, whose leaps are compared
    if exact or ordinary or facts.levels:
        return found
    reason = f"{choice.reason}; the error of the steps is not measured"
    return dataclasses.replace(found, choice=dataclasses.replace(choice, reason=reason))


def _unsettled(facts: Facts, found: EstimatedDerivative) -> EstimatedDerivative:
    """A derivative without a variance says so, and what to do."""
    if found.verdict != "grows":
        return found
    choice = found.choice
    reason = f"no result: {FAULTS[found.verdict]}; {remedy(facts) or 'take another sensitivity.method'}"
    return dataclasses.replace(found, choice=dataclasses.replace(choice, reason=reason))


def _is_idle(facts: Facts, number: int) -> bool:
    """Whether no number of the run changes with a target."""
    if jax.tree.leaves(facts.moves[number]):
        return False
    target = facts.targets[number]
    pair = [shifted(facts.simulation, [target], [step]) for step in (0.0, step_of(target, SMOOTH))]
    here, there = map(jax.tree.leaves, pair)
    return all(np.array_equal(a, b) for a, b in zip(here, there, strict=True))


def _run(
    simulation: Simulation, part: Part, progress: Callable[[int], None] | None
) -> tuple[Found, Errors, dict[Selection, Coupled], Sequence[Callable], float]:
    """What a part gives, the programs of its levels, and the seconds to compile."""
    plan, workers = chunks_of(simulation), workers_of(simulation)
    programs, seconds = compiled(*requests_of(simulation, part))
    programs, averaging = programs[: len(part.all_requests)], programs[len(part.all_requests) :]
    own, levels = programs[: len(part.requests)], programs[len(part.requests) :]
    if has_means(part):
        levels = [LastRows(program) for program in levels]
        programs = [*own, *levels]
    reduction = MomentsReduction(part.counts).compiled(averaging)

    def simulate(ids):
        return part.run(programs, ids)

    if part.replicates:
        found = _of_policies(part, programs, reduction, simulation.paths, plan, workers, progress)
    else:
        found = average(simulate, reduction, simulation.paths, plan, workers, progress)
    errors = part.step_errors(found, programs, plan.ids(), simulation.paths)
    pairs, more = coupled_values(simulation, part, programs, found)
    return found, errors, pairs, levels, seconds + more


def _with_policies(simulation: Simulation) -> tuple[Simulation, list[Simulation], float]:
    """The simulation with a policy for what is exercised early, others with policies of their own, seconds.

    Their chunks are as long as the paths of one policy.
    """
    count = POLICIES if simulation.paths >= POLICIES * FEWEST else 1
    found, compile_s = independent_policies(simulation, count)
    if not found[0][1]:
        return simulation, [], compile_s
    each = -(-simulation.paths // count)
    chunk = min(simulation.chunk or each, each)
    first, *others = (dataclasses.replace(x, chunk=chunk) for x, _ in found)
    return first, others, compile_s


def _of_policies(part, programs, reduction, paths, plan, workers, progress) -> Found:
    """The paths in equal parts, each with a policy of its own."""
    replicates = (part, *part.replicates)
    ends = [paths * i // len(replicates) for i in range(len(replicates) + 1)]
    counts = np.diff(ends).tolist()
    found = []
    for each, first, count in zip(replicates, ends[:-1], counts, strict=True):

        def simulate(ids, each=each):
            return each.run(programs, ids)

        def progressed(done, first=first):
            if progress is not None:
                progress(first + done)

        found.append(average(simulate, reduction, count, plan, workers, progressed, first))
    return pooled(found, counts)


def _is_weighted(part: Part) -> bool:
    """Whether it weighs values with a derivative of a density, which is infinite where there is no noise."""
    return any(choice.estimator.weighted for choice, _ in part.found)


def _share(progress: Progress | None, paths: int, done: float, weight: float) -> Callable[[int], None] | None:
    if progress is None:
        return None
    return lambda count: progress(min(paths, round(paths * (done + weight * count / paths))), paths)


def _failure(simulation: Simulation, part: Part, found: Found) -> Exception:
    """Why a path has no derivative: its values are not finite, or they are and the derivative is not."""
    paths = ", ".join(str(x) for x in found.failed[:3])
    if _is_weighted(part) and simulation.grid.has_events:
        return NumericalError(
            f"path {paths}: there is no score: a rate of zero changes, or an event does, and the path is "
            "impossible at other values. Set sensitivity.method: finite_differences"
        )
    if _is_weighted(part):
        return NumericalError(
            f"path {paths}: the weight is not finite: the noise vanishes where the path is looked at, and "
            "there is no density to differentiate. Set sensitivity.method: finite_differences, or "
            "`ensemble: {failures: exclude}`"
        )
    error = failed_paths(simulation, found.failed)
    if "not finite" in str(error).split(".")[0]:
        return NumericalError(
            f"path {paths}: the values are finite and a derivative is not. Set sensitivity.method: "
            "finite_differences, or `ensemble: {failures: exclude}`"
        )
    return error
