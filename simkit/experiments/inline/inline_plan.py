"""From equations in the file to a problem that can be made again for other constants."""

from collections.abc import Collection
from typing import Any

import numpy as np

from simkit.config.diagnostics import Mistakes
from simkit.config.documents import KeyPath
from simkit.config.settings import InlineODE, InlineSDE
from simkit.ensemble.ranges import SMALLEST_EIGENVALUE
from simkit.experiments.constants import Constants, compiled, evaluated, itself
from simkit.experiments.inline.inline_model import RESERVED, Equation, ModelText, make_model
from simkit.experiments.sections.model_plan import ModelPlan, parameter_values, refuse_ambiguous
from simkit.expressions.expression import Expression, check_name
from simkit.suggestions import did_you_mean, shown


def plan_inline(section: InlineSDE | InlineODE, constants: Constants, mistakes: Mistakes) -> ModelPlan:
    """The plan of a model written in the file.

    Names in equations are state variables, parameters, constants and `t`. A constant that an equation uses
    becomes a parameter of the model, so that derivatives reach it.
    """
    return _Inline(section, constants, mistakes).plan()


HAS_NO_NOISE = (
    "has no noise; write the equations under ode, or give a variable one: {drift: -x, noise: {W: 0.1}}"
)


class _Inline:
    def __init__(self, section: InlineSDE | InlineODE, constants: Constants, mistakes: Mistakes):
        self.section, self.constants, self.mistakes = section, constants, mistakes
        self.before = len(mistakes.found)
        self.kind = "sde" if isinstance(section, InlineSDE) else "ode"
        self.section_variables = section.sde if isinstance(section, InlineSDE) else section.ode
        self.variables = tuple(dict.fromkeys([*self.section_variables, *self.written(self.kind)]))
        self.used: set[str] = set()

    def plan(self) -> ModelPlan:
        self.check_names()
        place = ("model", "parameters")
        found = parameter_values(self.section.parameters, place, self.constants, self.mistakes)
        self.ambiguous = found.ambiguous
        self.changing = self.constants.changing | {
            name for name, text in found.expressions.items() if text.names & self.constants.changing
        }
        given = [*self.section.parameters, *self.written("parameters")]
        names = [*self.variables, *given, *self.constants.names, "t"]
        self.names = tuple(dict.fromkeys(names))
        equations = self.equations()
        noises = tuple(dict.fromkeys(name for _, _, noise in equations for name, _ in noise))
        if self.kind == "sde" and not noises:
            self.mistakes.add_missing(("model", "sde"), HAS_NO_NOISE)
        correlation = self.correlation(noises)

        own = self.section.parameters
        borrowed = [n for n in self.constants.expressions if n in self.used and n not in own]
        for name in borrowed:
            if name in RESERVED:
                self.mistakes.add(self.constants.place(name), reserved(name), at_key=True)
        expressions = found.expressions | {name: itself(name) for name in borrowed}
        values = found.values | {name: self.constants.values[name] for name in borrowed}
        self.check_correlation(noises, correlation, values)
        self.check_constant_parts(equations, values)

        parameters = (*own, *borrowed)
        problem = None
        known = {*self.variables, *parameters, *self.constants.expressions, "t"}
        sound = len(self.mistakes.found) == self.before and self.used <= known
        sound = sound and len(equations) == len(self.variables)
        if sound and values.keys() == set(parameters):
            calculus = self.section.calculus if isinstance(self.section, InlineSDE) else "ito"
            lines = tuple(Equation(*equation) for equation in equations)
            rhos = tuple((a, b, rho) for a, b, rho, _ in correlation)
            model: Any = make_model(ModelText(lines, parameters, rhos, calculus))
            problem = model(**values)
        return ModelPlan(self.variables, parameters, found.ambiguous, expressions, values, problem)

    def check_names(self) -> None:
        if not self.variables:
            self.mistakes.add(("model", self.kind), "needs at least one variable")
        for name in self.variables:
            self.refuse_name(("model", self.kind, name), check_name(name))
        for name in self.section.parameters:
            reason = check_name(name) or (reserved(name) if name in RESERVED else None)
            if name in self.variables:
                reason = f"{name} is a state variable; choose another name"
            self.refuse_name(("model", "parameters", name), reason)

    def refuse_name(self, path: KeyPath, reason: str | None) -> None:
        if reason:
            self.mistakes.add(path, reason, at_key=True)

    def written(self, key: str) -> list[str]:
        """The names in a part of the model as it stands in the file, those too whose values are wrong."""
        model = self.mistakes.document.data.get("model")
        part = model.get(key) if isinstance(model, dict) else None
        return [name for name in part if isinstance(name, str)] if isinstance(part, dict) else []

    def expression(self, path: KeyPath, text: float | str, names: Collection[str]) -> Expression | None:
        expression = compiled(self.mistakes, path, text, names)
        refuse_ambiguous(self.mistakes, path, expression, self.ambiguous)
        self.used |= expression.names if expression else set()
        return expression

    def equations(self) -> list[tuple]:
        """(variable, drift, ((noise, factor), …)) for each variable."""
        if isinstance(self.section, InlineODE):
            return [
                (variable, self.expression(("model", "ode", variable), text, self.names), ())
                for variable, text in self.section.ode.items()
            ]
        equations = []
        for variable, spec in self.section.sde.items():
            place = ("model", "sde", variable)
            drift = self.expression((*place, "drift"), spec.drift, self.names)
            noise = []
            for name, text in spec.noise.items():
                path = (*place, "noise", name)
                self.refuse_name(path, check_name(name))
                noise.append((name, self.expression(path, text, self.names)))
            equations.append((variable, drift, tuple(noise)))
        return equations

    def correlation(self, noises: tuple[str, ...]) -> list[tuple[str, str, Expression, KeyPath]]:
        """The pairs of noises with their correlation and its place."""
        found: list[tuple[str, str, Expression, KeyPath]] = []
        pairs = self.section.correlation if isinstance(self.section, InlineSDE) else {}
        fixed = [name for name in self.names if name not in self.variables and name != "t"]
        for key, text in pairs.items():
            path = ("model", "correlation", key)
            rho = self.expression(path, text, fixed)
            names = tuple(part.strip() for part in key.split("-"))
            unknown = [name for name in names if name not in noises]
            if len(names) != 2 or names[0] == names[1]:
                self.refuse_name(path, f"{shown(key)} is not a pair of noises such as W1-W2")
            elif unknown:
                hint = did_you_mean(unknown[0], noises)
                self.refuse_name(path, f"unknown noise {shown(unknown[0])}{hint}")
            elif any({a, b} == set(names) for a, b, _, _ in found):
                self.refuse_name(path, f"the correlation of {names[0]} and {names[1]} is given twice")
            elif rho is not None and rho.names & self.changing:
                name = min(rho.names & self.changing)
                self.refuse_name(path, f"{name} changes with time, and a correlation may not")
            elif rho is not None:
                found.append((names[0], names[1], rho, path))
        return found

    def check_constant_parts(self, equations, values) -> None:
        """A drift or a factor of a noise that is made of constants alone is a finite number."""
        for variable, drift, noise in equations:
            place = ("model", self.kind, variable)
            own = (*place, "drift") if self.kind == "sde" else place
            for path, expression in [(own, drift), *(((*place, "noise", name), x) for name, x in noise)]:
                if expression is not None and not expression.names & self.changing:
                    evaluated(self.mistakes, path, expression, values)

    def check_correlation(self, noises, correlation, values) -> None:
        """Each entry in [-1, 1], and all of them together those of some random variables."""
        matrix = np.eye(len(noises))
        for a, b, expression, path in correlation:
            rho = evaluated(self.mistakes, path, expression, values)
            if rho is None:
                return
            if not -1 <= rho <= 1:
                self.mistakes.add(path, f"must be from -1 to 1, got {rho:g}")
                return
            i, j = noises.index(a), noises.index(b)
            matrix[i, j] = matrix[j, i] = rho
        smallest = np.linalg.eigvalsh(matrix)[0] if correlation else 0.0
        if smallest < SMALLEST_EIGENVALUE:
            self.mistakes.add(
                ("model", "correlation"),
                "no random variables have these correlations: the matrix must be positive semi-definite, and "
                f"its smallest eigenvalue is {smallest:.3g}; make the entries smaller",
            )


def reserved(name: str) -> str:
    """Why a parameter cannot have the name of a part of a model."""
    return f"{name!r} is the name of a part of a model; choose another"
