"""What does not go together in a study: its method, numbers, groups and distributions."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from simkit.distributions.distribution import AbstractContinuousDistribution, AbstractDistribution
from simkit.studies.estimators import ESTIMATORS
from simkit.studies.method import AbstractMethod
from simkit.studies.methods import Derivatives, Morris
from simkit.suggestions import did_you_mean, shown

ByName = dict[str, AbstractDistribution]
DISTRIBUTIONS = "distributions"


class Misfit(NamedTuple):
    """What is wrong with a setting, or with one of the `distributions`; `at_key` says where in a file."""

    place: tuple[str, ...]
    message: str
    at_key: bool = False


def misfits(kind: type[AbstractMethod], distributions: ByName, given: Mapping[str, Any]) -> Iterator[Misfit]:
    """What is wrong with a study by this method, of the settings that are given, by name."""
    yield from _points(given["points"], kind is not Morris)
    if given.get("budget") is not None and given.get("width") is None:
        message = "says when to stop on the way to a width; add width, or remove it"
        yield Misfit(("budget",), message, True)
    if given.get("estimator", ESTIMATORS[0]) not in ESTIMATORS:
        known = ", ".join(ESTIMATORS)
        yield Misfit(("estimator",), f"must be one of {known}, got {shown(given['estimator'])}")
    if given.get("order", 1) not in (1, 2):
        yield Misfit(("order",), f"must be 1 or 2, got {shown(given['order'])}")
    levels = given.get("levels", 2)
    if not _is_whole(levels) or levels < 2 or levels % 2:
        yield Misfit(("levels",), f"must be an even number of at least 2, got {shown(levels)}")
    yield from _groups(given.get("groups") or {}, distributions)
    for name, each in distributions.items() if kind is Derivatives else ():
        if not isinstance(each, AbstractContinuousDistribution):
            message = "is discrete, and has no derivative; choose method sobol or morris"
            yield Misfit((DISTRIBUTIONS, name), message)


def made(kind: type[AbstractMethod], distributions: ByName, given: Mapping[str, Any]) -> AbstractMethod:
    """The method with its own of the settings; each parameter that is in no group is one of its own."""
    own = {key: given[key] for key in kind.settings if key != "groups"}
    places = {name: place for place, name in enumerate(distributions)}
    groups = (given.get("groups") if "groups" in kind.settings else None) or {}
    by_group = {group: [places[name] for name in members] for group, members in groups.items()}
    grouped = {place for members in by_group.values() for place in members}
    alone = {name: [place] for name, place in places.items() if place not in grouped}
    return kind(distributions, by_group | alone, **own)


def _is_whole(x: Any) -> bool:
    return isinstance(x, int) and not isinstance(x, bool)


def _points(points: Any, power: bool) -> Iterator[Misfit]:
    if not _is_whole(points) or points < 2:
        kind = "a power of two, at least 2" if power else "at least 2"
        yield Misfit(("points",), f"must be {kind}, got {shown(points)}")
    elif power and points & (points - 1):
        below = 1 << (points.bit_length() - 1)
        message = "must be a power of two, which Sobol' points are balanced at, such as"
        yield Misfit(("points",), f"{message} {below} or {2 * below}, got {points}")


def _groups(groups: Mapping[str, Any], distributions: ByName) -> Iterator[Misfit]:
    seen: dict[str, str] = {}
    for group, members in groups.items():
        place = ("groups", group)
        if isinstance(members, str) or not members:
            yield Misfit(place, f"must be a list of parameters, got {shown(members)}")
            continue
        if group in distributions and list(members) != [group]:
            yield Misfit(place, f"{group} is a parameter; choose another name for the group", True)
        for name in members:
            if name not in distributions:
                hint = did_you_mean(str(name), distributions)
                yield Misfit(place, f"no uncertain parameter {shown(name)}{hint}")
            elif name in seen:
                yield Misfit(place, f"{name} is in {seen[name]} too; it may be in one group")
            seen[name] = group
