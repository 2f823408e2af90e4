"""From a file to a checked experiment."""

import copy
import dataclasses
import difflib
import os
from collections.abc import Collection, Mapping
from typing import Any

from pydantic import TypeAdapter, ValidationError

from simkit.config.diagnostics import Mistakes, key_text
from simkit.config.documents import MAX_DEPTH, Document, KeyPath, read_document
from simkit.config.overrides import Overrides, apply_overrides
from simkit.config.settings import (
    TAGS,
    CurveSettings,
    DerivedSettings,
    EarlyExercise,
    Energies,
    Ensemble,
    EventSettings,
    Experiment,
    FromFile,
    InlineHamiltonian,
    InlineNetwork,
    InlineODE,
    InlineSDE,
    ObservableSettings,
    PerPath,
    Plot,
    RandomValue,
    ReactionSettings,
    Save,
    SDEVariable,
    Section,
    Sensitivity,
    Solver,
    Time,
    Uncertainty,
)
from simkit.config.settings.values import DISTRIBUTIONS, without_quotes
from simkit.errors import InputError
from simkit.experiments.assembly import Parts, assemble, with_defaults
from simkit.experiments.sections.curve_plan import with_curve_numbers
from simkit.suggestions import did_you_mean, shown

VARIANTS = "variants"
REMEDIES: dict[KeyPath, str] = {("time", "dt"): "; write steps, the number of them from t0 to t1"}
AS_NEAR = 0.1  # of the similarity of two words, which is from 0 to 1

_SECTIONS: dict[tuple[str, ...], type[Section]] = {
    (): Experiment,
    ("time",): Time,
    ("ensemble",): Ensemble,
    ("save",): Save,
    ("plot",): Plot,
    ("solver",): Solver,
    ("sensitivity",): Sensitivity,
    ("uncertainty",): Uncertainty,
    ("curves", "*"): CurveSettings,
    ("events", "*"): EventSettings,
    ("observe", "*"): ObservableSettings,
    ("observe", "*", "early_exercise"): EarlyExercise,
    ("derived", "*"): DerivedSettings,
    ("model", "sde", "*"): SDEVariable,
    ("model", "hamiltonian"): Energies,
    ("model", "reactions", "*"): ReactionSettings,
}


def load(source: str | os.PathLike | Mapping[str, Any], overrides: Overrides = ()) -> Experiment:
    """Read and check an experiment: a file, a YAML text of more than one line, or a mapping.

    `overrides` replace single keys: `"model.sigma=0.3"`, several of them, or `{"model.sigma": 0.3}`.
    Raises one `InputError` that lists every mistake as `file:line:column: key: message` (in a mapping as
    `key: message`), and `OutputError` when the file cannot be read. The experiment returned has its defaults
    filled in, those that depend on the model too, and holds the numbers of the files that it names.
    """
    document = read_document(source)
    apply_overrides(document, overrides)
    if VARIANTS in document.data:
        mistakes = Mistakes(document)
        message = "there are several experiments here; take load_variants, or remove variants"
        mistakes.add((VARIANTS,), message, at_key=True)
        mistakes.raise_if_any()
    return checked(document)


def checked(document: Document) -> Experiment:
    """The experiment in a document without variants. Raises `InputError` that lists every mistake."""
    mistakes = Mistakes(document)
    data = _without_two_models(document, mistakes)
    try:
        experiment = Experiment.model_validate(data)
    except ValidationError as error:
        paths = [_explain(document, mistakes, dict(entry)) for entry in error.errors(include_url=False)]
        assemble(_readable_parts(data, paths), mistakes)
        mistakes.raise_if_any()
        raise InputError(str(error)) from error
    experiment = with_defaults(experiment)
    experiment._document = document
    experiment = with_curve_numbers(experiment, mistakes)
    assembled = assemble(Parts.of(experiment), mistakes)
    mistakes.raise_if_any()
    if assembled is not None and assembled.completed:
        experiment = experiment.model_copy(update=assembled.completed)
        experiment._document = document
    return experiment


def add_unreadable(document: Document, paths: Collection[KeyPath], mistakes: Mistakes) -> None:
    """Add the mistakes in values at or below some paths that show without the rest of the document."""
    try:
        Experiment.model_validate(document.data)
    except ValidationError as error:
        for entry in error.errors(include_url=False):
            where = tuple(part for part in entry["loc"] if part not in TAGS)
            if entry["type"] != "missing" and any(where[: len(path)] == path for path in paths):
                _explain(document, mistakes, dict(entry))


def _without_two_models(document: Document, mistakes: Mistakes) -> dict[str, Any]:
    """The data, without a model that is both named and written out, which would be wrong in many ways."""
    model = _given(document, ("model",))
    written = [key for key in ("sde", "ode", "hamiltonian", "reactions") if key in model]
    if "type" not in model or not written:
        return document.data
    mistakes.add(("model", written[0]), f"give type or {written[0]}, not both", at_key=True)
    return {key: value for key, value in document.data.items() if key != "model"}


def _explain(document: Document, mistakes: Mistakes, entry: dict[str, Any]) -> KeyPath:
    """Add one of pydantic's complaints in our words; gives the path of the value at fault."""
    path: KeyPath = tuple(part for part in entry["loc"] if part not in TAGS)
    match entry["type"]:
        case "simkit":
            mistakes.add(path, entry["msg"])
        case "quoted":
            read = bool(document.name or document.options)  # by simkit, from a file or the command line
            remedy = without_quotes(entry["ctx"]["text"], in_file=read)
            mistakes.add(path, f"{entry['msg']}; {remedy}")
        case "distribution":
            _explain_distribution(document, mistakes, path)
        case "missing":
            mistakes.add_missing(path, f"is missing{_what(document, path)}")
        case "extra_forbidden":
            hint = _near_key(str(path[-1]), _known_keys(document, path[:-1]), _given(document, path[:-1]))
            mistakes.add(path, f"unknown key{REMEDIES.get(path, hint)}", at_key=True)
        case _ if entry["input"] is None and path in document.options:  # by --set, which takes keys away
            above = [key for key, value in _given(document, path[:-1]).items() if value is not None]
            mistakes.add(path, f"is not there to be taken away{did_you_mean(str(path[-1]), above)}")
        case "bool_type" | "bool_parsing":
            mistakes.add(path, f"must be true or false, got {shown(entry['input'])}")
        case "string_type":
            mistakes.add(path, f"must be text, got {shown(entry['input'])}")
        case _:
            mistakes.add(path, f"must be {_expected(document, path)}, got {shown(entry['input'])}")
    return path


def _explain_distribution(document: Document, mistakes: Mistakes, path: KeyPath) -> None:
    """Add that a distribution is not for a run, once for all that `simkit uncertainty` would take."""
    places = [
        place for key in ("constants", "model") for place in _distributions(document.data.get(key), (key,))
    ]
    if path not in places:
        mistakes.add(path, "a distribution may stand under constants and for a model's parameter only")
        return
    for place in places:
        if mistakes.at_or_below(place):
            mistakes.add_covered(path, place)
            return
    others = ", ".join(key_text(place) for place in places if place != path)
    mistakes.add(
        path,
        "study this file by `simkit uncertainty`, which takes distributions; to run it, give one number "
        f"here, as by --set {key_text(path)}=NUMBER{', and so for ' if others else ''}{others}",
    )


def _distributions(value: Any, path: KeyPath) -> list[KeyPath]:
    """Where distributions stand in a section."""
    if not isinstance(value, dict):
        return []
    if len(value) == 1 and next(iter(value)) in DISTRIBUTIONS:
        return [path]
    return [place for key, inner in value.items() for place in _distributions(inner, (*path, key))]


def _section(document: Document, path: KeyPath) -> type[Section] | None:
    if path == ("model",):
        model = _given(document, path)
        kinds = {
            "sde": InlineSDE,
            "ode": InlineODE,
            "hamiltonian": InlineHamiltonian,
            "reactions": InlineNetwork,
        }
        return next((section for key, section in kinds.items() if key in model), None)
    if len(path) == 2 and path[0] == "initial":
        given = _given(document, path)
        return FromFile if "file" in given else PerPath if "values" in given else RandomValue
    for pattern, section in _SECTIONS.items():
        if len(pattern) == len(path) and all(p in ("*", q) for p, q in zip(pattern, path, strict=True)):
            return section
    return None


def _near_key(key: str, known: list[str], given: Mapping[str, Any]) -> str:
    """The key that was meant: one that is not there yet, if one is about as near as any."""
    near = {name: difflib.SequenceMatcher(None, key.casefold(), name).ratio() for name in known}
    closest = max(near.values(), default=0.0)
    hint = did_you_mean(key, [name for name in known if name not in given and near[name] > closest - AS_NEAR])
    return hint if "did you mean" in hint else did_you_mean(key, known)


def _known_keys(document: Document, path: KeyPath) -> list[str]:
    section = _section(document, path)
    return list(section.model_fields) if section else []


def _given(document: Document, path: KeyPath) -> Mapping[str, Any]:
    value: Any = document.data
    for part in path:
        value = value.get(part) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def _what(document: Document, path: KeyPath) -> str:
    """What a missing key is for."""
    if path == ("model", "type"):
        return "; a model has a type, equations under sde or ode, energies under hamiltonian, or reactions"
    section = _section(document, path[:-1])
    field = section.model_fields.get(str(path[-1])) if section else None
    description = (field.description or "") if field else ""
    return f"; {description[0].lower()}{description[1:].split('. ')[0].rstrip('.')}" if description else ""


def _expected(document: Document, path: KeyPath) -> str:
    """What should stand at a path where something of another kind was found."""
    if path == ("model",):
        return "a mapping such as {type: GBM, mu: 0.05, sigma: 0.2}"
    section = _section(document, path)
    if section is None:
        return "a mapping of names to values"
    return f"a mapping with the keys {', '.join(section.model_fields)}"


def _readable_parts(data: dict[str, Any], wrong: list[KeyPath]) -> Parts:
    """The sections that can be read without the values at fault, so that the rest is checked too."""
    data = copy.deepcopy(data)
    for path in wrong:
        _drop(data, path)
    found = {}
    for field in dataclasses.fields(Parts):
        name = field.name
        spec = Experiment.model_fields[name]
        reader = TypeAdapter(Experiment.__annotations__[name])
        found[name] = None
        if name not in data and not spec.is_required() and (name,) not in wrong:
            found[name] = spec.get_default(call_default_factory=True)
        for _ in range(MAX_DEPTH):
            if name not in data:
                break
            try:
                found[name] = reader.validate_python(data[name])
                break
            except ValidationError as error:
                for entry in error.errors(include_url=False):
                    path = (name, *(part for part in entry["loc"] if part not in TAGS))
                    _drop(data, path[:-1] if entry["type"] == "missing" else path)
    return Parts(**found)


def _drop(data: Any, path: KeyPath) -> None:
    for part in path[:-1]:
        if isinstance(data, dict) and part in data:
            data = data[part]
        else:
            return
    if isinstance(data, dict) and path:
        data.pop(path[-1], None)
