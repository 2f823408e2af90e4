"""`simkit list`: everything that an experiment can name, with one line about each."""

import inspect
import itertools
import re
from collections.abc import Callable
from importlib import resources
from typing import Annotated

import typer

from simkit.cli.about_keys import experiment_keys, key_summary
from simkit.cli.about_particles import function_sections, potentials
from simkit.cli.completion import template_names
from simkit.cli.failures import print_json, reported
from simkit.cli.options import AsJson
from simkit.cli.plain_math import plain_text
from simkit.cli.typer_app import app
from simkit.errors import InputError
from simkit.suggestions import did_you_mean

KINDS = {"models": "models of ", "solvers": "solvers for ", "keys": "keys of ", "functions": "functions "}
KINDS |= {"forms": "closed forms ", "potentials": "potentials", "methods": "methods of "}
KINDS |= {"quantities": "quantities of ", "templates": "templates"}


@app.command(name="list")
def list_names(
    kind: Annotated[
        str | None,
        typer.Argument(
            metavar="KIND",
            help=f"Only these: {', '.join(KINDS)}.",
            autocompletion=lambda incomplete: [each for each in KINDS if each.startswith(incomplete)],
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List models, solvers, keys, functions, closed forms, templates, and parts of molecular dynamics."""
    with reported(as_json):
        if kind is not None and kind not in KINDS:
            raise InputError(f"list: nothing of the kind {kind!r}{did_you_mean(kind, KINDS)}")
        groups = catalogue()
        if kind is not None:
            groups = {title: group for title, group in groups.items() if title.startswith(KINDS[kind])}
        if as_json:
            print_json(groups)
            return
        width = max(len(name) for group in groups.values() for name in group)
        blocks = [
            "\n".join([title, *(f"  {name:<{width}}  {line}".rstrip() for name, line in group.items())])
            for title, group in groups.items()
        ]
        print("\n\n".join(blocks))
        print("\nMore about each: simkit describe NAME")


def catalogue() -> dict[str, dict[str, str]]:
    """Names and one line about each, by group."""
    from simkit_physics import models_by_field
    from simkit_solvers.methods.particles.particle_methods import PARTICLE_METHODS
    from simkit_solvers.methods.registry import SOLVERS, solvers_by_problem

    from simkit.closed_forms import CLOSED_FORMS
    from simkit.expressions import function_summaries
    from simkit.md.quantities import QUANTITIES

    return {
        **{
            f"models of {field}": {name: first_sentence(model) for name, model in models.items()}
            for field, models in models_by_field().items()
        },
        **{
            f"solvers for {problems}": {info.name: info.summary for info in solvers}
            for problems, solvers in solvers_by_problem(SOLVERS.values()).items()
        },
        "keys of an experiment": {name: key_summary(name) for name in experiment_keys()},
        "functions in expressions": function_summaries(),
        "functions of molecular dynamics": {
            name: opening(inspect.getdoc(section) or "") for name, section in function_sections().items()
        },
        "closed forms for exact": {name: first_sentence(form) for name, form in CLOSED_FORMS.items()},
        "potentials": {name: first_sentence(potential) for name, potential in potentials().items()},
        "methods of molecular dynamics": {
            name: first_sentence(method) for name, method in PARTICLE_METHODS.items()
        },
        "quantities of molecular dynamics": {
            name: quantity.description for name, quantity in QUANTITIES.items()
        },
        "templates": {name: _title(name) for name in template_names()},
    }


def _title(template: str) -> str:
    """The first sentence of the comment at the top of a template."""
    text = resources.files("simkit.templates").joinpath(f"{template}.yaml").read_text(encoding="utf-8")
    comment = itertools.takewhile(lambda line: line.startswith("# "), text.splitlines())
    return re.split(r"\.(?: |$)", " ".join(line[2:] for line in comment))[0]


def first_sentence(described: type | Callable) -> str:
    """The first sentence of a docstring on one line, its formulas in Unicode."""
    return opening(plain_text(inspect.getdoc(described) or ""))


def opening(text: str) -> str:
    """The first sentence of a text on one line, without its full stop.

    One that leads up to a displayed formula ends before the words that do, as in "…; their energy is".
    """
    text = " ".join(text.split("\n\n")[0].split())
    sentence = re.split(r"(?<=[.:]) (?=[A-ZÀ-Þ])", text)[0]
    if not sentence.endswith("."):
        sentence = sentence.rpartition("; ")[0] or sentence
        if sentence[-1:].isalpha() and sentence == text:
            sentence = sentence.rpartition(", ")[0] or sentence
    return sentence.rstrip(".:,")
