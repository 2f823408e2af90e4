"""Problems with a schedule: their parameters change with time, and events change their state.

A scheduled problem stands for the model it was made of. The loops ask for it over one step at a time
(`within`), so that a jump of a parameter at the end of a step is on the right side of it.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from simkit_solvers.numerics.delegated import delegated
from simkit_solvers.numerics.scalar import Scalar
from simkit_solvers.problems.calculus import Converted
from simkit_solvers.problems.calendar import Schedule, value_at
from simkit_solvers.problems.curve import AbstractTimeFunction
from simkit_solvers.problems.event import Event
from simkit_solvers.problems.jump_diffusion import AbstractJumpDiffusion
from simkit_solvers.problems.problem import (
    AbstractODE,
    AbstractSDE,
    Calculus,
    NoiseKind,
    features_of,
    parameters_of,
)
from simkit_solvers.problems.reaction_network import AbstractReactionNetwork, ChemicalLangevin


class ScheduledODE(AbstractODE):
    r"""$dy/dt = f(t, y; \theta(t))$: an ordinary equation whose parameters change, with events."""

    original: AbstractODE
    schedule: Schedule
    State: type = eqx.field(static=True)

    def drift(self, t, y):
        return _at(self, t).drift(t, y)


class ScheduledSDE(AbstractSDE):
    r"""$dy = f(t, y; \theta(t))\,dt + g(t, y; \theta(t))\,dW$, with events."""

    original: AbstractSDE
    schedule: Schedule
    State: type = eqx.field(static=True)
    Noise: type = eqx.field(static=True)
    calculus: Calculus = eqx.field(static=True)
    noise_kind: NoiseKind = eqx.field(static=True)

    smooth = delegated("original")

    def drift(self, t, y):
        return _at(self, t).drift(t, y)

    def noise(self, t, y, dW):
        return _at(self, t).noise(t, y, dW)


class ScheduledJumpDiffusion(ScheduledSDE, AbstractJumpDiffusion):
    """A jump diffusion whose parameters change, with events."""

    original: AbstractJumpDiffusion

    jumps_commute = delegated("original")

    def intensity(self, t, y):
        return _at(self, t).intensity(t, y)

    def marks(self, t):
        return _at(self, t).marks(t)

    def jump(self, t, y, z):
        return _at(self, t).jump(t, y, z)


class ScheduledNetwork(AbstractReactionNetwork):
    """A reaction network whose rates change, with events."""

    original: AbstractReactionNetwork
    schedule: Schedule
    State: type = eqx.field(static=True)

    reactions = delegated("original")

    def rates(self, t, y):
        return _at(self, t).rates(t, y)

    def propensities(self, t, y):
        return _at(self, t).propensities(t, y)

    def drift(self, t, y):
        return _at(self, t).drift(t, y)


Scheduled = ScheduledODE | ScheduledSDE | ScheduledNetwork


def scheduled(
    problem: AbstractODE,
    parameters: Mapping[str, AbstractTimeFunction] | None = None,
    quantities: Mapping[str, AbstractTimeFunction] | None = None,
    events: tuple[Event, ...] = (),
) -> AbstractODE:
    """The problem with functions of time instead of some parameters, and with events.

    `quantities` are functions of time that observers may read. Events at the same time happen in the order in
    which they are given. Raises `ValueError` for an unknown parameter.

    >>> import jax.numpy as jnp
    >>> from simkit_physics import HarmonicOscillator
    >>> from simkit_solvers import Curve, scheduled
    >>> stiffness = Curve(jnp.array([0.0, 1.0]), jnp.array([1.0, 3.0]))
    >>> problem = scheduled(HarmonicOscillator(m=1.0, k=1.0), {"k": stiffness})
    >>> sorted(problem.schedule.parameters)
    ['k']
    """
    known = parameters_of(problem)
    for name in parameters or {}:
        if name not in known:
            raise ValueError(f"{type(problem).__name__} has no parameter {name!r}; it has {', '.join(known)}")
    schedule = Schedule(dict(parameters or {}), dict(quantities or {}), tuple(events))
    kinds: tuple[Any, ...] = ScheduledJumpDiffusion, ScheduledSDE, ScheduledNetwork, ScheduledODE
    takes = AbstractJumpDiffusion, AbstractSDE, AbstractReactionNetwork, AbstractODE
    kind = next(kind for kind, each in zip(kinds, takes, strict=True) if isinstance(problem, each))
    return kind(original=problem, schedule=schedule, **features_of(problem))


def model_in(problem: AbstractODE) -> AbstractODE:
    """The problem without the calculus it is read in and the process it is seen as."""
    while isinstance(problem, Converted | ChemicalLangevin):
        problem = problem.original
    return problem


def model_of(problem: AbstractODE) -> AbstractODE:
    """The model that a problem was made of: it has the parameters and the name."""
    problem = model_in(problem)
    return problem.original if isinstance(problem, Scheduled) else problem


def schedule_of(problem: AbstractODE) -> Schedule | None:
    """The schedule of a problem, `None` where it has none."""
    model = model_in(problem)
    return model.schedule if isinstance(model, Scheduled) else None


def curves_of(problem: AbstractODE) -> dict[str, Any]:
    """The parameters and quantities of a problem that change with time, by name."""
    schedule = schedule_of(problem)
    return {} if schedule is None else {**schedule.quantities, **schedule.parameters}


def is_changed(problem: AbstractODE) -> bool:
    """Whether a problem differs from its model: parameters change, or events happen."""
    schedule = schedule_of(problem)
    return schedule is not None and bool(schedule.parameters or schedule.events)


def parameters_at(problem: AbstractODE, t: Scalar) -> dict[str, Any]:
    """The parameters and the scheduled quantities at a time, by name."""
    model = model_in(problem)
    if not isinstance(model, Scheduled):
        return {name: getattr(model, name) for name in parameters_of(model)}
    own = {name: getattr(model.original, name) for name in parameters_of(model.original)}
    return own | {name: value_at(each, t) for name, each in curves_of(model).items()}


def within(problem: AbstractODE, t0: Scalar, t1: Scalar) -> AbstractODE:
    """The problem over one step, or any time in which nodes at the ends lie outside."""
    if isinstance(problem, Scheduled):
        return dataclasses.replace(problem, schedule=problem.schedule.within(t0, t1))
    return _rebuilt(problem, lambda original: within(original, t0, t1))


def between(problem: AbstractODE, t0: Scalar, t1: Scalar) -> AbstractODE:
    """The problem from `t0` to `t1`, with no node between them."""
    if isinstance(problem, Scheduled):
        return dataclasses.replace(problem, schedule=problem.schedule.between(t0, t1))
    return _rebuilt(problem, lambda original: between(original, t0, t1))


def prepared(problem: AbstractODE) -> AbstractODE:
    """The problem for a loop over many times: what does not depend on time is computed once."""
    if isinstance(problem, Scheduled):
        return dataclasses.replace(problem, schedule=problem.schedule.prepared())
    return _rebuilt(problem, prepared)


def as_solved(problem: AbstractODE) -> AbstractODE:
    """What a solver sees: the model itself, if no parameter of a problem `within` a time changes there."""
    if not isinstance(problem, Scheduled):
        return _rebuilt(problem, as_solved)
    numbers = problem.schedule.parameters
    if any(isinstance(each, AbstractTimeFunction) for each in numbers.values()):
        return problem
    return _with(problem.original, numbers)


def _rebuilt(problem: AbstractODE, change: Callable[[Any], Any]) -> AbstractODE:
    """A problem read in a calculus or seen as a process, made of another one."""
    if not isinstance(problem, Converted | ChemicalLangevin):
        return problem
    inner = change(problem.original)
    if inner is problem.original:
        return problem
    return Converted(inner, problem.calculus) if isinstance(problem, Converted) else ChemicalLangevin(inner)


def just_after(problem: AbstractODE, t: Scalar, start: Scalar, span: Scalar) -> AbstractODE:
    """The problem just after a time, also where rounding has put the time before a node."""
    return within(problem, t, t + _tiny(t, start, span))


def at_stop(problem: AbstractODE, t: Scalar, passed: Any, start: Scalar, span: Scalar) -> AbstractODE:
    """The problem at a time at which it stops: `passed` says of each function if a node there lies behind."""
    if isinstance(problem, Scheduled):
        numbers = problem.schedule.at_stop(t, passed, _tiny(t, start, span))
        return dataclasses.replace(problem, schedule=numbers)
    return _rebuilt(problem, lambda original: at_stop(original, t, passed, start, span))


def _tiny(t: Scalar, start: Scalar, span: Scalar) -> jax.Array:
    """A time beyond rounding of others in a run."""
    return 16 * jnp.finfo(jnp.result_type(t)).eps * (jnp.abs(start) + span)


def _at(problem: Scheduled, t) -> Any:
    """The model with its parameters at a time."""
    return _with(problem.original, {k: value_at(each, t) for k, each in problem.schedule.parameters.items()})


def _with(model: Any, numbers: Mapping[str, Any]) -> Any:
    if not numbers:
        return model
    return eqx.tree_at(lambda m: [getattr(m, name) for name in numbers], model, list(numbers.values()))
