"""From reactions in the file to a network that can be made again for other constants."""

import dataclasses
import functools
import types
from typing import Any

from simkit_solvers.numerics.scalar import Scalar
from simkit_solvers.problems.problem import Roughness, parameter
from simkit_solvers.problems.reaction import Reaction, reaction
from simkit_solvers.problems.reaction_network import AbstractReactionNetwork

from simkit.config.diagnostics import SettingError
from simkit.config.documents import KeyPath
from simkit.config.settings import InlineNetwork, ReactionSettings
from simkit.experiments.constants import Constants
from simkit.experiments.inline.inline_model import roughness, scalars
from simkit.experiments.sections.model_plan import (
    ModelPlan,
    ParameterValues,
    check_parameter_names,
    parameter_values,
    plan_of_equations,
)
from simkit.expressions import Expression, check_name

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


def plan_network(section: InlineNetwork, constants: Constants) -> ModelPlan | None:
    """The plan of a network in the file; `None` where an equation, and so which species there are, is wrong.

    Names in rates are parameters, constants and `t`, in propensities the species too.
    """
    diagnostics = constants.diagnostics
    before = len(diagnostics.found)
    if not section.reactions:
        diagnostics.add(("model", "reactions"), "needs at least one reaction")
    own = parameter_values(section.parameters, ("model", "parameters"), constants)
    equations: dict[str, Reaction] = {}
    for name, each in section.reactions.items():
        with diagnostics.collecting():
            equations[name] = _equation(("model", "reactions", name), name, each, constants)
    species = tuple(dict.fromkeys(s for each in equations.values() for s in each.species))
    _check_species(species, section, constants)
    check_parameter_names(section.parameters, species, RESERVED, constants, "a species of the reactions")
    given = [*section.parameters, *diagnostics.written("model", "parameters")]
    complete = equations.keys() == section.reactions.keys()
    names = [*given, *constants.names, "t", *species] if complete else None
    rates: dict[str, Expression] = {}
    for name, each in section.reactions.items():
        with diagnostics.collecting():
            rate = _rate(("model", "reactions", name), each, names, species, own, constants)
            if rate is not None:
                rates[name] = rate
    if not complete:
        return None

    def make(parameters: tuple[str, ...]) -> type | None:
        if len(diagnostics.found) > before:
            return None
        lines = tuple((n, section.reactions[n].equation, equations[n], rate) for n, rate in rates.items())
        return make_network(NetworkText(lines, parameters))

    used = {name for rate in rates.values() for name in rate.names}
    return plan_of_equations(species, own, tuple(section.parameters), used, constants, RESERVED, make)


def _equation(place: KeyPath, name: str, each: ReactionSettings, constants: Constants) -> Reaction:
    reason = check_name(name)
    if reason:
        constants.diagnostics.add(place, reason, at_key=True)
    try:
        return reaction(each.equation, mass_action=each.propensity is None)
    except ValueError as error:
        raise SettingError((*place, "equation"), str(error)) from error


def _check_species(species: tuple[str, ...], section: InlineNetwork, constants: Constants) -> None:
    for name in species:
        reason = check_name(name)
        if reason:
            first = next(n for n, each in section.reactions.items() if name in each.equation)
            constants.diagnostics.add(("model", "reactions", first, "equation"), reason)


def _rate(
    place: KeyPath,
    each: ReactionSettings,
    names: list[str] | None,
    species: tuple[str, ...],
    parameters: ParameterValues,
    constants: Constants,
) -> Expression | None:
    if (each.rate is None) == (each.propensity is None):
        message = "give either rate, for mass action, or propensity"
        constants.diagnostics.add_missing((*place, "rate"), message)
        return None
    key, text = ("rate", each.rate) if each.rate is not None else ("propensity", each.propensity)
    path = (*place, key)
    text = 0.0 if text is None else text
    expression = constants.compiled(path, text, names, ambiguous=parameters.ambiguous)
    if expression is None or key == "propensity":
        return expression
    seen = [name for name in species if name in expression.names]
    if seen:
        raise SettingError(
            path,
            f"depends on {seen[0]}, and mass action multiplies it by the reactants anyway; give the "
            "constant, or all of it as propensity",
        )
    number = constants.evaluated(path, expression, {**constants.values, **parameters.values})
    if number is not None and number < 0:
        constants.diagnostics.add(path, f"must be at least 0, got {number:g}")
    return expression


def _described(text: NetworkText) -> str:
    lines = [f"{name}: {equation}, {rate.text}" for name, equation, _, rate in text.reactions]
    return "A reaction network written in the file.\n\n" + "\n".join(lines)
