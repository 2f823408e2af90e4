"""Where an estimator of a derivative is valid: what it needs of a run, and why it would be wrong."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from simkit_solvers.derivatives.smoothing import Smoothing
from simkit_solvers.methods.registry import info_of
from simkit_solvers.problems.directions import NoDensityError, Release
from simkit_solvers.problems.problem import AbstractSDE
from simkit_solvers.problems.schedule import schedule_of

from simkit.derivatives.derivative_program import check_density, like
from simkit.derivatives.edges import smoothing_of
from simkit.derivatives.estimator import Selection
from simkit.derivatives.facts import Facts, not_smooth, seen
from simkit.observe.observable import Observable

MOVES_ROWS = "{} moves the times of the rows"
ONE_NETWORK = "copies need one network"
AT_AN_END = "{} = {:g} may be the end of its range"
EXERCISE = "the date of exercise jumps"


def where_it_jumps(facts: Facts, quantity: str, target: int) -> str | None:
    """What a value, or the equations, jump with as a target moves; None if they do not."""
    jumps = seen(facts.observable(quantity), "jumps") & facts.variables
    if jumps:
        return f"the value jumps with {', '.join(sorted(jumps))}"
    broken = facts.model_jumps(target)
    return f"the equations jump with {broken}" if broken else None


def why_rough(facts: Facts, quantity: str, target: int) -> str | None:
    """Why a value jumps as a path's random numbers stay and a target moves; None if it does not."""
    exercise = EXERCISE if facts.is_exercised(quantity) else None
    return not_smooth(facts, target) or exercise or where_it_jumps(facts, quantity, target)


def smooth(facts: Facts, quantity: str, targets: tuple[int, ...], kinks: bool) -> tuple[Smoothing, ...] | str:
    """Where to smooth for a derivative in one target or two; the reason where that cannot be."""
    simulation, observable = facts.simulation, facts.observable(quantity)
    if simulation.grid.steps is None or not isinstance(simulation.problem, AbstractSDE):
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
    result = [smoothing_of(observable, simulation.problem, facts.variables, every, each) for each in wanted]
    smoothings = tuple(each for each in result if isinstance(each, Smoothing))
    if len(smoothings) < len(result):
        return next(each for each in result if isinstance(each, str))
    return smoothings


def at_level(level: Facts, choice: Selection) -> Selection:
    """The same estimator on the steps of a level: what counts steps there counts as many there."""
    run, observable = level.run, level.observable(choice.quantity)
    every, smoothings = choice.every, choice.smoothings
    if every and run is not None and every == run.monitoring_interval(choice.quantity):
        every = level.monitoring_interval(choice.quantity)
    if smoothings and observable is not None:
        there = smoothings_of(level, observable, len(choice.targets), len(choice.targets) == 2)
        smoothings = smoothings if isinstance(there, str) else there
    return dataclasses.replace(choice, every=every, smoothings=smoothings)


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


def moves_payment_alone(facts: Facts, target: int) -> bool:
    """Whether a target moves what is paid, and neither paths nor dates: the policy's regions are held."""
    move = facts.moves[target]
    return not jax.tree.leaves((move.problem, move.initial, move.grid))


def moves_drift_alone(facts: Facts, target: int) -> bool:
    """Whether a target moves the drift and nothing else of a path: its score does not grow with the steps."""
    move = facts.moves[target]
    if jax.tree.leaves((move.initial, move.grid)) or not jax.tree.leaves(move.problem):
        return False
    problem = facts.program.combined(facts.inputs).problem
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
    if simulation.grid.has_events:
        if facts.moves_functionals(quantity, target):
            return f"{label} is in what is watched along the path"
        return MOVES_ROWS.format(label) if facts.moves_times(target) else 0
    if simulation.grid.steps is None or not isinstance(simulation.problem, AbstractSDE):
        return "a score needs noise on a fixed grid"
    if not info_of(simulation.solver).one_to_one:
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
    gradual = [] if broken else [facts.monitoring_interval(quantity)]
    for every in dict.fromkeys([*gradual, 1]):
        try:
            check_density(facts.program, facts.inputs, facts.moves[target], Release(every))
            return every
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
    for edge in observable.expression.discontinuities.differences:
        if edge.kink and kind == "jumps":
            continue
        looks = [f for f in edge.functionals if f.keeps_start]
        alone = len(edge.functionals) == 1 and not edge.names & facts.variables
        if looks and not (alone and looks[0].kink == "extreme"):
            return looks[0].name
    # An extreme has a kink itself: between the initial state and the others. So has the root of an integral.
    roots = observable.expression.discontinuities.roots
    looks = [f for f in observable.functionals if f.keeps_start]
    held = [f.name for f in looks if f.kink or (roots and not f.conditional)]
    return held[0] if held and kind == "kinks" else None


def no_copies(facts: Facts, quantity: str, target: int, method: str) -> str | None:
    """Why two copies of a network cannot give the derivative in a target, differing by it or by one event."""
    simulation, label = facts.simulation, facts.targets[target].label
    if not simulation.grid.has_events:
        coupled = method == "coupled differences"
        return (
            "only copies of a reaction network fire together"
            if coupled
            else f"{label} moves no rate of jumps"
        )
    if facts.moves_times(target):
        return MOVES_ROWS.format(label)
    if schedule_of(simulation.problem) is not None:
        return ONE_NETWORK
    if method == "coupled differences" and facts.at_an_end(target):
        return AT_AN_END.format(label, facts.targets[target].value)
    if method == "weak derivative" and facts.sees_path(quantity):
        return "it depends on the path, and an event more changes what is still to come"
    if method == "weak derivative" and not simulation.solver.exact:
        return f"{type(simulation.solver).__name__} takes many events at once, and no other fits between"
    return None
