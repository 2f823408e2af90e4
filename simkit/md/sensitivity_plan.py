"""The names in the section `sensitivity`: numbers of potential and solver, constants, observables."""

from collections.abc import Collection

from simkit.config.documents import KeyPath
from simkit.config.settings import ParticleSensitivity
from simkit.experiments.constants import Constants
from simkit.experiments.sensitivity_names import full_name, twice
from simkit.suggestions import did_you_mean, known_names, shown

SECTIONS = ("potential", "solver")
PREFIXES = ("potential.", "potential.parameters.", "solver.")
Targets = dict[str, str | KeyPath]


def targets_of(constants: Constants) -> Targets:
    """The numbers of a file that derivatives may be asked for by: constants, and places by full names."""
    places = {".".join(map(str, path)): path for path in constants.numbers if path[0] in SECTIONS}
    return {**{name: name for name in constants.expressions}, **places}


def target_name(label: str, targets: Collection[str]) -> str | None:
    """The full name that a label means: a constant, else a number of the potential or of the solver."""
    return full_name(label, targets, PREFIXES)


def check_sensitivity(
    section: ParticleSensitivity | None,
    constants: Constants,
    scalars: Collection[str],
    functions: Collection[str],
) -> None:
    """Add an error for each name that means nothing, or that has no derivative."""
    if section is None:
        return
    diagnostics, targets = constants.diagnostics, targets_of(constants)
    known = list(dict.fromkeys(name.rpartition(".")[2] for name in targets))
    meant: dict[str, str] = {}
    for i, label in enumerate(section.wrt):
        name = target_name(label, targets)
        if name is None:
            message = f"unknown name {shown(label)}{known_names(label, [*known, *targets])}"
            diagnostics.add(("sensitivity", "wrt", i), message)
        elif name in meant:
            diagnostics.add(("sensitivity", "wrt", i), twice(label, meant[name]))
        else:
            meant[name] = label
    of = section.of or []
    for i, name in enumerate(of):
        place = ("sensitivity", "of", i)
        if name in functions:
            diagnostics.add(place, f"{name} is no single number; only expressions have derivatives")
        elif name not in scalars:
            diagnostics.add(place, f"unknown name {shown(name)}{did_you_mean(name, scalars)}")
        elif name in of[:i]:
            diagnostics.add(place, twice(name, name))
