"""Which estimators are right for the derivative of an observable, and why."""

import dataclasses
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from simkit_solvers.derivatives.smoothing import Smoothing
from simkit_solvers.grids.grid import Grid
from simkit_solvers.grids.jump_grid import JumpGrid
from simkit_solvers.methods.langevin.baoab import BAOAB
from simkit_solvers.methods.sde.euler_maruyama import EulerMaruyama
from simkit_solvers.methods.sde.exact_sampling import ExactSampling
from simkit_solvers.methods.sde.tamed_euler import TamedEuler
from simkit_solvers.problems.directions import NoDensityError, Release
from simkit_solvers.problems.problem import AbstractSDE
from simkit_solvers.problems.schedule import schedule_of

from simkit.derivatives.derivative_program import check_density, like
from simkit.derivatives.edges import smoothing_of
from simkit.derivatives.facts import RATE, Facts, not_smooth, seen
from simkit.observe.observables import Observable

Method = Literal[
    "pathwise",
    "reverse",
    "smoothing",
    "score",
    "mixed",
    "weak derivative",
    "coupled differences",
    "finite differences",
]
ONE_TO_ONE = (EulerMaruyama, TamedEuler, ExactSampling, BAOAB)
EXERCISE = "the date of exercise jumps"
PAYMENT = "moves what is paid, not when"
MOVES_ROWS = "{} moves the times of the rows"
ONE_NETWORK = "copies need one network"
STEEP = "the chance not to touch a barrier is steep"
AT_AN_END = "{} = {:g} may be the end of its range"
FEW = 6  # a reverse pass costs about as much as so many directions


@dataclasses.dataclass(frozen=True)
class Choice:
    """The estimator of one derivative: the order of `targets` is that of differentiation.

    `look` is at every how many steps a released derivative must be zero, `smoothings` where values jump: for
    the first derivative, and once more for the second. `wide` tells of finite differences with long steps.
    """

    quantity: str
    targets: tuple[int, ...]
    method: Method
    reason: str
    look: int = 0
    smoothings: tuple[Smoothing, ...] = ()
    wide: bool = False


class Offer(NamedTuple):
    """The estimators of one derivative: a pilot picks one of several `rivals`, the best of most cases first.

    `instead` are for where none of the rivals has a finite variance.
    """

    rivals: tuple[Choice, ...]
    instead: tuple[Choice, ...] = ()


def first_offer(facts: Facts, quantity: str, target: int) -> Offer:
    """The estimators of a first derivative."""
    if isinstance(facts.simulation.grid, JumpGrid):
        return Offer(_of_counts(facts, quantity, target))
    choice = _of_paths(facts, quantity, target)
    instead = wide_differences(facts, choice)
    if choice.method == "score" and facts.noise_has_roots:
        smoothed = smooth(facts, quantity, (target,), kinks=False)
        if not isinstance(smoothed, str):
            instead = dataclasses.replace(choice, method="smoothing", look=0, smoothings=smoothed), *instead
    return Offer((choice,), instead)


def second_offer(facts: Facts, quantity: str, pair: tuple[int, int]) -> Offer:
    """The estimators of a second derivative."""
    choice = _second(facts, quantity, pair)
    if choice.method == "smoothing" and facts.noise_has_roots:
        return Offer((choice, _by_differences(facts, choice)))  # weights are large where noise is small
    return Offer((choice,), wide_differences(facts, choice))


def wide_differences(facts: Facts, choice: Choice) -> tuple[Choice, ...]:
    """What is left where slopes without a bound make the derivative of a path vary without one."""
    return (_by_differences(facts, choice),) if facts.has_roots(choice.targets) else ()


def _by_differences(facts: Facts, choice: Choice) -> Choice:
    """The same derivative by finite differences."""
    reason, wide = choice.reason.split(":")[0], facts.has_roots(choice.targets)
    return Choice(choice.quantity, choice.targets, "finite differences", reason, wide=wide)


def _of_paths(facts: Facts, quantity: str, target: int) -> Choice:
    """The estimator for what steps through time."""
    observable = facts.observable(quantity)
    jumps = seen(observable, "jumps") & facts.variables
    facts.refuse_moved_times(quantity, (target,), kinks=False)
    if facts.is_exercised(quantity):
        if not jumps and _moves_payment_alone(facts, target):
            return Choice(quantity, (target,), "pathwise", PAYMENT)
        return Choice(quantity, (target,), "finite differences", EXERCISE)
    broken, steep = facts.model_jumps(target), facts.is_steep(quantity, (target,))
    if not jumps and not broken:
        reason = not_smooth(facts, target)
        if reason == RATE:
            return Choice(quantity, (target,), "weak derivative", reason)
        if reason is None and steep:
            return _smoothed_or_score(facts, quantity, target, STEEP) or Choice(
                quantity, (target,), "pathwise", "continuous in the path"
            )
        if reason is None:
            extremes = "; the extreme is that of a step" if facts.has_extremes_of_steps(quantity) else ""
            return Choice(quantity, (target,), "pathwise", f"continuous in the path{extremes}")
        return Choice(quantity, (target,), "finite differences", reason)
    why = f"the value jumps with {', '.join(sorted(jumps))}" if jumps else f"the equations jump with {broken}"
    found = _smoothed_or_score(facts, quantity, target, why)
    if found is not None:
        return found
    smoothed = smooth(facts, quantity, (target,), kinks=False)
    look = release_interval(facts, quantity, target, "jumps")
    what = why.split(" with ")[0]
    reason = (
        f"{what}, and {look}" if look == smoothed else f"{what}; no score: {look}; no smoothing: {smoothed}"
    )
    return Choice(quantity, (target,), "finite differences", reason)


def _smoothed_or_score(facts: Facts, quantity: str, target: int, why: str) -> Choice | None:
    """What does not need the path to be followed where it jumps: a score for the drift alone."""
    smoothed = smooth(facts, quantity, (target,), kinks=False)
    by_smoothing = (
        None if isinstance(smoothed, str) else Choice(quantity, (target,), "smoothing", why, 0, smoothed)
    )
    if by_smoothing is not None and not _moves_drift_alone(facts, target):
        return by_smoothing
    look = release_interval(facts, quantity, target, "jumps")
    return Choice(quantity, (target,), "score", why, look) if isinstance(look, int) else by_smoothing


def _of_counts(facts: Facts, quantity: str, target: int) -> tuple[Choice, ...]:
    """The estimators for a jump process: numbers of molecules jump with the rates."""
    label, exact = facts.targets[target].label, facts.simulation.solver.exact
    facts.refuse_moved_times(quantity, (target,), kinks=False)
    along, moves_along = facts.sees_path(quantity), facts.moves_functionals(quantity, target)
    if facts.moves_times(target):
        return (Choice(quantity, (target,), "finite differences", MOVES_ROWS.format(label)),)
    if schedule_of(facts.simulation.problem) is not None:
        if moves_along:
            return (Choice(quantity, (target,), "finite differences", f"{label} is in what is watched"),)
        return (Choice(quantity, (target,), "score", f"counts jump with the rates, and {ONE_NETWORK}"),)
    if facts.at_an_end(target):
        end = AT_AN_END.format(label, facts.targets[target].value)
        if exact and not along:
            return (Choice(quantity, (target,), "weak derivative", f"{end}: one event more"),)
        return (Choice(quantity, (target,), "finite differences", end),)
    methods: list[Method] = ["coupled differences", "weak derivative", "score"]
    why = "counts jump with the rates"
    if seen(facts.observable(quantity), "jumps") & facts.variables:
        methods = ["score", "weak derivative", "coupled differences"]
        why = "the value jumps with the counts"
    without = {"weak derivative"} if along or not exact else set()
    without |= {"score"} if moves_along else set()
    return tuple(Choice(quantity, (target,), method, why) for method in methods if method not in without)


def no_copies(facts: Facts, quantity: str, target: int, method: str) -> str | None:
    """Why two copies of a network cannot tell the derivative in a target, apart by it or by one event."""
    simulation, label = facts.simulation, facts.targets[target].label
    if not isinstance(simulation.grid, JumpGrid):
        coupled = method == "coupled_differences"
        return (
            "only copies of a reaction network fire together"
            if coupled
            else f"{label} moves no rate of jumps"
        )
    if facts.moves_times(target):
        return MOVES_ROWS.format(label)
    if schedule_of(simulation.problem) is not None:
        return ONE_NETWORK
    if method == "coupled_differences" and facts.at_an_end(target):
        return AT_AN_END.format(label, facts.targets[target].value)
    if method == "weak_derivative" and facts.sees_path(quantity):
        return "it depends on the path, and an event more changes what is still to come"
    if method == "weak_derivative" and not simulation.solver.exact:
        return f"{type(simulation.solver).__name__} takes many events at once, and no other fits between"
    return None


def _second(facts: Facts, quantity: str, pair: tuple[int, int]) -> Choice:
    """The estimator of a second derivative."""
    observable = facts.observable(quantity)
    facts.refuse_moved_times(quantity, pair, kinks=True)
    facts.refuse_moved_policy(quantity, pair)
    bent = None if isinstance(facts.simulation.grid, JumpGrid) else facts.bends(pair)
    if bent is not None:
        return Choice(quantity, pair, "finite differences", f"the slope of the equations jumps with {bent}")
    if seen(observable, "jumps") & facts.variables:
        smoothed = smooth(facts, quantity, pair, kinks=True)
        if isinstance(smoothed, str):
            return Choice(quantity, pair, "finite differences", f"the value jumps, and {smoothed}")
        return Choice(quantity, pair, "smoothing", "the value jumps: smoothed twice", 0, smoothed)
    if observable is not None and observable.exercise is not None:
        return Choice(quantity, pair, "finite differences", EXERCISE)
    for target in dict.fromkeys(pair):
        broken = facts.model_jumps(target)
        reason = f"the equations jump with {broken}" if broken else not_smooth(facts, target)
        if reason is not None:
            return Choice(quantity, pair, "finite differences", reason)
    if not seen(observable, "kinks") & facts.variables:
        return Choice(quantity, pair, "pathwise", "smooth in the path")
    steep = facts.is_steep(quantity, pair)
    smoothed = smooth(facts, quantity, pair, kinks=True)
    if steep and not isinstance(smoothed, str):
        return Choice(quantity, pair, "smoothing", f"{STEEP}: smoothed twice", 0, smoothed)
    reasons = []
    for first, last in dict.fromkeys([pair, pair[::-1]]):
        look = release_interval(facts, quantity, first, "kinks")
        if isinstance(look, int):
            why = f"the slope jumps: score for {facts.targets[first].label}, then pathwise"
            return Choice(quantity, (first, last), "mixed", why, look)
        reasons.append(look)
    if isinstance(smoothed, str):
        return Choice(quantity, pair, "finite differences", f"the slope jumps, and {reasons[0]}")
    return Choice(quantity, pair, "smoothing", "the slope jumps: smoothed, then pathwise", 0, smoothed)


def smooth(facts: Facts, quantity: str, targets: tuple[int, ...], kinks: bool) -> tuple[Smoothing, ...] | str:
    """Where to smooth for a derivative in one target or two; the reason where that cannot be."""
    simulation, observable = facts.simulation, facts.observable(quantity)
    if not isinstance(simulation.grid, Grid) or not isinstance(simulation.problem, AbstractSDE):
        return "smoothing needs noise on a fixed grid"
    for target in targets:
        broken = facts.model_jumps(target)
        reason = f"the equations jump with {broken}" if broken else not_smooth(facts, target)
        if reason is not None:
            return reason
    if observable is None:
        return "a state variable does not jump where its equation does not"
    if observable.exercise is not None:
        return "it is exercised early"
    begun = next(filter(None, (facts.meets_start(quantity, target, kinks) for target in targets)), None)
    if begun is not None:
        return f"{begun} is random where it begins, before any noise"
    smoothings = smoothings_of(facts, observable, len(targets), kinks)
    if isinstance(smoothings, str):
        return smoothings
    refusals = (_refusal(facts, each) for each in smoothings)
    return next((each for each in refusals if each is not None), smoothings)


def smoothings_of(
    facts: Facts, observable: Observable, derivatives: int, kinks: bool
) -> tuple[Smoothing, ...] | str:
    """Where a value jumps, or with `kinks` its slope too, once for each derivative; or why not."""
    grid: Any = facts.simulation.grid
    simulation = facts.simulation
    every = grid.every if simulation.observables[observable.name].at == "each" else grid.steps
    wanted = [kinks, False][:derivatives]
    found = [smoothing_of(observable, simulation.problem, facts.variables, every, each) for each in wanted]
    smoothings = tuple(each for each in found if isinstance(each, Smoothing))
    if len(smoothings) < len(found):
        return next(each for each in found if isinstance(each, str))
    return smoothings


def at_level(level: Facts, choice: Choice) -> Choice:
    """The same estimator on the steps of a level: what counts steps there counts as many there."""
    run, observable = level.run, level.observable(choice.quantity)
    look, smoothings = choice.look, choice.smoothings
    if look and run is not None and look == run.look_interval(choice.quantity):
        look = level.look_interval(choice.quantity)
    if smoothings and observable is not None:
        there = smoothings_of(level, observable, len(choice.targets), len(choice.targets) == 2)
        smoothings = smoothings if isinstance(there, str) else there
    return dataclasses.replace(choice, look=look, smoothings=smoothings)


def _refusal(facts: Facts, smoothing: Smoothing) -> str | None:
    """Why there is no smoothing here, whatever the target: no noise drives what is compared."""
    if smoothing not in facts.refusals:
        still = jax.tree.map(lambda _: None, facts.moves[0])
        facts.refusals[smoothing] = None
        try:
            check_density(facts.program, facts.inputs, still, smoothing)
        except NoDensityError as error:
            facts.refusals[smoothing] = str(error)
    return facts.refusals[smoothing]


def _moves_payment_alone(facts: Facts, target: int) -> bool:
    """Whether a target moves what is paid, and neither paths nor dates: the policy's regions are held."""
    move = facts.moves[target]
    return not jax.tree.leaves((move.problem, move.initial, move.grid))


def _moves_drift_alone(facts: Facts, target: int) -> bool:
    """Whether a target moves the drift and nothing else of a path: its score does not grow with the steps."""
    move = facts.moves[target]
    if jax.tree.leaves((move.initial, move.grid)) or not jax.tree.leaves(move.problem):
        return False
    problem, _, _ = facts.program.combined(facts.inputs)
    zero = jnp.zeros((), facts.simulation.precision)
    y = problem.State(*[zero] * len(problem.State._fields))
    dW = problem.Noise(*[zero] * len(problem.Noise._fields))

    def noise(problem):
        return problem.noise(zero, y, dW)

    change = like(problem, move.problem)
    return not jax.tree.leaves(jax.eval_shape(lambda: eqx.filter_jvp(noise, (problem,), (change,))[1]))


def release_interval(facts: Facts, quantity: str, target: int, kind: str) -> int | str:
    """By every how many steps the derivative in a target is to be released; the reason where it cannot be.

    Gradually between looks at the path, or within each step where a variable without noise would carry it on.
    """
    simulation, label = facts.simulation, facts.targets[target].label
    observable = facts.observable(quantity)
    if isinstance(simulation.grid, JumpGrid):
        if facts.moves_functionals(quantity, target):
            return f"{label} is in what is watched along the path"
        return MOVES_ROWS.format(label) if facts.moves_times(target) else 0
    if not isinstance(simulation.grid, Grid) or not isinstance(simulation.problem, AbstractSDE):
        return "a score needs noise on a fixed grid"
    if not isinstance(simulation.solver, ONE_TO_ONE):
        return f"{type(simulation.solver).__name__} is not one to one in its normals"
    if observable is not None and observable.exercise is not None:
        return "it is exercised early"
    other = not_smooth(facts, target)  # what else is random would move too, and the weight is of normals only
    if other is not None:
        return other
    if seen(observable, kind) & facts.moved_names(target):
        return f"{label} is in the condition itself"
    begun = facts.meets_start(quantity, target, kind == "kinks")
    if begun is not None:
        return f"{label} moves {begun} where it begins at random, before any noise"
    held = _held_at_start(facts, observable, kind) if jax.tree.leaves(facts.moves[target].initial) else None
    if held is not None:
        return f"{label} moves the {held} along the path at once, before any noise"
    broken = facts.model_jumps(target)
    if broken and broken not in facts.variables:
        return f"{label} is in a condition of the equations"
    if observable is not None and observable.functionals and facts.moves_times(target):
        return f"{label} moves the times at which the path is looked at"
    reason = ""
    # A derivative that stays in the path would miss the jumps of the equations.
    gradual = [] if broken else [facts.look_interval(quantity)]
    for look in dict.fromkeys([*gradual, 1]):
        try:
            check_density(facts.program, facts.inputs, facts.moves[target], Release(look))
            return look
        except NoDensityError as error:
            reason = reason or str(error).replace(" it", f" {label}", 1)
    return reason


def _held_at_start(facts: Facts, observable: Observable | None, kind: str) -> str | None:
    """A functional that looks at the initial state too, where a value or its slope jumps with it.

    No noise drives that look, so its derivative cannot be released. An extreme compared with something fixed
    is none: the initial state is on one side for all paths.
    """
    if observable is None:
        return None
    for edge in observable.expression.edges:
        if edge.kink and kind == "jumps":
            continue
        looks = [f for f in edge.functionals if f.keeps_start]
        alone = len(edge.functionals) == 1 and not edge.names & facts.variables
        if looks and not (alone and looks[0].kink == "extreme"):
            return looks[0].name
    # An extreme has a kink itself: between the initial state and the others. So has the root of an integral.
    roots, looks = observable.expression.roots, [f for f in observable.functionals if f.keeps_start]
    held = [f.name for f in looks if f.kink or (roots and not f.conditional)]
    return held[0] if held and kind == "kinks" else None
