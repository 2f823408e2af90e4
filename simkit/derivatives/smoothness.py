"""Where quantities and equations jump, or their slopes do, as a target moves and random numbers stay."""

from collections.abc import Sequence

import jax
from simkit_solvers.loops.path_run import event_steps
from simkit_solvers.methods.registry import info_of
from simkit_solvers.problems.jump_diffusion import AbstractJumpDiffusion
from simkit_solvers.problems.schedule import schedule_of

from simkit.derivatives.derivative_program import like
from simkit.derivatives.differentiated_run import DifferentiatedRun
from simkit.derivatives.moved import draws_words, moves_intensity
from simkit.distributions.distribution import AbstractDrawn

SLOPE = "the slope jumps"
EXERCISE = "the date of exercise jumps"
RATE = "the rate decides how many jumps a path has"
RATE_OF_STATE = "the rate decides how many jumps a path has, and depends on the state"


def discontinuous_names(run: DifferentiatedRun, quantity: str, kinks: bool = False) -> frozenset[str]:
    """The names with which a quantity jumps, or with `kinks` its slope does."""
    observable = run.observable(quantity)
    if observable is None:
        return frozenset()
    known = observable.expression.discontinuities
    return frozenset(known.jumps | known.kinks if kinks else known.jumps)


def jumping_variables(run: DifferentiatedRun, quantity: str) -> frozenset[str]:
    """The variables with which a quantity jumps."""
    return discontinuous_names(run, quantity) & run.variables


def name_in_condition(run: DifferentiatedRun, target: int) -> str | None:
    """A name in a condition of the equations, or of an event, that makes paths jump as a target moves.

    It is one that the target moves itself, if there is one.
    """
    names = frozenset().union(*(each.names for each in run.discontinuities if not each.kink))
    moved = names & run.moved_names(target) - run.variables
    return min(moved or names & run.variables, default=None)


def why_equations_jump(run: DifferentiatedRun, target: int) -> str | None:
    """What the equations jump with as a target moves; None if they do not."""
    name = name_in_condition(run, target)
    return f"the equations jump with {name}" if name else None


def why_value_jumps(run: DifferentiatedRun, quantity: str, target: int) -> str | None:
    """What a value, or the equations, jump with as a target moves; None if they do not."""
    jumps = jumping_variables(run, quantity)
    return f"the value jumps with {', '.join(sorted(jumps))}" if jumps else why_equations_jump(run, target)


def why_path_jumps(run: DifferentiatedRun, target: int) -> str | None:
    """Why a path does not change continuously with a target under its own random numbers; None if it does."""
    simulation = run.simulation
    if simulation.stepping.discontinuous is not None:
        return simulation.stepping.discontinuous
    if simulation.problem.stochastic:
        info = info_of(simulation.solver)
        if info.switches:
            return f"{info.name} {info.switches}"
        if info.exact and draws_words(simulation.problem):
            return f"{info.name} draws variates that jump with their parameters"
    if isinstance(simulation.problem, AbstractJumpDiffusion):
        problem = run.program.combined(run.inputs).problem
        change = like(problem, run.moves[target].problem)
        of_target, of_state = moves_intensity(problem, change, simulation.precision)
        return RATE_OF_STATE if of_state else RATE if of_target or run.moves_times(target) else None
    return None


def why_discontinuous(run: DifferentiatedRun, quantity: str, target: int) -> str | None:
    """Why a value jumps as a path's random numbers stay and a target moves; None if it does not."""
    exercise = EXERCISE if run.is_exercised(quantity) else None
    return why_path_jumps(run, target) or exercise or why_value_jumps(run, quantity, target)


def why_slope_of_equations_jumps(run: DifferentiatedRun, pair: Sequence[int]) -> str | None:
    """What is in a kink of the equations that both targets move, a variable if there is one."""
    if run.simulation.stepping.whole:
        return None
    kinks = [each.names for each in run.discontinuities if each.kink]
    moved = [run.moved_names(i) | run.moved_variables(i) for i in pair] if kinks else []
    shared = [min(x & run.variables or x) for x in kinks if all(x & each for each in moved)]
    return f"the slope of the equations jumps with {min(shared)}" if shared else None


def why_derivative_jumps(run: DifferentiatedRun, quantity: str, pair: Sequence[int]) -> str | None:
    """Why a derivative along a path jumps as a target moves, other than with the slope of the value."""
    value = "the value jumps" if jumping_variables(run, quantity) else None
    exercise = EXERCISE if run.is_exercised(quantity) else None
    paths = (why_equations_jump(run, i) or why_path_jumps(run, i) for i in pair)
    return why_slope_of_equations_jumps(run, pair) or value or exercise or next(filter(None, paths), None)


def moves_barrier_survival(run: DifferentiatedRun, quantity: str, targets: Sequence[int]) -> bool:
    """Whether targets move a chance not to touch a barrier, whose slope grows as steps get shorter."""
    barriers = [
        each.names
        for each in run.functionals(quantity)
        if each.kink == "barrier" and each.names & run.variables
    ]
    return any(
        names & (run.moved_names(target) | run.moved_variables(target))
        for target in targets
        for names in barriers
    )


def noise_has_roots(run: DifferentiatedRun) -> bool:
    """Whether the noise has a kink in a variable, as a square root has at zero, and may vanish there."""
    return any(each.kink and each.noise and each.names & run.variables for each in run.discontinuities)


def moves_roots(run: DifferentiatedRun, targets: Sequence[int]) -> bool:
    """Whether targets move a variable whose noise has a kink, as a square root has at zero.

    Its slope there may have no bound, and the derivative of a path grows at each step that is near.
    """
    if not noise_has_roots(run):
        return False
    names = [each.names for each in run.discontinuities if each.kink and each.noise]
    moved = frozenset().union(*(run.moved_variables(target) for target in targets))
    return any(each & moved for each in names) and not any(why_path_jumps(run, each) for each in targets)


def discontinuity_at_start(run: DifferentiatedRun, quantity: str, target: int, kinks: bool) -> str | None:
    """A variable with a distribution at t0, where a quantity jumps, or with `kinks` bends, as a target moves.

    The rows of all times and most functionals observe the path there, which no noise of a step has
    driven.
    """
    observable, schedule = run.observable(quantity), schedule_of(run.simulation.problem)
    drawn = frozenset(n for n, x in run.simulation.initial.items() if isinstance(x, AbstractDrawn))
    if observable is None or not drawn:
        return None
    initial = run.moves[target].initial
    moved = run.moved_names(target) | {name for name, x in initial.items() if jax.tree.leaves(x)}
    grid = run.simulation.grid
    if schedule is not None and grid.steps is not None and any(0 in x for x in event_steps(schedule, grid)):
        drawn, moved = run.variables, moved | run.variables  # an event may make one of another
    expression, always = observable.expression, run.simulation.observables[quantity].at == "each"
    places = [
        (place.kink, place.names.union(*(f.names for f in place.functionals)))
        for place in expression.discontinuities.differences
        if always or any(f.kink for f in place.functionals)
    ]
    places += [
        (place.kink, place.names)
        for f in expression.functionals
        if always or f.sees_start
        for each in f.arguments
        for place in each.discontinuities.differences
    ]
    places += [(True, f.names) for f in expression.functionals if f.kink == "barrier"]
    met = [names & drawn for kink, names in places if (kinks or not kink) and names & moved]
    return min(frozenset().union(*met), default=None)
