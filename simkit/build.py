"""From a checked experiment to a simulation that can run."""

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

from simkit_physics import MODELS
from simkit_solvers.grid import Grid
from simkit_solvers.problem import AbstractODE, AbstractSDE
from simkit_solvers.registry import REFUSED, SOLVERS, check_solver, make_solver

from simkit.closed_forms import CLOSED_FORMS
from simkit.documents import KeyPath
from simkit.expression import Expression, check_name
from simkit.fields import Constants, compiled, evaluated
from simkit.initial import Distribution
from simkit.mistakes import Mistakes
from simkit.model_plan import ModelPlan, plan_model
from simkit.observables import Observable, Observer
from simkit.settings import (
    Ensemble,
    Experiment,
    Initial,
    InlineODE,
    InlineSDE,
    NamedModel,
    ObservableSettings,
    RandomValue,
    Save,
    Solver,
    Time,
)
from simkit.simulation import ObservableInfo, Simulation
from simkit.suggestion import did_you_mean, shown


@dataclasses.dataclass(frozen=True)
class Parts:
    """The sections of an experiment, `None` where one could not be read."""

    constants: dict[str, float | str] | None
    model: NamedModel | InlineSDE | InlineODE | None
    initial: dict[str, Initial] | None
    solver: Solver | None
    time: Time | None
    ensemble: Ensemble | None
    precision: str | None
    save: Save | None
    observe: dict[str, ObservableSettings] | None

    @staticmethod
    def of(experiment: Experiment) -> "Parts":
        """The sections of a valid experiment."""
        return Parts(**{field.name: getattr(experiment, field.name) for field in dataclasses.fields(Parts)})


class Bound(NamedTuple):
    """What depends on the constants."""

    problem: AbstractODE
    observer: Observer
    initial: dict[str, Any]
    grid: Grid


def build(experiment: Experiment) -> Simulation:
    """The simulation of an experiment. Raises `InputError` with every mistake in it.

    `simulation.bind({"r": value, …})` gives problem, observer, initial values and grid for other constants, also
    traced ones; constants defined by others follow them.
    """
    mistakes = Mistakes(experiment.document)
    simulation = assemble(Parts.of(with_defaults(experiment)), mistakes)
    mistakes.raise_if_any()
    if simulation is None:
        raise RuntimeError("an experiment without mistakes must give a simulation")
    return simulation


def with_defaults(experiment: Experiment) -> Experiment:
    """The experiment with the defaults that depend on its model filled in."""
    changes: dict[str, Any] = {}
    model = experiment.model
    cls = MODELS.get(model.type) if isinstance(model, NamedModel) else None
    stochastic = isinstance(model, InlineSDE) or (cls is not None and issubclass(cls, AbstractSDE))
    if experiment.solver is None:
        calculus = model.calculus if isinstance(model, InlineSDE) else getattr(cls, "calculus", "any")
        ito = "EulerHeun" if calculus == "stratonovich" else "EulerMaruyama"
        changes["solver"] = Solver(type=ito if stochastic else "Tsit5")
    if experiment.ensemble.paths is None:
        random = stochastic or any(isinstance(value, RandomValue) for value in experiment.initial.values())
        changes["ensemble"] = experiment.ensemble.model_copy(update={"paths": 10_000 if random else 1})
    if experiment.save.points is None and experiment.save.every is None:
        changes["save"] = experiment.save.model_copy(update={"points": 1})
    if not changes:
        return experiment
    changed = experiment.model_copy(update=changes)
    changed._document = experiment._document
    return changed


def assemble(parts: Parts, mistakes: Mistakes) -> Simulation | None:
    """The simulation of the sections; every mistake in them goes to the list, and then there is none."""
    given = mistakes.document.data.get("constants")
    names = dict.fromkeys([*(parts.constants or {}), *(given if isinstance(given, dict) else ())])
    constants = Constants(parts.constants or {}, list(names), mistakes)
    plan = plan_model(parts.model, constants, mistakes)
    initial = _initial(parts.initial, plan, constants, mistakes)
    span = _time(parts.time, constants, mistakes)
    every = _saved_every(parts.time, parts.save, mistakes)
    solver = _solver(parts.solver, plan, initial, constants, mistakes)
    observables, info = _observables(parts, plan, constants, span, mistakes)
    stored = _stored_paths(parts.save, parts.ensemble, mistakes)
    if mistakes.found or plan is None or plan.problem is None or span is None or every is None:
        return None
    time, ensemble, save = parts.time, parts.ensemble, parts.save
    if time is None or ensemble is None or save is None or parts.precision is None or solver is None:
        return None
    static = tuple(observables)
    steps = time.steps

    def bind(given: Mapping[str, Any]) -> Bound:
        values = constants.bound(given)
        t0, t1 = (end(values) for end in span)
        return Bound(
            problem=plan.bound(values),
            observer=Observer(_used_constants(static, values, plan), static),
            initial={name: value(values) for name, value in initial.items()},
            grid=Grid(t0, (t1 - t0) / steps, steps, every),
        )

    bound = bind({})
    return Simulation(
        problem=bound.problem,
        solver=solver,
        grid=bound.grid,
        initial=bound.initial,
        observer=bound.observer,
        observables=info,
        paths=ensemble.paths or 1,
        seed=ensemble.seed,
        precision=parts.precision,
        normals=ensemble.normals,
        chunk=ensemble.chunk,
        failures=ensemble.failures,
        stored_paths=stored,
        quantiles=tuple(save.quantiles),
        devices=ensemble.devices,
        constants=constants.values,
        bind=bind,
    )


def _used_constants(observables, values: Mapping[str, Any], plan: ModelPlan) -> dict[str, Any]:
    used = {name for observable in observables for name in observable.expression.names}
    return {name: value for name, value in values.items() if name in used and name not in plan.parameters}


@dataclasses.dataclass(frozen=True)
class _Law:
    """An initial value as a function of the constants."""

    kind: str
    numbers: tuple[Expression, ...]

    def __call__(self, constants: Mapping[str, Any]):
        values = [number(constants) for number in self.numbers]
        return Distribution(self.kind, *values) if self.kind else values[0]


def _initial(
    section: dict[str, Initial] | None, plan: ModelPlan | None, constants: Constants, mistakes: Mistakes
) -> dict[str, _Law]:
    laws = {}
    for name, value in (section or {}).items():
        path = ("initial", name)
        if plan is not None and name not in plan.variables:
            rest = [known for known in plan.variables if known not in (section or {})]
            hint = did_you_mean(name, rest or plan.variables)
            mistakes.add(path, f"unknown variable of the model{hint}", at_key=True)
        law = _law(value, path, constants, mistakes)
        if law is not None:
            laws[name] = law
    if plan is None:
        return laws
    if section is not None:
        for name in plan.variables:
            if name not in section:
                mistakes.add_missing(("initial", name), f"is missing; the value of {name} at t0")
    return {name: laws[name] for name in plan.variables if name in laws}


def _law(value: Initial, path: KeyPath, constants: Constants, mistakes: Mistakes) -> _Law | None:
    if not isinstance(value, RandomValue):
        expression = compiled(mistakes, path, value, constants.names)
        number = evaluated(mistakes, path, expression, constants.values)
        return None if number is None or expression is None else _Law("", (expression,))
    given = {kind: pair for kind, pair in value if pair is not None}
    if len(given) != 1:
        mistakes.add_missing(path, "must have exactly one of normal, lognormal and uniform")
        return None
    ((kind, pair),) = given.items()
    expressions = [compiled(mistakes, (*path, kind, i), x, constants.names) for i, x in enumerate(pair)]
    numbers = [evaluated(mistakes, (*path, kind, i), e, constants.values) for i, e in enumerate(expressions)]
    law = _Law(kind, tuple(e for e in expressions if e is not None))
    if any(number is None for number in numbers):
        return None
    try:
        law(constants.values)
    except ValueError as error:
        mistakes.add((*path, kind), str(error).removeprefix(f"{kind}: "))
        return None
    return law


def _time(
    section: Time | None, constants: Constants, mistakes: Mistakes
) -> tuple[Expression, Expression] | None:
    if section is None:
        return None
    ends = {}
    numbers = {}
    for key, text in (("t0", section.t0), ("t1", section.t1)):
        ends[key] = compiled(mistakes, ("time", key), text, constants.names)
        numbers[key] = evaluated(mistakes, ("time", key), ends[key], constants.values)
    t0, t1 = numbers["t0"], numbers["t1"]
    if t0 is None or t1 is None or ends["t0"] is None or ends["t1"] is None:
        return None
    if t1 <= t0:
        mistakes.add(("time", "t1"), f"must be after t0 = {t0:g}, got {t1:g}")
        return None
    return ends["t0"], ends["t1"]


def _saved_every(time: Time | None, save: Save | None, mistakes: Mistakes) -> int | None:
    """Steps between saved rows."""
    if time is None or save is None:
        return None
    steps = time.steps
    if save.points is not None and save.every is not None:
        mistakes.add(("save", "every"), "give points or every, not both")
        return None
    key, count = ("every", save.every) if save.every is not None else ("points", save.points or 1)
    if steps % count == 0:
        return count if key == "every" else steps // count
    below, above = steps // count * count, (steps // count + 1) * count
    numbers = sorted({_divisor(steps, count, -1), _divisor(steps, count, 1)})
    mistakes.add(
        ("save", key),
        f"{count} does not divide the {steps} steps; take {key}: {' or '.join(map(str, numbers))}, or "
        f"steps: {' or '.join(str(n) for n in (below, above) if n > 0)}",
    )
    return None


def _divisor(steps: int, near: int, direction: int) -> int:
    """The divisor of steps closest to a number from one side, and steps itself where there is none."""
    number = min(near, steps)
    while steps % number:
        number += direction
    return number


def _solver(
    section: Solver | None, plan: ModelPlan | None, initial, constants: Constants, mistakes: Mistakes
):
    if section is None:
        return None
    name, options = section.type, dict(section.__pydantic_extra__ or {})
    if name not in SOLVERS:
        reason = (
            f"{name} does not run on a fixed grid: {REFUSED[name]}"
            if name in REFUSED
            else f"unknown solver {shown(name)}{did_you_mean(name, SOLVERS)}"
        )
        mistakes.add(("solver", "type"), reason)
        return None
    sound = True
    for key, value in options.items():
        try:
            make_solver(name, {key: value})
        except ValueError as error:
            mistakes.add(("solver", key), str(error), at_key=key not in SOLVERS[name].options)
            sound = False
    if not sound:
        return None
    solver = make_solver(name, options)
    if plan is not None and plan.problem is not None:
        values = {name: law(constants.values) for name, law in initial.items()}
        numbers = [value.a if isinstance(value, Distribution) else value for value in values.values()]
        try:
            complete = len(numbers) == len(plan.variables)
            check_solver(solver, plan.problem, plan.problem.State(*numbers) if complete else None)
        except ValueError as error:
            mistakes.add(("solver", "type"), str(error))
    return solver


def _observables(
    parts: Parts,
    plan: ModelPlan | None,
    constants: Constants,
    span: tuple[Expression, Expression] | None,
    mistakes: Mistakes,
) -> tuple[list[Observable], dict[str, ObservableInfo]]:
    observables: list[Observable] = []
    info: dict[str, ObservableInfo] = {}
    fixed = None if plan is None else {*plan.parameters, *constants.names, "t"}
    for name, section in (parts.observe or {}).items():
        path = ("observe", name)
        reason = check_name(name)
        if plan is not None and name in plan.variables:
            reason = f"{name} is a state variable, whose statistics are given anyway; choose another name"
        if reason:
            mistakes.add(path, reason, at_key=True)
        allowed = None if fixed is None or plan is None else [*plan.variables, *fixed]
        value = compiled(mistakes, (*path, "value"), section.value, allowed, functionals=True)
        if plan is not None:
            plan.check_ambiguous(mistakes, (*path, "value"), value)
        if value is not None:
            _check_every(section, value, parts.time, path, mistakes)
        exact = None
        if section.exact is not None:
            exact = _exact(section.exact, (*path, "exact"), fixed, plan, constants, span, mistakes)
        if value is not None:
            observables.append(Observable(name, value, section.every))
            info[name] = ObservableInfo(section.unit, value.text, section.at, exact)
    return observables, info


def _check_every(
    section: ObservableSettings, value: Expression, time: Time | None, path: KeyPath, mistakes: Mistakes
) -> None:
    every = section.every
    if every is None:
        return
    if not value.functionals:
        mistakes.add((*path, "every"), "has no effect: value has no mean, max, min or integral")
    elif time is not None and every > time.steps:
        mistakes.add((*path, "every"), f"must be at most the {time.steps} steps, got {every}")
    elif time is not None and time.steps % every and any(f.kind == "integral" for f in value.functionals):
        mistakes.add(
            (*path, "every"),
            f"{every} does not divide the {time.steps} steps, so the integral would end early",
        )


def _exact(
    text, path: KeyPath, names, plan: ModelPlan | None, constants: Constants, span, mistakes: Mistakes
):
    expression = compiled(mistakes, path, text, names, closed_forms=CLOSED_FORMS)
    if plan is None or expression is None:
        return None
    plan.check_ambiguous(mistakes, path, expression)
    values = {**constants.values, **plan.values}
    if span is not None:
        values["t"] = float(span[1](constants.values))
    return evaluated(mistakes, path, expression, values)


def _stored_paths(save: Save | None, ensemble: Ensemble | None, mistakes: Mistakes) -> int:
    if save is None or ensemble is None or ensemble.paths is None:
        return 0
    if save.paths == "all":
        return ensemble.paths
    if save.paths > ensemble.paths:
        mistakes.add(
            ("save", "paths"), f"must be at most the {ensemble.paths} paths, got {save.paths}; or: all"
        )
    return int(save.paths)
