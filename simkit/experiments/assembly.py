"""From a checked experiment to a simulation that can run."""

import dataclasses
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from simkit_physics import MODELS
from simkit_solvers.grids.adaptive_grid import AdaptiveGrid
from simkit_solvers.grids.grid import LONG, Grid
from simkit_solvers.grids.jump_grid import JumpGrid
from simkit_solvers.loops.compensated import check_float32
from simkit_solvers.methods.registry import REFUSED, SOLVERS, check_solver, make_solver
from simkit_solvers.problems.calculus import in_calculus
from simkit_solvers.problems.langevin import AbstractUnderdampedLangevin
from simkit_solvers.problems.noise_check import check_noise
from simkit_solvers.problems.problem import AbstractODE, AbstractSDE, check_shapes
from simkit_solvers.problems.reaction_network import AbstractReactionNetwork

from simkit.config.diagnostics import Mistakes
from simkit.config.settings import (
    MAX_STEPS,
    CurveSettings,
    DerivedSettings,
    Ensemble,
    EventSettings,
    Experiment,
    Initial,
    InlineHamiltonian,
    InlineNetwork,
    InlineODE,
    InlineSDE,
    NamedModel,
    ObservableSettings,
    Plot,
    RandomValue,
    Save,
    Sensitivity,
    Solver,
    Time,
)
from simkit.ensemble.initial import fixed_value
from simkit.ensemble.simulation import STORED_PATHS, Simulation
from simkit.experiments.constants import Constants, compiled, evaluated
from simkit.experiments.divisors import does_not_divide
from simkit.experiments.inline.hamiltonian_plan import plan_hamiltonian
from simkit.experiments.inline.inline_network_plan import plan_network
from simkit.experiments.inline.inline_plan import plan_inline
from simkit.experiments.inline.reaction_plan import (
    plan_jumps,
    refuse_jumps,
    seen_by,
    solves_jumps,
    takes_langevin,
)
from simkit.experiments.sections.adaptive_plan import MakeGrid, is_adaptive, plan_adaptive, refuse_adaptive
from simkit.experiments.sections.curve_plan import CurvePlan, plan_curves
from simkit.experiments.sections.derived_plan import plan_derived
from simkit.experiments.sections.exercise_plan import dates_of, refuse_too_many
from simkit.experiments.sections.functional_plan import Seen
from simkit.experiments.sections.initial_plan import (
    InitialValue,
    plan_initial,
    plan_paths,
    refuse_seed,
    resolved_initial,
    starts_per_path,
)
from simkit.experiments.sections.initial_range import refuse_out_of_range
from simkit.experiments.sections.model_plan import ModelPlan, plan_named
from simkit.experiments.sections.observable_plan import plan_observables
from simkit.experiments.sections.plot_plan import plan_plot
from simkit.experiments.sections.schedule_plan import (
    at_start,
    plan_events,
    plan_schedule,
    refuse_events,
    refuse_jumps_inside,
)
from simkit.experiments.sensitivity_names import check_sensitivity
from simkit.expressions.expression import Expression
from simkit.observe.observables import Observer
from simkit.suggestions import did_you_mean, shown

PATHS = 10_000  # unless said otherwise, where they differ

ModelSection = NamedModel | InlineSDE | InlineODE | InlineHamiltonian | InlineNetwork


@dataclasses.dataclass(frozen=True)
class Parts:
    """The sections of an experiment, `None` where one could not be read."""

    constants: dict[str, float | str] | None
    curves: dict[str, CurveSettings] | None
    model: ModelSection | None
    initial: dict[str, Initial] | None
    solver: Solver | None
    time: Time | None
    events: dict[str, EventSettings] | None
    ensemble: Ensemble | None
    precision: Literal["float32", "float64"] | None
    save: Save | None
    observe: dict[str, ObservableSettings] | None
    derived: dict[str, DerivedSettings] | None
    plot: Plot | None
    sensitivity: Sensitivity | None

    @staticmethod
    def of(experiment: Experiment) -> "Parts":
        """The sections of a valid experiment."""
        return Parts(**{field.name: getattr(experiment, field.name) for field in dataclasses.fields(Parts)})


class Bound(NamedTuple):
    """What depends on the constants."""

    problem: AbstractODE
    observer: Observer
    initial: dict[str, Any]
    grid: Grid | AdaptiveGrid | JumpGrid


def build(experiment: Experiment) -> Simulation:
    """The simulation of an experiment. Raises `InputError` with every mistake in it.

    `simulation.bind({"r": value, …})` gives problem, observer, initial values and grid for other constants,
    traced ones too; constants defined by others follow them. Beside constants, all that `simulation.targets`
    names can be given: a parameter as `model.sigma`, an initial value as `initial.S`, an end of time as
    `time.t1`. `simulation.bind({"r": value}, {"model.mu": 0.01})` adds to what the constants give the second.
    """
    mistakes = Mistakes(experiment.document)
    assembled = assemble(Parts.of(with_defaults(experiment)), mistakes)
    mistakes.raise_if_any()
    if assembled is None:
        raise RuntimeError("an experiment without mistakes must give a simulation")
    return assembled.simulation


def with_defaults(experiment: Experiment) -> Experiment:
    """The experiment with the defaults that depend on its model filled in."""
    changes: dict[str, Any] = {}
    model = experiment.model
    cls = MODELS.get(model.type) if isinstance(model, NamedModel) else None
    stochastic = isinstance(model, InlineSDE) or (cls is not None and issubclass(cls, AbstractSDE))
    if experiment.solver is None:
        changes["solver"] = _usual_solver(model, cls, experiment.time.steps is None)
    if _is_network(model):
        solver = changes.get("solver", experiment.solver)
        stochastic = solves_jumps(solver) or takes_langevin(solver)
    if experiment.ensemble.paths is None and not starts_per_path(experiment.initial):
        random = stochastic or any(isinstance(value, RandomValue) for value in experiment.initial.values())
        changes["ensemble"] = experiment.ensemble.model_copy(update={"paths": PATHS if random else 1})
    if experiment.save.points is None and experiment.save.every is None:
        changes["save"] = experiment.save.model_copy(update={"points": 1})
    if not changes:
        return experiment
    changed = experiment.model_copy(update=changes)
    changed._document = experiment._document
    return changed


def _is_network(model: ModelSection | None) -> bool:
    cls = MODELS.get(model.type) if isinstance(model, NamedModel) else None
    return isinstance(model, InlineNetwork) or (cls is not None and issubclass(cls, AbstractReactionNetwork))


def _usual_solver(model: ModelSection, cls: type | None, adaptive: bool) -> Solver:
    """The solver of a model that names none."""
    if _is_network(model):
        return Solver(type="DirectMethod")
    if cls is not None and issubclass(cls, AbstractUnderdampedLangevin):
        return Solver(type="BAOAB")
    if isinstance(model, InlineSDE):
        calculus = model.calculus
    elif cls is not None and issubclass(cls, AbstractSDE):
        calculus = cls.calculus
    else:
        return Solver(type="Tsit5")
    if calculus == "stratonovich":
        return Solver(type="EulerHeun")
    return Solver(type="Milstein" if adaptive else "EulerMaruyama")


class Assembled(NamedTuple):
    """A simulation, and the sections that were completed by what stands in files."""

    simulation: Simulation
    completed: dict[str, Any]


def assemble(parts: Parts, mistakes: Mistakes) -> Assembled | None:
    """The simulation of the sections; every mistake in them goes to the list, and then there is none."""
    raw = mistakes.document.data.get("constants")
    written: dict[str, Any] = raw if isinstance(raw, dict) else {}
    names: dict[str, None] = dict.fromkeys([*written, *(parts.constants or {})])
    constants = Constants(parts.constants or {}, list(names), mistakes)
    span = _span(parts.time, constants, mistakes)
    ends = None if span is None else (float(span[0](constants.values)), float(span[1](constants.values)))
    curves = plan_curves(parts.curves, constants, ends, mistakes)
    raw = mistakes.document.data.get("curves")
    written = dict.fromkeys([*(raw if isinstance(raw, dict) else ()), *(parts.curves or ())])
    timed = constants.beside(written, at_start(curves, span, constants))
    model = _model(parts.model, timed, mistakes)
    if model is not None and curves.keys() != written.keys():
        model = dataclasses.replace(model, problem=None)
    events = plan_events(parts.events, model, constants, written, span, mistakes)
    model = plan_schedule(model, curves, events, parts.observe, span, constants, mistakes)
    plan = seen_by(parts.solver, model)
    initial = plan_initial(parts.initial, plan, constants, mistakes)
    unnamed = parts.solver is None and "solver" not in mistakes.document.data
    jumps = solves_jumps(parts.solver) or (unnamed and _is_network(parts.model))
    adaptive = not jumps and is_adaptive(parts.time, mistakes)
    solver = _solver(parts.solver, plan, initial, constants, adaptive, mistakes)
    if not jumps:
        refuse_out_of_range(initial, None if plan is None else plan.problem, constants, mistakes)
    if jumps and plan is not None and not isinstance(plan.problem, AbstractReactionNetwork | None):
        steps = make_grid = None  # the solver is not for this model, which has been said
    elif jumps:
        steps = None
        make_grid = plan_jumps(parts.time, parts.save, mistakes)
        refuse_jumps(parts.solver, initial, parts.observe, constants, mistakes)
    elif adaptive:
        steps = None
        make_grid = plan_adaptive(parts.time, parts.save, parts.precision, constants, mistakes)
        convert = parts.solver is not None and parts.solver.convert
        refuse_adaptive(solver, plan, parts.observe, convert, mistakes)
    else:
        steps = _steps(parts.time, mistakes)
        _refuse_float32(solver, steps, parts.precision, mistakes)
        make_grid = _plan_fixed(steps, parts.save, mistakes)
    if make_grid is not None and ends is not None:
        stochastic = plan is not None and isinstance(plan.problem, AbstractSDE)
        grid = make_grid(*ends, constants.values)
        refuse_events(events, constants, grid, stochastic, mistakes)
        refuse_jumps_inside(curves, grid, mistakes)
    seen = _seen(plan, jumps, adaptive, ends, steps, parts.save, curves)
    observables, stops, info = plan_observables(parts.observe, plan, constants, seen, mistakes)
    derived = plan_derived(parts.derived, plan, tuple(info), constants, mistakes)
    picture = plan_plot(parts.plot, plan, info, mistakes)
    stochastic = jumps or (plan is not None and isinstance(plan.problem, AbstractSDE))
    random = stochastic or any(isinstance(value, RandomValue) for value in (parts.initial or {}).values())
    ensemble, save = plan_paths(parts.ensemble, initial, PATHS if random else 1, mistakes), parts.save
    refuse_seed(ensemble, initial, stochastic, mistakes)
    stored = _stored_paths(save, ensemble, mistakes)
    refuse_too_many(observables, ensemble, mistakes)
    if mistakes.found or plan is None or span is None or make_grid is None:
        return None
    if ensemble is None or ensemble.paths is None or save is None or parts.precision is None:
        return None
    if solver is None:
        return None

    used = {name for observable in observables for name in observable.names}
    shared = [name for name in constants.values if name in used and name not in plan.parameters]

    single = {name: value for name, value in initial.items() if value.kind is None and value.rows is None}
    ends = {"time.t0": span[0], "time.t1": span[1]}
    given_by: dict[str, Callable[[Mapping[str, Any]], Any]] = {
        **{f"model.{n}": text for n, text in plan.expressions.items() if n not in plan.changing},
        **{f"initial.{n}": value.bound for n, value in single.items()},
        **ends,
    }
    targets = constants.values | {name: float(of(constants.values)) for name, of in given_by.items()}

    check_sensitivity(parts.sensitivity, targets, plan, info, mistakes)
    if mistakes.found:
        return None

    def bind(given: Mapping[str, Any], added: Mapping[str, Any] = MappingProxyType({})) -> Bound:
        dotted = {name: value for name, value in given.items() if "." in name}
        unknown = (dotted.keys() - targets.keys()) | (added.keys() - given_by.keys())
        if unknown:
            raise KeyError(f"nothing is called {min(unknown)!r}; there are: {', '.join(targets)}")
        values = constants.bound({n: x for n, x in given.items() if n not in dotted})
        values = values | {name: given_by[name](values) + x for name, x in added.items()} | dotted
        grid = make_grid(*(values.get(name, end(values)) for name, end in ends.items()), values)
        return Bound(
            problem=plan.bound(values, grid),
            observer=Observer(
                {name: values[name] for name in shared},
                observables,
                dates=dates_of(observables, span, values),
                fractions=stops,
            ),
            initial={n: values.get(f"initial.{n}", value.bound(values)) for n, value in initial.items()},
            grid=grid,
        )

    bound = bind({})
    completed: dict[str, Any] = {}
    if parts.initial is not None and starts_per_path(parts.initial):
        completed = {"initial": resolved_initial(parts.initial, initial), "ensemble": ensemble}
    simulation = Simulation(
        problem=bound.problem,
        solver=solver,
        grid=bound.grid,
        initial=bound.initial,
        observer=bound.observer,
        observables=info,
        paths=ensemble.paths,
        seed=ensemble.seed,
        precision=parts.precision,
        normals=ensemble.normals,
        convert=parts.solver is not None and parts.solver.convert,
        chunk=ensemble.chunk,
        failures=ensemble.failures,
        stored_paths=stored,
        quantiles=tuple(save.quantiles),
        devices=ensemble.devices,
        threads=ensemble.threads,
        picture=picture,
        constants=constants.values,
        targets=targets,
        bind=bind,
        derived=derived,
    )
    return Assembled(simulation, completed)


def _seen(
    plan: ModelPlan | None,
    jumps: bool,
    adaptive: bool,
    ends: tuple[float, float] | None,
    steps: int | None,
    save: Save | None,
    curves: Mapping[str, CurvePlan],
) -> Seen:
    """When a run sees its paths."""
    if jumps:
        moving = {name for name, curve in curves.items() if curve.interpolation != "previous"}
        return Seen("events", ends, moving=frozenset({"t", *moving}))
    if not adaptive:
        return Seen("steps", ends, steps)
    stochastic = plan is not None and isinstance(plan.problem, AbstractSDE)
    return Seen("stochastic" if stochastic else "ordinary", ends, points=(save and save.points) or 1)


def _model(section: ModelSection | None, constants: Constants, mistakes: Mistakes) -> ModelPlan | None:
    if section is None:
        return None
    if isinstance(section, NamedModel):
        plan = plan_named(section, constants, mistakes)
    elif isinstance(section, InlineHamiltonian):
        plan = plan_hamiltonian(section, constants, mistakes)
    elif isinstance(section, InlineNetwork):
        plan = plan_network(section, constants, mistakes)
    else:
        plan = plan_inline(section, constants, mistakes)
    for name in constants.names:
        if plan is not None and name in plan.variables and name != "t":  # of which the model has complained
            message = f"{name} is a state variable of the model; choose another name"
            mistakes.add(constants.place(name), message, at_key=True)
    return plan


def _span(
    section: Time | None, constants: Constants, mistakes: Mistakes
) -> tuple[Expression, Expression] | None:
    """The two ends of time."""
    if section is None:
        return None
    first = compiled(mistakes, ("time", "t0"), section.t0, constants.names)
    last = compiled(mistakes, ("time", "t1"), section.t1, constants.names)
    t0 = evaluated(mistakes, ("time", "t0"), first, constants.values)
    t1 = evaluated(mistakes, ("time", "t1"), last, constants.values)
    if t0 is None or t1 is None or first is None or last is None:
        return None
    if t1 <= t0:
        mistakes.add(("time", "t1"), f"must be after t0 = {t0:g}, got {t1:g}")
        return None
    return first, last


def _plan_fixed(steps: int | None, save: Save | None, mistakes: Mistakes) -> MakeGrid | None:
    """How the fixed grid follows from t0 and t1."""
    every = _saved_every(steps, save, mistakes)
    if steps is None or every is None:
        return None
    return lambda t0, t1, values: Grid(t0, (t1 - t0) / steps, steps, every)


def _steps(section: Time | None, mistakes: Mistakes) -> int | None:
    """The steps, also of a section in which something else is wrong."""
    if section is not None:
        if section.steps is None:
            mistakes.add_missing(("time", "steps"), "is missing; steps of equal length between t0 and t1")
        return section.steps
    raw = mistakes.document.data.get("time")
    steps = raw.get("steps") if isinstance(raw, dict) else None
    if isinstance(steps, bool) or not isinstance(steps, int):
        return None
    return steps if 1 <= steps <= MAX_STEPS else None


def _refuse_float32(solver, steps: int | None, precision: str | None, mistakes: Mistakes) -> None:
    """A solver whose state float32 would lose over so many steps."""
    if precision == "float32" and solver is not None and steps is not None and steps > LONG:
        try:
            check_float32(solver)
        except ValueError as error:
            mistakes.add(("precision",), str(error))


def _saved_every(steps: int | None, save: Save | None, mistakes: Mistakes) -> int | None:
    """Steps between saved rows."""
    if steps is None or save is None:
        return None
    if save.points is not None and save.every is not None:
        mistakes.add(("save", "every"), "give points or every, not both")
        return None
    key, count = ("every", save.every) if save.every is not None else ("points", save.points or 1)
    if steps % count == 0:
        return count if key == "every" else steps // count
    mistakes.add(("save", key), does_not_divide(key, count, steps))
    return None


def _solver(
    section: Solver | None,
    plan: ModelPlan | None,
    initial: dict[str, InitialValue],
    constants: Constants,
    adaptive: bool,
    mistakes: Mistakes,
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
    sound = {}
    for key, value in options.items():
        try:
            make_solver(name, {key: value})
            sound[key] = value
        except ValueError as error:
            reason = str(error).removeprefix(f"{name}.{key}: ")
            mistakes.add(("solver", key), reason, at_key=key not in SOLVERS[name].options)
    solver = make_solver(name, sound)
    problem = None if plan is None else plan.problem
    if plan is None or problem is None:
        return solver
    values = [value.bound(constants.values) for value in initial.values()]
    numbers = [fixed_value(value) for value in values]
    complete = len(numbers) == len(plan.variables) == len(problem.State._fields)
    if complete:
        try:
            check_shapes(problem, problem.State(*numbers))
            if isinstance(problem, AbstractSDE):
                check_noise(problem, problem.State(*numbers))
        except ValueError as error:
            mistakes.add(("model", "type"), str(error))
            return None
    if not (adaptive and isinstance(problem, AbstractSDE)):
        try:
            if section.convert and isinstance(problem, AbstractSDE):
                problem = in_calculus(problem, SOLVERS[name].calculus or "any")
            check_solver(solver, problem, problem.State(*numbers) if complete else None)
        except ValueError as error:
            mistakes.add(("solver", "type"), str(error))
    return solver


def _stored_paths(save: Save | None, ensemble: Ensemble | None, mistakes: Mistakes) -> int:
    if save is None or ensemble is None or ensemble.paths is None:
        return 0
    if save.paths == "all":
        return ensemble.paths
    if save.paths is None:
        return min(STORED_PATHS, ensemble.paths)
    if save.paths > ensemble.paths:
        message = f"must be at most the {ensemble.paths} paths, or all, got {save.paths}"
        mistakes.add(("save", "paths"), message)
    return int(save.paths)
