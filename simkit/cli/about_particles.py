"""What `simkit describe` knows of molecular dynamics: potentials, methods and quantities."""

import inspect
import math
from typing import Any

from simkit.cli.about_keys import inline, rows_of, wrapped
from simkit.cli.documentation import documentation

TABULATED = "Tabulated"
ENSEMBLES = {
    "NVE": "constant energy",
    "NVT": "constant temperature",
    "configurations": "configurations at constant temperature",
}


def potentials() -> dict[str, type]:
    """The pair potentials by name, also that of a file."""
    from simkit_physics.particles.potentials import POTENTIALS
    from simkit_physics.particles.potentials.tabulated import Tabulated

    return {**POTENTIALS, TABULATED: Tabulated}


def about_potential(name: str) -> dict[str, Any]:
    """A pair potential: its energy, its parameters and YAML to start from."""
    from simkit_solvers.problems.problem import parameters_of

    potential = potentials()[name]
    about = {"name": name, "kind": "pair potential", **documentation(potential)}
    if name == TABULATED:
        return about | {"yaml": f"potential: {{type: {name}, file: energies.csv}}\n"}
    fields = ", ".join(f"{key}: {value:g}" for key, value in potential.example.items())
    ends = math.isfinite(potential(**potential.example).natural_cutoff)
    cut = "" if ends else ", cutoff: 2.5, truncation: shifted"
    return about | {
        "parameters": _rows(parameters_of(potential)),
        "yaml": f"potential: {{type: {name}, {fields}{cut}}}\n",
    }


def about_particle_method(name: str) -> dict[str, Any]:
    """A method of molecular dynamics: its step, its options and YAML to start from."""
    from simkit_solvers.methods.particles.particle_methods import PARTICLE_METHODS
    from simkit_solvers.problems.problem import parameters_of

    method = PARTICLE_METHODS[name]
    options = parameters_of(method)
    needed = "".join(f", {key}: 1.0" for key in options if not hasattr(method, key))
    about = {"name": name, "kind": "method of molecular dynamics", **documentation(method)}
    if method.ensemble in ENSEMBLES:
        about["ensemble"] = f"{method.ensemble}, {ENSEMBLES[method.ensemble]}"
    return about | {
        "parameters": _rows(options),
        "yaml": f"solver: {{type: {name}{needed}}}\n" if needed else f"solver: {name}\n",
    }


def function_sections() -> dict[str, type]:
    """The sections of the functions that observables of molecular dynamics name."""
    from simkit.md.functions import FUNCTIONS

    return {name: function.settings for name, function in FUNCTIONS.items()}


def about_function(name: str) -> dict[str, Any]:
    """A function such as g(r): what it is, its keys and YAML to start from."""
    from simkit.md.functions import FUNCTIONS
    from simkit.schema import particle_schema

    section, example = FUNCTIONS[name].settings, FUNCTIONS[name].example
    return {
        "name": name,
        "kind": "function of molecular dynamics",
        "text": wrapped(inspect.getdoc(section) or ""),
        "sections": [{"text": "", "keys": list(rows_of(particle_schema()["$defs"][section.__name__]))}],
        "yaml": f"observe: {{x: {{{name}: {inline(example)}}}}}\n",
    }


def about_quantity(name: str) -> dict[str, Any]:
    """A quantity that observables of molecular dynamics name."""
    from simkit.md.quantities import QUANTITIES

    quantity = QUANTITIES[name]
    return {
        "name": name,
        "kind": "quantity of molecular dynamics",
        "text": f"{quantity.description[0].upper()}{quantity.description[1:]}, in {quantity.unit}.",
        "yaml": f"observe: {{x: {name}}}\n",
    }


def _rows(specs: dict[str, Any]) -> list[dict[str, str]]:
    return [
        {"name": key, "unit": spec.unit or "1", "description": spec.description, "range": spec.range}
        for key, spec in specs.items()
    ]
