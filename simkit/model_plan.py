"""From the `model` section to a model class and the expressions of its parameters."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
from simkit_physics import MODELS
from simkit_solvers.problem import AbstractODE, parameters_of

from simkit.documents import KeyPath
from simkit.expression import Expression, check_name
from simkit.fields import Constants, compiled, evaluated
from simkit.inline_model import RESERVED, Equation, ModelText, make_model
from simkit.mistakes import Mistakes
from simkit.settings import InlineODE, InlineSDE, NamedModel
from simkit.suggestion import did_you_mean, shown


@dataclasses.dataclass(frozen=True)
class ModelPlan:
    """A model class, its parameters as expressions of constants, and their values.

    `ambiguous` are names of both a constant and a parameter that differ. `problem` is `None` where something
    is wrong.
    """

    variables: tuple[str, ...]
    parameters: tuple[str, ...]
    ambiguous: frozenset[str]
    expressions: dict[str, Expression]
    values: dict[str, float]
    problem: AbstractODE | None

    def bound(self, constants: Mapping[str, Any]) -> AbstractODE:
        """The problem for other constants."""
        if self.problem is None:
            raise ValueError("this model has mistakes")
        return type(self.problem)(**{name: e(constants) for name, e in self.expressions.items()})

    def check_ambiguous(self, mistakes: Mistakes, path: KeyPath, expression: Expression | None) -> None:
        """A name that could mean a constant or a parameter is refused where it is used."""
        if expression is not None:
            refuse_ambiguous(mistakes, path, expression, self.ambiguous)


def refuse_ambiguous(mistakes: Mistakes, path: KeyPath, expression: Expression, ambiguous) -> None:
    """Add a mistake when an expression uses a name that could mean a constant or a parameter."""
    for name in sorted(expression.names & ambiguous):
        mistakes.add(
            path,
            f"{name} is a constant and also a parameter of the model; rename the constant, or give the "
            f"parameter as {name}: {name}",
        )


def plan_model(
    section: NamedModel | InlineSDE | InlineODE | None, constants: Constants, mistakes: Mistakes
) -> ModelPlan | None:
    """The plan of a model section; `None` when it is too wrong to say what its variables are."""
    if section is None:
        return None
    plan = (
        _named(section, constants, mistakes)
        if isinstance(section, NamedModel)
        else _inline(section, constants, mistakes)
    )
    for name in constants.names:
        if plan is not None and name in plan.variables:
            mistakes.add(("constants", name), f"{name} is a state variable; choose another name", at_key=True)
    return plan


def _parameter_values(
    given: Mapping[str, float | str], place: KeyPath, constants: Constants, mistakes: Mistakes
) -> tuple[dict[str, Expression], dict[str, float], frozenset[str]]:
    expressions, values, ambiguous = {}, {}, set()
    for name, text in given.items():
        expression = compiled(mistakes, (*place, name), text, constants.names)
        number = evaluated(mistakes, (*place, name), expression, constants.values)
        if expression is not None:
            expressions[name] = expression
            if name in constants.names and expression.text != name:
                ambiguous.add(name)
        if number is not None:
            values[name] = number
    return expressions, values, frozenset(ambiguous)


def _named(section: NamedModel, constants: Constants, mistakes: Mistakes) -> ModelPlan | None:
    cls = MODELS.get(section.type)
    if cls is None:
        mistakes.add(
            ("model", "type"), f"unknown model {shown(section.type)}{did_you_mean(section.type, MODELS)}"
        )
        return None
    specs = parameters_of(cls)
    given = section.__pydantic_extra__
    for name in given:
        if name not in specs:
            rest = [known for known in specs if known not in given]
            message = f"unknown parameter of {section.type}{did_you_mean(name, rest or specs)}"
            mistakes.add(("model", name), message, at_key=True)
    for name, spec in specs.items():
        if name not in given:
            mistakes.add_missing(("model", name), f"is missing; {spec.description} ({spec.unit})")
    expressions, values, ambiguous = _parameter_values(
        {name: text for name, text in given.items() if name in specs}, ("model",), constants, mistakes
    )
    admitted = True
    for name, value in values.items():
        if not specs[name].admits(value):
            admitted = False
            mistakes.add(("model", name), f"must be {specs[name].range}, got {value:g}")
    problem = cls(**values) if admitted and values.keys() == specs.keys() else None
    return ModelPlan(tuple(cls.State._fields), tuple(specs), ambiguous, expressions, values, problem)


def _inline(section: InlineSDE | InlineODE, constants: Constants, mistakes: Mistakes) -> ModelPlan | None:
    kind = "sde" if isinstance(section, InlineSDE) else "ode"
    before = len(mistakes.found)
    variables = tuple(section.sde if isinstance(section, InlineSDE) else section.ode)
    if not variables:
        mistakes.add(("model", kind), "needs at least one variable")
    for name in variables:
        reason = check_name(name)
        if reason:
            mistakes.add(("model", kind, name), reason, at_key=True)
    for name in section.parameters:
        reason = check_name(name) or (
            f"{name!r} is the name of a part of a model; choose another" if name in RESERVED else None
        )
        if name in variables:
            reason = f"{name} is a state variable; choose another name"
        if reason:
            mistakes.add(("model", "parameters", name), reason, at_key=True)
    expressions, values, ambiguous = _parameter_values(
        section.parameters, ("model", "parameters"), constants, mistakes
    )
    names = {*variables, *_parameter_names(mistakes, section), *constants.names, "t"}
    used: set[str] = set()

    def equation_part(path: KeyPath, text: float | str, allowed) -> Expression | None:
        expression = compiled(mistakes, path, text, allowed)
        if expression is not None:
            refuse_ambiguous(mistakes, path, expression, ambiguous)
            used.update(expression.names)
        return expression

    equations: list[tuple] = []
    if isinstance(section, InlineSDE):
        for variable, spec in section.sde.items():
            place = ("model", "sde", variable)
            drift = equation_part((*place, "drift"), spec.drift, names)
            noise = []
            for name, text in spec.noise.items():
                reason = check_name(name)
                if reason:
                    mistakes.add((*place, "noise", name), reason, at_key=True)
                noise.append((name, equation_part((*place, "noise", name), text, names)))
            equations.append((variable, drift, tuple(noise)))
    else:
        for variable, text in section.ode.items():
            equations.append((variable, equation_part(("model", "ode", variable), text, names), ()))
    noises = list(dict.fromkeys(name for _, _, noise in equations for name, _ in noise))
    if isinstance(section, InlineSDE) and not noises:
        mistakes.add_missing(("model", "sde"), "has no noise; write the equations under ode")
    correlation = []
    if isinstance(section, InlineSDE):
        fixed = names - set(variables) - {"t"}
        for pair, text in section.correlation.items():
            place = ("model", "correlation", pair)
            two = _pair(pair, noises, [entry[:2] for entry in correlation], mistakes)
            expression = equation_part(place, text, fixed)
            if two and expression is not None:
                correlation.append((*two, expression))

    as_parameters = [
        name for name in constants.expressions if name in used and name not in section.parameters
    ]
    for name in as_parameters:
        if name in RESERVED:
            mistakes.add(
                ("constants", name), f"{name!r} is the name of a part of a model; choose another", at_key=True
            )
        expressions[name] = _itself(name)
        values[name] = constants.values[name]
    _check_correlation(noises, correlation, values, mistakes)
    parameters = (*section.parameters, *as_parameters)
    problem = None
    if len(mistakes.found) == before and values.keys() == set(parameters):
        text = ModelText(
            tuple(Equation(*equation) for equation in equations),
            parameters,
            tuple(correlation),
            section.calculus if isinstance(section, InlineSDE) else "ito",
        )
        problem = make_model(text)(**values)
    return ModelPlan(variables, parameters, ambiguous, expressions, values, problem)


def _parameter_names(mistakes: Mistakes, section: InlineSDE | InlineODE) -> list[str]:
    """The parameters, those too whose values could not be read."""
    model = mistakes.document.data.get("model")
    given = model.get("parameters") if isinstance(model, dict) else None
    return [*section.parameters, *(given if isinstance(given, dict) else ())]


def _itself(name: str) -> Expression:
    return Expression(name, frozenset([name]), (), lambda environment: environment[name])


def _pair(pair: str, noises: list[str], before: list[tuple], mistakes: Mistakes) -> tuple[str, str] | None:
    """The two noises that a key such as `W1-W2` names."""
    path = ("model", "correlation", pair)
    parts = tuple(part.strip() for part in pair.split("-"))
    if len(parts) != 2 or parts[0] == parts[1]:
        mistakes.add(path, f"{shown(pair)} is not a pair of noises such as W1-W2", at_key=True)
        return None
    for name in parts:
        if name not in noises:
            mistakes.add(path, f"unknown noise {shown(name)}{did_you_mean(name, noises)}", at_key=True)
            return None
    if any(set(other) == set(parts) for other in before):
        mistakes.add(path, f"the correlation of {parts[0]} and {parts[1]} is given twice", at_key=True)
        return None
    return parts[0], parts[1]


def _check_correlation(noises: list[str], correlation: list[tuple], values, mistakes: Mistakes) -> None:
    """Each entry in [-1, 1], and all of them together those of some random variables."""
    matrix = np.eye(len(noises))
    sound = True
    for a, b, expression in correlation:
        path = (
            "model",
            "correlation",
            next(
                key
                for key in mistakes.document.data["model"]["correlation"]
                if {p.strip() for p in key.split("-")} == {a, b}
            ),
        )
        rho = evaluated(mistakes, path, expression, values)
        if rho is None:
            return
        if not -1 <= rho <= 1:
            mistakes.add(path, f"must be from -1 to 1, got {rho:g}")
            sound = False
        i, j = noises.index(a), noises.index(b)
        matrix[i, j] = matrix[j, i] = rho
    if sound and correlation and np.linalg.eigvalsh(matrix)[0] < -1e-12:
        mistakes.add(
            ("model", "correlation"),
            f"no random variables have these correlations: the smallest eigenvalue of their matrix is "
            f"{np.linalg.eigvalsh(matrix)[0]:.3g}, and must be >= 0; make the entries smaller",
        )
