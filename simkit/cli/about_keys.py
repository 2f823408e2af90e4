"""The keys of an experiment as `simkit describe` shows them, from the schema."""

import textwrap
from collections.abc import Iterator
from typing import Any

from simkit.errors import InputError
from simkit.suggestions import did_you_mean

WIDTH = 100


PARTICLES = "In molecular dynamics: "
Part = tuple[dict[str, Any], dict[str, Any]]  # the schema of a section, and the definitions that it refers to


def wrapped(text: str, indent: str = "") -> str:
    """Each line of a text in as many lines as it takes."""
    return "\n".join(
        textwrap.fill(line, WIDTH, initial_indent=indent, subsequent_indent=indent)
        for line in text.split("\n")
    )


def experiment_keys() -> list[str]:
    """The top-level keys, of molecular dynamics too."""
    from simkit.config.settings import Experiment

    return [*Experiment.model_fields, *particle_keys()]


def particle_keys() -> list[str]:
    """The top-level keys that molecular dynamics alone has."""
    from simkit.config.settings import Experiment, ParticleExperiment

    return [name for name in ParticleExperiment.model_fields if name not in Experiment.model_fields]


def key_summary(name: str) -> str:
    """The first sentence about a top-level key."""
    return (_field(name).description or "").split(". ")[0].rstrip(".")


def _field(name: str) -> Any:
    from simkit.config.settings import Experiment, ParticleExperiment

    root = ParticleExperiment if name in particle_keys() else Experiment
    return root.model_fields[name]


def about_key(name: str) -> dict[str, Any]:
    """What is known of a top-level key: its meaning, an example, and the keys below it."""
    field = _field(name)
    spec, parts = _top(name)
    choices = spec.get("enum", ())
    return {
        "name": name,
        "kind": "key of an experiment",
        "text": wrapped(field.description or ""),
        "options": list(choices) if len(choices) < 5 else [],
        "sections": _sections(parts, field.description),
        "yaml": f"{name}: {inline(field.examples[0])}" if field.examples else "",
    }


def _top(name: str) -> tuple[dict[str, Any], list[Part]]:
    """The schema of a top-level key, and the sections below it, of molecular dynamics too."""
    from simkit.schema import experiment_schema, particle_schema

    schema, particles = experiment_schema(), particle_schema()
    own = particles if name in particle_keys() else schema
    spec = own["properties"][name]
    parts = _parts(spec, own["$defs"])
    if own is schema and name in particles["properties"]:
        known = [part for part, _ in parts]
        parts += [
            (part | {"description": f"{PARTICLES}{part.get('description', '')}"}, definitions)
            for part, definitions in _parts(particles["properties"][name], particles["$defs"])
            if part not in known
        ]
    return spec, parts


def about_key_inside(name: str) -> dict[str, Any]:
    """What is known of a key inside sections, such as `ensemble.target.stderr`; else `InputError`."""
    section, *keys = name.split(".")
    _, parts = _top(section)
    row: dict[str, str] = {}
    for i, key in enumerate(keys):
        rows = _rows_below(parts)
        if key not in rows:
            hint = did_you_mean(key, rows).replace("'", f"'{section}.", 1)
            where = section if rows else section.rpartition(".")[0] or section
            raise InputError(f"nothing is called {name!r}{hint} (`simkit describe {where}` shows its keys)")
        row, spec, definitions = rows[key]
        parts = _parts(spec, definitions)
        section += f".{key}" if i + 1 < len(keys) else ""
    text = f"{row['description']} ({row['default']})" if row["default"] else row["description"]
    sections = _sections(parts, row["description"])
    return {"name": name, "kind": f"key of {section}", "text": wrapped(text), "sections": sections}


def keys_called(name: str) -> list[str]:
    """The keys inside sections that have a name, such as `time.steps` for `steps`."""
    return [f"{section}.{name}" for section in experiment_keys() if name in _rows_below(_top(section)[1])]


def _rows_below(parts: list[Part]) -> dict[str, tuple[dict[str, str], Any, dict[str, Any]]]:
    """By key its row, its schema and the definitions that this refers to; the first one of each name."""
    return {
        row["name"]: (row, part["properties"][row["name"]], definitions)
        for part, definitions in reversed(parts)
        for row in rows_of(part)
    }


def _sections(parts: list[Part], known: str | None) -> list[dict[str, Any]]:
    """What sections are, unless that is `known`, and their keys."""
    return [
        {"text": "" if (known or "").startswith(said.rstrip(".")) else said, "keys": list(rows_of(part))}
        for part, _ in parts
        for said in [part.get("description", "")]
    ]


def _parts(spec: Any, definitions: dict[str, Any]) -> list[Part]:
    """The sections that a part of the schema refers to, without models."""
    from simkit_physics import MODELS

    return [(definitions[part], definitions) for part in _below(spec, definitions) if part not in MODELS]


def _below(spec: Any, definitions: dict[str, Any]) -> list[str]:
    """The names of the definitions that a part of the schema refers to, and those refer to, each once."""
    result: dict[str, None] = {}
    waiting = list(_references(spec))
    while waiting:
        name = waiting.pop(0)
        if name not in result:
            result[name] = None
            waiting += _references(definitions[name])
    return list(result)


def _references(spec: Any) -> Iterator[str]:
    """The names of the definitions that a part of the schema refers to."""
    if isinstance(spec, list):
        for item in spec:
            yield from _references(item)
    elif isinstance(spec, dict):
        if "$ref" in spec:
            yield spec["$ref"].rsplit("/", 1)[1]
        for item in spec.values():
            yield from _references(item)


def rows_of(section: dict[str, Any]) -> Iterator[dict[str, str]]:
    for key, spec in section["properties"].items():
        default = "required" if key in section.get("required", ()) else ""
        if spec.get("default") not in ("", None):
            default = f"default {inline(spec['default'])}"
        yield {"name": key, "default": default, "description": spec.get("description", "")}


def inline(value: Any) -> str:
    import yaml

    return (
        yaml.safe_dump(value, default_flow_style=True, sort_keys=False, allow_unicode=True, width=1000)
        .removesuffix("\n")
        .removesuffix("\n...")
        .strip()
    )


def section_text(section: dict[str, Any]) -> str:
    """What it is, and its keys: name and default in columns, the meaning in as many lines as it takes."""
    rows = section["keys"]
    widths = [max(len(row[column]) for row in rows) for column in ("name", "default")]
    indent = " " * (sum(widths) + 6)
    lines = [wrapped(section["text"])] if section["text"] else []
    for row in rows:
        head = f"  {row['name']:<{widths[0]}}  {row['default']:<{widths[1]}}  "
        lines.append(head + wrapped(row["description"], indent).lstrip())
    return "\n".join(line.rstrip() for line in lines)
