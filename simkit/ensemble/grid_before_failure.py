"""Which reaction, or which event, would give an impossible count."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from simkit_solvers.grids.jump_grid import JumpGrid
from simkit_solvers.methods.jump.jump_method import BAD_COUNT, BAD_EVENT, LARGEST_COUNT
from simkit_solvers.problems.event import Event
from simkit_solvers.problems.problem import AbstractODE
from simkit_solvers.problems.schedule import just_after, model_of, schedule_of

from simkit.observe.time_functions import SetVariables

Counts = dict[str, float]


def moment(grid: JumpGrid, reached: float, status: int) -> JumpGrid | None:
    """A run that ends with the last counts before the failure: before an event, after the last reaction."""
    start, end = float(grid.t0), float(grid.t0) + float(grid.span)
    dtype = np.result_type(grid.t0, grid.span)
    tiny = 4 * float(np.finfo(dtype).eps) * max(abs(start), abs(end))
    end = reached + (tiny if status == BAD_COUNT else -tiny)
    return JumpGrid(grid.t0, dtype.type(end), 1, grid.max_steps) if end > start else None


def culprit(problem: AbstractODE, counts: Counts, grid: JumpGrid, reached: float, status: int) -> str | None:
    """What would be set, or what would fire, with the counts before and after."""
    t, span = jnp.asarray(reached), jnp.asarray(grid.span)
    problem = just_after(problem, t, jnp.asarray(grid.t0), span)
    state: Any = problem.State(**{name: jnp.asarray(counts[name], t.dtype) for name in problem.State._fields})
    if status == BAD_EVENT:
        return _of_events(problem, state, t, 1e-6 * float(span))
    return _of_reactions(problem, state, t) if status == BAD_COUNT else None


def _of_reactions(problem: Any, y: Any, t) -> str | None:
    """The reactions that may fire and would leave the range of counts."""
    result = []
    rates = [float(rate) for rate in problem.propensities(t, y)]
    for (name, reaction), rate in zip(model_of(problem).reactions.items(), rates, strict=True):  # pyright: ignore[reportAttributeAccessIssue]
        for species, change in reaction.change.items():
            before = float(getattr(y, species))
            if rate > 0 and not 0 <= before + change <= LARGEST_COUNT:
                result.append(f"{name} takes {species} from {before:.10g} to {before + change:.10g}")
    return " or ".join(result) or None


def _of_events(problem: Any, y: Any, t, near: float) -> str | None:
    """The first of the events at this time that sets what is no count."""
    schedule = schedule_of(problem)
    for event in () if schedule is None else schedule.events:
        if event.triggered:
            for counts in _next(problem, y, t):
                wrong = _set_by(event, problem, t, counts)
                if wrong is not None:
                    return wrong
        elif np.any(np.abs(np.asarray(event.times) - float(t)) <= near):
            wrong = _set_by(event, problem, t, y)
            if wrong is not None:
                return wrong
            y = event.change(problem, t, y) if event.holds(problem, t, y) else y
    return None


def _next(problem: Any, y: Any, t) -> list:
    """The counts after each reaction that may fire, in the precision of the run."""
    rates = [float(rate) for rate in problem.propensities(t, y)]
    reactions = model_of(problem).reactions.values()  # pyright: ignore[reportAttributeAccessIssue]
    return [
        y._replace(**{name: getattr(y, name) + change for name, change in reaction.change.items()})
        for reaction, rate in zip(reactions, rates, strict=True)
        if rate > 0
    ]


def _set_by(event: Event, problem: Any, t, y: Any) -> str | None:
    """What an event sets that is no count, if it happens."""
    if not event.holds(problem, t, y):
        return None
    after = event.change(problem, t, y)
    for species in y._fields:
        value = float(getattr(after, species))
        if value != round(value) or not 0 <= value <= LARGEST_COUNT:
            name = event.change.name if isinstance(event.change, SetVariables) else ""
            before = f"from {float(getattr(y, species)):.10g} to {value:.10g}"
            return f"{name or 'the event'} takes {species} {before}"
    return None
