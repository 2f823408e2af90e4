"""Where an estimator of a derivative is valid: what it needs of a run, and why it would be wrong."""

from typing import cast

import equinox as eqx
import jax
import jax.numpy as jnp
from simkit_solvers.derivatives.smoothing import Smoothing
from simkit_solvers.methods.jump.jump_method import varies
from simkit_solvers.methods.registry import info_of
from simkit_solvers.problems.directions import NoDensityError, Release
from simkit_solvers.problems.reaction_network import AbstractReactionNetwork
from simkit_solvers.problems.schedule import schedule_of

from simkit.derivatives.derivative_program import like
from simkit.derivatives.differentiated_run import DifferentiatedRun
from simkit.derivatives.monitored_differences import smoothing_of
from simkit.derivatives.path_derivatives import check_density
from simkit.derivatives.smoothness import (
    discontinuity_at_start,
    discontinuous_names,
    name_in_condition,
    why_equations_jump,
    why_path_jumps,
    why_slope_of_equations_jumps,
)
from simkit.observe.observable import Observable

MOVES_ROWS = "{} moves the times of the rows"
ONE_NETWORK = "copies need one network"
VARYING = "rates change between events, and a score takes them as constant"
AT_RANGE_END = "{} = {:g} may be the end of its range"


def smooth(run: DifferentiatedRun, quantity: str, targets: tuple[int, ...]) -> tuple[Smoothing, ...] | str:
    """Where to smooth for a derivative in one target or two; the reason where that cannot be."""
    simulation, observable, kinks = run.simulation, run.observable(quantity), len(targets) == 2
    if kinks and (slope := why_slope_of_equations_jumps(run, targets)):
        return slope
    if not simulation.stepping.has_increments:
        return "smoothing needs noise on a fixed grid"
    for target in targets:
        reason = why_equations_jump(run, target) or why_path_jumps(run, target)
        if reason is not None:
            return reason
    if observable is None:
        return "a state variable does not jump where its equation does not"
    if observable.exercise is not None:
        return "it is exercised early"
    random = filter(None, (discontinuity_at_start(run, quantity, target, kinks) for target in targets))
    for name in random:
        return f"{name} is random where it begins, before any noise"
    smoothings = smoothings_of(run, observable, len(targets))
    if isinstance(smoothings, str):
        return smoothings
    refusals = (_refusal(run, each) for each in smoothings)
    return next((each for each in refusals if each is not None), smoothings)


def smoothings_of(run: DifferentiatedRun, observable: Observable, order: int) -> tuple[Smoothing, ...] | str:
    """Where a value jumps; of a second derivative where its slope does too, and once more; or why not."""
    every, smoothings = run.evaluation_interval(observable.name), []
    for kinks in [True, False] if order == 2 else [False]:
        smoothing = smoothing_of(observable, run.simulation.problem, run.variables, every, kinks)
        if isinstance(smoothing, str):
            return smoothing
        smoothings.append(smoothing)
    return tuple(smoothings)


def _refusal(run: DifferentiatedRun, smoothing: Smoothing) -> str | None:
    """Why there is no smoothing here, whatever the target: no noise drives what is compared."""
    if smoothing not in run.refusals:
        constant = jax.tree.map(lambda _: None, run.moves[0])
        run.refusals[smoothing] = None
        try:
            check_density(run.program, run.inputs, constant, smoothing)
        except NoDensityError as error:
            run.refusals[smoothing] = str(error)
    return run.refusals[smoothing]


def moves_payment_alone(run: DifferentiatedRun, target: int) -> bool:
    """Whether a target moves what is paid, and neither paths nor dates of a fixed policy."""
    move = run.moves[target]
    return not jax.tree.leaves((move.problem, move.initial, move.grid))


def moves_drift_alone(run: DifferentiatedRun, target: int) -> bool:
    """Whether a target moves the drift and nothing else of a path: its score does not grow with the steps."""
    move = run.moves[target]
    others = jax.tree.leaves((move.initial, move.grid))
    if not run.simulation.stepping.has_increments or others or not jax.tree.leaves(move.problem):
        return False
    problem = run.program.combined(run.inputs).problem
    zero = jnp.zeros((), run.simulation.precision)
    y = problem.State(*[zero] * len(problem.State._fields))
    dW = problem.Noise(*[zero] * len(problem.Noise._fields))

    def noise(problem):
        return problem.noise(zero, y, dW)

    change = like(problem, move.problem)
    return not jax.tree.leaves(jax.eval_shape(lambda: eqx.filter_jvp(noise, (problem,), (change,))[1]))


def release_interval(run: DifferentiatedRun, quantity: str, target: int, kinks: bool) -> int | str:
    """The number of steps over which the derivative in a target is released; the reason where it cannot be.

    It is released gradually between monitoring dates, or within each step where a variable without noise
    would carry it on.
    """
    simulation, label = run.simulation, run.targets[target].label
    observable, functionals = run.observable(quantity), run.functionals(quantity)
    schedule = schedule_of(simulation.problem)
    if schedule is not None and schedule.triggered:
        return "a condition decides when an event happens"
    if reason := why_condition_moves(run, target):
        return reason
    if simulation.stepping.whole:
        if varies(cast(AbstractReactionNetwork, simulation.problem)):
            return VARYING
        if run.moves_functionals(quantity, target):
            return f"{label} is in what is observed along the path"
        return MOVES_ROWS.format(label) if run.moves_times(target) else 0
    if not simulation.stepping.has_increments:
        return "a score needs noise on a fixed grid"
    if not info_of(simulation.solver).one_to_one:
        return f"{type(simulation.solver).__name__} is not one to one in its normals"
    if run.is_exercised(quantity):
        return "it is exercised early"
    jumps = why_path_jumps(
        run, target
    )  # what else is random would move too, and the weight is of normals only
    if jumps is not None:
        return jumps
    if discontinuous_names(run, quantity, kinks) & run.moved_names(target):
        return f"{label} is in the condition itself"
    random = discontinuity_at_start(run, quantity, target, kinks)
    if random is not None:
        return f"{label} moves {random} where it begins at random, before any noise"
    if observable is not None and jax.tree.leaves(run.moves[target].initial):
        functional = _functional_at_start(run, observable, kinks)
        if functional is not None:
            return f"{label} moves the {functional} along the path at once, before any noise"
    if functionals and run.moves_times(target):
        return f"{label} moves the times at which the path is observed"
    reason = ""
    # A derivative that stays in the path would miss the jumps of the equations.
    gradual = [] if name_in_condition(run, target) else [run.monitoring_interval(quantity)]
    for every in dict.fromkeys([*gradual, 1]):
        try:
            check_density(run.program, run.inputs, run.moves[target], Release(every))
            return every
        except NoDensityError as error:
            reason = reason or str(error).replace(" it", f" {label}", 1)
    return reason


def why_condition_moves(run: DifferentiatedRun, target: int) -> str | None:
    """Why no weights see what a target does: it moves where the equations, or events, jump."""
    name = name_in_condition(run, target)
    if name is None or name in run.variables:
        return None
    return f"{run.targets[target].label} is in a condition of the equations"


def _functional_at_start(run: DifferentiatedRun, observable: Observable, kinks: bool) -> str | None:
    """A functional that observes the initial state too, where a value or its slope jumps with it.

    No noise drives the initial state, so its derivative cannot be released. An extreme compared with a
    constant is no such functional: the initial state is on one side for all paths.
    """
    discontinuities = observable.expression.discontinuities
    for each in discontinuities.differences:
        if each.kink and not kinks:
            continue
        initial = [f for f in each.functionals if f.keeps_start]
        alone = len(each.functionals) == 1 and not each.names & run.variables
        if initial and not (alone and initial[0].kink == "extreme"):
            return initial[0].name
    # An extreme has a kink itself: between the initial state and the others. So has the root of an integral.
    initial = [f for f in observable.functionals if f.keeps_start]
    kinked = [f.name for f in initial if f.kink or (discontinuities.roots and not f.conditional)]
    return kinked[0] if kinked and kinks else None


def why_no_copies(run: DifferentiatedRun, target: int) -> str | None:
    """Why copies of a network cannot give the derivative in a target."""
    if run.moves_times(target):
        return MOVES_ROWS.format(run.targets[target].label)
    return None if schedule_of(run.simulation.problem) is None else ONE_NETWORK


def at_range_end(run: DifferentiatedRun, target: int) -> str | None:
    """Why there are no copies to either side of a target."""
    given = run.targets[target]
    return AT_RANGE_END.format(given.label, given.value) if run.is_at_range_end(target) else None
