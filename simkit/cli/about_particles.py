"""What `simkit describe` knows of molecular dynamics: potentials, methods and quantities."""

import math
from typing import Any

from simkit.cli.documentation import documentation

ENSEMBLES = {
    "NVE": "constant energy",
    "NVT": "constant temperature",
    "configurations": "configurations at constant temperature",
}


def about_potential(name: str) -> dict[str, Any]:
    """A pair potential: its energy, its parameters and YAML to start from."""
    from simkit_physics.particles.potentials import POTENTIALS
    from simkit_solvers.problems.problem import parameters_of

    potential = POTENTIALS[name]
    fields = ", ".join(f"{key}: {value:g}" for key, value in potential.example.items())
    ends = math.isfinite(potential(**potential.example).natural_cutoff)
    cut = "" if ends else ", cutoff: 2.5, truncation: shifted"
    return {
        "name": name,
        "kind": "pair potential",
        **documentation(potential),
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
