"""From the keys of `time` to a run with adaptive steps, and what such a run cannot do."""

from collections.abc import Callable, Mapping
from typing import Any, Literal

import diffrax
import numpy as np
from simkit_solvers.grids.adaptive_grid import MAX_STEPS, AdaptiveGrid, Tolerances
from simkit_solvers.grids.grid import Grid
from simkit_solvers.grids.jump_grid import JumpGrid
from simkit_solvers.methods.registry import in_calculus_of, info_of
from simkit_solvers.methods.solver_check import check_adaptive, check_adaptive_sde
from simkit_solvers.problems.problem import AbstractSDE

from simkit.config.diagnostics import Diagnostics
from simkit.config.settings import ObservableSettings, Save, Time
from simkit.experiments.constants import Constants
from simkit.experiments.sections.model_plan import ModelPlan
from simkit.expressions import Expression

TOLERANCES = ("rtol", "atol")
WITH_TOLERANCES = ("first_step", "max_steps")
RESOLUTIONS = 8  # an rtol of fewer units in the last place needs more than rounding leaves

MakeGrid = Callable[[Any, Any, Mapping[str, Any]], Grid | AdaptiveGrid | JumpGrid]


def given_keys(section: Time | None, diagnostics: Diagnostics) -> set[str]:
    """The keys of `time` that are written, or that have a default."""
    defaults = set() if section is None else {*section.model_dump(exclude_none=True)}
    return {*diagnostics.written("time"), *defaults}


def is_adaptive(section: Time | None, diagnostics: Diagnostics) -> bool:
    """Whether steps follow from tolerances. Keys of both kinds together, or of one in part, are errors."""
    keys = given_keys(section, diagnostics)
    tolerances = [key for key in TOLERANCES if key in keys]
    if "steps" in keys:
        for key in (*tolerances, *(key for key in WITH_TOLERANCES if key in keys)):
            message = "steps are given, and are of equal length; give steps, or rtol and atol"
            diagnostics.add(("time", key), message, at_key=True)
        return False
    for key in TOLERANCES if tolerances else ():
        if key not in keys:
            what = {
                "rtol": "the error allowed relative to a variable",
                "atol": "the error allowed where it is near zero",
            }[key]
            diagnostics.add_missing(("time", key), f"is missing; {what}")
    if not tolerances:
        for key in WITH_TOLERANCES:
            if key in keys:
                diagnostics.add(("time", key), "has no effect without rtol and atol", at_key=True)
    return bool(tolerances)


def plan_adaptive(
    section: Time | None,
    save: Save | None,
    precision: Literal["float32", "float64"] | None,
    constants: Constants,
) -> MakeGrid | None:
    """How the adaptive grid follows from t0, t1 and the constants."""
    diagnostics = constants.diagnostics
    if save is not None and save.every is not None:
        diagnostics.add(("save", "every"), "adaptive steps differ from path to path; give points")
    if section is None:
        return None
    rtol, atol, first_step = (_positive(section, key, constants) for key in (*TOLERANCES, "first_step"))
    if rtol is not None and precision is not None:
        finest = RESOLUTIONS * float(np.finfo(precision).eps)
        value = float(rtol(constants.values))
        if value >= 1:
            diagnostics.add(("time", "rtol"), f"must be below 1, got {value:g}: nothing would be refused")
        if value < finest:
            wider = ", or precision: float64" if precision == "float32" else ""
            message = f"{value:g} is finer than {precision} resolves; use at least {finest:.1g}{wider}"
            diagnostics.add(("time", "rtol"), message)
    if rtol is None or atol is None or save is None:
        return None
    points, max_steps = save.points or 1, section.max_steps or MAX_STEPS

    def make_grid(t0, t1, values: Mapping[str, Any]) -> AdaptiveGrid:
        tolerances = Tolerances(rtol(values), atol(values))
        first = None if first_step is None else first_step(values)
        return AdaptiveGrid(t0, t1, tolerances, first, points, max_steps)

    return make_grid


def refuse_adaptive(
    solver: diffrax.AbstractSolver | None,
    plan: ModelPlan | None,
    observe: Mapping[str, ObservableSettings] | None,
    convert: bool,
    diagnostics: Diagnostics,
) -> None:
    """What fits a fixed grid only: solvers without error estimate or with a wrong limit, early exercise."""
    problem = None if plan is None else plan.problem
    if solver is not None and problem is not None:
        try:
            if convert:
                problem = in_calculus_of(solver, problem)
            if isinstance(problem, AbstractSDE):
                check_adaptive_sde(solver, problem)
            else:
                check_adaptive(solver, problem)
        except ValueError as error:
            named = "solver" in diagnostics.document.data
            usual = "" if named else f"{info_of(solver).name} is what rtol and atol mean without a solver: "
            diagnostics.add(("solver", "type") if named else ("solver",), f"{usual}{error}")
    for name, settings in (observe or {}).items():
        if settings.early_exercise is not None:
            message = "adaptive steps have no common dates; give time.steps in place of rtol and atol"
            diagnostics.add(("observe", name, "early_exercise"), message)


def _positive(section: Time, key: str, constants: Constants) -> Expression | None:
    text = getattr(section, key)
    if text is None:
        return None
    number = constants.number(("time", key), text)
    if number is None:
        return None
    expression, value = number
    if not value > 0:
        constants.diagnostics.add(("time", key), f"must be positive, got {value:g}")
        return None
    return expression
