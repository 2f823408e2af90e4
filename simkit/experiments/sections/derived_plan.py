"""From the `derived` section to figures made of means."""

from collections.abc import Collection, Mapping

import jax

from simkit.closed_forms import CLOSED_FORMS
from simkit.config.diagnostics import Mistakes
from simkit.config.settings import DerivedSettings
from simkit.experiments.constants import Constants, compiled, evaluated
from simkit.experiments.sections.model_plan import ModelPlan, refuse_ambiguous
from simkit.expressions.expression import ExpressionError, check_spelling
from simkit.results.derived import Derived


def plan_derived(
    section: Mapping[str, DerivedSettings] | None,
    plan: ModelPlan | None,
    observables: Collection[str],
    constants: Constants,
    mistakes: Mistakes,
) -> tuple[Derived, ...]:
    """The figures that are right; mistakes go to the list."""
    if plan is None:
        return ()
    means = [*plan.variables, *observables]
    numbers = {**constants.values, **plan.values}
    numbers = {name: x for name, x in numbers.items() if name not in {*means, *plan.changing}}
    found = []
    for name, settings in (section or {}).items():
        path = ("derived", name)
        reason = check_spelling(name)
        if name in means:
            reason = f"{name} is a quantity of the run; choose another name"
        if reason:
            mistakes.add(path, reason, at_key=True)
        value = compiled(
            mistakes, (*path, "value"), settings.value, [*means, *numbers], closed_forms=CLOSED_FORMS
        )
        exact = None
        if settings.exact is not None:
            exact = compiled(
                mistakes, (*path, "exact"), settings.exact, list(numbers), closed_forms=CLOSED_FORMS
            )
        for key, each in (("value", value), ("exact", exact)):
            refuse_ambiguous(mistakes, (*path, key), each, plan.ambiguous)
        if value is None:
            continue
        used = [mean for mean in means if mean in value.names]
        if not used:
            mistakes.add((*path, "value"), "has no mean in it; make it a constant, or exact")
            continue
        derived = Derived(
            name,
            value,
            {each: numbers[each] for each in value.names if each in numbers},
            settings.unit,
            evaluated(mistakes, (*path, "exact"), exact, numbers),
        )
        try:
            with jax.enable_x64(True):
                jax.eval_shape(
                    lambda *x, d=derived, u=used: d.at(dict(zip(u, x, strict=True))), *[1.0] * len(used)
                )
        except ExpressionError as error:
            mistakes.add((*path, "value"), str(error))
            continue
        found.append(derived)
    return tuple(found)
