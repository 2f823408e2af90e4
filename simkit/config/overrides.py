"""`model.sigma=0.3`: single keys of a document replaced, from outside or by a variant."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from simkit.config.documents import Document, KeyPath, parse_value, read_document
from simkit.config.option import Option
from simkit.config.settings.places import root_of, shorthand_at
from simkit.errors import InputError

Overrides = str | Mapping[str, Any] | Iterable[str | Option | tuple[str, Any]]


def opened(source: Any, overrides: Overrides = ()) -> Document:
    """The document of a file, a text or a mapping, with its overrides. Raises what reading it raises.

    A document that has been opened is itself.
    """
    if isinstance(source, Document):
        return source
    document = read_document(source)
    apply_overrides(document, overrides)
    return document


def apply_overrides(document: Document, overrides: Overrides) -> None:
    """Set each `key.path=value`, the value read as YAML; sections that are not there are made,
    and `null` takes a key away.

    One such text, several, pairs of key and value, options of the command line, or a mapping from keys to
    values or to sections, of which what is named is changed.

    Raises one `InputError` for all overrides that cannot be read or lead into a value that has no keys.
    Whether the keys exist is checked with the rest of the document.
    """
    problems = []
    if isinstance(overrides, str):
        overrides = [overrides]
    for override in _pairs(overrides) if isinstance(overrides, Mapping) else overrides:
        match override:
            case Option(text, name):
                key, sign, value = text.partition("=")
            case str():
                (key, sign, value), name = override.partition("="), ""
            case (key, value):
                sign, name = "=", ""
        key = str(key).strip()
        label, path = name or f"override {key}", tuple(key.split("."))
        if not sign or not all(path):
            problems.append(f"{label}: expected KEY=VALUE, as in {'--set ' if name else ''}model.sigma=0.3")
            continue
        if isinstance(override, Option) and not value.strip():
            problems.append(f"{label}: has no value; to remove the key write {key}=null")
            continue
        if callable(value):
            problems.append(f"{label}: a function cannot replace a key; give it with the experiment itself")
            continue
        try:
            inside = parse_value("null" if value is None else str(value), label)
            document.diagnostics += [
                ((0, 0), (*path, *within), text) for _, within, text in inside.diagnostics
            ]
            document.options |= dict.fromkeys(replace_key(document, path, inside.data), label)
        except InputError as error:
            problems += error.problems
        except ValueError as error:
            problems.append(f"{label}: {error}")
    if problems:
        raise InputError(problems)


def _pairs(section: Mapping[Any, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Every single value in a mapping with its dotted key, as in variants."""
    for key, value in section.items():
        if isinstance(value, Mapping) and value:
            yield from _pairs(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value


def replace_key(document: Document, path: tuple[str, ...], value: Any, wholly: bool = False) -> list[KeyPath]:
    """Put a value at a path, and make the sections on the way; the marks of what was there are removed.

    None takes away what is there. Where nothing is, it stands, for the check of the document to judge.
    Gives the key paths of the sections made and of the value. Raises `ValueError` where the path leads into a
    value that has no keys, which `wholly` replaces instead.
    """
    container: Any = document.data
    made: list[KeyPath] = []
    where: KeyPath = ()
    for depth, part in enumerate(path[:-1]):
        dotted = ".".join(path[depth:])  # as a variant may write what it sets
        if isinstance(container, dict) and dotted in container:
            path = (*path[:depth], dotted)
            break
        key = _index(container, part)
        where = (*where, key)
        if isinstance(container, dict) and container.get(key) is None:
            container[key] = {}
            made.append(where)
        elif not isinstance(container[key], dict | list):
            short = shorthand_at(where, root_of(document.data))
            if short is None and not wholly:
                place = ".".join(map(str, where))
                raise ValueError(
                    f"{place} is a single value, so nothing can be set inside it; replace it as a whole, as "
                    f"in '{place}={{{path[depth + 1]}: ...}}'"
                )
            container[key] = {} if short is None else {short: container[key]}
        container = container[key]
    key = _index(container, path[-1])
    where = (*where, key)
    if value is None and isinstance(container, dict) and key in container:
        del container[key]
    else:
        container[key] = value
    for marks in (document.values, document.keys, document.options):
        for old in [old for old in marks if old[: len(where)] == where]:
            del marks[old]
    return [*made, where]


def _index(container, part: str) -> str | int:
    """The key or list index that a part of the path means."""
    if isinstance(container, dict):
        return part
    if part.isdigit() and int(part) < len(container):
        return int(part)
    raise ValueError(f"a list of {len(container)} has no item {part!r}; count from 0")
