"""Sample paths for early exercise: values at the dates, and the normals between them."""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, cast

import jax
import numpy as np
from simkit_solvers.grids.grid import Grid
from simkit_solvers.problems.jump_diffusion import AbstractJumpDiffusion

from simkit.ensemble.chunks import Chunk, Chunks, halved_to_fit, plan_intervals
from simkit.ensemble.early_exercise.martingale import interval_of
from simkit.ensemble.failures import failed_paths
from simkit.ensemble.jump_distribution import JumpDistribution, jump_distribution
from simkit.ensemble.over_chunks import over_chunks
from simkit.ensemble.paths import PathProgram, path_program
from simkit.ensemble.programs import Request, compiled
from simkit.ensemble.simulation import ObservableInfo, Run, Simulation
from simkit.ensemble.work import devices_of, workers_of
from simkit.observe.exercise import MARTINGALE_PATHS, Exercise
from simkit.observe.exercise_rows import ExerciseRows
from simkit.observe.observable import Observable
from simkit.observe.observer import Observer

LEAST_PATHS = 2048


class Sample(NamedTuple):
    """What was sampled for one option, in float64.

    At the dates `values`, `(dates, paths)`, and `basis`, `(functions, dates, paths)`; by interval `starts`,
    the basis where it starts, `(functions, intervals, paths)`, `normals`, `(components, intervals, paths)`,
    and `marks`, `(1 or 0, intervals, paths)`, the sums of those of its jumps.
    """

    values: np.ndarray
    basis: np.ndarray
    starts: np.ndarray
    normals: np.ndarray
    marks: np.ndarray


@dataclasses.dataclass(frozen=True)
class SampleProgram:
    """A function of (inputs, ids): some rows of each of the named quantities."""

    paths: PathProgram
    rows: tuple[tuple[str, tuple[int, ...]], ...]

    def __call__(self, inputs: Run, ids) -> dict[str, jax.Array]:
        everything = self.paths(inputs, ids)
        return {name: everything[name][np.asarray(rows)] for name, rows in self.rows}


@dataclasses.dataclass(frozen=True)
class OptionGroup:
    """The options of a simulation with the same dates and the same number of paths to fit a policy on.

    `exercises` are by name; `parts` what each is made of, the exercise value and then the basis, as
    observables. Intervals have `every` steps.
    """

    simulation: Simulation
    exercises: Mapping[str, Exercise]
    parts: Mapping[str, tuple[Observable, ...]]
    every: int

    @property
    def shared(self) -> Exercise:
        """The exercise of one option; the others have the same dates and paths."""
        return next(iter(self.exercises.values()))

    @property
    def ends(self) -> tuple[int, ...]:
        """The intervals that end at the dates, counted from 1."""
        return tuple(step // self.every for step in self.shared.when)

    @property
    def components(self) -> int:
        """How many normals drive a step."""
        return len(self.simulation.problem.Noise._fields)

    @functools.cached_property
    def jumps(self) -> JumpDistribution | None:
        """The distribution of an interval's marks, where there are jumps that the martingale can know."""
        problem, grid = self.simulation.problem, self.grid
        if not self.components or not isinstance(problem, AbstractJumpDiffusion):
            return None
        return jump_distribution(problem, float(grid.t0), float(grid.dt) * self.every)

    @property
    def grid(self) -> Grid:
        """The grid, which is fixed where there are options."""
        return cast(Grid, self.simulation.grid)

    @property
    def observer(self) -> Observer:
        """The observer that has the options."""
        return cast(Observer, self.simulation.observer)

    @property
    def rows(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """What is sampled, and at the ends of which intervals."""
        rows = [(part.name, self.ends) for parts in self.parts.values() for part in parts]
        if self.components:
            intervals = tuple(range(self.ends[-1] + 1))
            basis = [part.name for parts in self.parts.values() for part in parts[1:]]
            rows += [(f"{name} after", intervals[:-1]) for name in basis]
            rows += [(f"normal {i}", intervals[1:]) for i in range(self.components)]
            rows += [("marks", intervals[1:])] if self.jumps else []
        return tuple(rows)

    @property
    def martingale_paths(self) -> int:
        """How many paths a martingale is fitted on: fewer where their intervals would fill the memory."""
        return halved_to_fit(MARTINGALE_PATHS, sum(len(rows) for _, rows in self.rows), LEAST_PATHS)

    def sample(self, first: int, count: int, sink: Callable[[dict[str, Sample]], None]) -> None:
        """Give `sink` the samples of each option on `count` paths from an id, chunk by chunk.

        Raises `NumericalError` where something is not finite and `failures` is `stop`; else such paths are
        left out.
        """
        request, plan = self._request(count)
        (run,), _ = compiled(request)
        inputs, _ = request.arguments

        def work(chunk: Chunk) -> dict[str, np.ndarray]:
            result = run(inputs, chunk.ids)
            flat = {name: np.asarray(x, np.float64).reshape(len(x), -1) for name, x in result.items()}
            return {name: x[:, : chunk.count] for name, x in flat.items()}

        def finite(chunk: Chunk, flat: dict[str, np.ndarray]) -> None:
            finite = np.all([np.isfinite(x).all(axis=0) for x in flat.values()], axis=0)
            if not finite.all():
                if self.simulation.failures == "stop":
                    raise failed_paths(self._observed, chunk.first + np.flatnonzero(~finite))
                flat = {name: x[:, finite] for name, x in flat.items()}
            sink({name: self._sample(name, flat) for name in self.parts})

        over_chunks(dataclasses.replace(plan, first=first), work, finite, workers_of(self.simulation))

    def compile(self, count: int) -> float:
        """Compile what samples `count` paths; returns the seconds that this took."""
        return compiled(self._request(count)[0])[1]

    def _sample(self, name: str, flat: Mapping[str, np.ndarray]) -> Sample:
        value, *basis = (part.name for part in self.parts[name])
        none = np.zeros((0, 0, flat[value].shape[1]))
        if not self.components:
            return Sample(flat[value], np.stack([flat[x] for x in basis]), none, none, none)
        starts = np.stack([flat[f"{x} after"] for x in basis])
        normals = np.stack([flat[f"normal {i}"] for i in range(self.components)])
        marks = flat["marks"][None] if self.jumps else normals[:0]
        return Sample(flat[value], np.stack([flat[x] for x in basis]), starts, normals, marks)

    @property
    def _observed(self) -> Simulation:
        """The simulation with the parts for observables."""
        grid = self.grid
        parts = tuple(part for each in self.parts.values() for part in each)
        observed = self.simulation.with_run(
            observer=Observer(self.observer.constants, parts),
            grid=Grid(grid.t0, grid.dt, grid.steps, self.every),
        )
        infos = {part.name: ObservableInfo("", "", "each") for part in parts}
        return dataclasses.replace(observed, observables=infos)

    def _request(self, count: int) -> tuple[Request, Chunks]:
        observed = self._observed
        observer: Any = observed.observer
        rows = ExerciseRows(observer, self.every, self.components, self.jumps is not None)
        watched = observed.with_run(observer=rows)
        program, inputs = path_program(watched, watched.grid)
        plan = plan_intervals(self.simulation, count)
        given = inputs, plan.ids()
        return Request(SampleProgram(program, self.rows), given, devices_of(self.simulation)), plan


def option_groups(simulation: Simulation) -> list[OptionGroup]:
    """The options of a simulation, grouped by dates and number of paths."""
    observer, grid = simulation.observer, simulation.grid
    if not isinstance(observer, Observer) or grid.steps is None:
        return []

    def kind(exercised: tuple[Observable, Exercise]) -> tuple[tuple[int, ...], int]:
        return exercised[1].when, exercised[1].paths

    result = []
    for _, group in itertools.groupby(sorted(observer.exercised, key=kind), kind):
        exercised = list(group)
        exercises = {observable.name: exercise for observable, exercise in exercised}
        parts = {observable.name: _parts(observable, exercise) for observable, exercise in exercised}
        result.append(OptionGroup(simulation, exercises, parts, interval_of(exercised[0][1])))
    return result


def _parts(observable: Observable, exercise: Exercise) -> tuple[Observable, ...]:
    """The exercise value and the basis, as observables of their own."""
    value = dataclasses.replace(observable, exercise=None)
    basis = enumerate(exercise.basis)
    return value, *(
        dataclasses.replace(value, name=f"{observable.name} basis {i}", expression=x) for i, x in basis
    )
