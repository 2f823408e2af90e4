"""From the `derived` section to quantities computed from means."""

import functools
from collections.abc import Collection, Mapping

import jax

from simkit.closed_forms import CLOSED_FORMS
from simkit.config.settings import DerivedSettings
from simkit.experiments.constants import Constants
from simkit.experiments.sections.model_plan import ModelPlan
from simkit.expressions import ExpressionError, check_spelling
from simkit.results.derived import Derived


def plan_derived(
    section: Mapping[str, DerivedSettings] | None,
    plan: ModelPlan | None,
    observables: Collection[str],
    constants: Constants,
) -> tuple[Derived, ...]:
    """The figures that are right, of means that are; `observables` are those without a mistake."""
    if plan is None:
        return ()
    faulty = constants.diagnostics.written("observe").keys() - {*observables}
    means = [*plan.variables, *observables, *faulty]
    numbers = {**constants.values, **plan.values}
    numbers = {name: x for name, x in numbers.items() if name not in {*means, *plan.changing}}
    result, diagnostics = [], constants.diagnostics
    for name, settings in (section or {}).items():
        path = ("derived", name)
        reason = check_spelling(name)
        if name in means:
            reason = f"{name} is a quantity of the run; choose another name"
        if reason:
            diagnostics.add(path, reason, at_key=True)
        compiled = functools.partial(constants.compiled, ambiguous=plan.ambiguous, closed_forms=CLOSED_FORMS)
        value = compiled((*path, "value"), settings.value, [*means, *numbers])
        exact = None
        if settings.exact is not None:
            exact = compiled((*path, "exact"), settings.exact, list(numbers))
        if value is None or faulty.intersection(value.names):
            continue
        used = [mean for mean in means if mean in value.names]
        if not used:
            diagnostics.add((*path, "value"), "has no mean in it; make it a constant, or exact")
            continue
        derived = Derived(
            name,
            value,
            {each: numbers[each] for each in value.names if each in numbers},
            settings.unit,
            constants.evaluated((*path, "exact"), exact, numbers),
        )
        try:
            with jax.enable_x64(True):
                jax.eval_shape(
                    lambda *x, d=derived, u=used: d.at(dict(zip(u, x, strict=True))), *[1.0] * len(used)
                )
        except ExpressionError as error:
            diagnostics.add((*path, "value"), str(error))
            continue
        result.append(derived)
    return tuple(result)
