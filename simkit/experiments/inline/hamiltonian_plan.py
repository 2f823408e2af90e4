"""From energies in the file to a Hamiltonian system that can be made again for other constants."""

from simkit_solvers.problems.hamiltonian import AbstractHamiltonian

from simkit.config.diagnostics import SettingError
from simkit.config.documents import KeyPath
from simkit.config.settings import InlineHamiltonian
from simkit.experiments.constants import Constants
from simkit.experiments.inline.equations import Equations
from simkit.experiments.inline.inline_hamiltonian import HamiltonianText
from simkit.experiments.sections.model_plan import ModelPlan
from simkit.expressions import Expression, check_name

ENERGIES = {"kinetic": "momenta", "potential": "positions"}  # and what each may depend on


def plan_hamiltonian(section: InlineHamiltonian, constants: Constants) -> ModelPlan:
    """The plan of a Hamiltonian system written in the file.

    Names in the energies are momenta or positions, parameters and constants.
    """
    positions, momenta = tuple(section.coordinates), tuple(section.coordinates.values())
    variables = (*positions, *momenta)
    _check_coordinates(section, constants)
    equations = Equations(section, constants, AbstractHamiltonian)
    equations.check_names(variables)
    energies: dict[str, Expression] = {}
    for name, text in section.hamiltonian:
        path = ("model", "hamiltonian", name)
        energy = equations.compiled(path, text, equations.names(*variables))
        with constants.diagnostics.collecting():
            if energy is not None:
                _check_separate(path, name, energy, positions, momenta)
                energies[name] = energy

    return equations.plan(
        variables, lambda parameters: HamiltonianText(positions, momenta, **energies, parameters=parameters)
    )


def _check_coordinates(section: InlineHamiltonian, constants: Constants) -> None:
    diagnostics, place = constants.diagnostics, ("model", "coordinates")
    if not section.coordinates:
        diagnostics.add(place, "needs at least one position with its momentum, such as {q: p}")
    seen = set(section.coordinates)
    for q, p in section.coordinates.items():
        reason = check_name(q)
        if reason:
            diagnostics.add((*place, q), reason, at_key=True)
        reason = check_name(p)
        if p in seen:
            reason = f"{p} is the name of two variables; choose another name"
        if reason:
            diagnostics.add((*place, q), reason)
        seen.add(p)


def _check_separate(path: KeyPath, name: str, energy: Expression, positions, momenta) -> None:
    """Raise `SettingError` unless an energy depends on its own half of the variables alone."""
    own, other = (momenta, positions) if name == "kinetic" else (positions, momenta)
    wrong = [variable for variable in other if variable in energy.names and variable not in own]
    if "t" in energy.names:
        wrong.append("t")
    if wrong:
        kind = "the time" if wrong[0] == "t" else "a position" if name == "kinetic" else "a momentum"
        raise SettingError(
            path,
            f"uses {wrong[0]}, {kind}; the {name} energy may depend on the {ENERGIES[name]} "
            f"({', '.join(own)}) alone; write a system that does not separate under ode",
        )
