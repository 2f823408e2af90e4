"""The parts of a run and its result: plain records between experiments, ensembles and datasets."""

import dataclasses
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

import jax
import numpy as np
from simkit_solvers.grids.adaptive_grid import AdaptiveGrid
from simkit_solvers.grids.grid import Grid, TracedGrid
from simkit_solvers.grids.jump_grid import JumpGrid
from simkit_solvers.numerics.tangents import is_real
from simkit_solvers.problems.observe import AbstractObserver
from simkit_solvers.problems.problem import AbstractODE
from simkit_solvers.random.noise import AbstractNoise

from simkit.config.settings import ErrorTarget, Experiment
from simkit.ensemble.initial import InitialValue, numbers_of
from simkit.ensemble.replicates import COVARIANCE, MOMENTS, VarianceReduction
from simkit.ensemble.step_bias.step_error import StepError
from simkit.observe.exercise import ExerciseFit
from simkit.observe.observable import Observable
from simkit.observe.observer import Observer

if TYPE_CHECKING:
    from simkit.ensemble.stepping import AbstractStepping

Driver = Callable[..., AbstractNoise]  # of key, path, and whether normals are float64

SEEDS = 2**64  # there are so many
STORED_PATHS = 20  # by default; the picture shows some of them


@dataclasses.dataclass(frozen=True)
class ObservableInfo:
    """What the result says of an observable: unit, expression, when it is evaluated, exact value."""

    unit: str
    description: str
    at: Literal["end", "each"]
    exact: float | None = None


@dataclasses.dataclass(frozen=True)
class Picture:
    """What the picture shows over time, and which pairs against each other; empty for the usual."""

    over_time: tuple[str, ...] = ()
    portrait: tuple[tuple[str, str], ...] = ()


class Run(NamedTuple):
    """What a run is made of: problem, observer, initial values, grid and solver.

    Of a program it holds what is no number, and of the program's arguments the numbers, `None` elsewhere,
    with the seed's key. `drift` is that of each Brownian noise in importance sampling, None of plain paths.
    """

    problem: AbstractODE
    observer: AbstractObserver
    initial: dict[str, Any]  # `InitialValue`s, or arrays in a program's arguments
    grid: Grid | TracedGrid | AdaptiveGrid | JumpGrid
    solver: Any = None  # a diffrax solver, or a jump method where the grid is a `JumpGrid`
    drift: tuple[Any, ...] | None = None
    key: Any = None  # the words of the seed, in a program's arguments

    def split(self) -> tuple["Run", "Run"]:
        """What of it belongs to a program, and the numbers that the program takes as arguments."""
        leaves, structure = jax.tree.flatten(self._replace(initial=None, solver=None))
        are_numbers = [*map(_is_argument, leaves)]
        static, numbers = (
            structure.unflatten(x if of_these else None for x, of_these in zip(leaves, which, strict=True))
            for which in ([not each for each in are_numbers], are_numbers)
        )
        return static._replace(solver=self.solver), numbers._replace(initial=numbers_of(self.initial))

    @property
    def stepping(self) -> "AbstractStepping":
        """How its paths go on in time."""
        from simkit.ensemble.stepping import stepping  # the loops of all grids, which building needs not

        return stepping(self)


def _is_argument(leaf: Any) -> bool:
    """Whether a leaf is a real number, or a number of steps that a program does not know."""
    return is_real(leaf) or isinstance(leaf, np.unsignedinteger)


@dataclasses.dataclass(frozen=True)
class Simulation:
    """A validated experiment, ready to run: its `run`; `experiment` is the one it was built from.

    `bind` makes the run again from named constants, so that a derivative with respect to a constant reaches
    every place where the constant is used. `targets` are the values of all that it can replace: constants,
    and single places such as `model.sigma`, `initial.S`, `time.t1`, which a second mapping adds to what the
    constants give them. A step takes the sum of `draws_per_step` draws of the noise; where they are
    `swapped`, steps 2k and 2k + 1 take each other's. Where there is a `target`, `paths` are those that it
    takes once there is a `pilot`, and a guess before. `levels` are those of a multilevel run, whose coarsest
    grid is the simulation's own, without numbers of paths until a pilot has found these. `convert` lets the
    problem be read in the solver's calculus. `derived` are the figures made of means
    (`simkit.results.derived`).
    """

    run: Run
    observables: dict[str, ObservableInfo]
    paths: int
    seed: int
    precision: Literal["float32", "float64"] = "float64"
    normals: Literal["float32", "float64"] = "float32"
    convert: bool = False
    chunk: int | None = None
    memory: int | None = None
    failures: Literal["stop", "exclude"] = "stop"
    stored_paths: int = STORED_PATHS
    quantiles: tuple[float, ...] = (0.05, 0.25, 0.5, 0.75, 0.95)
    devices: int | None = None
    threads: int | None = None
    picture: Picture = Picture()
    constants: dict[str, float] = dataclasses.field(default_factory=dict)
    targets: dict[str, float] = dataclasses.field(default_factory=dict)
    bind: Callable[..., Run] | None = None
    draws_per_step: int = 1
    swapped: bool = False
    derived: tuple[Any, ...] = ()
    experiment: Experiment | None = dataclasses.field(default=None, compare=False, repr=False)
    reduction: VarianceReduction | None = None
    target: ErrorTarget | None = None
    pilot: "PilotSize | None" = None
    levels: "LevelPlan | None" = None

    @property
    def observed(self) -> tuple[Observable, ...]:
        """The observables; none where the observer is one made by hand."""
        return self.observer.observables if isinstance(self.observer, Observer) else ()

    @property
    def target_names(self) -> list[str]:
        """The quantities whose error a target means: all observables, or the state where there are none."""
        given = None if self.target is None else self.target.of
        return given or [*self.observables] or [*self.problem.State._fields]

    @property
    def problem(self) -> AbstractODE:
        """The problem of its run."""
        return self.run.problem

    @property
    def solver(self) -> Any:
        """The solver of its run."""
        return self.run.solver

    @property
    def grid(self) -> Grid | AdaptiveGrid | JumpGrid:
        """The grid of its run, with numbers of steps that are known."""
        return cast(Grid | AdaptiveGrid | JumpGrid, self.run.grid)

    @property
    def initial(self) -> dict[str, InitialValue]:
        """The initial values of its run."""
        return self.run.initial

    @property
    def observer(self) -> AbstractObserver:
        """The observer of its run."""
        return self.run.observer

    @property
    def time_unit(self) -> str:
        """The unit of its times, or where none was given the dimension."""
        return (self.experiment.time.unit if self.experiment else None) or "time"

    def with_run(self, **changes: Any) -> "Simulation":
        """This simulation of a run that differs in these parts."""
        return dataclasses.replace(self, run=self.run._replace(**changes))

    @property
    def stepping(self) -> "AbstractStepping":
        """How its paths go on in time."""
        return self.run.stepping


@dataclasses.dataclass(frozen=True)
class PilotSize:
    """How a pilot found the number of paths: by how many of its own, and in how many seconds.

    `wanted` are the paths that the target takes, each `of_path_s` seconds; of these the key `limited_by`, if
    any, allows fewer.
    """

    paths: int
    seconds: float
    wanted: int
    of_path_s: float
    limited_by: str = ""


@dataclasses.dataclass(frozen=True)
class LevelPlan:
    """The paths of each level of a multilevel run, and the pilot that found them.

    `steps` are those of a path on the finer grid of each level, and `costs` those that it takes on all grids.
    `pilot_paths` on all its levels took `pilot_steps` path-steps and `pilot_s` seconds.
    """

    paths: tuple[int, ...] = ()
    steps: tuple[int, ...] = ()
    costs: tuple[float, ...] = ()
    pilot_paths: int = 0
    pilot_steps: int = 0
    pilot_s: float = 0.0

    @property
    def work(self) -> int:
        """The path-steps of all levels."""
        return round(math.fsum(n * cost for n, cost in zip(self.paths, self.costs, strict=True)))


def experiment_of(simulation: Simulation) -> Experiment:
    """The experiment that a simulation was made of. Raises `ValueError` where it was made by hand."""
    if simulation.experiment is None:
        raise ValueError("a simulation made by hand has no experiment; use one from `simkit.load`")
    return simulation.experiment


@dataclasses.dataclass(frozen=True)
class StepCounts:
    """Steps, or events and leaps, that paths accepted and rejected: mean and most of one path.

    `in_leaps_mean` is the mean number of events that all leaps of a path held.
    """

    accepted_mean: float
    accepted_max: int
    rejected_mean: float
    rejected_max: int
    in_leaps_mean: float = 0.0

    @property
    def mean(self) -> float:
        """Steps of a path, accepted or not."""
        return self.accepted_mean + self.rejected_mean


@dataclasses.dataclass(frozen=True)
class EnsembleResult:
    """Statistics of an ensemble and how they were obtained.

    `times` has one entry per saved row. Quantities evaluated at each have arrays `(rows,)`, others `(1,)`.
    `stored` are the rows of the first `stored_paths` paths: arrays `(paths, rows)` by name. `ends` are the
    final values of the first paths, or replicates where variances are reduced, NaN where one failed. `bias`
    maps quantities at the end to the error that steps leave in their means, `variance_bias` to that in their
    variances, `bias_left_out` to the number of paths that have no finite value on other grids, where there
    are some. `waiting` are by first time the paths, of those that have not failed, that wait for it at the
    end; `happened` says how often each event with a condition has happened on these paths, as a sum and a sum
    of squares. `steps` is the number of steps of each path, or what adaptive paths took. `exercises` are the
    policies of early exercise, which took `fit_s` seconds to fit. `degenerate` are the quantities whose
    weights leave no result, and how many paths they would take.
    """

    times: np.ndarray
    statistics: dict[str, dict[str, np.ndarray]]
    stored: dict[str, np.ndarray]
    paths: int
    failed: int
    steps: int | StepCounts
    bias: dict[str, StepError]
    elapsed_s: float
    compile_s: float
    bias_s: float
    path_steps_per_s: float
    devices: int
    exercises: dict[str, ExerciseFit] = dataclasses.field(default_factory=dict)
    fit_s: float = 0.0
    ends: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)
    bias_left_out: dict[str, int] = dataclasses.field(default_factory=dict)
    variance_bias: dict[str, StepError] = dataclasses.field(default_factory=dict)
    waiting: dict[str, int] = dataclasses.field(default_factory=dict)
    happened: list[tuple[int, int]] = dataclasses.field(default_factory=list)
    degenerate: dict[str, float] = dataclasses.field(default_factory=dict)

    @property
    def covariance_and_count(self) -> tuple[np.ndarray, int]:
        """The covariance at the end of what means are of, paths or replicates, and the number of these."""
        moments = self.statistics.get(MOMENTS, self.statistics["moments"])
        if "groups" in moments:
            return np.asarray(moments["covariance"]), int(moments["groups"])
        covariance = self.statistics.get(COVARIANCE, self.statistics["covariance"])["covariance"]
        return np.asarray(covariance), int(moments["n"])

    @property
    def mean_steps(self) -> float:
        """How many steps a path took, on average."""
        return self.steps.mean if isinstance(self.steps, StepCounts) else self.steps
