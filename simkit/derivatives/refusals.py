"""Targets without an estimator, because a run holds fixed what they move."""

from collections.abc import Sequence

import jax
from simkit_solvers.problems.schedule import curves_of

from simkit.derivatives.differentiated_run import DifferentiatedRun
from simkit.derivatives.targets import ADAPTIVE
from simkit.errors import InputError
from simkit.experiments.inline.model_text import discontinuities_of


def refuse_moved_times(run: DifferentiatedRun, quantity: str, targets: Sequence[int], kinks: bool) -> None:
    """Raise `InputError` where targets move conditions on the time, or kinks in it, against fixed steps.

    No path changes at once with them, and its mean only as one passes a step.
    """
    inside, clock = run.functionals(quantity), {"t", *curves_of(run.simulation.problem)}
    inner = [x for each in inside for x in each.arguments]
    fixed = run.simulation.grid.steps is not None
    labels = ", ".join(run.targets[target].label for target in dict.fromkeys(targets))
    for each in inside:
        if each.time is None:
            continue
        if any(run.moves_times(i) or each.time.names & run.moved_names(i) for i in targets):
            what = f"the time of {each.text}"
            if fixed:
                raise InputError(_moves_against_steps(labels, what, quantity))
            raise InputError(
                f"sensitivity.wrt: {labels} moves {what}, which is held fixed; compare separate runs "
                "instead, or leave it out"
            )
    if not fixed:
        return
    moved = [run.moved_names(target) for target in targets]
    for each in (*run.discontinuities, *discontinuities_of(*inner)):
        timed = each.names & clock and not each.names & run.variables
        if timed and (kinks or not each.kink) and all(each.names & names for names in moved):
            what = f"a condition on {min(each.names & clock)}"
            raise InputError(_moves_against_steps(labels, what, quantity))
    knots = frozenset.intersection(*(run.moved_knots(target) for target in targets))
    if kinks and knots:
        raise InputError(_moves_against_steps(labels, f"the knots of {min(knots)}", quantity))


def refuse_moved_policy(run: DifferentiatedRun, quantity: str, pair: tuple[int, int]) -> None:
    """Raise `InputError` where both targets move the best policy of an early exercise, which is held.

    It does not matter to a first derivative that the policy moves, since no policy is better; to a second one
    it does. The best policy depends on states, wherever paths begin.
    """
    observable = run.observable(quantity)
    if observable is None or observable.exercise is None:
        return
    moves = [run.moves[target] for target in pair]
    moved = [run.moved_names(target) & observable.names for target in pair]
    if all(names or jax.tree.leaves(move.problem) for names, move in zip(moved, moves, strict=True)):
        labels = " and ".join(dict.fromkeys(run.targets[target].label for target in pair))
        raise InputError(
            f"sensitivity.second: {quantity} is exercised early, and its best policy moves with "
            f"{labels}, where that of the run is kept fixed; use an initial value for one of the two, or "
            "differences of runs"
        )


def _moves_against_steps(labels: str, what: str, quantity: str) -> str:
    return (
        f"sensitivity.wrt: {labels} shifts {what} relative to the step grid, and {quantity} changes only "
        f"when it crosses a step; {ADAPTIVE}, or leave it out"
    )
