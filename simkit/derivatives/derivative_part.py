"""The parts of a study whose programs simulate derivatives with the paths."""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from simkit_solvers.problems.directions import Release

from simkit.derivatives.derivative_program import (
    DerivativeProgram,
    Moves,
    Rows,
    SecondProgram,
    SmoothedSecondProgram,
    along,
    coupled,
    equations,
    forward,
)
from simkit.derivatives.differences import COUPLED, shortest, step_of
from simkit.derivatives.error_controlled import is_ordinary_and_adaptive, with_tighter_tolerances
from simkit.derivatives.estimator import Selection
from simkit.derivatives.facts import Facts
from simkit.derivatives.leaps import leaps_along
from simkit.derivatives.moments import Averages
from simkit.derivatives.part import Errors, Part, devices_of, of_paths, on_half_steps, rows_of, some_ids
from simkit.derivatives.targets import admitted, changes
from simkit.ensemble.programs import Request

FARTHER = 4.0  # copies that show the error of others: times the difference
WHOLE = 1.0  # of a target's value: the size in which its equations are solved


@dataclasses.dataclass(frozen=True, kw_only=True)
class CoupledPart(Part):
    """Differences of coupled copies that are `share` away to either side.

    `farther` simulates copies that differ `FARTHER` times as much, whose error is that squared.
    """

    facts: Facts
    share: float
    farther: Callable | None

    def step_errors(self, result: Averages, programs: Sequence[Callable], ids, paths: int) -> Errors:
        if self.farther is None:
            return {}
        far = of_paths(self.farther(*programs[: len(self.requests)], ids), paths)
        return {
            choice: np.abs(np.mean(far[i], axis=1) - result.mean[i]) / (FARTHER**2 - 1)
            for choice, i in self.derivatives
        }

    def again(self, result: Averages, errors: Errors) -> "Part | None":
        too_long = [c for c, i in self.derivatives if np.any(errors.get(c, 0.0) > result.stderr[i])]
        share = self.share / FARTHER
        if not too_long or share < shortest(self.facts.simulation.precision):
            return None
        return coupled_part(self.facts, too_long, share)


def first_part(facts: Facts, group: list[Selection]) -> Part:
    """First derivatives along the paths of the run."""
    numbers, rows = _targets_and_rows(facts, group)
    estimator: Any = group[0].estimator
    estimate, release = estimator.estimate(facts, group, sum(count for _, count in rows), numbers)
    share = WHOLE if estimate is equations else COUPLED
    part, _ = _of_first(facts, group, DerivativeProgram(facts.program, rows, estimate, release), share)
    if facts.finer is None:
        return part
    return dataclasses.replace(part, finer=on_half_steps(first_part(facts.finer, group), facts))


def coupled_part(facts: Facts, group: list[Selection], share: float = COUPLED) -> CoupledPart:
    """First derivatives by copies to either side, which are beside the run: their mean is not its own."""
    numbers, rows = _targets_and_rows(facts, group)
    part, moves = _of_first(facts, group, DerivativeProgram(facts.program, rows, coupled), share)
    far, farther = FARTHER * share, None
    targets = [facts.targets[i] for i in numbers]
    if all(admitted(facts.simulation, [x], [side * step_of(x, far)]) for x in targets for side in (1, -1)):
        steps = tuple(FARTHER * step for step in moves.steps)
        farther = functools.partial(part.simulate, moves=moves._replace(steps=steps))
    same = part.requests, part.simulate, part.counts, part.derivatives, (), part.cost
    return CoupledPart(*same, leaps=part.leaps, facts=facts, share=share, farther=farther)


def _targets_and_rows(facts: Facts, group: list[Selection]) -> tuple[list[int], Rows]:
    """The targets of a group, and how many rows its quantities have."""
    names = list(dict.fromkeys(choice.quantity for choice in group))
    return list(dict.fromkeys(choice.targets[0] for choice in group)), rows_of(facts, names)


def _of_first(
    facts: Facts, group: list[Selection], program: DerivativeProgram, share: float
) -> tuple[Part, Moves]:
    """The part of a program of first derivatives, and what it is given; `share` is the size of a step."""
    numbers, rows = _targets_and_rows(facts, group)
    dtype = jnp.dtype(facts.simulation.precision)
    steps = tuple(jnp.asarray(step_of(facts.targets[i], share), dtype) for i in numbers)
    moves = Moves(facts.inputs, tuple(facts.moves[i] for i in numbers), (), steps)
    width = 1 + len(numbers)
    places = {(name, i): q * width + 1 + n for q, (name, _) in enumerate(rows) for n, i in enumerate(numbers)}
    counts = tuple(count for _, count in rows for _ in range(width))
    result = tuple((choice, places[choice.quantity, choice.targets[0]]) for choice in group)
    values = tuple((name, q * width) for q, (name, _) in enumerate(rows))
    part = _one_program(facts, program, moves, counts, result, values, float(width))
    return dataclasses.replace(part, leaps=leaps_along(facts, program.estimate, moves, numbers, group)), moves


def second_part(facts: Facts, group: list[Selection]) -> Part:
    """Second derivatives along the paths of the run."""
    every = min(choice.every for choice in group)
    names = list(dict.fromkeys(choice.quantity for choice in group))
    pairs = list(dict.fromkeys(choice.targets for choice in group))
    used = sorted({i for pair in pairs for i in pair})
    at = [(used.index(pair[0]), used.index(pair[1])) for pair in pairs]
    rows = rows_of(facts, names)
    estimate = along if facts.simulation.grid.steps is not None else forward
    first, both = changes(facts.simulation, [facts.targets[i] for i in used], at)
    program: Any = SecondProgram(facts.program, rows, tuple(at), estimate, Release(every) if every else None)
    if group[0].smoothings:
        once, again = group[0].smoothings
        program = SmoothedSecondProgram(facts.program, rows, tuple(at), (once, again))
    places = {
        (name, pair): q * len(pairs) + n for q, (name, _) in enumerate(rows) for n, pair in enumerate(pairs)
    }
    counts = tuple(count for _, count in rows for _ in pairs)
    result = tuple((choice, places[choice.quantity, choice.targets]) for choice in group)
    moves = Moves(facts.inputs, first, both)
    part = _one_program(facts, program, moves, counts, result, (), 4.0 * len(pairs))
    return (
        part
        if facts.finer is None
        else dataclasses.replace(part, finer=on_half_steps(second_part(facts.finer, group), facts))
    )


def _one_program(facts, program, moves, counts, result, values, cost) -> Part:
    request = Request(program, (moves, some_ids(facts)), devices_of(facts))

    def simulate(run, ids, moves=moves):
        return run(moves, ids)

    part = Part((request,), simulate, counts, result, values, cost)
    if not is_ordinary_and_adaptive(facts.simulation):
        return part
    tighter = with_tighter_tolerances(moves.inputs, facts.simulation.precision)
    finer = functools.partial(simulate, moves=moves._replace(inputs=tighter))
    return dataclasses.replace(part, finer=dataclasses.replace(part, simulate=finer))
