"""From reactions in the file to a network that can be made again for other constants."""

import dataclasses
import functools
import types
from typing import Any

from simkit_solvers.numerics.scalar import Scalar
from simkit_solvers.problems.problem import Roughness, parameter
from simkit_solvers.problems.reaction import Reaction, reaction
from simkit_solvers.problems.reaction_network import AbstractReactionNetwork

from simkit.config.diagnostics import Mistakes
from simkit.config.documents import KeyPath
from simkit.config.settings import InlineNetwork, ReactionSettings
from simkit.experiments.constants import Constants, compiled, evaluated, itself
from simkit.experiments.inline.inline_model import roughness, scalars
from simkit.experiments.inline.inline_plan import reserved
from simkit.experiments.sections.model_plan import ModelPlan, parameter_values, refuse_ambiguous
from simkit.expressions.expression import Expression, check_name

RESERVED = frozenset({"State", "reactions", "rates", "propensities", "drift", "change", "rough_with"})


@dataclasses.dataclass(frozen=True)
class NetworkText:
    """A network in the file, compiled: its reactions by name with their rates, and the parameters."""

    reactions: tuple[tuple[str, str, Reaction, Expression], ...]
    parameters: tuple[str, ...]

    @property
    def rough(self) -> tuple[Roughness, ...]:
        """Where the rates jump, or their slopes do."""
        return roughness(*(rate for *_, rate in self.reactions))

    @property
    def species(self) -> tuple[str, ...]:
        """Every species in the order in which they first appear."""
        return tuple(dict.fromkeys(name for _, _, each, _ in self.reactions for name in each.species))


@functools.lru_cache(maxsize=64)
def make_network(text: NetworkText) -> type[AbstractReactionNetwork]:
    """The class `InlineNetwork` of a network in the file; the same text gives the same class."""
    state = scalars("State", text.species)

    def rates(self, t, y):
        fields = vars(self)
        values = {**{name: fields[name] for name in text.parameters}, **y._asdict(), "t": t}
        return tuple(rate(values) for _, _, _, rate in text.reactions)

    members: dict[str, Any] = {
        "__doc__": _described(text),
        "__module__": __name__,
        "__annotations__": dict.fromkeys(text.parameters, Scalar),
        **{name: parameter("", "") for name in text.parameters},
        "State": state,
        "_made_by": (make_network, text),  # no parameter has a name with _ in front
        "rough_with": lambda self: text.rough,
        "reactions": {name: each for name, _, each, _ in text.reactions},
        "rates": rates,
    }
    return types.new_class(
        "InlineNetwork", (AbstractReactionNetwork,), {}, lambda namespace: namespace.update(members)
    )


def plan_network(section: InlineNetwork, constants: Constants, mistakes: Mistakes) -> ModelPlan | None:
    """The plan of a network in the file; `None` where an equation, and so which species there are, is wrong.

    Names in rates are parameters, constants and `t`, in propensities the species too. A constant that is used
    becomes a parameter of the network, so that derivatives reach it.
    """
    before = len(mistakes.found)
    if not section.reactions:
        mistakes.add(("model", "reactions"), "needs at least one reaction")
    found = parameter_values(section.parameters, ("model", "parameters"), constants, mistakes)
    equations = {
        name: _equation(("model", "reactions", name), name, each, mistakes)
        for name, each in section.reactions.items()
    }
    species = tuple(dict.fromkeys(s for each in equations.values() if each for s in each.species))
    _check_names(species, section, mistakes)
    model = mistakes.document.data.get("model")
    given = model.get("parameters") if isinstance(model, dict) else None
    fixed = [*section.parameters, *(given if isinstance(given, dict) else ()), *constants.names, "t"]
    complete = all(equations.values())
    names = [*fixed, *species] if complete else None
    lines = []
    used: set[str] = set()
    for name, each in section.reactions.items():
        place = ("model", "reactions", name)
        rate = _rate(place, each, names, species, found.ambiguous, found.values, constants, mistakes)
        used |= rate.names if rate else set()
        equation = equations[name]
        if rate is not None and equation is not None:
            lines.append((name, each.equation, equation, rate))
    if not complete:
        return None
    borrowed = [n for n in constants.expressions if n in used and n not in section.parameters]
    for name in borrowed:
        if name in RESERVED:
            mistakes.add(constants.place(name), reserved(name), at_key=True)
    expressions = found.expressions | {name: itself(name) for name in borrowed}
    values = found.values | {n: constants.values[n] for n in borrowed if n in constants.values}
    parameters = (*section.parameters, *borrowed)
    problem = None
    if len(mistakes.found) == before and values.keys() == set(parameters):
        cls: Any = make_network(NetworkText(tuple(lines), parameters))
        problem = cls(**values)
    return ModelPlan(species, parameters, found.ambiguous, expressions, values, problem)


def _equation(place: KeyPath, name: str, each: ReactionSettings, mistakes: Mistakes) -> Reaction | None:
    reason = check_name(name)
    if reason:
        mistakes.add(place, reason, at_key=True)
    try:
        return reaction(each.equation, mass_action=each.propensity is None)
    except ValueError as error:
        mistakes.add((*place, "equation"), str(error))
        return None


def _check_names(species: tuple[str, ...], section: InlineNetwork, mistakes: Mistakes) -> None:
    for name in species:
        reason = check_name(name)
        if reason:
            first = next(n for n, each in section.reactions.items() if name in each.equation)
            mistakes.add(("model", "reactions", first, "equation"), reason)
    for name in section.parameters:
        reason = check_name(name) or (reserved(name) if name in RESERVED else None)
        if name in species:
            reason = f"{name} is a species of the reactions; choose another name"
        if reason:
            mistakes.add(("model", "parameters", name), reason, at_key=True)


def _rate(
    place: KeyPath,
    each: ReactionSettings,
    names: list[str] | None,
    species: tuple[str, ...],
    ambiguous: frozenset[str],
    values: dict[str, float],
    constants: Constants,
    mistakes: Mistakes,
) -> Expression | None:
    if (each.rate is None) == (each.propensity is None):
        mistakes.add_missing((*place, "rate"), "give either rate, for mass action, or propensity")
        return None
    key, text = ("rate", each.rate) if each.rate is not None else ("propensity", each.propensity)
    path = (*place, key)
    expression = compiled(mistakes, path, 0.0 if text is None else text, names)
    refuse_ambiguous(mistakes, path, expression, ambiguous)
    if expression is None or key == "propensity":
        return expression
    seen = [name for name in species if name in expression.names]
    if seen:
        message = (
            f"depends on {seen[0]}, and mass action multiplies it by the reactants anyway; give the "
            "constant, or all of it as propensity"
        )
        mistakes.add(path, message)
        return None
    everything = {**constants.values, **values}
    if expression.names <= everything.keys():
        number = evaluated(mistakes, path, expression, everything)
        if number is not None and number < 0:
            mistakes.add(path, f"must be at least 0, got {number:g}")
    return expression


def _described(text: NetworkText) -> str:
    lines = [f"{name}: {equation}, {rate.text}" for name, equation, _, rate in text.reactions]
    return "A reaction network written in the file.\n\n" + "\n".join(lines)
