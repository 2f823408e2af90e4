"""From the `initial` section to initial values as functions of the constants."""

import dataclasses
from collections.abc import Mapping
from typing import Any, cast

from simkit.documents import KeyPath
from simkit.expression import Expression
from simkit.fields import Constants, compiled, evaluated
from simkit.initial import Distribution, Kind
from simkit.mistakes import Mistakes
from simkit.model_plan import ModelPlan
from simkit.settings import Initial, RandomValue
from simkit.suggestion import did_you_mean


@dataclasses.dataclass(frozen=True)
class InitialValue:
    """An initial value: one number, or the two of a distribution."""

    kind: Kind | None
    numbers: tuple[Expression, ...]

    def bound(self, constants: Mapping[str, Any]) -> Any:
        """The number or distribution for other constants."""
        values = [number(constants) for number in self.numbers]
        return Distribution(self.kind, *values) if self.kind else values[0]


def plan_initial(
    section: dict[str, Initial] | None, plan: ModelPlan | None, constants: Constants, mistakes: Mistakes
) -> dict[str, InitialValue]:
    """The initial values that are right, in the order of the model's variables."""
    found = {}
    for name, value in (section or {}).items():
        path = ("initial", name)
        if plan is not None and name not in plan.variables:
            rest = [known for known in plan.variables if known not in (section or {})]
            hint = did_you_mean(name, rest or plan.variables)
            mistakes.add(path, f"unknown variable of the model{hint}", at_key=True)
        initial = _initial_value(value, path, constants, mistakes)
        if initial is not None:
            found[name] = initial
    if plan is None or section is None:
        return found
    for name in plan.variables:
        if name not in section:
            mistakes.add_missing(("initial", name), f"is missing; the value of {name} at t0")
    return {name: found[name] for name in plan.variables if name in found}


def _initial_value(
    value: Initial, path: KeyPath, constants: Constants, mistakes: Mistakes
) -> InitialValue | None:
    if isinstance(value, RandomValue):
        given = {kind: pair for kind, pair in value if pair is not None}
        if len(given) != 1:
            mistakes.add_missing(path, "must have exactly one of normal, lognormal and uniform")
            return None
        ((kind, texts),) = given.items()
        places = [(*path, kind, i) for i in range(len(texts))]
    else:
        kind, texts, places = None, [value], [path]
    expressions = [
        compiled(mistakes, p, text, constants.names) for p, text in zip(places, texts, strict=True)
    ]
    numbers = [evaluated(mistakes, p, e, constants.values) for p, e in zip(places, expressions, strict=True)]
    if any(number is None for number in numbers):
        return None
    initial = InitialValue(cast(Kind | None, kind), tuple(e for e in expressions if e is not None))
    try:
        initial.bound(constants.values)
    except ValueError as error:
        mistakes.add((*path, kind or ""), str(error).removeprefix(f"{kind}: "))
        return None
    return initial
