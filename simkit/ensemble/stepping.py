"""How the paths of each kind of grid are run, grouped, planned and described."""

import abc
import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from simkit_solvers.grids.adaptive_grid import AdaptiveGrid
from simkit_solvers.grids.grid import Grid, TracedGrid
from simkit_solvers.grids.jump_grid import JumpGrid
from simkit_solvers.loops.adaptive import integrate_adaptive
from simkit_solvers.loops.adaptive_sde import integrate_adaptive_sde
from simkit_solvers.loops.integrate import integrate
from simkit_solvers.loops.jumps import integrate_jumps
from simkit_solvers.methods.jump.jump_method import (
    BAD_COUNT,
    BAD_EVENT,
    BAD_PROPENSITY,
    REASONS,
    TOO_MANY_STEPS,
    JumpNoise,
)
from simkit_solvers.problems.problem import AbstractODE, AbstractSDE
from simkit_solvers.random.brownian_tree import BrownianTree

from simkit.ensemble.simulation import StepCounts

# No names of observables: these hold spaces.
ACCEPTED, REJECTED, REACHED, STATUS = "accepted steps", "rejected steps", "time reached", "why it ended"
REMEDIES = {
    BAD_PROPENSITY: "Write propensities that are at or above zero for all counts that there may be",
    BAD_COUNT: "Write propensities that vanish where reactants are missing",
    TOO_MANY_STEPS: "Use a larger time.max_steps",
    BAD_EVENT: "Let events set whole numbers, such as floor(X/2) or maximum(X - 5, 0); large ones in float64",
}


@dataclasses.dataclass(frozen=True)
class AbstractStepping(abc.ABC):
    """The paths of a grid.

    `group` paths go on under one `vmap` and wait for the slowest of them, None where all end together: fewer
    wait less, and take longer a step. There are two groups or more in the fewest lanes, since the compiler
    unrolls a loop of one, and bits may differ.
    """

    grid: Any
    group: ClassVar[int | None]
    description: ClassVar[str]
    remedy: ClassVar[str]  # for paths that fail
    whole: ClassVar[bool] = False  # the state is of whole numbers

    @abc.abstractmethod
    def noise(self, program, inputs, path) -> Any:
        """What drives one path of a `PathProgram`; None where nothing does."""

    @abc.abstractmethod
    def rows(self, program, inputs, path, memory: float) -> dict[str, jax.Array]:
        """The rows of one path of a `PathProgram`, by name."""

    def size(self, paths: int) -> dict[str, Any]:
        """The steps of a path and of all; the most of them and what chooses them where they are not known."""
        steps = self.grid.steps
        if steps is not None:
            return {"steps": steps, "path_steps": paths * steps}
        return {"steps": None, "path_steps": None, "max_steps": self.grid.max_steps, **self._tolerances}

    @property
    def _tolerances(self) -> dict[str, float]:
        """Tolerances by name; empty on a fixed grid."""
        tolerances = self.grid.tolerances
        return {} if tolerances is None else {x: float(getattr(tolerances, x)) for x in ("rtol", "atol")}

    @abc.abstractmethod
    def attributes(self, solver, steps) -> dict[str, int | float]:
        """The attributes of a dataset about its steps."""

    def why_ended(self, counts: Mapping[str, Any]) -> str:
        """Why a path ended early, by its counts."""
        raise TypeError("paths of a fixed grid end where it ends")


class FixedSteps(AbstractStepping):
    """Steps of one length, the same for all paths."""

    group = None
    description = "steps of one length"
    remedy = "Use more steps or another solver"

    def noise(self, program, inputs, path):
        stochastic = isinstance(program.run.problem, AbstractSDE)
        return program.driver(inputs.key, path, program.float64_normals) if stochastic else None

    def rows(self, program, inputs, path, memory):
        return integrate(*program.prepared(inputs, path), memory)

    def attributes(self, solver, steps):
        if isinstance(steps, StepCounts):
            raise TypeError("counted steps belong to an adaptive grid, and a number of steps to a fixed one")
        return {"steps": steps, "dt": float(self.grid.dt)}


class AbstractAdaptiveSteps(AbstractStepping):
    """Steps as long as tolerances allow."""

    description = "adaptive steps"
    remedy = "Use another solver, other tolerances or a larger time.max_steps"
    too_short: ClassVar[str]

    def rows(self, program, inputs, path, memory):
        run = self.run(*program.prepared(inputs, path))
        counts = {ACCEPTED: run.accepted, REJECTED: run.rejected, REACHED: run.reached}
        return run.rows | {name: x[None] for name, x in counts.items()}

    @abc.abstractmethod
    def run(self, problem, solver, y0, grid, noise, observer) -> Any:
        """What the loop gives of a path."""

    def attributes(self, solver, steps):
        first = {} if self.grid.first_step is None else {"first_step": float(self.grid.first_step)}
        counts = {
            "accepted_steps_mean": steps.accepted_mean,
            "accepted_steps_max": steps.accepted_max,
            "rejected_steps_mean": steps.rejected_mean,
            "rejected_steps_max": steps.rejected_max,
        }
        return self._tolerances | first | {"max_steps": self.grid.max_steps} | counts

    def why_ended(self, counts):
        most = self.grid.max_steps
        if int(counts[ACCEPTED] + counts[REJECTED]) >= most:
            return f"max_steps = {most} were taken"
        return f"the tolerances required a step {self.too_short}"


class AdaptiveSteps(AbstractAdaptiveSteps):
    """Adaptive steps of ordinary equations."""

    group = 32
    too_short = "too short for the clock; the solution may be infinite there"

    def noise(self, program, inputs, path):
        return None

    def run(self, problem, solver, y0, grid, noise, observer):
        return integrate_adaptive(problem, solver, y0, grid, observer)


class StochasticAdaptiveSteps(AbstractAdaptiveSteps):
    """Adaptive steps of stochastic equations."""

    group = 8  # whose numbers of steps differ more
    too_short = "shorter than halving gives"

    def noise(self, program, inputs, path):
        return BrownianTree.of(inputs.key, path, program.float64_normals)

    def run(self, problem, solver, y0, grid, noise, observer):
        return integrate_adaptive_sde(problem, solver, y0, grid, noise, observer)


class Events(AbstractStepping):
    """The events of a reaction network, or leaps over many of them."""

    group = 32  # an event is short: so many share the loop's own cost
    description = "events as they come"
    remedy = "Use another solver"
    whole = True

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
        return run.rows | whole | {name: x[None] for name, x in ends.items()}

    def attributes(self, solver, steps):
        what = "events" if solver.exact else "leaps"
        counts = {f"{what}_mean": steps.accepted_mean, f"{what}_max": steps.accepted_max}
        if what == "leaps":
            counts |= {"refused_leaps_mean": steps.rejected_mean, "refused_leaps_max": steps.rejected_max}
        return {"max_steps": self.grid.max_steps} | counts

    def why_ended(self, counts):
        return REASONS[int(counts[STATUS])].replace("max_steps", f"max_steps = {self.grid.max_steps}")


KINDS: dict[type, tuple[type[AbstractStepping], type[AbstractStepping]]] = {  # ordinary, stochastic
    Grid: (FixedSteps, FixedSteps),
    TracedGrid: (FixedSteps, FixedSteps),
    AdaptiveGrid: (AdaptiveSteps, StochasticAdaptiveSteps),
    JumpGrid: (Events, Events),
}


def stepping(problem: AbstractODE, grid: Any) -> AbstractStepping:
    """How the paths of a problem go on over a grid."""
    return KINDS[type(grid)][isinstance(problem, AbstractSDE)](grid)
