"""From the `model` section to a problem that can be made again for other constants."""

import dataclasses
import re
from collections.abc import Callable, Mapping
from typing import Any

from simkit_physics import MODELS, model_elsewhere
from simkit_physics.sized import is_sized, of_size
from simkit_solvers.problems.problem import AbstractODE, parameters_of

from simkit.config.diagnostics import Diagnostics, SettingError
from simkit.config.documents import Document, KeyPath
from simkit.config.settings import NamedModel
from simkit.experiments.constants import Constants
from simkit.experiments.indexed_names import pair_names, places, turned_pairs, written_out
from simkit.experiments.sections.missing_members import missing_members
from simkit.expressions import Expression
from simkit.machine.own_modules import not_entered
from simkit.suggestions import did_you_mean, of_your_own, shown


@dataclasses.dataclass(frozen=True)
class ModelPlan:
    """A model class, its parameters as expressions of constants, and their values.

    `ambiguous` are names of both a constant and a parameter that differ. `problem` is `None` where something
    is wrong; `make` makes it of the parameters by name, where it is not an instance of the model's own class.
    `bind` makes it of the constants and the grid, where there is more to it than its parameters. `curves` are
    the names of curves, and `changing` these and the parameters that change with time.
    """

    variables: tuple[str, ...]
    parameters: tuple[str, ...]
    ambiguous: frozenset[str]
    expressions: dict[str, Expression]
    values: dict[str, float]
    problem: AbstractODE | None
    make: Callable[..., AbstractODE] | None = None
    bind: Callable[[Mapping[str, Any], Any], AbstractODE] | None = None
    curves: tuple[str, ...] = ()
    changing: frozenset[str] = frozenset()

    def bound(self, constants: Mapping[str, Any], grid: Any) -> AbstractODE:
        """The problem for other constants, on a grid that its events are to meet."""
        if self.problem is None:
            raise ValueError("a model with errors has no problem")
        if self.bind is not None:
            return self.bind(constants, grid)
        make = self.make or type(self.problem)
        return make(**bound_parameters(self.expressions, constants))


def bound_parameters(expressions: Mapping[str, Expression], constants: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters for these constants; one that is given itself, as `model.sigma`, has that value."""
    return {
        name: constants[f"model.{name}"] if f"model.{name}" in constants else value(constants)
        for name, value in expressions.items()
    }


@dataclasses.dataclass(frozen=True)
class ParameterValues:
    """Parameters as expressions of constants, those that could be evaluated, and the ambiguous names."""

    expressions: dict[str, Expression]
    values: dict[str, float]
    ambiguous: frozenset[str]


def parameter_values(
    given: Mapping[str, float | str],
    place: KeyPath,
    constants: Constants,
    places: Mapping[str, KeyPath] | None = None,
) -> ParameterValues:
    """Compile and evaluate the parameters given at a place, or for short forms at `places` below it."""
    expressions, values, ambiguous = {}, {}, set()
    for name, text in given.items():
        path = (*place, *(places or {}).get(name, (name,)))
        expression = constants.compiled(path, text)
        number = constants.evaluated(path, expression)
        if expression is not None:
            expressions[name] = expression
            if name in constants.names and expression.text != name:
                ambiguous.add(name)
        if number is not None:
            values[name] = number
    return ParameterValues(expressions, values, frozenset(ambiguous))


def _sized(cls: Any, size: Any) -> Any:
    """The class of this size."""
    smallest, largest = cls.sizes
    if not isinstance(size, float) or size != size // 1:
        message = f"must be a whole number from {smallest} to {largest}, got {shown(size)}"
        raise SettingError(("model", "size"), message)
    try:
        return of_size(cls, int(size))
    except ValueError as error:
        raise SettingError(("model", "size"), str(error)) from error


def _missing_size(cls: Any, given: Mapping[str, Any]) -> str | None:
    """What to say where the parameters are those of another size than the class has."""

    def fits(size: int) -> bool:
        names, ignored = cls.parts(size).parameters, Diagnostics(Document({}))
        return written_out(given, names, (), ignored).keys() == names.keys() and not ignored.entries

    smallest, largest = cls.sizes
    sizes = range(smallest, largest + 1)
    own = next(n for n in sizes if cls.parts(n).parameters.keys() == parameters_of(cls).keys())
    meant = None if fits(own) else next(filter(fits, sizes), None)
    if meant is None:
        return None
    return f"is missing: these are the parameters of size {meant}, not of {own}; add size: {meant}"


def _missing_pairs(given: Mapping[str, Any], specs: Mapping[str, Any]) -> dict[str, list[str]]:
    """Parameters of pairs, several of which nothing is given, by their common name."""
    result = {}
    for key in dict.fromkeys(name.rstrip("0123456789_") for name in specs):
        names = list(pair_names(key, specs).values())
        if len(names) > 1 and not any(name in given for name in names):
            result[key] = names
    return result


def _describes(description: str, name: str) -> bool:
    """Whether a name is a word of a description, or its beginning."""
    words = re.findall(r"[a-z]+", description.casefold())
    return len(name) > 2 and any(word.startswith(name.casefold()) for word in words)


def plan_named(section: NamedModel, constants: Constants) -> ModelPlan | None:
    """The plan of a registered model, `None` where its size or a member of its class is missing.
    Raises `SettingError` for an unknown name or size."""
    diagnostics = constants.diagnostics
    cls: Any = MODELS.get(section.type)
    if cls is None:
        other = model_elsewhere(section.type)
        hint = f"; use {other}" if other else not_entered(section.type, "models")
        hint = hint or of_your_own(section.type, MODELS, "models")
        raise SettingError(("model", "type"), f"unknown model {shown(section.type)}{hint}")
    if missing := missing_members(cls):
        for message in missing:
            diagnostics.add(("model", "type"), message)
        return None
    given = dict(section.__pydantic_extra__ or {})
    if "size" in given and is_sized(cls):
        cls = _sized(cls, given.pop("size"))
    elif is_sized(cls) and (message := _missing_size(cls, given)):
        diagnostics.add_missing(("model", "size"), message)
        return None
    specs = parameters_of(cls)
    where = places(given, specs)
    given = written_out(given, specs, ("model",), diagnostics)
    turned = turned_pairs(specs)
    for name in given:
        if name not in specs:
            rest = [known for known in specs if known not in given]
            hint = did_you_mean(turned.get(name, name), [turned[name]] if name in turned else rest or specs)
            described = [known for known in rest if _describes(specs[known].description, name)]
            if len(described) == 1:
                hint = f"; did you mean {described[0]!r}, {specs[described[0]].description}?"
            elif "did you mean" not in hint:
                hint = f"; known: {', '.join(specs)}" if len(specs) <= 12 else ""
            diagnostics.add(("model", name), f"unknown parameter of {section.type}{hint}", at_key=True)
    pairs = _missing_pairs(given, specs)
    for key, names in pairs.items():
        what = f"the correlation of all pairs, their matrix, or {names[0]} to {names[-1]} one by one"
        diagnostics.add_missing(("model", key), f"is missing; {what}")
    listed = {name for names in pairs.values() for name in names}
    for name, spec in specs.items():
        if name not in where and name not in listed:
            diagnostics.add_missing(("model", name), f"is missing; {spec.description} ({spec.unit})")
    known = {name: text for name, text in given.items() if name in specs}
    result = parameter_values(known, ("model",), constants, where)
    admitted = True
    for name, value in result.values.items():
        if not specs[name].admits(value):
            admitted = False
            diagnostics.add(("model", *where[name]), f"must be {specs[name].range}, got {value:g}")
    problem = None
    if admitted and result.values.keys() == specs.keys():
        try:
            problem = cls(**result.values)
        except ValueError as error:  # what a model says of parameters that do not go together
            diagnostics.add(("model",), str(error))
    return ModelPlan(
        tuple(cls.State._fields), tuple(specs), result.ambiguous, result.expressions, result.values, problem
    )
