"""Targets whose derivatives no estimator gives, since a run holds what they move."""

from collections.abc import Sequence

import jax

from simkit.derivatives.facts import Facts
from simkit.derivatives.targets import ADAPTIVE
from simkit.errors import InputError
from simkit.experiments.inline.model_text import roughness


def refuse_moved_times(facts: Facts, quantity: str, targets: Sequence[int], kinks: bool) -> None:
    """Raise `InputError` where targets move conditions on the time, or kinks in it, against fixed steps.

    No path changes at once with them, and its mean only as one passes a step.
    """
    observable, clock = facts.observable(quantity), {"t", *facts.curves}
    inside = [] if observable is None else observable.functionals
    inner = [x for each in inside for x in each.arguments]
    labels = ", ".join(facts.targets[target].label for target in dict.fromkeys(targets))
    for each in inside:
        if each.time is None:
            continue
        if any(facts.moves_times(i) or each.time.names & facts.moved_names(i) for i in targets):
            what = f"the time of {each.text}"
            if facts.simulation.grid.steps is not None:
                raise InputError(_moves_against_steps(labels, what, quantity))
            raise InputError(
                f"sensitivity.wrt: {labels} moves {what}, which is held; take differences of runs, or "
                "leave it out"
            )
    if facts.simulation.grid.steps is None:
        return
    moved = [facts.moved_names(target) for target in targets]
    for each in (*facts.roughness, *roughness(*inner)):
        timed = each.names & clock and not each.names & facts.variables
        if timed and (kinks or not each.kink) and all(each.names & names for names in moved):
            what = f"a condition on {min(each.names & clock)}"
            raise InputError(_moves_against_steps(labels, what, quantity))
    bends = frozenset.intersection(*(facts.moved_bends(target) for target in targets))
    if kinks and bends:
        raise InputError(_moves_against_steps(labels, f"the bends of {min(bends)}", quantity))


def refuse_moved_policy(facts: Facts, quantity: str, pair: tuple[int, int]) -> None:
    """Raise `InputError` where both targets move the best policy of an early exercise, which is held.

    A first derivative does not see that it moves, since nothing is better; a second one does. The best
    policy hangs on states, wherever paths begin.
    """
    observable = facts.observable(quantity)
    if observable is None or observable.exercise is None:
        return
    moves = [facts.moves[target] for target in pair]
    numbers = [facts.moved_names(target) & observable.names for target in pair]
    if all(result or jax.tree.leaves(move.problem) for result, move in zip(numbers, moves, strict=True)):
        labels = " and ".join(dict.fromkeys(facts.targets[target].label for target in pair))
        raise InputError(
            f"sensitivity.second: {quantity} is exercised early, and its best policy moves with "
            f"{labels}, where the one found is held; take an initial value for one of the two, or "
            "differences of runs"
        )


def _moves_against_steps(labels: str, what: str, quantity: str) -> str:
    return (
        f"sensitivity.wrt: {labels} moves {what} against the steps, and {quantity} changes only as one "
        f"passes a step; {ADAPTIVE}, or leave it out"
    )
