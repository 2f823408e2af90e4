"""The parts of a study: one program for all derivatives that can share a loop."""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from simkit_solvers.grids.grid import Grid
from simkit_solvers.grids.jump_grid import JumpGrid
from simkit_solvers.problems.directions import Release

from simkit.derivatives.choice import FEW, Choice, Method
from simkit.derivatives.derivative_program import (
    DerivativeProgram,
    Kind,
    Moves,
    SecondProgram,
    SmoothedSecondProgram,
)
from simkit.derivatives.difference_part import difference_part
from simkit.derivatives.differences import COUPLED, shortest, step_of
from simkit.derivatives.error_controlled import (
    has_equations,
    is_ordinary_and_adaptive,
    with_tighter_tolerances,
)
from simkit.derivatives.facts import Facts
from simkit.derivatives.leaps import leaps_along
from simkit.derivatives.moments import Found
from simkit.derivatives.part import (
    Errors,
    Part,
    devices_of,
    of_paths,
    on_half_steps,
    rows_of,
    some_ids,
    with_levels,
)
from simkit.derivatives.targets import admitted, changes
from simkit.ensemble.programs import Request
from simkit.ensemble.run import ChunkProgram

FARTHER = 4.0  # copies that tell the error of others, times as far apart
WHOLE = 1.0  # of a target's value: the size in which its equations are solved


@dataclasses.dataclass(frozen=True, kw_only=True)
class CoupledPart(Part):
    """Differences of coupled copies that are `share` away to either side.

    `farther` simulates copies that are `FARTHER` times as far apart, whose error is that squared.
    """

    facts: Facts
    share: float
    farther: Callable | None

    def step_errors(self, found: Found, programs: Sequence[Callable], ids, paths: int) -> Errors:
        if self.farther is None:
            return {}
        far = of_paths(self.farther(*programs[: len(self.requests)], ids), paths)
        return {
            choice: np.abs(np.mean(far[i], axis=1) - found.mean[i]) / (FARTHER**2 - 1)
            for choice, i in self.found
        }

    def again(self, found: Found, errors: Errors) -> "Part | None":
        too_long = [c for c, i in self.found if np.any(errors.get(c, 0.0) > found.stderr[i])]
        share = self.share / FARTHER
        if not too_long or share < shortest(self.facts.simulation.precision):
            return None
        return _first_part(self.facts, too_long, 0, share)


def parts_of(
    facts: Facts, choices: list[Choice], quantities: list[str], others: Sequence[Facts] = ()
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
    names = [name for name, _ in part.values] + [choice.quantity for choice, _ in part.found]
    return any(facts.is_exercised(name) for name in names)


def _parts(facts: Facts, choices: list[Choice], quantities: list[str]) -> list[Part]:
    groups: dict[tuple, list[Choice]] = {}
    for choice in choices:
        second = len(choice.targets) == 2
        alone: tuple = ()
        if choice.method == "finite differences":
            alone = *choice.targets, facts.is_rough(choice.quantity, choice.targets[0]), choice.wide
        elif choice.method == "pathwise":
            alone = (has_equations(facts.simulation, facts.moves[choice.targets[0]]),)
        alone = *alone, facts.is_exercised(choice.quantity)
        key = choice.method, second, choice.look, choice.smoothings, alone
        groups.setdefault(key, []).append(choice)
    parts = [with_levels(facts, group, _part) for group in groups.values()]
    given = {name for part in parts for name, _ in part.values}
    missing = [name for name in quantities if name not in given]
    for exercised in (False, True):
        names = [name for name in missing if facts.is_exercised(name) == exercised]
        if names:
            parts.append(_plain(facts, names))
    return parts


def _part(facts: Facts, group: list[Choice]) -> Part:
    """The program of derivatives that can share a loop."""
    if group[0].method == "finite differences":
        return difference_part(facts, group)
    second, look = len(group[0].targets) == 2, min(choice.look for choice in group)
    return (_second_part if second else _first_part)(facts, group, look)


def _first_part(facts: Facts, group: list[Choice], look: int, apart: float = COUPLED) -> Part:
    """First derivatives; `apart` is how far coupled copies are away."""
    names = list(dict.fromkeys(choice.quantity for choice in group))
    numbers = list(dict.fromkeys(choice.targets[0] for choice in group))
    rows = rows_of(facts, names)
    fixed = isinstance(facts.simulation.grid, Grid)
    kind: Kind = "along" if fixed else "forward"
    solved = all(has_equations(facts.simulation, facts.moves[i]) for i in numbers)
    if solved:
        kind = "equations"
    backwards = len(numbers) > FEW * sum(count for _, count in rows)
    if group[0].method == "reverse" or (group[0].method == "pathwise" and backwards):
        kind = "reverse"
    if group[0].method == "weak derivative":
        kind = "extra jump"
    if isinstance(facts.simulation.grid, JumpGrid):
        kinds: dict[Method, Kind] = {"score": "counts", "weak derivative": "one event more"}
        kind = kinds.get(group[0].method, "coupled")
    release = Release(look) if look else None
    if group[0].method == "smoothing":
        kind, release = "smoothed", group[0].smoothings[0]
    program = DerivativeProgram(facts.program, rows, kind, release)
    dtype = jnp.dtype(facts.simulation.precision)
    share = WHOLE if kind == "equations" else apart
    steps = tuple(jnp.asarray(step_of(facts.targets[i], share), dtype) for i in numbers)
    moves = Moves(facts.inputs, tuple(facts.moves[i] for i in numbers), (), steps)
    width = 1 + len(numbers)
    places = {(name, i): q * width + 1 + n for q, (name, _) in enumerate(rows) for n, i in enumerate(numbers)}
    counts = tuple(count for _, count in rows for _ in range(width))
    found = tuple((choice, places[choice.quantity, choice.targets[0]]) for choice in group)
    values = tuple((name, q * width) for q, (name, _) in enumerate(rows))
    part = _one_program(facts, program, moves, counts, found, values, float(width))
    part = dataclasses.replace(part, leaps=leaps_along(facts, kind, moves, numbers, group))
    if kind == "coupled":
        return _coupled_part(facts, part, moves, numbers, apart)
    return (
        part
        if facts.finer is None
        else dataclasses.replace(part, finer=on_half_steps(_first_part(facts.finer, group, 0), facts))
    )


def _coupled_part(facts: Facts, part: Part, moves: Moves, numbers: list[int], share: float) -> CoupledPart:
    """Of copies, which are beside the run: their mean is not its own."""
    far, farther = FARTHER * share, None
    targets = [facts.targets[i] for i in numbers]
    if all(admitted(facts.simulation, [x], [side * step_of(x, far)]) for x in targets for side in (1, -1)):
        steps = tuple(FARTHER * step for step in moves.steps)
        farther = functools.partial(part.simulate, moves=moves._replace(steps=steps))
    same = part.requests, part.simulate, part.counts, part.found, (), part.cost
    return CoupledPart(*same, leaps=part.leaps, facts=facts, share=share, farther=farther)


def _second_part(facts: Facts, group: list[Choice], look: int) -> Part:
    names = list(dict.fromkeys(choice.quantity for choice in group))
    pairs = list(dict.fromkeys(choice.targets for choice in group))
    used = sorted({i for pair in pairs for i in pair})
    at = [(used.index(pair[0]), used.index(pair[1])) for pair in pairs]
    rows = rows_of(facts, names)
    kind = "along" if isinstance(facts.simulation.grid, Grid) else "forward"
    first, both = changes(facts.simulation, [facts.targets[i] for i in used], at)
    program: Any = SecondProgram(facts.program, rows, tuple(at), kind, Release(look) if look else None)
    if group[0].method == "smoothing":
        once, again = group[0].smoothings
        program = SmoothedSecondProgram(facts.program, rows, tuple(at), (once, again))
    places = {
        (name, pair): q * len(pairs) + n for q, (name, _) in enumerate(rows) for n, pair in enumerate(pairs)
    }
    counts = tuple(count for _, count in rows for _ in pairs)
    found = tuple((choice, places[choice.quantity, choice.targets]) for choice in group)
    moves = Moves(facts.inputs, first, both)
    part = _one_program(facts, program, moves, counts, found, (), 4.0 * len(pairs))
    return (
        part
        if facts.finer is None
        else dataclasses.replace(part, finer=on_half_steps(_second_part(facts.finer, group, 0), facts))
    )


def _one_program(facts, program, moves, counts, found, values, cost) -> Part:
    request = Request(program, (moves, some_ids(facts)), devices_of(facts))

    def simulate(run, ids, moves=moves):
        return run(moves, ids)

    part = Part((request,), simulate, counts, found, values, cost)
    if not is_ordinary_and_adaptive(facts.simulation):
        return part
    tighter = with_tighter_tolerances(moves.inputs, facts.simulation.precision)
    finer = functools.partial(simulate, moves=moves._replace(inputs=tighter))
    return dataclasses.replace(part, finer=dataclasses.replace(part, simulate=finer))


def _plain(facts: Facts, names: list[str]) -> Part:
    """The values alone."""
    rows = rows_of(facts, names)
    request = Request(ChunkProgram(facts.program, rows), (facts.inputs, some_ids(facts)), devices_of(facts))

    def simulate(run, ids):
        return run(facts.inputs, ids)[0]

    values = tuple((name, q) for q, name in enumerate(names))
    return Part((request,), simulate, tuple(count for _, count in rows), (), values, 1.0)
