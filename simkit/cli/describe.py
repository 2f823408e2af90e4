"""`simkit describe NAME...`: everything about a model, solver, closed form, function or key."""

import contextlib
import inspect
import re
import sys
import textwrap
from collections.abc import Callable
from typing import Annotated, Any, cast

import typer
from typer.core import TyperGroup

from simkit.cli.about_keys import (
    PARTICLES,
    about_key,
    about_key_inside,
    experiment_keys,
    keys_called,
    section_text,
)
from simkit.cli.about_particles import (
    about_function,
    about_particle_method,
    about_potential,
    about_quantity,
    function_sections,
    potentials,
)
from simkit.cli.completion import complete_name, template_names
from simkit.cli.documentation import documentation
from simkit.cli.failures import print_json, reported
from simkit.cli.options import AsJson
from simkit.cli.plain_math import plain_text
from simkit.cli.typer_app import app
from simkit.errors import InputError
from simkit.results.printing import plain_columns
from simkit.suggestions import did_you_mean

RULE = "─" * 72  # between pages
PROPERTIES = {  # key: how it is called on the page
    "calculus": "calculus",
    "noise_kind": "noise is",
    "noise": "noises",
    "sizes": "size",
    "problem": "for",
    "order": "order",
    "noise_kinds": "noise may be",
    "adaptive_noise_kinds": "adaptive for",
    "strong_order": "strong order",
    "weak_order": "weak order",
    "options": "options",
    "ensemble": "samples",
    "origin": "from",
}


@app.command()
def describe(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME...",
            help="Models, solvers, potentials, closed forms, functions or keys of the file.",
            autocompletion=complete_name,
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the equation, parameters with units and ranges, reference, and YAML to start from."""
    with reported(as_json):
        if not names:
            raise InputError("give a name, as in `simkit describe GBM`; `simkit list` shows all")
        result, reasons = _about_all(list(dict.fromkeys(names)))
        if as_json and not reasons:
            print_json(result[0] if len(result) == 1 else {"described": result})
        elif result and not as_json:
            print(f"\n\n{RULE}\n\n".join(_page(content) for content in result))
        if reasons:
            sys.stdout.flush()  # before the error
            raise InputError(reasons)


def _about_all(names: list[str]) -> tuple[list[dict], list[str]]:
    """What is known about each name, and why nothing is about the others."""
    result, reasons = [], []
    for name in names:
        try:
            result.append(_about(name))
        except InputError as error:
            reasons += error.problems
    return result, reasons


def _about(name: str) -> dict:
    """What is known about a name, as plain data; raises `InputError` when nothing is."""
    from simkit_physics import MODELS, model_elsewhere
    from simkit_solvers.methods.particles.particle_methods import PARTICLE_METHODS
    from simkit_solvers.methods.registry import SOLVERS, solver_elsewhere

    from simkit.closed_forms import CLOSED_FORMS
    from simkit.expressions import function_summaries
    from simkit.md.quantities import QUANTITIES

    if name in MODELS:
        return _about_model(name, MODELS[name])
    if name in SOLVERS:
        about = _about_solver(SOLVERS[name])
        if name in PARTICLE_METHODS:
            of_particles = about_particle_method(name)
            about = of_particles | about
            about["text"] += f"\n\n{PARTICLES}{of_particles['text']}"
            about["yaml"] += f"# particles, with the parameters above: {of_particles['yaml']}"
        return about
    if name in potentials():
        return about_potential(name)
    if name in PARTICLE_METHODS:
        return about_particle_method(name)
    if name in QUANTITIES:
        return about_quantity(name)
    if name in function_sections():
        return about_function(name)
    if name in CLOSED_FORMS:
        return _about_closed_form(name, CLOSED_FORMS[name])
    if name in function_summaries():
        return {"name": name, "kind": "function in expressions", "text": function_summaries()[name]}
    if name in experiment_keys():
        return about_key(name)
    if name.partition(".")[0] in experiment_keys():
        return about_key_inside(name)
    inside = keys_called(name)
    if inside:
        shown = " or ".join(f"`simkit describe {key}`" for key in inside)
        raise InputError(f"nothing is called {name!r} by itself; see {shown}")
    if name in cast(TyperGroup, typer.main.get_command(app)).commands:
        raise InputError(f"{name!r} is a command; see `simkit {name} --help`")
    if name in template_names():
        raise InputError(f"{name!r} is a template; `simkit new {name}` writes it as {name}.yaml")
    known = [*experiment_keys(), *MODELS, *SOLVERS, *CLOSED_FORMS, *function_summaries()]
    known += [*potentials(), *PARTICLE_METHODS, *QUANTITIES, *function_sections()]
    other = solver_elsewhere(name) or model_elsewhere(name)
    if other:
        raise InputError(f"nothing is called {name!r}; simkit has {other} (`simkit describe {other}`)")
    raise InputError(f"nothing is called {name!r}{did_you_mean(name, known)} (`simkit list` shows all names)")


def _about_model(name: str, model: Any) -> dict:
    from simkit_physics.sized import is_sized
    from simkit_solvers.problems.problem import parameters_of, variables_of

    from simkit.experiments.sections.missing_members import missing_members

    if missing := missing_members(model):
        raise InputError(missing)
    about: dict[str, Any] = {"name": name, "kind": "model", **documentation(model)}
    if model.stochastic:
        noises = list(model.Noise._fields)
        about |= {"calculus": model.calculus, "noise_kind": model.noise_kind, "noise": noises}
    about["variables"] = [
        {"name": key, "unit": quantity.unit, "description": quantity.description}
        for key, quantity in variables_of(model).items()
    ]
    about["parameters"] = [
        {"name": key, "unit": spec.unit, "description": spec.description, "range": spec.range}
        for key, spec in parameters_of(model).items()
    ]
    if is_sized(model):
        smallest, largest = model.sizes
        about["sizes"] = f"{smallest} to {largest}"
    about["yaml"] = model_snippet(name, model)
    return about


def model_snippet(name: str, model: type) -> str:
    """An experiment with this model that runs as it stands."""
    from simkit_solvers.problems.problem import AbstractSDE
    from simkit_solvers.problems.reaction_network import AbstractReactionNetwork

    fields = ", ".join(f"{key}: {value}" for key, value in model.example.items())
    initial = ", ".join(f"{key}: {value}" for key, value in model.example_initial.items())
    time = ", ".join(f"{key}: {value}" for key, value in model.example_time.items())
    random = issubclass(model, AbstractSDE | AbstractReactionNetwork)
    lines = [
        f"model: {{type: {', '.join(filter(None, [name, fields]))}}}",
        f"initial: {{{initial}}}",
        f"solver: {model.example_solver}" if model.example_solver else "",
        f"time: {{{time}}}",
        "ensemble: {paths: 10000, seed: 0}" if random else "save: {points: 100}",
    ]
    return "".join(f"{line}\n" for line in lines if line)


def _about_solver(solver) -> dict:
    kinds = {"ode": "ordinary equations", "sde": "stochastic equations", "jump": "reaction networks"}
    kinds["model"] = "particular models"
    about = {"name": solver.name, "kind": "solver", "problem": [kinds[kind] for kind in solver.problem]}
    about |= {"text": solver.summary} if solver.origin == "diffrax" else documentation(solver.cls)
    properties = {
        "order": solver.order,
        "calculus": solver.calculus,
        "noise_kinds": list(solver.noise_kinds),
        "adaptive_noise_kinds": list(solver.adaptive_noise_kinds),
        "strong_order": _orders(solver.strong),
        "weak_order": _orders(solver.weak),
        "options": solver.options,
    }
    about |= {key: value for key, value in properties.items() if value}
    return about | {
        "reference": solver.reference,
        "origin": solver.origin,
        "yaml": f"solver: {solver.name}\n",
    }


def _orders(orders) -> dict[str, float]:
    """The orders by kind of noise, without the kinds that the solver does not take."""
    return {} if orders is None else {kind: n for kind, n in orders._asdict().items() if n is not None}


def _about_closed_form(name: str, form: Callable) -> dict:
    from simkit.closed_forms.registry import example_of

    arguments = inspect.signature(form).parameters.values()
    shown = ", ".join(
        argument.name if argument.default is argument.empty else f"{argument.name}={argument.default:g}"
        for argument in arguments
    )
    about = {
        "name": name,
        "kind": "closed form",
        "signature": f"{name}({shown})",
        **documentation(form),
        "module": plain_text(inspect.getdoc(inspect.getmodule(form)) or ""),
    }
    with contextlib.suppress(ValueError):  # one of your own need have no example
        example = ", ".join(f"{argument}={value:g}" for argument, value in example_of(name).items())
        about["yaml"] = f"constants:\n  x: {name}({example})\n"
    return about


def _page(about: dict) -> str:
    """The text for a terminal: title, description, tables, YAML."""
    parts = [
        f"{about['name']}: {about['kind']}",
        about.get("signature"),
        about.get("text") or about.get("summary"),
    ]
    parts.append(about.get("module"))
    properties = [(label, _text(about[key])) for key, label in PROPERTIES.items() if about.get(key)]
    parts.append(plain_columns(properties))
    for title in ("variables", "parameters"):
        rows = [tuple(row.values()) for row in about.get(title, [])]
        parts.append(f"{title}\n{plain_columns(rows)}" if rows else None)
    parts += [section_text(section) for section in about.get("sections", [])]
    if about.get("reference") and not re.search("References?:", about["text"]):
        parts.append(textwrap.fill(f"Reference: {about['reference']}", 100))
    if about.get("yaml"):
        parts.append("YAML\n" + textwrap.indent(about["yaml"].rstrip(), "  "))
    return "\n\n".join(part for part in parts if part)


def _text(value) -> str:
    if isinstance(value, list):
        return ", ".join(value)
    if isinstance(value, dict):
        return ", ".join(key if item is None else f"{key} {item:g}" for key, item in value.items())
    return value if isinstance(value, str) else f"{value:g}"
