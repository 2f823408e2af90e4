"""The parts of a study: one program for all derivatives that can share a loop."""

import dataclasses
from collections.abc import Sequence

from simkit.derivatives.estimator import Selection
from simkit.derivatives.facts import Facts
from simkit.derivatives.part import Part, devices_of, rows_of, some_ids, with_levels
from simkit.ensemble.programs import Request
from simkit.ensemble.run import ChunkProgram


def parts_of(
    facts: Facts, choices: list[Selection], quantities: list[str], others: Sequence[Facts] = ()
) -> list[Part]:
    """The programs to run: one for each group of derivatives that can share a loop.

    `others` are the facts with other policies, for the derivatives of what is exercised early.
    """
    parts = _parts(facts, choices, quantities)
    beside = zip(*(_parts(each, choices, quantities) for each in others), strict=True)
    if not others:
        return parts
    return [
        dataclasses.replace(part, replicates=same) if _is_exercised(facts, part) else part
        for part, same in zip(parts, beside, strict=True)
    ]


def _is_exercised(facts: Facts, part: Part) -> bool:
    names = [name for name, _ in part.values] + [choice.quantity for choice, _ in part.derivatives]
    return any(facts.is_exercised(name) for name in names)


def _parts(facts: Facts, choices: list[Selection], quantities: list[str]) -> list[Part]:
    groups: dict[tuple, list[Selection]] = {}
    for choice in choices:
        alone = *choice.estimator.group(facts, choice), facts.is_exercised(choice.quantity)
        key = choice.method, choice.is_second, choice.every, choice.smoothings, alone
        groups.setdefault(key, []).append(choice)
    parts = [with_levels(facts, group, group[0].estimator.part) for group in groups.values()]
    given = {name for part in parts for name, _ in part.values}
    missing = [name for name in quantities if name not in given]
    for exercised in (False, True):
        names = [name for name in missing if facts.is_exercised(name) == exercised]
        if names:
            parts.append(_plain(facts, names))
    return parts


def _plain(facts: Facts, names: list[str]) -> Part:
    """The values alone."""
    rows = rows_of(facts, names)
    request = Request(ChunkProgram(facts.program, rows), (facts.inputs, some_ids(facts)), devices_of(facts))

    def simulate(run, ids):
        return run(facts.inputs, ids)[0]

    values = tuple((name, q) for q, name in enumerate(names))
    return Part((request,), simulate, tuple(count for _, count in rows), (), values, 1.0)
