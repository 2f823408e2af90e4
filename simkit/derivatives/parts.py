"""The parts of a study: one program for all derivatives that can share a loop."""

import dataclasses
from collections.abc import Sequence

from simkit.derivatives.chunks import chunks_of
from simkit.derivatives.differentiated_run import DifferentiatedRun
from simkit.derivatives.estimator import Part, Selection
from simkit.derivatives.levels import with_levels
from simkit.derivatives.moments import MomentsReduction
from simkit.ensemble.chunk_program import ChunkProgram
from simkit.ensemble.programs import Request
from simkit.ensemble.replicates import PLAIN
from simkit.ensemble.simulation import Simulation
from simkit.ensemble.work import devices_of


def parts_of(
    run: DifferentiatedRun,
    choices: list[Selection],
    quantities: list[str],
    others: Sequence[DifferentiatedRun] = (),
) -> list[Part]:
    """The programs to run: one for each group of derivatives that can share a loop.

    `others` are the run with other policies, for the derivatives of what is exercised early.
    """
    parts = _parts(run, choices, quantities)
    if not others:
        return parts
    replicates = zip(*(_parts(each, choices, quantities) for each in others), strict=True)
    return [
        dataclasses.replace(part, replicates=same) if _is_exercised(run, part) else part
        for part, same in zip(parts, replicates, strict=True)
    ]


def requests_of(simulation: Simulation, part: Part) -> tuple[Request, ...]:
    """The programs of a part, and those that average what they give."""
    plan, devices = chunks_of(simulation), devices_of(simulation)
    dtype = simulation.precision if len(part.requests) == 1 else "float64"
    scramblings = (simulation.reduction or PLAIN).scramblings
    reduction = MomentsReduction(part.counts, scramblings).requests((plan.leaves, plan.lanes), dtype, devices)
    return *part.all_requests, *reduction


def _is_exercised(run: DifferentiatedRun, part: Part) -> bool:
    names = [name for name, _ in part.values] + [choice.quantity for choice, _ in part.derivatives]
    return any(run.is_exercised(name) for name in names)


def _parts(run: DifferentiatedRun, choices: list[Selection], quantities: list[str]) -> list[Part]:
    groups: dict[tuple, list[Selection]] = {}
    for choice in choices:
        alone = *choice.estimator.group(run, choice), run.is_exercised(choice.quantity)
        key = choice.method, choice.is_second, choice.every, choice.smoothings, alone
        groups.setdefault(key, []).append(choice)
    parts = [with_levels(run, group, group[0].estimator.part) for group in groups.values()]
    given = {name for part in parts for name, _ in part.values}
    missing = [name for name in quantities if name not in given]
    for exercised in (False, True):
        names = [name for name in missing if run.is_exercised(name) == exercised]
        if names:
            parts.append(_plain(run, names))
    return parts


def _plain(run: DifferentiatedRun, names: list[str]) -> Part:
    """The values alone."""
    rows = run.rows(names)
    request = Request(ChunkProgram(run.program, rows), (run.inputs, run.first_ids), run.devices)

    def simulate(program, ids):
        return program(run.inputs, ids)[0]

    values = tuple((name, q) for q, name in enumerate(names))
    counts = tuple(count for _, count in rows)
    return Part(requests=(request,), simulate=simulate, counts=counts, values=values, cost=1.0)
