"""From the `observe` section to compiled observables."""

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from simkit_solvers.problems.jump_diffusion import AbstractJumpDiffusion

from simkit.closed_forms import CLOSED_FORMS
from simkit.config.diagnostics import Diagnostics
from simkit.config.documents import KeyPath
from simkit.config.python_data import PYTHON
from simkit.config.settings import ObservableSettings
from simkit.ensemble.simulation import ObservableInfo
from simkit.experiments.constants import Constants
from simkit.experiments.sections.exercise_plan import plan_exercise
from simkit.experiments.sections.functional_plan import (
    Seen,
    check_functionals,
    dates_of_functionals,
    with_dates,
)
from simkit.experiments.sections.model_plan import ModelPlan
from simkit.expressions import (
    Expression,
    check_spelling,
    python_expression,
    takes_three,
    what_is_wrong,
)
from simkit.expressions.functions import NUMBERS
from simkit.observe.observable import Observable
from simkit.results.result_names import clash


class PlannedObservables(NamedTuple):
    """The observables, the times of `at(x, s)` where paths have no common steps, and what results say."""

    observables: tuple[Observable, ...]
    stops: tuple[float, ...]
    info: dict[str, ObservableInfo]


def plan_observables(
    section: dict[str, ObservableSettings] | None,
    plan: ModelPlan | None,
    constants: Constants,
    seen: Seen,
) -> PlannedObservables:
    """The observables that are right."""
    diagnostics = constants.diagnostics
    observables, dates = [], []
    info = {}
    fixed = None if plan is None else [*plan.parameters, *constants.names, "t"]
    names = None if plan is None or fixed is None else [*plan.variables, *fixed, *plan.curves]
    ambiguous = frozenset() if plan is None else plan.ambiguous
    compiled = functools.partial(constants.compiled, ambiguous=ambiguous, closed_forms=CLOSED_FORMS)
    values = {} if plan is None else {**constants.values, **plan.values}
    if seen.ends is not None:
        values["t"] = seen.ends[1]
    for name, settings in (section or {}).items():
        path = ("observe", name)
        reason = _refused_name(name, plan, info)
        if reason:
            diagnostics.add(path, reason, at_key=True)
        elif plan is not None and name in {*(fixed or ()), *plan.curves, *NUMBERS}:
            what = "time" if name == "t" else "a number" if name in NUMBERS else "a parameter or constant"
            diagnostics.remark(
                path, f"is {what} too, which it means in other expressions; choose another name", at_key=True
            )
        text = str(settings.value)
        function = diagnostics.document.functions.get(text)
        if function is not None:
            value = _of_python(text, function, plan, names, diagnostics, (*path, "value"))
        elif text.endswith(PYTHON):
            diagnostics.add((*path, "value"), "stands for a Python function; give the function from Python")
            continue
        else:
            value = compiled((*path, "value"), settings.value, names, functionals=True)
        exact = None
        if settings.exact is not None:
            place = (*path, "exact")
            expression = compiled(place, settings.exact, fixed)
            changing = expression.names & plan.changing if expression and plan else frozenset()
            if changing:
                diagnostics.add(place, f"{min(changing)} changes with time; write the exact value without it")
            exact = constants.evaluated(place, expression, values)
        jumps = plan is not None and isinstance(plan.problem, AbstractJumpDiffusion)
        if jumps and value is not None:
            for reason in dict.fromkeys(f.not_with_jumps for f in value.functionals if f.not_with_jumps):
                diagnostics.add((*path, "value"), reason)
        if value is not None:
            steps = seen.steps
            exercise = plan_exercise(settings, plan, names, steps, seen.ends, constants, path)
            observable = Observable(name, value, settings.every, exercise)
            check_functionals(observable, seen, path, constants)
            dates.append(dates_of_functionals(observable, constants, seen, (*path, "value")))
            observables.append(observable)
            info[name] = ObservableInfo(settings.unit, value.text, settings.at, exact)
    return PlannedObservables(*with_dates(observables, dates, seen), info)


def _of_python(
    text: str,
    function: Callable,
    plan: ModelPlan | None,
    names: Sequence[str] | None,
    diagnostics: Diagnostics,
    path: KeyPath,
) -> Expression | None:
    """The expression of a function of Python's, which is tried without numbers; `None` where it is wrong."""
    if plan is None or names is None:
        return None
    if not takes_three(function):
        diagnostics.add(path, f"{text} must take (state, params, t)")
        return None
    others = [name for name in dict.fromkeys(names) if name not in (*plan.variables, "t")]
    expression = python_expression(text, function, plan.variables, others)
    number = jax.ShapeDtypeStruct((), jnp.float32)
    given = dict.fromkeys(names, number)
    try:
        result = _result_type(expression, given)
        is_array = isinstance(result, jax.ShapeDtypeStruct)
        once, again = (_written_out(expression, given) if is_array else None for _ in range(2))
    except Exception as error:  # the user's own code may raise anything
        diagnostics.add(path, f"{text} {what_is_wrong(error, plan.variables, others)}")
        return None
    if once != again:
        diagnostics.add(
            path,
            f"{text} computes something else each time, as of random numbers or the clock; it runs once, "
            "while it is compiled, and what it drew would be the same constant on every path: leave that out",
        )
        return None
    if not isinstance(result, jax.ShapeDtypeStruct):
        kind = result.__name__
    elif result.shape or jnp.issubdtype(result.dtype, jnp.complexfloating):
        kind = result.shape or result.dtype
    else:
        return expression
    diagnostics.add(path, f"{text} must return one real number for one path, got {kind}")
    return None


def _result_type(expression: Expression, given: Mapping[str, Any]) -> jax.ShapeDtypeStruct | type:
    """The shape and dtype of what an expression returns; of what is no array, such as text, its type."""
    returned: list[Any] = []

    def noted(names: Mapping[str, Any]) -> Any:
        returned.append(expression(names))
        return returned[0]

    try:
        result = jax.eval_shape(noted, given)
    except TypeError:
        if not returned:  # the function itself fails
            raise
        return type(returned[0])
    return result if isinstance(result, jax.ShapeDtypeStruct) else type(result)


def _written_out(function: Callable, given: Mapping[str, Any]) -> tuple[str, list[bytes]]:
    """A function as JAX traces it: its program, and the arrays that are constants of it."""
    program = jax.make_jaxpr(lambda names: function(names))(given)  # JAX keeps the program of one function
    return str(program), [np.asarray(each).tobytes() for each in program.consts]


def _refused_name(name: str, plan: ModelPlan | None, others: Collection[str]) -> str | None:
    """Why an observable cannot have this name next to the `others`; `None` if it can."""
    reason = check_spelling(name)
    if plan is not None and name in plan.variables:
        return f"{name} is a state variable, whose statistics are given anyway; choose another name"
    clashing = None if plan is None or reason else clash([*plan.variables, *others], name)
    if clashing is None:
        return reason
    both = f"{clashing[0]} and {name} would both have a result {clashing[1]}"
    return f"{both} in the dataset; choose another name"
