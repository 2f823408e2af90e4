"""What the choice of an estimator depends on: how targets move a run, and where it is not smooth."""

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any

import jax
from simkit_solvers.derivatives.smoothing import Smoothing
from simkit_solvers.loops.path_run import event_steps
from simkit_solvers.methods.registry import info_of
from simkit_solvers.problems.curve import Curve
from simkit_solvers.problems.jump_diffusion import AbstractJumpDiffusion
from simkit_solvers.problems.problem import AbstractODE, AbstractSDE, Roughness
from simkit_solvers.problems.schedule import model_of, schedule_of
from simkit_solvers.random.noise import CounterNoise

from simkit.derivatives.derivative_program import like
from simkit.derivatives.differences import COUPLED, step_of
from simkit.derivatives.error_controlled import with_half_steps
from simkit.derivatives.moved import asks_for_words, moved_variables, moves_intensity
from simkit.derivatives.other_steps import on_steps
from simkit.derivatives.targets import Target, admitted, changes, program_of
from simkit.ensemble.initial import Distribution
from simkit.ensemble.paths import Driver, PathProgram
from simkit.ensemble.simulation import Run, Simulation
from simkit.ensemble.step_bias.step_levels import levels
from simkit.experiments.inline.model_text import roughness
from simkit.observe.observable import Observable
from simkit.observe.observer import Observer
from simkit.observe.time_functions import SetVariables

RATE = "the rate decides how many jumps a path has"
RATE_OF_STATE = "the rate decides how many jumps a path has, and depends on the state"


@dataclasses.dataclass(frozen=True)
class Facts:
    """What the choice depends on: the run, its quantities, its targets and how these move its numbers.

    `refusals` are kept from one choice to the next, since to find one a program is traced. `run` are those of
    the run, where these are of the same paths on other steps, `factor` times as long
    and `cost` times the work.
    """

    simulation: Simulation
    program: PathProgram
    inputs: Run
    targets: Sequence[Target]
    moves: Sequence[Run]
    refusals: dict[Smoothing, str | None] = dataclasses.field(default_factory=dict)
    run: "Facts | None" = None
    factor: float = 1.0
    cost: float = 1.0

    @property
    def variables(self) -> frozenset[str]:
        """The names of what is random."""
        return frozenset(self.simulation.problem.State._fields)

    @functools.cached_property
    def finer(self) -> "Facts | None":
        """Those of a run with twice as many steps, where steps of fixed length decide how exact it is."""
        finer = None if self.run is not None else with_half_steps(self.simulation)
        return None if finer is None else self._on(finer, 0.5, 2.0)

    @functools.cached_property
    def levels(self) -> "tuple[Facts, ...]":
        """Those of a stochastic run on steps of other lengths (`step_levels`), the nearest first."""
        return self._levels(shorter=False)

    @functools.cached_property
    def shorter_levels(self) -> "tuple[Facts, ...]":
        """Those on shorter steps; none where these are `levels` already."""
        others = self._levels(shorter=True)
        return () if [x.factor for x in others] == [x.factor for x in self.levels] else others

    def _levels(self, shorter: bool) -> "tuple[Facts, ...]":
        if self.run is not None or not isinstance(self.simulation.problem, AbstractSDE):
            return ()
        others = sorted(
            levels(self.simulation, shorter), key=lambda level: (abs(math.log(level.factor)), -level.factor)
        )
        return tuple(self._on(on_steps(self.simulation, x), x.factor, x.cost, x.driver) for x in others)

    def _on(self, other: Simulation, factor: float, cost: float, driver: Driver = CounterNoise.of) -> "Facts":
        moves, _ = changes(other, self.targets)
        program, inputs = program_of(other, driver)
        return Facts(other, program, inputs, self.targets, moves, run=self, factor=factor, cost=cost)

    @property
    def is_level(self) -> bool:
        """Whether these are of one of the `levels` of a run."""
        return self.run is not None and isinstance(self.simulation.problem, AbstractSDE)

    def observable(self, quantity: str) -> Observable | None:
        """The observable of this name; None of a state variable."""
        observer = self.simulation.observer
        result = observer.observables if isinstance(observer, Observer) else ()
        return next((each for each in result if each.name == quantity), None)

    def sees_path(self, quantity: str) -> bool:
        """Whether a quantity depends on the path, and not on its end alone."""
        observable = self.observable(quantity)
        return observable is not None and bool(observable.functionals)

    def moves_functionals(self, quantity: str, target: int) -> bool:
        """Whether a target moves what is watched along the path, given the path."""
        observable = self.observable(quantity)
        inside = () if observable is None else observable.functionals
        return any(each.names & self.moved_names(target) for each in inside)

    def is_exercised(self, quantity: str) -> bool:
        """Whether a quantity is exercised early."""
        observable = self.observable(quantity)
        return observable is not None and observable.exercise is not None

    def has_extremes_of_steps(self, quantity: str) -> bool:
        """Whether a quantity of an ordinary equation has the largest or smallest value at its fixed steps."""
        observable = self.observable(quantity)
        if observable is None or observable.every is not None or self.finer is None:
            return False
        return any(each.kink == "extreme" for each in observable.functionals)

    def monitoring_interval(self, quantity: str) -> int:
        """At every how many steps a quantity looks at the path."""
        grid, observable = self.simulation.grid, self.observable(quantity)
        if grid.steps is None:
            raise TypeError("only a fixed grid has steps that are the same for all paths")
        looks = [grid.every]
        if observable is not None:
            looks = [grid.every if self.simulation.observables[quantity].at == "each" else grid.steps]
            looks += [each.interval for each in observable.monitors]
        return math.gcd(*looks)

    def is_rough(self, quantity: str, target: int) -> bool:
        """Whether a value jumps as a path's random numbers stay and a target moves."""
        observable = self.observable(quantity)
        if observable is not None and observable.exercise is not None:
            return True
        jumps = seen(observable, "jumps") & self.variables
        return bool(jumps) or bool(self.model_jumps(target)) or not_smooth(self, target) is not None

    def is_steep(self, quantity: str, targets: Sequence[int]) -> bool:
        """Whether targets move a chance not to touch a barrier, whose slope grows as steps get shorter."""
        observable = self.observable(quantity)
        inside = () if observable is None else observable.functionals
        moved = [self.moved_names(target) | self.moved_variables(target) for target in targets]
        return any(
            each.kink == "barrier" and each.names & self.variables and each.names & names
            for each in inside
            for names in moved
        )

    def has_roots(self, targets: Sequence[int]) -> bool:
        """Whether targets move a variable whose noise has a kink, as a square root has at zero.

        Its slope there may have no bound, and the derivative of a path grows at each step that is near.
        """
        if not self.noise_has_roots:
            return False
        names = [each.names for each in self.roughness if each.kink and each.noise]
        moved = frozenset().union(*(self.moved_variables(target) for target in targets))
        return any(each & moved for each in names) and not any(not_smooth(self, each) for each in targets)

    @property
    def noise_has_roots(self) -> bool:
        """Whether the noise has a kink in a variable, as a square root has at zero, and may vanish there."""
        return any(each.kink and each.noise and each.names & self.variables for each in self.roughness)

    @functools.cached_property
    def roughness(self) -> tuple[Roughness, ...]:
        """Where the equations or events jump, or their slopes do."""
        problem = self.simulation.problem
        result = model_of(problem).rough_with()
        if isinstance(problem, AbstractSDE) and not problem.smooth and not any(x.noise for x in result):
            result = *result, Roughness(self.variables, kink=True, noise=True)
        if self.reads_slopes:
            result = tuple(each._replace(kink=each.kink and not each.noise) for each in result)
        schedule = schedule_of(problem)
        for event in () if schedule is None else schedule.events:
            changes = event.change.values if isinstance(event.change, SetVariables) else ()
            result = *result, *roughness(*(value for _, value in changes))
        return result

    @property
    def reads_slopes(self) -> bool:
        """Whether steps read derivatives of the noise, as Milstein's or those of a converted model."""
        problem = self.simulation.problem
        if not isinstance(problem, AbstractSDE):
            return False
        converted = self.program.in_solvers_calculus(problem) is not problem
        return converted or info_of(self.simulation.solver).reads_slopes

    def model_jumps(self, target: int) -> str | None:
        """A name in a condition of the equations, or of an event, that makes paths jump as a target moves."""
        names = frozenset().union(*(each.names for each in self.roughness if not each.kink))
        return min(names & (self.variables | self.moved_names(target)), default=None)

    def bends(self, pair: tuple[int, int]) -> str | None:
        """A name in a kink of the equations that both targets move, a variable if there is one."""
        kinks = [each.names for each in self.roughness if each.kink]
        if not kinks:
            return None
        moved = [self.moved_names(target) | self.moved_variables(target) for target in dict.fromkeys(pair)]
        both = [names for names in kinks if all(names & each for each in moved)]
        return min(min(names & self.variables or names) for names in both) if both else None

    @property
    def curves(self) -> dict[str, Any]:
        """What changes with time, by name."""
        return _curves_of(self.simulation.problem)

    def moved_names(self, target: int) -> frozenset[str]:
        """The names in observables whose own values a target moves."""
        move: Any = self.moves[target]
        names = {name for name, x in move.observer.constants.items() if x is not None}
        model = model_of(move.problem)
        moving = {**vars(model), **_curves_of(move.problem)}
        names |= {name for name, x in moving.items() if jax.tree.leaves(x)}
        if self.moves_times(target):
            names |= {"t", *self.curves}
        return frozenset(names)

    def moved_bends(self, target: int) -> frozenset[str]:
        """The curves made of lines whose ends a target moves against the time."""
        moving = _curves_of(self.moves[target].problem)
        lines = {n for n, x in self.curves.items() if isinstance(x, Curve) and x.interpolation == "linear"}
        ends = (
            lines
            if self.moves_times(target)
            else {n for n in lines & moving.keys() if moving[n].times is not None}
        )
        return frozenset(ends)

    def at_an_end(self, target: int) -> bool:
        """Whether there are no copies to either side of a target: it is near an end of its range, or 0."""
        given = self.targets[target]
        sides = step_of(given, COUPLED), -step_of(given, COUPLED)
        return given.value == 0 or not all(admitted(self.simulation, [given], [side]) for side in sides)

    def moves_times(self, target: int) -> bool:
        """Whether a target moves the beginning or the end of time."""
        return bool(jax.tree.leaves(self.moves[target].grid))

    def moved_variables(self, target: int) -> frozenset[str]:
        """The variables that a target moves, one by way of another."""
        move, schedule = self.moves[target], schedule_of(self.simulation.problem)
        if self.moves_times(target) or (schedule is not None and schedule.events):
            return self.variables
        problem = self.program.combined(self.inputs).problem
        initial = frozenset(name for name, x in move.initial.items() if jax.tree.leaves(x))
        return moved_variables(problem, like(problem, move.problem), initial, self.simulation.precision)

    def meets_start(self, quantity: str, target: int, kinks: bool) -> str | None:
        """A variable with a law at t0, where a quantity jumps, or with `kinks` bends, as a target moves.

        The rows of all times and most functionals look at the path there, which no noise of a step has
        driven.
        """
        observable, schedule = self.observable(quantity), schedule_of(self.simulation.problem)
        drawn = frozenset(n for n, law in self.simulation.initial.items() if isinstance(law, Distribution))
        if observable is None or not drawn:
            return None
        initial = self.moves[target].initial
        moved = self.moved_names(target) | {name for name, x in initial.items() if jax.tree.leaves(x)}
        grid = self.simulation.grid
        if (
            schedule is not None
            and grid.steps is not None
            and any(0 in x for x in event_steps(schedule, grid))
        ):
            drawn, moved = self.variables, moved | self.variables  # an event may make one of another
        expression, always = observable.expression, self.simulation.observables[quantity].at == "each"
        edges = [
            (edge.kink, edge.names.union(*(f.names for f in edge.functionals)))
            for edge in expression.discontinuities.differences
            if always or any(f.kink for f in edge.functionals)
        ]
        edges += [
            (edge.kink, edge.names)
            for f in expression.functionals
            if always or f.sees_start
            for each in f.arguments
            for edge in each.discontinuities.differences
        ]
        edges += [(True, f.names) for f in expression.functionals if f.kink == "barrier"]
        met = [names & drawn for kink, names in edges if (kinks or not kink) and names & moved]
        return min(frozenset().union(*met), default=None)


def not_smooth(facts: Facts, target: int) -> str | None:
    """Why a path does not change continuously with a target under its own random numbers; None if it does."""
    simulation = facts.simulation
    if simulation.grid.has_events:
        return "numbers of molecules jump with the rates"
    if isinstance(simulation.problem, AbstractSDE):
        info = info_of(simulation.solver)
        if info.switches:
            return f"{info.name} {info.switches}"
        if info.exact and asks_for_words(simulation.problem):
            return f"{info.name} draws variates that jump with their parameters"
    if isinstance(simulation.problem, AbstractJumpDiffusion):
        problem = facts.program.combined(facts.inputs).problem
        change = like(problem, facts.moves[target].problem)
        of_target, of_state = moves_intensity(problem, change, simulation.precision)
        return RATE_OF_STATE if of_state else RATE if of_target or facts.moves_times(target) else None
    return None


def seen(observable: Observable | None, kind: str) -> frozenset[str]:
    """The names on which jumps, or jumps and kinks, of an observable depend."""
    if observable is None:
        return frozenset()
    known = observable.expression.discontinuities
    return frozenset(known.jumps if kind == "jumps" else known.jumps | known.kinks)


def _curves_of(problem: AbstractODE) -> dict[str, Any]:
    """The parameters and quantities of a problem that change with time, by name."""
    schedule = schedule_of(problem)
    return {} if schedule is None else {**schedule.quantities, **schedule.parameters}
