"""The parts of a study whose programs simulate derivatives with the paths."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
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
from simkit.derivatives.targets import changes, is_in_range, shifted
from simkit.ensemble.programs import Request
from simkit.ensemble.simulation import Run

FARTHER = 4.0  # copies that show the error of others: times the difference
WHOLE = 1.0  # of a target's value: the size in which its equations are solved


@dataclasses.dataclass(frozen=True, kw_only=True)
class CoupledPart(Part):
    """Differences of coupled copies that are a `relative_step` away to either side.

    `farther` simulates copies that differ `FARTHER` times as much, whose error is that squared; None where
    these are out of range, and the error is unknown.
    """

    differentiated: DifferentiatedRun
    relative_step: float
    farther: Part | None

    def step_errors(self, result: Averages, of_first_paths: Callable) -> Errors:
        if self.farther is None:
            return {choice: np.full_like(result.mean[i], np.nan) for choice, i in self.derivatives}
        near, far = of_first_paths(self.ready()), of_first_paths(self.farther.ready())
        return {choice: mean_difference(near[i], far[i]) / (FARTHER**2 - 1) for choice, i in self.derivatives}

    def again(self, result: Averages, errors: Errors) -> "Part | None":
        """Those whose step is too long or not known to be short enough, whose own copies are then farther."""
        allowed = {c: np.nan_to_num(result.stderr[i], nan=np.inf) for c, i in self.derivatives}
        too_long = [choice for choice, most in allowed.items() if not np.all(errors[choice] <= most)]
        step = self.relative_step / FARTHER
        if not too_long or step < shortest(self.differentiated.simulation.precision):
            return None
        return coupled_part(self.differentiated, too_long, step)


def first_part(run: DifferentiatedRun, group: list[Selection]) -> Part:
    """First derivatives along the paths of the run."""
    estimator: Any = group[0].estimator
    rows, targets = run.rows(choice.quantity for choice in group), _targets(group)
    estimate, release = estimator.estimate(run, group, sum(count for _, count in rows), targets)
    first = tuple(run.moves[i] for i in targets)
    sizes = _steps(run, targets, WHOLE) if estimate is sensitivity_equations else ()
    moves = Moves(run.inputs, first, (), sizes)
    return _of_first(run, group, DerivativeProgram(run.program, rows, estimate, release), moves)


def coupled_part(run: DifferentiatedRun, group: list[Selection], step: float = COUPLED) -> CoupledPart:
    """First derivatives by copies to either side, which are not the run: their mean is not its own."""
    rows = run.rows(choice.quantity for choice in group)
    program = DerivativeProgram(run.program, rows, coupled_differences)
    part = _of_first(run, group, program, _copies(run, group, step))
    far, farther = FARTHER * step, None
    targets = [run.targets[i] for i in _targets(group)]
    if all(is_in_range(run.simulation, [x], [side * step_of(x, far)]) for x in targets for side in (1, -1)):
        farther = part.with_arguments(moves=_copies(run, group, far))
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


def _steps(run: DifferentiatedRun, targets: list[int], step: float) -> tuple[jax.Array, ...]:
    dtype = jnp.dtype(run.simulation.precision)
    return tuple(jnp.asarray(step_of(run.targets[i], step), dtype) for i in targets)


def _copies(run: DifferentiatedRun, group: list[Selection], step: float) -> Moves:
    """The run with each target a relative step to either side."""
    targets = _targets(group)

    def moved(i: int, by: float) -> Run:
        return shifted(run.simulation, [run.targets[i]], [step_of(run.targets[i], by)])

    sides = tuple((moved(i, step), moved(i, -step)) for i in targets)
    return Moves(run.inputs, (), (), _steps(run, targets, step), sides)


def _of_first(
    run: DifferentiatedRun, group: list[Selection], program: DerivativeProgram, moves: Moves
) -> Part:
    """The part of a program of first derivatives, which is given these moves."""
    targets = _targets(group)
    columns = None, *targets
    places = [(name, i) for name, _ in program.rows for i in columns]
    result = tuple((choice, places.index((choice.quantity, choice.targets[0]))) for choice in group)
    values = tuple((name, places.index((name, None))) for name, _ in program.rows)
    part = _one_program(run, program, moves, len(columns), result, values, float(len(columns)))
    pairs = [(choice.quantity, targets.index(choice.targets[0])) for choice in group]
    return dataclasses.replace(part, leaps=leaps_of_derivatives(run, program.estimate, moves, pairs))


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
