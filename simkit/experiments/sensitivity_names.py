"""The names in the `sensitivity` section: the quantities to differentiate, and with respect to what."""

from collections.abc import Collection

from simkit.config.diagnostics import Diagnostics
from simkit.config.settings import Sensitivity
from simkit.experiments.sections.model_plan import ModelPlan
from simkit.suggestions import did_you_mean, known_names, shown

PREFIXES = ("model.", "initial.", "time.")


def full_name(label: str, targets: Collection[str], prefixes: tuple[str, ...] = PREFIXES) -> str | None:
    """What a name means: a constant, else a parameter, an initial value, t0 or t1; None for nothing.

    A constant may be named as elsewhere, too: `constants.r` is `r`.
    """
    section, _, constant = label.rpartition(".")
    names = (label, *(f"{prefix}{label}" for prefix in prefixes), *[constant] * (section == "constants"))
    return next((name for name in names if name in targets), None)


def named_pairs(section: Sensitivity) -> list[tuple[str, str]]:
    """The pairs of names of the second derivatives."""
    given = (each if isinstance(each, list) else [each, each] for each in section.second or ())
    return [(str(first), str(last)) for first, last in given]


def check_sensitivity(
    section: Sensitivity | None,
    targets: Collection[str],
    plan: ModelPlan,
    observables: Collection[str],
    diagnostics: Diagnostics,
) -> None:
    """Add an error for each name that means nothing, or that has no derivative."""
    if section is None:
        return
    known = list(dict.fromkeys(name.split(".", 1)[-1] for name in targets))
    meant: dict[str, str] = {}
    for i, label in enumerate(section.wrt):
        bare = label.split(".", 1)[-1]
        place = ("sensitivity", "wrt", i)
        name = full_name(label, targets)
        if name is not None:
            if name in meant:
                diagnostics.add(place, twice(label, meant[name]))
            meant.setdefault(name, label)
        elif bare in plan.changing:
            diagnostics.add(place, f"{label} changes with time; use the constants in its curve")
        elif bare in plan.variables:
            message = (
                f"{label} differs from path to path; write its initial value with a constant, and use that"
            )
            diagnostics.add(place, message)
        else:
            diagnostics.add(place, f"unknown name {shown(label)}{known_names(label, known)}")
    quantities = [*observables, *plan.variables]
    of = section.of or []
    for i, name in enumerate(of):
        if name not in quantities:
            diagnostics.add(
                ("sensitivity", "of", i), f"unknown name {shown(name)}{did_you_mean(name, quantities)}"
            )
        elif name in of[:i]:
            diagnostics.add(("sensitivity", "of", i), twice(name, name))
    for i, pair in enumerate(named_pairs(section)):
        for name in dict.fromkeys(pair):
            if name not in section.wrt:
                message = f"{shown(name)} is not in wrt{did_you_mean(name, section.wrt)}"
                diagnostics.add(("sensitivity", "second", i), message)


def twice(name: str, before: str) -> str:
    return f"{name} is there twice" if name == before else f"{name} is {before}, which is there already"
