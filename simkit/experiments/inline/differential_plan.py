"""From equations in the file to a problem that can be made again for other constants."""

import re

import numpy as np
from simkit_solvers.problems.problem import AbstractSDE

from simkit.config.diagnostics import SettingError
from simkit.config.documents import KeyPath
from simkit.config.settings import InlineODE, InlineSDE
from simkit.ensemble.ranges import SMALLEST_EIGENVALUE
from simkit.experiments.constants import Constants
from simkit.experiments.inline.equations import Equations
from simkit.experiments.inline.inline_differential import DifferentialText, Equation
from simkit.experiments.sections.model_plan import ModelPlan
from simkit.expressions import Expression, check_name
from simkit.suggestions import did_you_mean, shown

HAS_NO_NOISE = (
    "has no noise; write the equations under ode, or give a variable one: {drift: -x, noise: {W: 0.1}}"
)


def plan_differential(section: InlineSDE | InlineODE, constants: Constants) -> ModelPlan | None:
    """The plan of differential equations written in the file; `None` where variables are missing.

    Names in equations are state variables, parameters, constants and `t`.
    """
    return _Plan(section, constants).plan()


class _Plan:
    def __init__(self, section: InlineSDE | InlineODE, constants: Constants):
        self.section, self.constants, self.diagnostics = section, constants, constants.diagnostics
        self.equations = Equations(section, constants, AbstractSDE)
        self.kind = "sde" if isinstance(section, InlineSDE) else "ode"
        given = section.sde if isinstance(section, InlineSDE) else section.ode
        written = self.diagnostics.written("model", self.kind)
        self.variables = tuple(dict.fromkeys([*given, *written]))
        self.names = self.equations.names(*self.variables)
        parameters = self.equations.parameters.expressions.items()
        changing = {name for name, text in parameters if text.names & constants.changing}
        self.changing = constants.changing | changing

    def plan(self) -> ModelPlan | None:
        if not self.variables:
            if not self.diagnostics.at_or_below(("model", self.kind)):
                self.diagnostics.add(("model", self.kind), "needs at least one variable")
            return None
        self.check_names()
        lines = self.lines()
        noises = tuple(dict.fromkeys(name for _, _, noise in lines for name, _ in noise))
        if self.kind == "sde" and not noises:
            self.diagnostics.add_missing(("model", "sde"), HAS_NO_NOISE)
        correlation = self.correlation(noises)
        self.check_correlation(noises, correlation)
        self.check_constant_parts(lines)
        calculus = self.section.calculus if isinstance(self.section, InlineSDE) else "ito"
        rhos = tuple((a, b, rho) for a, b, rho, _ in correlation)

        def text(parameters: tuple[str, ...]) -> DifferentialText:
            return DifferentialText(tuple(Equation(*line) for line in lines), parameters, rhos, calculus)

        return self.equations.plan(self.variables, text)

    def check_names(self) -> None:
        for name in self.variables:
            rate = re.fullmatch(r"d(\w+)/dt|(\w+)'", name)
            hint = f"; write {rate[1] or rate[2]}, whose value is {name}" if rate else ""
            reason = check_name(name)
            if hint:  # whatever follows would be about names that nobody meant
                raise SettingError(("model", self.kind, name), f"{reason}{hint}", at_key=True)
            self.refuse_name(("model", self.kind, name), reason)
        self.equations.check_names(self.variables)

    def refuse_name(self, path: KeyPath, reason: str | None) -> None:
        if reason:
            self.diagnostics.add(path, reason, at_key=True)

    def lines(self) -> list[tuple]:
        """(variable, drift, ((noise, factor), …)) for each variable."""
        if isinstance(self.section, InlineODE):
            return [
                (variable, self.equations.compiled(("model", "ode", variable), text, self.names), ())
                for variable, text in self.section.ode.items()
            ]
        lines = []
        for variable, spec in self.section.sde.items():
            place = ("model", "sde", variable)
            drift = self.equations.compiled((*place, "drift"), spec.drift, self.names)
            noise = []
            for name, text in spec.noise.items():
                path = (*place, "noise", name)
                self.refuse_name(path, check_name(name))
                noise.append((name, self.equations.compiled(path, text, self.names)))
            lines.append((variable, drift, tuple(noise)))
        return lines

    def correlation(self, noises: tuple[str, ...]) -> list[tuple[str, str, Expression, KeyPath]]:
        """The pairs of noises with their correlation and its place."""
        correlation: list[tuple[str, str, Expression, KeyPath]] = []
        pairs = self.section.correlation if isinstance(self.section, InlineSDE) else {}
        fixed = [name for name in self.names if name not in self.variables and name != "t"]
        for key, text in pairs.items():
            path = ("model", "correlation", key)
            rho = self.equations.compiled(path, text, fixed)
            names = tuple(part.strip() for part in key.split("-"))
            unknown = [name for name in names if name not in noises]
            if len(names) != 2 or names[0] == names[1]:
                self.refuse_name(path, f"{shown(key)} is not a pair of noises such as W1-W2")
            elif unknown:
                hint = did_you_mean(unknown[0], noises)
                self.refuse_name(path, f"unknown noise {shown(unknown[0])}{hint}")
            elif any({a, b} == set(names) for a, b, _, _ in correlation):
                self.refuse_name(path, f"the correlation of {names[0]} and {names[1]} is given twice")
            elif rho is not None and rho.names & self.changing:
                name = min(rho.names & self.changing)
                self.refuse_name(path, f"{name} changes with time, and a correlation may not")
            elif rho is not None:
                correlation.append((names[0], names[1], rho, path))
        return correlation

    def check_constant_parts(self, lines) -> None:
        """A drift or a factor of a noise that is made of constants alone is a finite number."""
        for variable, drift, noise in lines:
            place = ("model", self.kind, variable)
            own = (*place, "drift") if self.kind == "sde" else place
            for path, expression in [(own, drift), *(((*place, "noise", name), x) for name, x in noise)]:
                if expression is not None and not expression.names & self.changing:
                    self.equations.evaluated(path, expression)

    def check_correlation(self, noises, correlation) -> None:
        """Each entry in [-1, 1], and all of them together those of some random variables."""
        matrix = np.eye(len(noises))
        for a, b, expression, path in correlation:
            rho = self.equations.evaluated(path, expression)
            if rho is None:
                return
            if not -1 <= rho <= 1:
                self.diagnostics.add(path, f"must be from -1 to 1, got {rho:g}")
                return
            i, j = noises.index(a), noises.index(b)
            matrix[i, j] = matrix[j, i] = rho
        smallest = np.linalg.eigvalsh(matrix)[0] if correlation else 0.0
        if smallest < SMALLEST_EIGENVALUE:
            self.diagnostics.add(
                ("model", "correlation"),
                "no random variables have these correlations: the matrix must be positive semi-definite, and "
                f"its smallest eigenvalue is {smallest:.3g}; make the entries smaller",
            )
