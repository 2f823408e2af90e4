"""From energies in the file to a Hamiltonian system that can be made again for other constants."""

from typing import Any

from simkit.config.diagnostics import Mistakes
from simkit.config.documents import KeyPath
from simkit.config.settings import InlineHamiltonian
from simkit.experiments.constants import Constants, compiled, itself
from simkit.experiments.inline.inline_hamiltonian import RESERVED, HamiltonianText, make_hamiltonian
from simkit.experiments.inline.inline_plan import reserved
from simkit.experiments.sections.model_plan import ModelPlan, parameter_values, refuse_ambiguous
from simkit.expressions.expression import Expression, check_name

ENERGIES = {"kinetic": "momenta", "potential": "positions"}  # and what each may depend on


def plan_hamiltonian(section: InlineHamiltonian, constants: Constants, mistakes: Mistakes) -> ModelPlan:
    """The plan of a Hamiltonian system written in the file.

    Names in the energies are momenta or positions, parameters and constants. A constant that they use becomes
    a parameter of the model, so that derivatives reach it.
    """
    before = len(mistakes.found)
    positions, momenta = tuple(section.coordinates), tuple(section.coordinates.values())
    _check_names(section, positions, momenta, mistakes)
    place = ("model", "parameters")
    found = parameter_values(section.parameters, place, constants, mistakes)
    raw = mistakes.document.data.get("model")
    written = raw.get("parameters") if isinstance(raw, dict) else None
    own = dict.fromkeys([*section.parameters, *(written if isinstance(written, dict) else ())])

    energies: dict[str, Expression] = {}
    for name, text in section.hamiltonian:
        path = ("model", "hamiltonian", name)
        names = tuple(dict.fromkeys([*positions, *momenta, *own, *constants.names, "t"]))
        energy = compiled(mistakes, path, text, names)
        refuse_ambiguous(mistakes, path, energy, found.ambiguous)
        if energy is not None and _is_separate(path, name, energy, positions, momenta, mistakes):
            energies[name] = energy

    used = {name for energy in energies.values() for name in energy.names}
    borrowed = [name for name in constants.expressions if name in used and name not in section.parameters]
    for name in borrowed:
        if name in RESERVED:
            mistakes.add(constants.place(name), reserved(name), at_key=True)
    expressions = found.expressions | {name: itself(name) for name in borrowed}
    values = found.values | {name: constants.values[name] for name in borrowed}
    parameters = (*section.parameters, *borrowed)
    problem = None
    if len(mistakes.found) == before and values.keys() == set(parameters):
        text = HamiltonianText(positions, momenta, energies["kinetic"], energies["potential"], parameters)
        model: Any = make_hamiltonian(text)
        problem = model(**values)
    return ModelPlan((*positions, *momenta), parameters, found.ambiguous, expressions, values, problem)


def _check_names(section: InlineHamiltonian, positions, momenta, mistakes: Mistakes) -> None:
    place = ("model", "coordinates")
    if not positions:
        mistakes.add(place, "needs at least one position with its momentum, such as {q: p}")
    seen = set(positions)
    for q, p in section.coordinates.items():
        reason = check_name(q)
        if reason:
            mistakes.add((*place, q), reason, at_key=True)
        reason = check_name(p)
        if p in seen:
            reason = f"{p} is the name of two variables; choose another name"
        if reason:
            mistakes.add((*place, q), reason)
        seen.add(p)
    for name in section.parameters:
        reason = check_name(name) or (reserved(name) if name in RESERVED else None)
        if name in (*positions, *momenta):
            reason = f"{name} is a state variable; choose another name"
        if reason:
            mistakes.add(("model", "parameters", name), reason, at_key=True)


def _is_separate(
    path: KeyPath, name: str, energy: Expression, positions, momenta, mistakes: Mistakes
) -> bool:
    """Whether an energy depends on its own half of the variables alone; a mistake if not."""
    own, other = (momenta, positions) if name == "kinetic" else (positions, momenta)
    wrong = [variable for variable in other if variable in energy.names and variable not in own]
    if "t" in energy.names:
        wrong.append("t")
    if wrong:
        kind = "the time" if wrong[0] == "t" else "a position" if name == "kinetic" else "a momentum"
        mistakes.add(
            path,
            f"uses {wrong[0]}, {kind}; the {name} energy may depend on the {ENERGIES[name]} "
            f"({', '.join(own)}) alone; write a system that does not "
            "separate under ode",
        )
    return not wrong
