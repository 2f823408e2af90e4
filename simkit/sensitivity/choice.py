"""Which estimator is right for the derivative of an observable, and why."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from simkit_solvers.andersen_qe import AndersenQE
from simkit_solvers.baoab import BAOAB
from simkit_solvers.directions import NoDensityError, Release
from simkit_solvers.euler_maruyama import EulerMaruyama
from simkit_solvers.exact_sampling import AbstractExactTransition, ExactSampling
from simkit_solvers.generator import Words
from simkit_solvers.grid import Grid
from simkit_solvers.jump_diffusion import AbstractJumpDiffusion
from simkit_solvers.jump_grid import JumpGrid
from simkit_solvers.noise import StepWords
from simkit_solvers.problem import AbstractSDE
from simkit_solvers.schedule import schedule_of
from simkit_solvers.smoothing import Smoothing
from simkit_solvers.tamed_euler import TamedEuler

from simkit.observables import Observable, Observer
from simkit.paths import Inputs, PathProgram, as_device_ids
from simkit.reaction_plan import model_of
from simkit.sensitivity.derivative_program import DerivativeProgram, Moves, like
from simkit.sensitivity.differences import COUPLED
from simkit.sensitivity.edges import EXTREMES, smoothing_of
from simkit.sensitivity.targets import Target
from simkit.simulation import Simulation
from simkit.time_functions import SetVariables

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
RATE = "the number of jumps jumps with their rate"
EXERCISE = "the date of exercise jumps"
RATE_OF_STATE = "the number of jumps jumps with their rate, which the state moves"
FEW = 6  # a reverse pass costs about as much as so many directions


@dataclasses.dataclass(frozen=True)
class Choice:
    """The estimator of one derivative: the order of `targets` is that of differentiation.

    `look` is at every how many steps a released derivative must be zero, `smoothings` where values jump: for
    the first derivative, and once more for the second.
    """

    quantity: str
    targets: tuple[int, ...]
    method: Method
    reason: str
    look: int = 0
    smoothings: tuple[Smoothing, ...] = ()


@dataclasses.dataclass(frozen=True)
class Facts:
    """What the choice depends on: the run, its quantities, its targets and how these move its numbers.

    `refusals` are kept from one choice to the next, since to find one a program is traced.
    """

    simulation: Simulation
    program: PathProgram
    inputs: Inputs
    targets: Sequence[Target]
    moves: Sequence[Inputs]
    refusals: dict[Smoothing, str | None] = dataclasses.field(default_factory=dict)

    @property
    def variables(self) -> frozenset[str]:
        """The names of what is random."""
        return frozenset(self.simulation.problem.State._fields)

    def observable(self, quantity: str) -> Observable | None:
        """The observable of this name; None of a state variable."""
        observer = self.simulation.observer
        found = observer.observables if isinstance(observer, Observer) else ()
        return next((each for each in found if each.name == quantity), None)

    def look_interval(self, quantity: str) -> int:
        """At every how many steps a quantity looks at the path."""
        grid, observable = self.simulation.grid, self.observable(quantity)
        if not isinstance(grid, Grid):
            raise TypeError("only a fixed grid has steps that are the same for all paths")
        looks = [grid.every]
        if observable is not None:
            looks = [grid.every if self.simulation.observables[quantity].at == "each" else grid.steps]
            if observable.functionals:
                looks.append(observable.every or 1)
        return math.gcd(*looks)

    def is_rough(self, quantity: str, target: int) -> bool:
        """Whether a value jumps as a path's random numbers stay and a target moves."""
        observable = self.observable(quantity)
        if observable is not None and observable.exercise is not None:
            return True
        jumps = _seen(observable, "jumps") & self.variables
        return bool(jumps) or bool(self.model_jumps(target)) or not_smooth(self, target) is not None

    def model_jumps(self, target: int) -> str | None:
        """A name in a condition of the equations, or of an event, that makes paths jump as a target moves."""
        problem = self.simulation.problem
        names = model_of(problem).jumps_with()
        schedule = schedule_of(problem)
        for event in () if schedule is None else schedule.events:
            changes = event.change.values if isinstance(event.change, SetVariables) else ()
            names = names.union(*(value.jumps for _, value in changes))
        moving = names & (self.variables | self.moved_names(target))
        return min(moving, default=None)

    def moved_names(self, target: int) -> frozenset[str]:
        """The names in observables whose own values a target moves."""
        move: Any = self.moves[target]
        names = {name for name, x in move.observer.constants.items() if x is not None}
        model = model_of(move.problem)
        names |= {name for name, x in vars(model).items() if jax.tree.leaves(x)}
        if jax.tree.leaves(move.grid):
            names.add("t")
        return frozenset(names)


def choose(facts: Facts, quantity: str, target: int) -> Choice:
    """The estimator of a first derivative."""
    observable = facts.observable(quantity)
    jumps = _seen(observable, "jumps") & facts.variables
    if isinstance(facts.simulation.grid, JumpGrid):
        return _of_counts(facts, quantity, target, bool(jumps))
    if observable is not None and observable.exercise is not None:
        return Choice(quantity, (target,), "finite differences", EXERCISE)
    broken = facts.model_jumps(target)
    if not jumps and not broken:
        reason = not_smooth(facts, target)
        if reason == RATE:
            return Choice(quantity, (target,), "weak derivative", reason)
        if reason is None:
            return Choice(quantity, (target,), "pathwise", "continuous in the path")
        return Choice(quantity, (target,), "finite differences", reason)
    why = f"the value jumps with {', '.join(sorted(jumps))}" if jumps else f"the equations jump with {broken}"
    smoothed = smooth(facts, quantity, (target,), kinks=False)
    look = release_interval(facts, quantity, target, "jumps")
    if not isinstance(smoothed, str) and not (isinstance(look, int) and _moves_drift_alone(facts, target)):
        return Choice(quantity, (target,), "smoothing", why, 0, smoothed)
    if isinstance(look, int):
        return Choice(quantity, (target,), "score", why, look)
    return Choice(quantity, (target,), "finite differences", f"{why.split(' with ')[0]}, and {look}")


def _of_counts(facts: Facts, quantity: str, target: int, jumps: bool) -> Choice:
    """The estimator for a jump process: numbers of molecules jump with the rates."""
    label, name = facts.targets[target].label, facts.targets[target].name
    if name.startswith("time."):
        return Choice(quantity, (target,), "finite differences", f"{label} moves the times of the rows")
    if schedule_of(facts.simulation.problem) is not None:
        return Choice(quantity, (target,), "score", "counts jump with the rates, and copies need one network")
    if jumps:
        return Choice(quantity, (target,), "score", "the value jumps with the counts")
    apart = f"counts jump with the rates: copies {COUPLED:.0%} either way"
    return Choice(quantity, (target,), "coupled differences", apart)


def choose_second(facts: Facts, quantity: str, pair: tuple[int, int]) -> Choice:
    """The estimator of a second derivative."""
    observable = facts.observable(quantity)
    if _seen(observable, "jumps") & facts.variables:
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
    if not _seen(observable, "kinks") & facts.variables:
        return Choice(quantity, pair, "pathwise", "smooth in the path")
    reasons = []
    for first, last in dict.fromkeys([pair, pair[::-1]]):
        look = release_interval(facts, quantity, first, "kinks")
        if isinstance(look, int):
            why = f"the slope jumps: score for {facts.targets[first].label}, then pathwise"
            return Choice(quantity, (first, last), "mixed", why, look)
        reasons.append(look)
    smoothed = smooth(facts, quantity, pair, kinks=True)
    if isinstance(smoothed, str):
        return Choice(quantity, pair, "finite differences", f"the slope jumps, and {reasons[0]}")
    return Choice(quantity, pair, "smoothing", "the slope jumps: smoothed, then pathwise", 0, smoothed)


def not_smooth(facts: Facts, target: int) -> str | None:
    """Why a path does not change continuously with a target under its own random numbers; None if it does."""
    simulation = facts.simulation
    if isinstance(simulation.grid, JumpGrid):
        return "numbers of molecules jump with the rates"
    if isinstance(simulation.solver, AndersenQE):
        return "AndersenQE goes over from one law to another"
    if isinstance(simulation.solver, ExactSampling) and _asks_for_words(facts):
        return "ExactSampling draws variates that jump with their parameters"
    if isinstance(simulation.problem, AbstractJumpDiffusion):
        of_target, of_state = _moves_intensity(facts, target)
        of_time = bool(jax.tree.leaves(facts.moves[target].grid))
        return RATE_OF_STATE if of_state else RATE if of_target or of_time else None
    return None


def _moves_intensity(facts: Facts, target: int) -> tuple[bool, bool]:
    """Whether the rate of jumps moves with a target, and with the state."""
    problem, _, _ = facts.program.combined(facts.inputs)
    zero = jnp.zeros((), facts.simulation.precision)
    y = problem.State(*[zero] * len(problem.State._fields))
    move = facts.moves[target].problem
    still = jax.tree.map(lambda _: None, y)

    whole = jnp.uint32(0)
    words = StepWords(Words(whole, whole), whole, whole)

    def rate(problem, y):
        """Of all jumps, and of each kind of them."""
        kinds = problem.marks(zero).kinds(words, zero.dtype)
        return problem.intensity(zero, y), [share for share, _ in kinds]

    def moved(change, dy):
        return eqx.filter_jvp(rate, (problem, y), (change, dy))[1]

    of_state = jax.eval_shape(lambda: moved(jax.tree.map(lambda _: None, problem), y))
    of_target = jax.eval_shape(lambda: moved(like(problem, move), still))
    return bool(jax.tree.leaves(of_target)), bool(jax.tree.leaves(of_state))


def smooth(facts: Facts, quantity: str, targets: tuple[int, ...], kinks: bool) -> tuple[Smoothing, ...] | str:
    """Where to smooth for a derivative in one target or two; the reason where that cannot be."""
    simulation, observable = facts.simulation, facts.observable(quantity)
    if not isinstance(simulation.grid, Grid) or not isinstance(simulation.problem, AbstractSDE):
        return "smoothing needs noise on a fixed grid"
    if observable is None or observable.exercise is not None:
        return "it is exercised early"
    for target in targets:
        broken = facts.model_jumps(target)
        reason = f"the equations jump with {broken}" if broken else not_smooth(facts, target)
        if reason is not None:
            return reason
    grid = simulation.grid
    every = grid.every if simulation.observables[quantity].at == "each" else grid.steps
    wanted = [kinks, False][: len(targets)]
    found = [smoothing_of(observable, simulation.problem, facts.variables, every, each) for each in wanted]
    smoothings = tuple(each for each in found if isinstance(each, Smoothing))
    if len(smoothings) < len(found):
        return next(each for each in found if isinstance(each, str))
    refusals = (_refusal(facts, each) for each in smoothings)
    return next((each for each in refusals if each is not None), smoothings)


def _refusal(facts: Facts, smoothing: Smoothing) -> str | None:
    """Why there is no smoothing here, whatever the target: no noise drives what is compared."""
    if smoothing not in facts.refusals:
        program = DerivativeProgram(facts.program, (), "smoothed", smoothing)
        still = jax.tree.map(lambda _: None, facts.moves[0])
        ids = as_device_ids(0, facts.program.mesh.devices.size, 1, facts.program.mesh)
        facts.refusals[smoothing] = None
        try:
            jax.eval_shape(program, Moves(facts.inputs, (still,)), ids)
        except NoDensityError as error:
            facts.refusals[smoothing] = str(error)
    return facts.refusals[smoothing]


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
        moved = facts.targets[target].name.startswith("time.")
        return f"{label} moves the times of the rows" if moved else 0
    if not isinstance(simulation.grid, Grid) or not isinstance(simulation.problem, AbstractSDE):
        return "a score needs noise on a fixed grid"
    if not isinstance(simulation.solver, ONE_TO_ONE):
        return f"{type(simulation.solver).__name__} is not one to one in its normals"
    if observable is not None and observable.exercise is not None:
        return "it is exercised early"
    other = not_smooth(facts, target)  # what else is random would move too, and the weight is of normals only
    if other is not None:
        return other
    if _seen(observable, kind) & facts.moved_names(target):
        return f"{label} is in the condition itself"
    held = _held_at_start(facts, observable, kind) if jax.tree.leaves(facts.moves[target].initial) else None
    if held is not None:
        return f"{label} moves the {held} along the path at once, before any noise"
    broken = facts.model_jumps(target)
    if broken and broken not in facts.variables:
        return f"{label} is in a condition of the equations"
    if observable is not None and observable.functionals and facts.targets[target].name.startswith("time."):
        return f"{label} moves the times at which the path is looked at"
    reason = ""
    # A derivative that stays in the path would miss the jumps of the equations.
    gradual = [] if broken else [facts.look_interval(quantity)]
    for look in dict.fromkeys([*gradual, 1]):
        program = DerivativeProgram(facts.program, (), "along", Release(look))
        ids = as_device_ids(0, facts.program.mesh.devices.size, 1, facts.program.mesh)
        try:
            jax.eval_shape(program, Moves(facts.inputs, (facts.moves[target],)), ids)
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
        looks = [f.kind for f in edge.functionals if f.kind in (*EXTREMES, "integral")]
        alone = len(edge.functionals) == 1 and not edge.names & facts.variables
        if looks and not (alone and looks[0] in EXTREMES):
            return looks[0]
    # An extreme has a kink itself: between the initial state and the others.
    extremes = [f.kind for f in observable.functionals if f.kind in EXTREMES]
    return extremes[0] if extremes and kind == "kinks" else None


def _seen(observable: Observable | None, kind: str) -> frozenset[str]:
    """The names on which jumps, or jumps and kinks, of an observable depend."""
    if observable is None:
        return frozenset()
    expression = observable.expression
    return expression.jumps if kind == "jumps" else expression.jumps | expression.kinks


def _asks_for_words(facts: Facts) -> bool:
    """Whether a model's transition law takes more than normals."""
    asked = []

    class Asked(StepWords):
        def block(self, n):
            asked.append(n)
            return super().block(n)

    problem: Any = model_of(facts.simulation.problem)
    if not isinstance(problem, AbstractExactTransition) or not isinstance(problem, AbstractSDE):
        return False
    one, whole = jnp.float32(1), jnp.uint32(0)
    words = Asked(Words(whole, whole), whole, whole)
    y = problem.State(*[one] * len(problem.State._fields))
    dW = problem.Noise(*[one] * len(problem.Noise._fields))
    jax.eval_shape(lambda: problem.transition(one, one, y, dW, words))
    return bool(asked)
