"""What the plans of all models written in the file share: parameters, names and expressions."""

from collections.abc import Callable, Collection
from inspect import get_annotations

from simkit_solvers.problems.problem import AbstractODE

from simkit.config.documents import KeyPath
from simkit.config.settings import InlineHamiltonian, InlineNetwork, InlineODE, InlineSDE
from simkit.experiments.constants import Constants
from simkit.experiments.inline.model_text import AbstractText, make_model
from simkit.experiments.sections.model_plan import ModelPlan, parameter_values
from simkit.expressions import Expression, check_name, name_expression


class Equations:
    """The expressions of a model in the file, compiled one by one, and its plan in the end.

    Besides its own parameters, constants that it uses become parameters, so that derivatives reach them.
    No parameter may have the name of something that its `kind` of problem has.
    """

    def __init__(
        self,
        section: InlineSDE | InlineODE | InlineNetwork | InlineHamiltonian,
        constants: Constants,
        kind: type[AbstractODE],
    ):
        self.constants, self.diagnostics = constants, constants.diagnostics
        self.reserved = {name for each in kind.__mro__ for name in vars(each) | get_annotations(each)}
        self.correct = len(self.diagnostics.entries)
        self.given = tuple(section.parameters)
        self.parameters = parameter_values(section.parameters, ("model", "parameters"), constants)
        self.used: set[str] = set()

    def check_names(self, variables: Collection[str], variable: str = "a state variable") -> None:
        """Add what is wrong with the names of parameters under `model.parameters`."""
        for name in self.given:
            reason = check_name(name) or (_reserved(name) if name in self.reserved else None)
            if name in variables:
                reason = f"{name} is {variable}; choose another name"
            if reason:
                self.diagnostics.add(("model", "parameters", name), reason, at_key=True)

    def names(self, *variables: str) -> tuple[str, ...]:
        """What its expressions may use."""
        written = self.diagnostics.written("model", "parameters")
        return tuple(dict.fromkeys([*variables, *self.given, *written, *self.constants.names, "t"]))

    def compiled(self, path: KeyPath, text: float | str, names: Collection[str] | None) -> Expression | None:
        """The expression at a path; `None` where it is wrong."""
        expression = self.constants.compiled(path, text, names, ambiguous=self.parameters.ambiguous)
        self.used |= expression.names if expression else set()
        return expression

    def evaluated(self, path: KeyPath, expression: Expression | None) -> float | None:
        """The value of an expression, `None` if wrong or dependent on more than parameters and constants."""
        constants = self.constants.values.items()
        values = {name: value for name, value in constants if name not in self.given}
        return self.constants.evaluated(path, expression, values | self.parameters.values)

    def plan(self, variables: tuple[str, ...], text: Callable[[tuple[str, ...]], AbstractText]) -> ModelPlan:
        """The plan of the model whose `text` follows from its parameters; no problem if it is wrong."""
        own, constants = self.parameters, self.constants
        borrowed = [name for name in constants.expressions if name in self.used and name not in self.given]
        for name in borrowed:
            if name in self.reserved:
                self.diagnostics.add(constants.place(name), _reserved(name), at_key=True)
        expressions = own.expressions | {name: name_expression(name) for name in borrowed}
        values = own.values | {name: constants.values[name] for name in borrowed}
        parameters = (*self.given, *borrowed)
        complete = values.keys() == {*parameters} and self.used <= {*variables, *parameters, "t"}
        made = text(parameters) if complete and len(self.diagnostics.entries) == self.correct else None
        problem = make_model(made)(**values) if made is not None and made.variables == variables else None
        return ModelPlan(variables, parameters, own.ambiguous, expressions, values, problem)


def _reserved(name: str) -> str:
    """Why a parameter cannot have the name of a part of a model."""
    return f"{name!r} is the name of a part of a model; choose another"
