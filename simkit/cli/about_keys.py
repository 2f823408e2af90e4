"""The keys of an experiment as `simkit describe` shows them, from the schema."""

import textwrap
from collections.abc import Iterator
from typing import Any

from simkit.errors import InputError
from simkit.suggestions import did_you_mean

WIDTH = 100


PARTICLES = "In molecular dynamics: "


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
    from simkit_physics import MODELS

    from simkit.schema import experiment_schema, particle_schema

    schema, particles = experiment_schema(), particle_schema()
    own = particles if name in particle_keys() else schema
    field, spec = _field(name), own["properties"][name]
    sections = [own["$defs"][part] for part in _below(spec, own["$defs"]) if part not in MODELS]
    if own is schema and name in particles["properties"]:
        sections += _of_particles(particles, name, sections)
    choices = spec.get("enum", ())
    return {
        "name": name,
        "kind": "key of an experiment",
        "text": wrapped(field.description or ""),
        "options": list(choices) if len(choices) < 5 else [],
        "sections": [
            {"text": said if said != field.description else "", "keys": list(rows_of(part))}
            for part in sections
            for said in [part.get("description", "")]
        ],
        "yaml": f"{name}: {inline(field.examples[0])}" if field.examples else "",
    }


def _of_particles(schema: dict[str, Any], name: str, known: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The sections below a key in molecular dynamics, where they are others than those known."""
    parts = [schema["$defs"][part] for part in _below(schema["properties"][name], schema["$defs"])]
    return [
        part | {"description": f"{PARTICLES}{part.get('description', '')}"}
        for part in parts
        if part not in known
    ]


def about_key_inside(name: str) -> dict[str, Any]:
    """What is known of a key inside a section, such as `time.steps`; else `InputError`."""
    section, _, key = name.partition(".")
    rows = _rows_below(section)
    if key not in rows:
        hint = did_you_mean(key, rows).replace("'", f"'{section}.", 1)
        raise InputError(f"nothing is called {name!r}{hint} (`simkit describe {section}` shows its keys)")
    row = rows[key]
    text = f"{row['description']} ({row['default']})" if row["default"] else row["description"]
    return {"name": name, "kind": f"key of {section}", "text": wrapped(text)}


def keys_called(name: str) -> list[str]:
    """The keys inside sections that have a name, such as `time.steps` for `steps`."""
    return [f"{section}.{name}" for section in experiment_keys() if name in _rows_below(section)]


def _rows_below(section: str) -> dict[str, dict[str, str]]:
    parts = about_key(section)["sections"]
    # Of a key that molecular dynamics has too, the first one.
    return {row["name"]: row for part in reversed(parts) for row in part["keys"]}


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
