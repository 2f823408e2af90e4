"""From the `solver` section, or from the model where there is none, to a solver that fits the problem."""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree
from simkit_physics import MODELS
from simkit_solvers.loops.step import DiffraxStep, stepper_for
from simkit_solvers.methods.registry import REFUSED, SOLVERS, in_calculus_of, make_solver, solver_elsewhere
from simkit_solvers.methods.solver_check import check_solver
from simkit_solvers.problems.langevin import AbstractUnderdampedLangevin
from simkit_solvers.problems.noise_check import check_noise
from simkit_solvers.problems.problem import AbstractODE, AbstractSDE, check_shapes
from simkit_solvers.problems.reaction_network import AbstractReactionNetwork, check_rates
from simkit_solvers.problems.schedule import model_of

from simkit.config.diagnostics import SettingError
from simkit.config.settings import Experiment, InlineNetwork, InlineSDE, Model, NamedModel, Solver
from simkit.ensemble.initial import fixed_value
from simkit.experiments.constants import Constants
from simkit.experiments.elsewhere import remedy_of_key
from simkit.experiments.sections.initial_plan import InitialValue
from simkit.experiments.sections.model_plan import ModelPlan
from simkit.machine.own_modules import not_entered
from simkit.suggestions import of_your_own, shown


def model_class(model: Model | None) -> type | None:
    """The class of a model that is named."""
    return MODELS.get(model.type) if isinstance(model, NamedModel) else None


def is_network(model: Model | None) -> bool:
    """Whether it is a network of reactions."""
    cls = model_class(model)
    return isinstance(model, InlineNetwork) or (cls is not None and issubclass(cls, AbstractReactionNetwork))


def usual_solver(model: Model, adaptive: bool) -> Solver:
    """The solver of a model that names none."""
    cls = model_class(model)
    if is_network(model):
        return Solver(type="DirectMethod")
    if cls is not None and issubclass(cls, AbstractUnderdampedLangevin):
        return Solver(type="BAOAB")
    if isinstance(model, InlineSDE):
        calculus = model.calculus
    elif cls is not None and issubclass(cls, AbstractSDE):
        calculus = getattr(cls, "calculus", None)  # a class that lacks it is refused
    else:
        return Solver(type="Tsit5")
    if calculus == "stratonovich":
        return Solver(type="EulerHeun")
    return Solver(type="Milstein" if adaptive else "EulerMaruyama")


def _instead_of(name: str, model: Model | None, problem: AbstractODE | None, adaptive: bool) -> str:
    """What to say after the name of a solver that is not here: one that fits the model, if others have it."""
    other = solver_elsewhere(name)
    if other is None:
        return not_entered(name, "solvers") or of_your_own(name, SOLVERS, "solvers")
    if model is None or problem is None:
        return f"; use {other}"
    try:
        check_solver(make_solver(other), problem)
    except ValueError:
        usual = usual_solver(model, adaptive).type
        return f"; use {usual}, which fits this model"
    return f"; use {other}"


def plan_solver(
    section: Solver | None,
    model: Model | None,
    plan: ModelPlan | None,
    initial: Mapping[str, InitialValue],
    constants: Constants,
    adaptive: bool,
) -> Any:
    """The solver with its options. Raises `SettingError` where its name or the model is wrong."""
    if section is None:
        return None
    name, options = section.type, dict(section.__pydantic_extra__ or {})
    if name not in SOLVERS:
        hint = _instead_of(name, model, None if plan is None else plan.problem, adaptive)
        reason = (
            f"{name} does not run on a fixed grid: {REFUSED[name]}"
            if name in REFUSED
            else f"unknown solver {shown(name)}{hint}"
        )
        raise SettingError(("solver", "type"), reason)
    sound = {}
    for key, value in options.items():
        try:
            make_solver(name, {key: value})
            sound[key] = value
        except ValueError as error:
            reason = str(error).removeprefix(f"{name}.{key}: ")
            known = key in SOLVERS[name].options
            other = None if known else remedy_of_key(("solver", key), Experiment)
            if other:
                reason = f"solver {name} has no option {key!r}; {other}"
            constants.diagnostics.add(("solver", key), reason, at_key=not known)
    solver = make_solver(name, sound)
    if plan is None or plan.problem is None:
        return solver
    state = _state(plan.problem, initial, constants)
    if state is not None:
        _check_state(plan.problem, state)
    equations_are_wrong = constants.diagnostics.at_or_below(("model", "sde"))  # and may lack their noise
    if not equations_are_wrong and not (adaptive and plan.problem.stochastic):
        with constants.diagnostics.collecting():
            _check_fit(solver, section, plan.problem, state)
    return solver


def _state(problem: AbstractODE, initial: Mapping[str, InitialValue], constants: Constants) -> Any:
    """A state to try the problem on, `None` where initial values are missing."""
    numbers = [fixed_value(value.bound(constants.values)) for value in initial.values()]
    return problem.State(*numbers) if len(numbers) == len(problem.State._fields) else None


_checked: set[Any] = set()  # kinds of problems and states, as at the points of a sweep


def _check_state(problem: AbstractODE, state: PyTree) -> None:
    leaves, structure = jax.tree.flatten((problem, state))
    kind = structure, tuple(map(np.shape, leaves))
    try:
        if kind not in _checked:
            model = model_of(problem)
            if isinstance(model, AbstractReactionNetwork):
                check_rates(model, state)
            check_shapes(problem, state)
            if not isinstance(problem, AbstractSDE) or check_noise(problem, state):
                _checked.add(kind)
    except ValueError as error:
        raise SettingError(("model", "type"), str(error)) from error


def _is_own(solver: Any) -> bool:
    """Whether the class of a solver is the user's, so that nobody has tried it before."""
    return type(solver).__module__.partition(".")[0] not in ("simkit_solvers", "diffrax")


def _check_fit(solver: Any, section: Solver, problem: AbstractODE, state: PyTree) -> None:
    try:
        if section.convert:
            problem = in_calculus_of(solver, problem)
        check_solver(solver, problem, state)
        stepper = stepper_for(solver)
        if isinstance(stepper, DiffraxStep) and _is_own(solver) and state is not None:
            stepper.check(problem, state)
    except ValueError as error:
        raise SettingError(("solver", "type"), str(error)) from error
