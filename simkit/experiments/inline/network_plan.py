"""From reactions in the file to a network that can be made again for other constants."""

from simkit_solvers.problems.reaction import Reaction, reaction
from simkit_solvers.problems.reaction_network import AbstractReactionNetwork

from simkit.config.diagnostics import SettingError
from simkit.config.documents import KeyPath
from simkit.config.settings import InlineNetwork, ReactionSettings
from simkit.experiments.constants import Constants
from simkit.experiments.inline.equations import Equations
from simkit.experiments.inline.inline_network import NetworkText
from simkit.experiments.sections.model_plan import ModelPlan
from simkit.expressions import Expression, check_name


def plan_network(section: InlineNetwork, constants: Constants) -> ModelPlan | None:
    """The plan of a network in the file; `None` where a reaction, and so which species there are, is wrong.

    Names in rates are parameters, constants and `t`, in propensities the species too.
    """
    diagnostics = constants.diagnostics
    equations = Equations(section, constants, AbstractReactionNetwork)
    written = section.reactions.keys() | diagnostics.written("model", "reactions").keys()
    if not written:
        diagnostics.add(("model", "reactions"), "needs at least one reaction")
    reactions: dict[str, Reaction] = {}
    for name, each in section.reactions.items():
        with diagnostics.collecting():
            reactions[name] = _reaction(("model", "reactions", name), name, each, constants)
    species = tuple(dict.fromkeys(s for each in reactions.values() for s in each.species))
    _check_species(reactions, constants)
    equations.check_names(species, "a species of the reactions")
    complete = reactions.keys() == written
    names = equations.names(*species) if complete else None
    rates: dict[str, Expression] = {}
    for name, each in section.reactions.items():
        with diagnostics.collecting():
            rate = _rate(("model", "reactions", name), each, names, species, equations)
            if rate is not None:
                rates[name] = rate
    if not complete:
        return None

    def text(parameters: tuple[str, ...]) -> NetworkText:
        lines = tuple((n, section.reactions[n].equation, reactions[n], rate) for n, rate in rates.items())
        return NetworkText(lines, parameters)

    return equations.plan(species, text)


def _reaction(place: KeyPath, name: str, each: ReactionSettings, constants: Constants) -> Reaction:
    reason = check_name(name)
    if reason:
        constants.diagnostics.add(place, reason, at_key=True)
    try:
        result = reaction(each.equation, mass_action=each.propensity is None)
    except ValueError as error:
        raise SettingError((*place, "equation"), str(error)) from error
    if not any(result.change.values()):
        message = "changes no number of molecules, so that its events only cost time; leave it out"
        constants.diagnostics.remark((*place, "equation"), message)
    return result


def _check_species(reactions: dict[str, Reaction], constants: Constants) -> None:
    """Add what is wrong with the name of a species, where it first stands."""
    first = {name: key for key, each in reversed(reactions.items()) for name in each.species}
    for name, key in first.items():
        reason = check_name(name)
        if reason:
            constants.diagnostics.add(("model", "reactions", key, "equation"), reason)


def _rate(
    place: KeyPath,
    each: ReactionSettings,
    names: tuple[str, ...] | None,
    species: tuple[str, ...],
    equations: Equations,
) -> Expression | None:
    if (each.rate is None) == (each.propensity is None):
        message = "give either rate, for mass action, or propensity"
        equations.diagnostics.add_missing((*place, "rate"), message)
        return None
    key, text = ("rate", each.rate) if each.rate is not None else ("propensity", each.propensity)
    path = (*place, key)
    text = 0.0 if text is None else text
    expression = equations.compiled(path, text, names)
    if expression is None or key == "propensity":
        return expression
    seen = [name for name in species if name in expression.names]
    if seen:
        raise SettingError(
            path,
            f"depends on {seen[0]}, and mass action multiplies it by the reactants anyway; give the "
            "constant, or all of it as propensity",
        )
    number = equations.evaluated(path, expression)
    if number is not None and number < 0:
        equations.diagnostics.add(path, f"must be at least 0, got {number:g}")
    return expression
