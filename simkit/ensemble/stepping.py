"""How the paths of each kind of grid are run, grouped, planned and described."""

import abc
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, cast

import jax
import jax.numpy as jnp
from jaxtyping import PyTree
from simkit_solvers.grids.adaptive_grid import AdaptiveGrid
from simkit_solvers.grids.grid import Grid, TracedGrid
from simkit_solvers.grids.jump_grid import JumpGrid
from simkit_solvers.loops.adaptive import integrate_adaptive
from simkit_solvers.loops.adaptive_sde import integrate_adaptive_sde
from simkit_solvers.loops.compensated import can_compensate
from simkit_solvers.loops.integrate import integrate
from simkit_solvers.loops.jumps import integrate_jumps
from simkit_solvers.methods.jump.jump_method import REASONS, JumpNoise
from simkit_solvers.problems.observe import happened_name
from simkit_solvers.problems.reaction_network import AbstractReactionNetwork, view
from simkit_solvers.problems.schedule import model_of, schedule_of
from simkit_solvers.random.brownian_tree import BrownianTree
from simkit_solvers.random.noise import ShiftedNoise

from simkit.ensemble.simulation import Run, StepCounts
from simkit.ensemble.step_bias.step_error import NEAR, OF_TOLERANCES
from simkit.ensemble.weights import WeightedObserver

if TYPE_CHECKING:
    from simkit.ensemble.paths import PathProgram

# No names of observables: these hold spaces.
IN_LEAPS = "events in leaps"
ACCEPTED, REJECTED, REACHED, STATUS = "accepted steps", "rejected steps", "time reached", "why it ended"


def happened_names(problem: Any) -> list[str]:
    """The names of the counts of events with a condition, in their order."""
    schedule = schedule_of(problem)
    return [] if schedule is None else [happened_name(i) for i in range(len(schedule.counted))]


def since(name: str) -> str:
    """The name of where such a count has grown since the row before."""
    return f"{name} since"


@dataclasses.dataclass(frozen=True)
class AbstractStepping(abc.ABC):
    """The paths of a run.

    `group` paths go on under one `vmap` and wait for the slowest of them, None where all end together: fewer
    wait less, and take longer a step. There are two groups or more in the fewest lanes, since the compiler
    unrolls a loop of one, and bits may differ.
    """

    run: Run
    kind: ClassVar[Literal["ode", "sde", "jump"]]
    group: ClassVar[int | None]
    description: ClassVar[str]
    remedy: ClassVar[str]  # for paths that fail
    float32_remedy: ClassVar[str | None] = None  # where that is another
    whole: ClassVar[bool] = False  # the state is of whole numbers, which change event by event
    has_increments: ClassVar[bool] = False  # Brownian ones, over steps that are the same for all paths
    discontinuous: ClassVar[str | None] = None  # why a path jumps as parameters move
    exact_by: ClassVar[Literal["steps", "tolerances"] | None] = None  # what alone decides the errors of paths
    order: ClassVar[float | None] = 1.0  # of errors in the length of steps; None where it is the solver's
    unsure_order: ClassVar[float] = 0.0  # how much less the order may be
    power: ClassVar[float] = 1.0  # of tolerances, by which steps become short

    @property
    def grid(self) -> Any:
        """The grid of the run."""
        return self.run.grid

    @property
    def random(self) -> bool:
        """Whether paths with the same parameters and initial values differ."""
        return self.kind != "ode"

    @property
    def exact(self) -> bool:
        """Whether neither steps nor what functionals see of a path make errors."""
        return False

    @property
    def view(self) -> str | None:
        """Which of the three processes of a reaction network it is; None of any other model."""
        return view(self.run.problem, self.whole)

    @property
    def compensates(self) -> bool:
        """Whether sums of many steps in float32 lose no more than roundings at random."""
        return self.random

    def noise(self, program: "PathProgram", inputs: Run, path: jax.Array) -> Any:
        """What drives one path of a `PathProgram`; None where nothing does."""
        return None

    @abc.abstractmethod
    def rows(
        self, program: "PathProgram", inputs: Run, path: jax.Array, memory: float
    ) -> dict[str, jax.Array]:
        """The rows of one path of a `PathProgram`, by name."""

    @property
    def term_names(self) -> list[str]:
        """The names of the `terms`."""
        kinds = ("drift", "noise") if self.random else ("drift",)
        return [f"{kind} of {name}" for kind in kinds for name in self.run.problem.State._fields]

    def terms(self, model: Any, y: PyTree, t: jax.Array, increments: Sequence[jax.Array]) -> list[jax.Array]:
        """The terms of the model at a state and a time: drift, and noise where increments are given."""
        return [*model.drift(t, y), *(model.noise(t, y, model.Noise(*increments)) if increments else ())]

    def size(self, paths: int) -> dict[str, Any]:
        """The steps of a path and of all; the most of them and what chooses them where they are not known."""
        return {"steps": None, "path_steps": None, "max_steps": self.grid.max_steps} | self.tolerances

    @property
    def tolerances(self) -> dict[str, float]:
        """What chooses the steps, by name; empty where no tolerances do."""
        return {}

    @abc.abstractmethod
    def attributes(self, steps: Any) -> dict[str, int | float]:
        """The attributes of a dataset about its steps: their number, or the `StepCounts` of its paths."""

    @property
    @abc.abstractmethod
    def shorter(self) -> str:
        """What makes a run shorter, besides less time and fewer paths; and why it may be long, if known."""

    def why_ended(self, counts: Mapping[str, Any]) -> str:
        """Why a path ended early, by its counts."""
        raise TypeError("paths of a fixed grid end where it ends")

    def is_capped(self, steps: Callable[[], float]) -> bool:
        """Whether most steps are as long as the grid allows, whatever the tolerances.

        Other tolerances would not change these steps, nor show the error that they make. `steps` gives those
        of a path; it is not called where no step can be capped.
        """
        return False


class AbstractFixedSteps(AbstractStepping):
    """Steps of one length, the same for all paths."""

    group = None
    order = None
    description = "steps of one length"

    @property
    def shorter(self):
        return "fewer time.steps"

    @property
    def compensates(self):
        return can_compensate(self.run.solver) and (self.grid.long or not self.random)

    def rows(self, program, inputs, path, memory):
        return integrate(*program.prepared(inputs, path), memory)

    def size(self, paths):
        return {"steps": self.grid.steps, "path_steps": paths * self.grid.steps}

    def attributes(self, steps):
        if isinstance(steps, StepCounts):
            raise TypeError("counted steps belong to an adaptive grid, and a number of steps to a fixed one")
        return {"steps": steps, "dt": float(self.grid.dt)}


class FixedSteps(AbstractFixedSteps):
    """Steps of one length of ordinary equations."""

    kind = "ode"
    remedy = "Unless the solution itself becomes infinite there, use more steps or another solver"
    exact_by = "steps"


class StochasticFixedSteps(AbstractFixedSteps):
    """Steps of one length of stochastic equations."""

    kind = "sde"
    remedy = "Use more steps or another solver"
    has_increments = True

    def noise(self, program, inputs, path):
        noise = program.driver(inputs.key, path, program.float64_normals)
        return noise if self.run.drift is None else ShiftedNoise(noise, self.shift(program, inputs))

    def shift(self, program: "PathProgram", inputs: Run) -> tuple[jax.Array, ...]:
        """What the drift adds to the normals of a step."""
        root = jnp.sqrt(program.combined(inputs).grid.dt)
        return tuple(each * root for each in inputs.drift or ())

    def rows(self, program, inputs, path, memory):
        *run, observer = program.prepared(inputs, path)
        if self.run.drift is not None:
            observer = WeightedObserver(observer, self.shift(program, inputs))
        return integrate(*run, observer, memory)


class AbstractAdaptiveSteps(AbstractStepping):
    """Steps as long as tolerances allow."""

    description = "adaptive steps"
    remedy = "Use another solver, other tolerances or a larger time.max_steps"
    float32_remedy = (
        "In float32 an atol below 1e-7 of the largest variable may be out of reach: use precision: float64 "
        "or larger tolerances, another solver or a larger time.max_steps"
    )
    too_short: ClassVar[str]

    @property
    def shorter(self):
        return "larger tolerances or another solver"

    @property
    def tolerances(self):
        return {x: float(getattr(self.grid.tolerances, x)) for x in ("rtol", "atol")}

    def rows(self, program, inputs, path, memory):
        run = self.integrated(*program.prepared(inputs, path))
        counts = {ACCEPTED: run.accepted, REJECTED: run.rejected, REACHED: run.reached}
        return run.rows | {name: x[None] for name, x in counts.items()}

    @abc.abstractmethod
    def integrated(self, problem: Any, solver: Any, y0: PyTree, grid: Any, noise: Any, observer: Any) -> Any:
        """What the loop gives of a path."""

    def attributes(self, steps):
        first = {} if self.grid.first_step is None else {"first_step": float(self.grid.first_step)}
        counts = {
            "accepted_steps_mean": steps.accepted_mean,
            "accepted_steps_max": steps.accepted_max,
            "rejected_steps_mean": steps.rejected_mean,
            "rejected_steps_max": steps.rejected_max,
        }
        return self.tolerances | first | {"max_steps": self.grid.max_steps} | counts

    def why_ended(self, counts):
        most = self.grid.max_steps
        if int(counts[ACCEPTED] + counts[REJECTED]) >= most:
            return f"max_steps = {most} were taken"
        return f"the tolerances required a step {self.too_short}"


class AdaptiveSteps(AbstractAdaptiveSteps):
    """Adaptive steps of ordinary equations."""

    kind = "ode"
    group = 32
    exact_by = "tolerances"
    unsure_order = OF_TOLERANCES
    too_short = "too short for the clock; the solution may be infinite there"

    def integrated(self, problem, solver, y0, grid, noise, observer):
        return integrate_adaptive(problem, solver, y0, grid, observer)


class StochasticAdaptiveSteps(AbstractAdaptiveSteps):
    """Adaptive steps of stochastic equations."""

    kind = "sde"
    group = 8  # whose numbers of steps differ more
    unsure_order = NEAR
    power = 2 / 3
    too_short = "shorter than halving gives"

    def noise(self, program, inputs, path):
        return BrownianTree.of(inputs.key, path, program.float64_normals)

    def integrated(self, problem, solver, y0, grid, noise, observer):
        return integrate_adaptive_sde(problem, solver, y0, grid, noise, observer)

    def is_capped(self, steps):
        return steps() < 2 * self.grid.fewest_steps


class Events(AbstractStepping):
    """The events of a reaction network, or leaps over many of them."""

    kind = "jump"
    group = 32  # paths that share the loop's own cost, because an event is short
    description = "events as they come"
    remedy = "Use another solver"
    whole = True
    discontinuous = "numbers of molecules jump with the rates"

    @property
    def exact(self):
        return self.run.solver.exact

    @property
    def term_names(self):
        return [f"rate of {name}" for name in cast(AbstractReactionNetwork, self.run.problem).reactions]

    def terms(self, model, y, t, increments):
        return [*model.propensities(t, y)]

    def noise(self, program, inputs, path):
        return JumpNoise.of(inputs.key, path)

    def rows(self, program, inputs, path, memory):
        """Counts in float64, which holds them whole."""
        run = integrate_jumps(*program.prepared(inputs, path))
        whole = {
            name: jnp.where(jnp.isnan(run.rows[name]), jnp.nan, x.astype(jnp.float64))
            for name, x in run.counts._asdict().items()
        }
        ends = {ACCEPTED: run.steps, REJECTED: run.rejected, REACHED: run.reached, STATUS: run.status}
        ends |= {} if run.in_leaps is None else {IN_LEAPS: run.in_leaps}
        return run.rows | whole | {name: x[None] for name, x in ends.items()}

    @property
    def shorter(self):
        schedule = schedule_of(self.run.problem)
        if not self.exact:
            other = "a larger solver.epsilon"
        elif schedule is None or not schedule.triggered:
            other = "solver: TauLeaping, which takes many events at once"
        else:
            other = "smaller numbers of molecules"
        return other + _growth(cast(AbstractReactionNetwork, model_of(self.run.problem)))

    def attributes(self, steps):
        what = "events" if self.exact else "leaps"
        counts = {f"{what}_mean": steps.accepted_mean, f"{what}_max": steps.accepted_max}
        if what == "leaps":
            counts |= {"refused_leaps_mean": steps.rejected_mean, "refused_leaps_max": steps.rejected_max}
            counts |= {"events_in_leaps_mean": steps.in_leaps_mean}
        return {"max_steps": self.grid.max_steps} | counts

    def why_ended(self, counts):
        return REASONS[int(counts[STATUS])].replace("max_steps", f"max_steps = {self.grid.max_steps}")


def _growth(network: AbstractReactionNetwork) -> str:
    """Which species may grow exponentially, as some reaction makes more of them the more there are."""
    grown = [
        f"{name} makes {species} of {species}"
        for name, each in network.reactions.items()
        for species, _ in each.reactants
        if each.change[species] > 0
    ]
    return f"; {' and '.join(grown)}, so that numbers may grow and events come ever faster" if grown else ""


KINDS: dict[type, tuple[type[AbstractStepping], type[AbstractStepping]]] = {  # ordinary, stochastic
    Grid: (FixedSteps, StochasticFixedSteps),
    TracedGrid: (FixedSteps, StochasticFixedSteps),
    AdaptiveGrid: (AdaptiveSteps, StochasticAdaptiveSteps),
    JumpGrid: (Events, Events),
}


def stepping(run: Run) -> AbstractStepping:
    """How the paths of a run go on in time."""
    return KINDS[type(run.grid)][run.problem.stochastic](run)
