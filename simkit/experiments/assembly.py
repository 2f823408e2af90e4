"""From the sections of an experiment to a simulation that can run."""

import dataclasses

from simkit_solvers.problems.reaction_network import AbstractReactionNetwork

from simkit.config.diagnostics import Diagnostics, SettingError
from simkit.config.settings import (
    MAX_PATHS,
    Ensemble,
    Experiment,
    InlineHamiltonian,
    InlineNetwork,
    Model,
    NamedModel,
    RandomValue,
    Save,
)
from simkit.config.settings.values import bytes_of
from simkit.ensemble.simulation import STORED_PATHS, LevelPlan, Simulation
from simkit.experiments.binding import Binding
from simkit.experiments.constants import Constants
from simkit.experiments.defaults import default_paths
from simkit.experiments.inline.differential_plan import plan_differential
from simkit.experiments.inline.hamiltonian_plan import plan_hamiltonian
from simkit.experiments.inline.network_plan import plan_network
from simkit.experiments.sections.adaptive_plan import MakeGrid, is_adaptive, plan_adaptive, refuse_adaptive
from simkit.experiments.sections.curve_plan import plan_curves
from simkit.experiments.sections.derived_plan import plan_derived
from simkit.experiments.sections.event_plan import EventPlan, Span, plan_events, refuse_events
from simkit.experiments.sections.exercise_plan import refuse_too_many
from simkit.experiments.sections.functional_plan import Seen
from simkit.experiments.sections.importance_plan import with_importance
from simkit.experiments.sections.initial_plan import (
    plan_initial,
    plan_paths,
    refuse_seed,
    resolved_initial,
    starts_per_path,
)
from simkit.experiments.sections.initial_range import refuse_out_of_range, remark_totals
from simkit.experiments.sections.jump_plan import plan_jumps, refuse_jumps, seen_by, solves_jumps
from simkit.experiments.sections.level_plan import check_levels
from simkit.experiments.sections.model_plan import ModelPlan, plan_named
from simkit.experiments.sections.observable_plan import plan_observables
from simkit.experiments.sections.plot_plan import plan_plot
from simkit.experiments.sections.reduction_plan import plan_reduction, refuse_dimensions
from simkit.experiments.sections.schedule_plan import at_start, plan_schedule, refuse_jumps_inside
from simkit.experiments.sections.solver_plan import is_network, plan_solver
from simkit.experiments.sections.target_plan import check_target
from simkit.experiments.sections.time_plan import given_steps, plan_fixed, plan_span, refuse_float32
from simkit.experiments.sensitivity_names import check_sensitivity
from simkit.progress import counted


def assemble(experiment: Experiment, diagnostics: Diagnostics, *, of_paths: bool = True) -> Simulation | None:
    """The simulation of an experiment; what is wrong goes to `diagnostics`, and then there is none.

    A section is `None` where it cannot be read; the others are checked as far as they go without it. Unless
    it is `of_paths`, what their steps allow to monitor is not checked.
    """
    return _Assembly(experiment, diagnostics).simulation(of_paths)


class _Assembly:
    """The sections in the order in which they depend on each other; what is `None` is wrong or not known."""

    def __init__(self, experiment: Experiment, diagnostics: Diagnostics):
        self.experiment, self.diagnostics = experiment, diagnostics
        given = experiment.constants or {}
        names = dict.fromkeys([*diagnostics.written("constants"), *given])
        self.constants = constants = Constants(given, list(names), diagnostics)
        self.span: Span | None = None
        with diagnostics.collecting():
            self.span = plan_span(experiment.time, constants)
        self.ends: tuple[float, float] | None = None
        if self.span is not None:
            t0, t1 = self.span
            self.ends = float(t0(constants.values)), float(t1(constants.values))
        self.curves = plan_curves(experiment.curves, constants, self.ends)
        model, self.events = self.model()
        self.plan = seen_by(experiment.solver, model)
        self.initial = plan_initial(experiment.initial, self.plan, constants)
        self.problem = None if self.plan is None else self.plan.problem
        unnamed = experiment.solver is None and "solver" not in diagnostics.document.data
        self.jumps = solves_jumps(experiment.solver) or (unnamed and is_network(experiment.model))
        self.adaptive = not self.jumps and is_adaptive(experiment.time, diagnostics)
        self.stochastic = self.jumps or (self.problem is not None and self.problem.stochastic)
        self.solver = None
        with diagnostics.collecting():
            self.solver = plan_solver(
                experiment.solver, experiment.model, self.plan, self.initial, constants, self.adaptive
            )
        self.steps: int | None = None
        self.make_grid = self.grid()

    def simulation(self, of_paths: bool) -> Simulation | None:
        experiment, diagnostics, plan = self.experiment, self.diagnostics, self.plan
        seen = dataclasses.replace(self.seen(), of_paths=of_paths)
        observables, stops, info = plan_observables(experiment.observe, plan, self.constants, seen)
        derived = plan_derived(experiment.derived, plan, tuple(info), self.constants)
        picture = plan_plot(experiment.plot, plan, info, diagnostics)
        ensemble = self.ensemble()
        stored = 0
        with diagnostics.collecting():
            stored = _stored_paths(experiment.save, ensemble)
        for observable in observables:
            with diagnostics.collecting():
                refuse_too_many(observable, ensemble)
        if diagnostics.entries or plan is None or self.span is None or self.make_grid is None:
            return None
        binding = Binding(
            self.constants, plan, self.initial, self.span, self.make_grid, observables, stops, self.solver
        )
        check_sensitivity(experiment.sensitivity, binding.targets, plan, info, diagnostics)
        reduction = None
        if ensemble is not None and plan.problem is not None:
            names = [*info, *(each.name for each in derived), *plan.variables]
            check_target(ensemble, self.random, self.initial, names, diagnostics)
            fixed = not (self.jumps or self.adaptive)
            reduction = plan_reduction(ensemble, plan.problem, fixed, observables, info, diagnostics)
        if diagnostics.entries or ensemble is None or ensemble.paths is None:
            return None
        if starts_per_path(experiment.initial):
            initial = resolved_initial(experiment.initial, self.initial)
            experiment = experiment.model_copy(update={"initial": initial, "ensemble": ensemble})
        simulation = Simulation(
            run=binding({}),
            observables=info,
            paths=ensemble.paths,
            seed=ensemble.seed,
            precision=experiment.precision,
            normals=ensemble.normals,
            convert=experiment.solver is not None and experiment.solver.convert,
            chunk=ensemble.chunk,
            memory=None if ensemble.memory is None else bytes_of(ensemble.memory),
            failures=ensemble.failures,
            stored_paths=stored,
            quantiles=tuple(experiment.save.quantiles),
            devices=ensemble.devices,
            threads=ensemble.threads,
            picture=picture,
            constants=self.constants.values,
            targets=binding.targets,
            bind=binding,
            derived=derived,
            experiment=experiment,
            reduction=reduction,
            target=ensemble.target,
            levels=LevelPlan() if ensemble.method == "multilevel" else None,
        )
        simulation = with_importance(simulation, diagnostics)
        refuse_dimensions(simulation, diagnostics)
        check_levels(simulation, diagnostics)
        return None if diagnostics.entries else simulation

    def model(self) -> tuple[ModelPlan | None, tuple[EventPlan, ...]]:
        """The model with what changes with time, and the events."""
        experiment, constants, curves = self.experiment, self.constants, self.curves
        written = dict.fromkeys([*self.diagnostics.written("curves"), *(experiment.curves or ())])
        timed = constants.with_curves(written, at_start(curves, self.span, constants))
        plan = None
        with self.diagnostics.collecting():
            plan = _plan_model(experiment.model, timed)
        for name in timed.names:
            if (
                plan is not None and name in plan.variables and name != "t"
            ):  # of which the model has complained
                message = f"{name} is a state variable of the model; choose another name"
                self.diagnostics.add(timed.place(name), message, at_key=True)
        if plan is not None and curves.keys() != written.keys():
            plan = dataclasses.replace(plan, problem=None)
        events = plan_events(experiment.events, plan, constants, written, self.span)
        plan = plan_schedule(plan, curves, events, experiment.observe, self.span, constants)
        return plan, events

    def grid(self) -> MakeGrid | None:
        """How the grid follows from t0 and t1, and what the run cannot do on it."""
        experiment, constants, diagnostics = self.experiment, self.constants, self.diagnostics
        make_grid: MakeGrid | None = None
        unsolved = self.solver is None and experiment.solver is not None
        if "reactions" in diagnostics.written("model") and (experiment.model is None or unsolved):
            return None  # the keys of time depend on the solver, which is wrong or not known
        remark_totals(self.initial, self.problem, constants)
        if not self.jumps:
            refuse_out_of_range(self.initial, self.problem, constants)
        if self.jumps:
            if self.plan is None or not isinstance(self.problem, AbstractReactionNetwork | None):
                return None  # the model is wrong, or the solver not for it, which has been said
            make_grid = plan_jumps(experiment.time, experiment.save, diagnostics)
            refuse_jumps(experiment.solver, self.initial, experiment.observe, constants)
        elif self.adaptive:
            make_grid = plan_adaptive(experiment.time, experiment.save, experiment.precision, constants)
            convert = experiment.solver is not None and experiment.solver.convert
            refuse_adaptive(self.solver, self.plan, experiment.observe, convert, diagnostics)
        else:
            self.steps = given_steps(experiment.time, diagnostics)
            with diagnostics.collecting():
                refuse_float32(self.solver, self.steps, experiment.precision)
            with diagnostics.collecting():
                make_grid = plan_fixed(self.steps, experiment.save)
        if make_grid is not None and self.ends is not None:
            grid = make_grid(*self.ends, constants.values)
            with diagnostics.collecting():
                refuse_events(self.events, constants, grid, self.problem, self.solver, self.seen().moving)
            for name, curve in self.curves.items():
                with diagnostics.collecting():
                    refuse_jumps_inside(name, curve, grid)
        return make_grid

    def seen(self) -> Seen:
        """When a run sees its paths."""
        if self.jumps:
            moving = {"t", *(name for name, c in self.curves.items() if c.interpolation != "previous")}
            parameters = {} if self.plan is None else self.plan.expressions
            moving |= {name for name, text in parameters.items() if text.names & moving}
            return Seen("events", self.ends, moving=frozenset(moving))
        if not self.adaptive:
            return Seen("steps", self.ends, self.steps)
        save = self.experiment.save
        return Seen(
            "stochastic" if self.stochastic else "ordinary",
            self.ends,
            points=(save and save.points) or 1,
            triggered=tuple(event.name for event in self.events if event.triggered),
        )

    @property
    def random(self) -> bool:
        """Whether paths differ by chance."""
        starts = (self.experiment.initial or {}).values()
        return self.stochastic or any(isinstance(value, RandomValue) for value in starts)

    def ensemble(self) -> Ensemble | None:
        """The ensemble with its number of paths."""
        ensemble = self.experiment.ensemble
        if ensemble is None:
            return None
        default = None if self.diagnostics.entries else default_paths(ensemble) if self.random else 1
        with self.diagnostics.collecting():
            ensemble = plan_paths(ensemble, self.initial, default)
        with self.diagnostics.collecting():
            if self.stochastic:
                refuse_seed(ensemble, self.initial)
        return ensemble


def _plan_model(section: Model | None, constants: Constants) -> ModelPlan | None:
    match section:
        case None:
            return None
        case NamedModel():
            return plan_named(section, constants)
        case InlineHamiltonian():
            return plan_hamiltonian(section, constants)
        case InlineNetwork():
            return plan_network(section, constants)
        case _:
            return plan_differential(section, constants)


def _stored_paths(save: Save | None, ensemble: Ensemble | None) -> int:
    if save is None or ensemble is None or ensemble.paths is None:
        return 0
    most = ensemble.paths if ensemble.target is None else MAX_PATHS
    if save.paths == "all":
        return most
    if save.paths is None:
        return min(STORED_PATHS, most)
    if save.paths > most:
        message = f"must be at most the {counted(ensemble.paths, 'path')}, or all, got {save.paths}"
        raise SettingError(("save", "paths"), message)
    return int(save.paths)
