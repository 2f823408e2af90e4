"""A run, the targets of its derivatives, how they move its numbers, and the same run on other steps."""

import dataclasses
import functools
import math
from collections.abc import Iterable, Sequence
from typing import Any, cast

import jax
from simkit_solvers.derivatives.smoothing import Smoothing
from simkit_solvers.grids.grid import Grid
from simkit_solvers.methods.registry import info_of
from simkit_solvers.problems.curve import Curve
from simkit_solvers.problems.problem import AbstractSDE, Discontinuity
from simkit_solvers.problems.schedule import curves_of, model_of, schedule_of
from simkit_solvers.random.noise import CounterNoise

from simkit.derivatives.chunks import chunks_of
from simkit.derivatives.derivative_program import Rows, like
from simkit.derivatives.differences import COUPLED, step_of
from simkit.derivatives.moved import moved_variables
from simkit.derivatives.other_steps import on_steps, with_half_steps
from simkit.derivatives.targets import Target, changes, in_time, is_in_range, program_of
from simkit.ensemble.chunk_program import quantity_rows
from simkit.ensemble.chunks import leaf_by_leaf
from simkit.ensemble.could_differ import observable_of
from simkit.ensemble.paths import PathProgram
from simkit.ensemble.simulation import Driver, Run, Simulation
from simkit.ensemble.step_bias.coupled_steps import extremes_of_steps
from simkit.ensemble.step_bias.step_levels import levels
from simkit.ensemble.work import devices_of
from simkit.experiments.inline.model_text import discontinuities_of
from simkit.functionals.functional import AbstractFunctional
from simkit.machine.on_each_device import Devices, local_devices
from simkit.observe.observable import Observable
from simkit.observe.time_functions import Condition, SetVariables


@dataclasses.dataclass(frozen=True)
class DifferentiatedRun:
    """A run and its targets, each with how it moves the numbers of the run.

    `refusals` are known reasons against a smoothing, which take a trace of the program to establish. A run of
    the same paths on other steps knows its `original`, and has steps `factor` times as long and `cost` times
    the work.
    """

    simulation: Simulation
    program: PathProgram
    inputs: Run
    targets: Sequence[Target]
    moves: Sequence[Run]
    refusals: dict[Smoothing, str | None] = dataclasses.field(default_factory=dict)
    original: "DifferentiatedRun | None" = None
    factor: float = 1.0
    cost: float = 1.0

    @staticmethod
    def of(
        simulation: Simulation,
        targets: Sequence[Target],
        driver: Driver = CounterNoise.of,
        original: "DifferentiatedRun | None" = None,
        factor: float = 1.0,
        cost: float = 1.0,
    ) -> "DifferentiatedRun":
        """The run of a simulation. Raises `InputError` where a target has no derivative."""
        moves, _ = changes(simulation, targets)
        if original is None:
            targets = in_time(simulation, targets, moves)
        program, inputs = program_of(simulation, driver)
        return DifferentiatedRun(simulation, program, inputs, targets, moves, {}, original, factor, cost)

    @property
    def variables(self) -> frozenset[str]:
        """The names of what is random."""
        return frozenset(self.simulation.problem.State._fields)

    @property
    def is_level(self) -> bool:
        """Whether this is one of the `levels` of a run."""
        return self.original is not None and self.simulation.problem.stochastic

    @functools.cached_property
    def finer(self) -> "DifferentiatedRun | None":
        """The run with twice as many steps, where steps of fixed length decide how exact it is."""
        finer = None if self.original is not None else with_half_steps(self.simulation)
        if finer is None:
            return None
        return DifferentiatedRun.of(finer, self.targets, CounterNoise.of, self, 0.5, 2.0)

    @functools.cached_property
    def levels(self) -> "tuple[DifferentiatedRun, ...]":
        """A stochastic run on steps of other lengths (`step_levels`), the nearest first."""
        return self._levels(shorter=False)

    @functools.cached_property
    def shorter_levels(self) -> "tuple[DifferentiatedRun, ...]":
        """The run on shorter steps; none where these are `levels` already."""
        others = self._levels(shorter=True)
        return () if [x.factor for x in others] == [x.factor for x in self.levels] else others

    def _levels(self, shorter: bool) -> "tuple[DifferentiatedRun, ...]":
        if self.original is not None or not self.simulation.problem.stochastic:
            return ()
        others = levels(self.simulation, shorter)
        return tuple(
            DifferentiatedRun.of(on_steps(self.simulation, x), self.targets, x.driver, self, x.factor, x.cost)
            for x in sorted(others, key=lambda x: (abs(math.log(x.factor)), -x.factor))
        )

    @property
    def devices(self) -> Devices:
        """Where programs run: those of levels, which are short, on one device."""
        return local_devices(1) if self.is_level else devices_of(self.simulation)

    @property
    def first_ids(self) -> Any:
        """The paths of the first chunk."""
        if self.is_level:
            return leaf_by_leaf(self.simulation.paths).ids()
        return chunks_of((self.original or self).simulation).ids()

    def rows(self, quantities: Iterable[str]) -> Rows:
        """How many rows each quantity has."""
        rows = quantity_rows(self.simulation)
        return tuple((name, rows[name]) for name in dict.fromkeys(quantities))

    def observable(self, quantity: str) -> Observable | None:
        """The observable of this name; None of a state variable."""
        return observable_of(quantity, self.simulation)

    def functionals(self, quantity: str) -> Sequence[AbstractFunctional]:
        """The functionals of the path in a quantity."""
        observable = self.observable(quantity)
        return () if observable is None else observable.functionals

    def moves_functionals(self, quantity: str, target: int) -> bool:
        """Whether a target moves what is observed along the path, given the path."""
        return any(each.names & self.moved_names(target) for each in self.functionals(quantity))

    def is_exercised(self, quantity: str) -> bool:
        """Whether a quantity is exercised early."""
        observable = self.observable(quantity)
        return observable is not None and observable.exercise is not None

    def has_extremes_of_steps(self, quantity: str) -> bool:
        """Whether a quantity of an ordinary equation has the largest or smallest value at its fixed steps."""
        return quantity in extremes_of_steps(self.simulation)

    def monitoring_interval(self, quantity: str) -> int:
        """The number of steps from one observation of the path by a quantity to the next."""
        observable = self.observable(quantity)
        monitors = () if observable is None else observable.monitors
        return math.gcd(self.evaluation_interval(quantity), *(each.interval for each in monitors))

    def evaluation_interval(self, quantity: str) -> int:
        """The number of fixed steps from one row of a quantity to the next."""
        grid, info = cast(Grid, self.simulation.grid), self.simulation.observables.get(quantity)
        return grid.every if info is None or info.at == "each" else grid.steps

    @functools.cached_property
    def discontinuities(self) -> tuple[Discontinuity, ...]:
        """Where the equations or events jump, or their slopes do."""
        problem = self.simulation.problem
        result = model_of(problem).discontinuities()
        if isinstance(problem, AbstractSDE) and not problem.smooth and not any(x.noise for x in result):
            result = *result, Discontinuity(self.variables, kink=True, noise=True)
        if self.reads_slopes:
            result = tuple(each._replace(kink=each.kink and not each.noise) for each in result)
        schedule = schedule_of(problem)
        for event in () if schedule is None else schedule.events:
            changes = event.change.values if isinstance(event.change, SetVariables) else ()
            conditions = [event.condition.expression] if isinstance(event.condition, Condition) else []
            result = *result, *discontinuities_of(*conditions, *(value for _, value in changes))
        return result

    @property
    def reads_slopes(self) -> bool:
        """Whether steps read derivatives of the noise, as Milstein's or those of a converted model."""
        problem = self.simulation.problem
        converted = self.program.in_solvers_calculus(problem) is not problem
        return converted or (problem.stochastic and info_of(self.simulation.solver).reads_slopes)

    def moved_names(self, target: int) -> frozenset[str]:
        """The names in observables, equations and events whose own values a target moves."""
        move: Any = self.moves[target]
        schedule = schedule_of(move.problem)
        events = () if schedule is None else schedule.events
        moving = {**vars(model_of(move.problem)), **curves_of(move.problem)}
        places = [move.observer.constants, moving]
        places += [getattr(x, "constants", {}) for each in events for x in (each.change, each.condition)]
        names = {name for place in places for name, x in place.items() if jax.tree.leaves(x)}
        if self.moves_times(target):
            names |= {"t", *curves_of(self.simulation.problem)}
        return frozenset(names)

    def moved_knots(self, target: int) -> frozenset[str]:
        """The piecewise linear curves whose knots a target moves in time."""
        moving = curves_of(self.moves[target].problem)
        return frozenset(
            name
            for name, curve in curves_of(self.simulation.problem).items()
            if isinstance(curve, Curve)
            and curve.interpolation == "linear"
            and (self.moves_times(target) or (name in moving and moving[name].times is not None))
        )

    def is_at_range_end(self, target: int) -> bool:
        """Whether there are no copies to either side of a target: it is near an end of its range, or 0."""
        given = self.targets[target]
        sides = step_of(given, COUPLED), -step_of(given, COUPLED)
        return given.value == 0 or not all(is_in_range(self.simulation, [given], [side]) for side in sides)

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
