"""Several experiments in one file: each variant is the file with some settings changed."""

import copy
import dataclasses
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from simkit.config.diagnostics import Diagnostics
from simkit.config.documents import Document, KeyPath
from simkit.config.overrides import Overrides, opened, replace_key
from simkit.config.settings import Experiment, ParticleExperiment
from simkit.config.settings.places import Root
from simkit.ensemble.simulation import Simulation
from simkit.errors import InputError, input_error
from simkit.experiments.constants import remark_unused
from simkit.experiments.experiment import SWEEP, VARIANTS, simulation_of
from simkit.experiments.reading import add_unreadable
from simkit.experiments.variant_fit import refuse_coupling_of_one
from simkit.suggestions import called, did_you_mean, few_alike, shown

OF_THE_FILE = ("output", "plot", VARIANTS, SWEEP)  # common to all variants of a file
LONGEST_NAME = 40

Built = TypeVar("Built")


def load_one(source: Any, overrides: Overrides = (), variant: str | None = None) -> Simulation:
    """The simulation of a source, or of the variant that is named. Raises `InputError` unless it is one."""
    each = build_each(opened(source, overrides), None if variant is None else [variant], simulation_of)
    refuse_coupling_of_one(each)
    return the_only(each)


def the_only(each: dict[str, Built]) -> Built:
    """What was built of an experiment without variants, or of one variant; `InputError` for several."""
    if len(each) > 1:
        names = ", ".join(each)
        raise InputError(f"the experiment has variants, and this takes one: choose --variant of {names}")
    return next(iter(each.values()))


def build_each(
    document: Document,
    chosen: Collection[str] | None,
    build: Callable[[Document], Built],
    root: Root = Experiment,
) -> dict[str, Built]:
    """What `build` makes of each variant wanted, by name. Raises one error for all variants.

    Without variants the document is built, and its name is "". `root` are the sections of a document.
    """
    if VARIANTS not in document.data:
        if chosen:
            name = shown(next(iter(chosen)))
            file = f"{document.name}: " if document.name else ""
            raise InputError(
                f"{file}there is no variant {name}: the experiment has no variants; leave {name} out, or "
                "add a section such as variants: {low: {model.sigma: 0.1}, high: {model.sigma: 0.4}}"
            )
        return {"": build(document)}

    def remarked(variant: Document) -> Built:
        remark_unused(variant, document)
        return build(variant)

    return build_changed(document, _changes(document, chosen), remarked, root)


def build_changed(
    document: Document,
    changes: Mapping[str, Mapping[KeyPath, tuple[Any, KeyPath]]],
    build: Callable[[Document], Built],
    root: Root = Experiment,
    replaced: str = "every variant sets it; change it in the variants",
) -> dict[str, Built]:
    """What `build` makes of the document with each of the changes, by name. Raises one error for all.

    A change has for each key its value, and the place of that in the document. `replaced` says why an
    option that every change replaces changes nothing, and what to do.
    """
    _refuse_unused(document, changes, root, replaced)
    result: dict[str, Built] = {}
    problems: dict[str, list[str]] = {}
    kinds = set()
    for name in changes:
        try:
            result[name] = build(_changed(document, changes[name]))
        except InputError as error:
            problems[name] = error.problems
            kinds.add(type(error))
    if problems:
        raise input_error(labelled(document.name, problems, len(changes)), kinds)
    return result


def together(variants: Mapping[str, Experiment | ParticleExperiment]) -> dict[str, Any]:
    """One configuration for all variants, as plain data: the first one, and what the others change."""
    plain = {name: _without_output(each) for name, each in variants.items()}
    first = next(iter(plain.values()))
    return first | {VARIANTS: {name: _changes_from(first, other) for name, other in plain.items()}}


def _without_output(experiment: Experiment | ParticleExperiment) -> dict[str, Any]:
    configuration = experiment.resolved()
    configuration.pop("output", None)
    return configuration


def _changes_from(first: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """What to set for one configuration to become another; None removes a key."""
    changes: dict[str, Any] = {key: None for key in first if key not in other}
    for key, value in other.items():
        before = first.get(key)
        if isinstance(value, dict) and isinstance(before, dict):
            inside = _changes_from(before, value)
            if inside:
                changes[key] = inside
        elif key not in first or value != before:
            changes[key] = value
    return changes


def _changes(document: Document, chosen: Collection[str] | None) -> dict[str, dict[KeyPath, tuple]]:
    """For each variant wanted the keys that it sets: target, then value and its place in the document."""
    section = document.data[VARIANTS]
    diagnostics = Diagnostics(document, with_text=False)  # the others are reported with each variant
    if not isinstance(section, dict) or not section:
        given = "an empty one" if section == {} else shown(section)
        diagnostics.add((VARIANTS,), f"must be a mapping of names to settings, got {given}")
        diagnostics.raise_if_any()
    unknown = [name for name in chosen or () if name not in section]
    if unknown:
        raise InputError([f"there is no variant {shown(n)}{did_you_mean(n, section)}" for n in unknown])
    result = {}
    for name, settings in section.items():
        path = (VARIANTS, name)
        if not re.fullmatch(r"\S(.*\S)?", name) or len(name) > LONGEST_NAME or not name.isprintable():
            diagnostics.add(path, f"must be a name of at most {LONGEST_NAME} characters", at_key=True)
        if not isinstance(settings, dict | None):
            diagnostics.add(path, f"must be a mapping of settings, got {shown(settings)}")
            continue
        changes: dict[KeyPath, tuple[Any, KeyPath]] = {}
        for target, value, place in _settings(settings or {}, (), path):
            if not all(target):
                diagnostics.add(place, "must be a key such as model.sigma", at_key=True)
            elif target[0] in OF_THE_FILE:
                diagnostics.add(place, f"{target[0]} is that of all variants; give it outside", at_key=True)
            elif any(target[: len(old)] == old or old[: len(target)] == target for old in changes):
                diagnostics.add(place, f"{'.'.join(target)} is set twice", at_key=True)
            else:
                changes[target] = value, place
        if not chosen or name in chosen:
            result[name] = changes
    diagnostics.raise_if_any()
    return result


def _refuse_unused(
    document: Document, changes: Mapping[str, Mapping[KeyPath, tuple]], root: Root, why: str
) -> None:
    """Raise `InputError` for values that every variant replaces: options, and what could not be read."""

    def sets(targets: Collection[KeyPath], path: KeyPath) -> bool:
        return any(path[: len(target)] == target for target in targets)

    each = {frozenset(own) for own in changes.values()}  # one for all points of a sweep
    replaced = {target for own in each for target in own if all(sets(other, target) for other in each)}
    diagnostics = Diagnostics(document, with_text=False)
    for path in document.options:
        if path[0] != VARIANTS and sets(replaced, path):
            diagnostics.add(path, f"changes nothing, since {why}")
    add_unreadable(replaced, diagnostics, root)
    diagnostics.raise_if_any()


def _settings(
    section: Mapping[str, Any], above: tuple[str, ...], place: KeyPath
) -> Iterator[tuple[tuple[str, ...], Any, KeyPath]]:
    """Every single value in a section, where it goes, and where it stands."""
    for key, value in section.items():
        target, here = (*above, *key.split(".")), (*place, key)
        if isinstance(value, dict) and value:
            yield from _settings(value, target, here)
        else:
            yield target, value, here


def _changed(document: Document, changes: Mapping[KeyPath, tuple[Any, KeyPath]]) -> Document:
    """The document with a variant's settings, which keep the places where they stand in the file."""
    changed = _common(document)
    for target, (value, place) in changes.items():
        path = tuple(str(part) for part in target)
        try:
            *made, where = replace_key(changed, path, copy.deepcopy(value), wholly=len(place) > 3)
        except ValueError as error:
            changed.diagnostics.append((document.keys.get(place, (0, 0)), target, str(error)))
            continue
        for section in made:
            if place in document.keys:
                changed.keys[section] = changed.values[section] = document.keys[place]
        for option in [option for option in document.options if place[: len(option)] == option]:
            changed.options |= dict.fromkeys((*made, where), document.options[option])
        for old, new in ((document.values, changed.values), (document.keys, changed.keys)):
            for mark in [mark for mark in old if mark[: len(place)] == place]:
                new[(*where, *mark[len(place) :])] = old[mark]
        for option in [option for option in document.options if option[: len(place)] == place]:
            changed.options[(*where, *option[len(place) :])] = document.options[option]
    return changed


def _common(document: Document) -> Document:
    """A copy of the document without its variants, and without a sweep, of which it is a point."""
    values, keys = (
        {path: mark for path, mark in marks.items() if path[:1] not in ((VARIANTS,), (SWEEP,))}
        for marks in (document.values, document.keys)
    )
    data = {key: value for key, value in document.data.items() if key not in (VARIANTS, SWEEP)}
    return dataclasses.replace(
        document,
        data=copy.deepcopy(data),
        values=values,
        keys=keys,
        options=dict(document.options),
        diagnostics=list(document.diagnostics),
        remarks=list(document.remarks),
    )


def labelled(file: str | None, problems: Mapping[str, list[str]], variants: int) -> list[str]:
    """The problems of all variants; those that are not common to all say which variant has them."""
    place = re.compile(rf"({re.escape(file)}:\d+:\d+: )?(.*)" if file else "()(.*)", re.DOTALL)
    of_all = variants > 1 and len(problems) == variants
    common = set.intersection(*map(set, problems.values())) if of_all else set()
    result = []
    for name, lines in problems.items():
        for line in lines:
            if line in common:
                result.append(line)
            elif (parts := place.fullmatch(line)) is not None:
                result.append(f"{parts[1] or ''}{called(name)}: {parts[2]}")
    return few_alike(result)


def refuse_paths(experiments: Iterable[Experiment], target: str | os.PathLike | None) -> None:
    """Raise `InputError` where paths are to be saved and the file is to be a table of statistics."""
    if target is None or Path(target).suffix != ".csv":
        return
    if any(experiment.save.paths is not None for experiment in experiments):
        raise InputError(
            f"save.paths: {target} holds statistics only; write .zarr or .nc, or leave save.paths out"
        )
