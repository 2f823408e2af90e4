"""From the keys of a document to sections, with errors in plain words."""

import copy
import difflib
from collections.abc import Collection, Mapping
from typing import Any, TypeVar, get_type_hints

import yaml
from pydantic import TypeAdapter, ValidationError

from simkit.config.diagnostics import Diagnostics, key_text
from simkit.config.documents import KeyPath
from simkit.config.settings import (
    TAGS,
    Experiment,
    FromFile,
    InlineHamiltonian,
    InlineNetwork,
    InlineODE,
    InlineSDE,
    ParticleExperiment,
    PerPath,
    RandomValue,
    Section,
)
from simkit.config.settings.places import Root, sections_at
from simkit.config.settings.values import DISTRIBUTIONS, without_quotes
from simkit.config.strict_yaml import MAX_DEPTH
from simkit.experiments.defaults import with_defaults
from simkit.experiments.elsewhere import given_instead, remedy_of_key, remedy_of_value
from simkit.suggestions import did_you_mean, shown

Read = TypeVar("Read", Experiment, ParticleExperiment)
FEW = 15  # keys that a message lists
AS_NEAR = 0.1  # of the similarity of two words, which is from 0 to 1


def read_experiment(diagnostics: Diagnostics) -> Experiment:
    """The experiment in a document, whose sections are `None` where they cannot be read."""
    data, reading = diagnostics.document.data, _Reading(diagnostics)
    model = diagnostics.written("model")
    written = [key for key in ("type", "sde", "ode", "hamiltonian", "reactions") if key in model]
    if len(written) > 1:  # which would be wrong in many ways
        message = f"give {written[0]} or {written[1]}, not both"
        diagnostics.add(("model", written[1]), message, at_key=True)
        data = {key: value for key, value in data.items() if key != "model"}
    try:
        experiment = with_defaults(Experiment.model_validate(data))
    except ValidationError as error:
        wrong = [reading.explain(dict(entry)) for entry in error.errors(include_url=False)]
        experiment = _readable(data, wrong, Experiment)
    experiment._document = diagnostics.document
    return experiment


def read_particles(diagnostics: Diagnostics, root: type[ParticleExperiment]) -> ParticleExperiment:
    """The experiment of molecular dynamics in a document, with the sections of `root`."""
    data, reading = diagnostics.document.data, _Reading(diagnostics, root)
    try:
        experiment = root.model_validate(data)
    except ValidationError as error:
        wrong = [reading.explain(dict(entry)) for entry in error.errors(include_url=False)]
        experiment = _readable(data, wrong, root)
    experiment._document = diagnostics.document
    return experiment


def add_unreadable(paths: Collection[KeyPath], diagnostics: Diagnostics, root: Root) -> None:
    """Add the errors in values at or below some paths that show without the rest of the document."""
    reading = _Reading(diagnostics, root)
    try:
        root.model_validate(diagnostics.document.data)
    except ValidationError as error:
        for entry in error.errors(include_url=False):
            where = tuple(part for part in entry["loc"] if part not in TAGS)
            if entry["type"] != "missing" and any(where[: len(path)] == path for path in paths):
                reading.explain(dict(entry))


class _Reading:
    """What pydantic complains of, as messages with their places in the document."""

    def __init__(self, diagnostics: Diagnostics, root: Root = Experiment):
        self.diagnostics, self.document, self.root = diagnostics, diagnostics.document, root

    def elsewhere(self, key: str) -> str:
        """The section that has a key which stands outside of all, or where to find those that there are."""
        sections = [(name,) for name in self.root.model_fields] + [("model", "parameters")]
        inside = (
            ".".join(map(str, (*path, key))) for path in sections if key in self.diagnostics.written(*path)
        )
        found = next(inside, None)
        return f"; did you mean {found}?" if found else "; `simkit list keys` shows all"

    def explain(self, entry: dict[str, Any]) -> KeyPath:
        """Add a message for one of pydantic's complaints; gives the path of the value at fault."""
        path: KeyPath = tuple(part for part in entry["loc"] if part not in TAGS)
        match entry["type"]:
            case "simkit":
                beside = self.diagnostics.written(*path[:-1])
                self.diagnostics.add(path, entry["msg"] + remedy_of_value(path, entry["input"], beside))
            case "quoted":
                read = bool(self.document.name or self.document.options)  # by simkit, not from Python
                remedy = without_quotes(entry["ctx"]["text"], in_file=read)
                self.diagnostics.add(path, f"{entry['msg']}; {remedy}")
            case "distribution":
                self.explain_distribution(path)
            case "missing":
                other = given_instead(path, self.diagnostics.written(*path[:-1]))
                self.diagnostics.add_missing(path, f"is missing{other or self.what(path)}")
            case "extra_forbidden":
                given = self.diagnostics.written(*path[:-1])
                more = self.elsewhere(str(path[0])) if len(path) == 1 else ""
                hint = _near_key(str(path[-1]), self.known_keys(path[:-1]), given) or more
                if path[:-1] == ("model",) and path[-1] in self.diagnostics.written("model", "parameters"):
                    hint = f"; did you mean model.parameters.{path[-1]}?"
                elif path[:-1] == ("model",) and hint.startswith("; known") and not _of_equations(path[-1]):
                    hint = (
                        f"; a parameter of equations in the file stands under parameters: {{{path[-1]}: …}}"
                    )
                remedy = remedy_of_key(path, self.root)
                self.diagnostics.add(path, f"unknown key{f'; {remedy}' if remedy else hint}", at_key=True)
            case _ if (
                entry["input"] is None and path in self.document.options
            ):  # by --set, which removes keys
                given = self.diagnostics.written(*path[:-1])
                hint = did_you_mean(str(path[-1]), [key for key, value in given.items() if value is not None])
                self.diagnostics.add(path, f"cannot be removed: there is no such key{hint}")
            case "bool_type" | "bool_parsing":
                self.diagnostics.add(path, f"must be true or false, got {shown(entry['input'])}")
            case "string_type":
                self.diagnostics.add(path, f"must be text, got {shown(entry['input'])}")
            case _:
                self.diagnostics.add(path, f"must be {self.expected(path)}, got {shown(entry['input'])}")
        return path

    def explain_distribution(self, path: KeyPath) -> None:
        """Add that a distribution is not for a run, once for all that `simkit uncertainty` would take."""
        sections = {key: self.diagnostics.written(key) for key in ("constants", "model")}
        places = [place for key, section in sections.items() for place in _distributions(section, (key,))]
        if path not in places:
            message = "a distribution is allowed only under constants and for a model's parameter"
            self.diagnostics.add(path, message)
            return
        for place in places:
            if self.diagnostics.at_or_below(place):
                self.diagnostics.add_covered(path, place)
                return
        others = ", ".join(key_text(place) for place in places if place != path)
        self.diagnostics.add(
            path,
            "study this file by `simkit uncertainty`, which takes distributions; to run it, give one number "
            f"here, as by --set {key_text(path)}=NUMBER{', and so for ' if others else ''}{others}",
        )

    def section(self, path: KeyPath) -> type[Section] | None:
        if self.root is not Experiment:
            return next(iter(sections_at(path, self.root)), None)
        if path == ("model",):
            model = self.diagnostics.written(*path)
            kinds = {
                "sde": InlineSDE,
                "ode": InlineODE,
                "hamiltonian": InlineHamiltonian,
                "reactions": InlineNetwork,
            }
            return next((section for key, section in kinds.items() if key in model), None)
        if len(path) == 2 and path[0] == "initial":
            given = self.diagnostics.written(*path)
            return FromFile if "file" in given else PerPath if "values" in given else RandomValue
        return next(iter(sections_at(path)), None)

    def known_keys(self, path: KeyPath) -> list[str]:
        section = self.section(path)
        return list(section.model_fields) if section else []

    def what(self, path: KeyPath) -> str:
        """What a missing key is for."""
        if path == ("model", "type"):
            return (
                "; a model has a type, equations under sde or ode, energies under hamiltonian, or reactions"
            )
        section = self.section(path[:-1])
        field = section.model_fields.get(str(path[-1])) if section else None
        description = (field.description or "") if field else ""
        return (
            f"; {description[0].lower()}{description[1:].split('. ')[0].rstrip('.')}" if description else ""
        )

    def expected(self, path: KeyPath) -> str:
        """What should stand at a path where something of another kind was found."""
        if path == ("model",):
            return "a mapping such as {type: GBM, mu: 0.05, sigma: 0.2}"
        section = self.section(path)
        if section is None:
            return f"a mapping of names to values{self.example(path)}"
        return f"a mapping with the keys {', '.join(section.model_fields)}"

    def example(self, path: KeyPath) -> str:
        """`, such as {decay: {equation: X -> 0, rate: mu}}`, where the key at a path has an example."""
        section = self.section(path[:-1]) if path else None
        field = section.model_fields.get(str(path[-1])) if section else None
        if field is None or not field.examples:
            return ""
        text = yaml.safe_dump(field.examples[0], default_flow_style=True, sort_keys=False, width=1000)
        return f", such as {text.strip()}"


def _of_equations(key: str | int) -> bool:
    """Whether some kind of model in the file has this key."""
    return any(key in kind.model_fields for kind in (InlineSDE, InlineODE, InlineHamiltonian, InlineNetwork))


def _distributions(value: Any, path: KeyPath) -> list[KeyPath]:
    """Where distributions stand in a section."""
    if not isinstance(value, dict):
        return []
    if len(value) == 1 and next(iter(value)) in DISTRIBUTIONS:
        return [path]
    return [place for key, inner in value.items() for place in _distributions(inner, (*path, key))]


def _near_key(key: str, known: list[str], given: Mapping[str, Any]) -> str:
    """The key that was meant: one that is not there yet, if one is about as near as any."""
    near = {name: difflib.SequenceMatcher(None, key.casefold(), name).ratio() for name in known}
    closest = max(near.values(), default=0.0)
    hint = did_you_mean(key, [name for name in known if name not in given and near[name] > closest - AS_NEAR])
    return hint if "did you mean" in hint else did_you_mean(key, known, FEW)


def _readable(data: dict[str, Any], wrong: list[KeyPath], root: type[Read]) -> Read:
    """What can be read without the values at fault, so that the rest is checked too; `None` for a section
    of which nothing can."""
    data = copy.deepcopy(data)
    for path in wrong:
        _drop(data, path)
    sections: dict[str, Any] = {}
    annotations = get_type_hints(root, include_extras=True)
    for name, spec in root.model_fields.items():
        sections[name] = None
        if name not in data and not spec.is_required() and (name,) not in wrong:
            sections[name] = spec.get_default(call_default_factory=True)
        for _ in range(MAX_DEPTH):
            if name not in data:
                break
            try:
                sections[name] = TypeAdapter(annotations[name]).validate_python(data[name])
                break
            except ValidationError as error:
                for entry in error.errors(include_url=False):
                    path = (name, *(part for part in entry["loc"] if part not in TAGS))
                    _drop(data, path[:-1] if entry["type"] == "missing" else path)
    return root.model_construct(**sections)


def _drop(data: Any, path: KeyPath) -> None:
    for part in path[:-1]:
        if isinstance(data, dict) and part in data:
            data = data[part]
        else:
            return
    if isinstance(data, dict) and path:
        data.pop(path[-1], None)
