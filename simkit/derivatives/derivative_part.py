"""The parts of a study whose programs simulate derivatives with the paths."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from simkit_solvers.problems.directions import Release

from simkit.derivatives.derivative_program import DerivativeProgram, Moves
from simkit.derivatives.differences import COUPLED, shortest, step_of
from simkit.derivatives.differentiated_run import DifferentiatedRun
from simkit.derivatives.estimator import Errors, Part, Selection, mean_difference
from simkit.derivatives.leaps import leaps_of_derivatives
from simkit.derivatives.moments import Averages
from simkit.derivatives.network_derivatives import coupled_differences
from simkit.derivatives.other_steps import with_tighter_tolerances
from simkit.derivatives.path_derivatives import forward_of
from simkit.derivatives.second_derivatives import SecondProgram, SmoothedSecondProgram
from simkit.derivatives.sensitivity_equations import sensitivity_equations
from simkit.derivatives.targets import changes, is_in_range
from simkit.ensemble.programs import Request

FARTHER = 4.0  # copies that show the error of others: times the difference
WHOLE = 1.0  # of a target's value: the size in which its equations are solved


@dataclasses.dataclass(frozen=True, kw_only=True)
class CoupledPart(Part):
    """Differences of coupled copies that are a `relative_step` away to either side.

    `farther` simulates copies that differ `FARTHER` times as much, whose error is that squared.
    """

    differentiated: DifferentiatedRun
    relative_step: float
    farther: Part | None

    def step_errors(self, result: Averages, of_first_paths: Callable) -> Errors:
        if self.farther is None:
            return {}
        near, far = of_first_paths(self.ready()), of_first_paths(self.farther.ready())
        return {choice: mean_difference(far[i], near[i]) / (FARTHER**2 - 1) for choice, i in self.derivatives}

    def again(self, result: Averages, errors: Errors) -> "Part | None":
        too_long = [c for c, i in self.derivatives if np.any(errors.get(c, 0.0) > result.stderr[i])]
        step = self.relative_step / FARTHER
        if not too_long or step < shortest(self.differentiated.simulation.precision):
            return None
        return coupled_part(self.differentiated, too_long, step)


def first_part(run: DifferentiatedRun, group: list[Selection]) -> Part:
    """First derivatives along the paths of the run."""
    estimator: Any = group[0].estimator
    rows = run.rows(choice.quantity for choice in group)
    estimate, release = estimator.estimate(run, group, sum(count for _, count in rows), _targets(group))
    step = WHOLE if estimate is sensitivity_equations else COUPLED
    return _of_first(run, group, DerivativeProgram(run.program, rows, estimate, release), step)[0]


def coupled_part(run: DifferentiatedRun, group: list[Selection], step: float = COUPLED) -> CoupledPart:
    """First derivatives by copies to either side, which are not the run: their mean is not its own."""
    rows = run.rows(choice.quantity for choice in group)
    part, moves = _of_first(run, group, DerivativeProgram(run.program, rows, coupled_differences), step)
    far, farther = FARTHER * step, None
    targets = [run.targets[i] for i in _targets(group)]
    if all(is_in_range(run.simulation, [x], [side * step_of(x, far)]) for x in targets for side in (1, -1)):
        steps = tuple(FARTHER * step for step in moves.steps)
        farther = part.with_arguments(moves=moves._replace(steps=steps))
    return CoupledPart(
        requests=part.requests,
        simulate=part.simulate,
        counts=part.counts,
        derivatives=part.derivatives,
        cost=part.cost,
        leaps=part.leaps,
        differentiated=run,
        relative_step=step,
        farther=farther,
    )


def _targets(group: list[Selection]) -> list[int]:
    return list(dict.fromkeys(choice.targets[0] for choice in group))


def _of_first(
    run: DifferentiatedRun, group: list[Selection], program: DerivativeProgram, step: float
) -> tuple[Part, Moves]:
    """The part of a program of first derivatives with this relative step, and what the program is given."""
    targets = _targets(group)
    dtype = jnp.dtype(run.simulation.precision)
    steps = tuple(jnp.asarray(step_of(run.targets[i], step), dtype) for i in targets)
    moves = Moves(run.inputs, tuple(run.moves[i] for i in targets), (), steps)
    columns = None, *targets
    places = [(name, i) for name, _ in program.rows for i in columns]
    result = tuple((choice, places.index((choice.quantity, choice.targets[0]))) for choice in group)
    values = tuple((name, places.index((name, None))) for name, _ in program.rows)
    part = _one_program(run, program, moves, len(columns), result, values, float(len(columns)))
    pairs = [(choice.quantity, targets.index(choice.targets[0])) for choice in group]
    return dataclasses.replace(part, leaps=leaps_of_derivatives(run, program.estimate, moves, pairs)), moves


def second_part(run: DifferentiatedRun, group: list[Selection]) -> Part:
    """Second derivatives along the paths of the run."""
    every = min(choice.every for choice in group)
    pairs = list(dict.fromkeys(choice.targets for choice in group))
    used = sorted({i for pair in pairs for i in pair})
    at = tuple((used.index(pair[0]), used.index(pair[1])) for pair in pairs)
    rows = run.rows(choice.quantity for choice in group)
    estimate = forward_of(run.program)
    first, both = changes(run.simulation, [run.targets[i] for i in used], at)
    program: Any = SecondProgram(run.program, rows, at, estimate, Release(every) if every else None)
    if group[0].smoothings:
        once, again = group[0].smoothings
        program = SmoothedSecondProgram(run.program, rows, at, (once, again))
    places = [(name, pair) for name, _ in rows for pair in pairs]
    result = tuple((choice, places.index((choice.quantity, choice.targets))) for choice in group)
    moves = Moves(run.inputs, first, both)
    return _one_program(run, program, moves, len(pairs), result, (), 4.0 * len(pairs))


def _one_program(
    run: DifferentiatedRun,
    program: Any,
    moves: Moves,
    width: int,
    derivatives: tuple,
    values: tuple,
    cost: float,
) -> Part:
    """The part of a program that gives `width` arrays for each quantity."""
    request = Request(program, (moves, run.first_ids), run.devices)

    def simulate(program, ids, moves=moves):
        return program(moves, ids)

    counts = tuple(count for _, count in program.rows for _ in range(width))
    part = Part(
        requests=(request,),
        simulate=simulate,
        counts=counts,
        derivatives=derivatives,
        values=values,
        cost=cost,
    )
    if run.simulation.stepping.exact_by != "tolerances":
        return part
    tighter = with_tighter_tolerances(moves.inputs, run.simulation.precision)
    return dataclasses.replace(part, finer=part.with_arguments(moves=moves._replace(inputs=tighter)))
