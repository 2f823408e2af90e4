"""The estimators of derivatives: for each where it is valid, what it costs, and its program."""

import abc
from collections.abc import Sequence

from simkit_solvers.derivatives.smoothing import Smoothing
from simkit_solvers.problems.directions import Release

from simkit.derivatives.derivative_part import coupled_part, first_part, second_part
from simkit.derivatives.derivative_program import PathEstimator
from simkit.derivatives.difference_part import difference_part
from simkit.derivatives.differentiated_run import DifferentiatedRun
from simkit.derivatives.estimator import AbstractEstimator, Selection
from simkit.derivatives.network_derivatives import one_more_event, scores
from simkit.derivatives.path_derivatives import (
    forward_of,
    reverse_mode,
    smoothed,
    with_extra_jump,
    with_tangents,
)
from simkit.derivatives.sensitivity_equations import has_equations, sensitivity_equations
from simkit.derivatives.smoothness import (
    EXERCISE,
    RATE,
    SLOPE,
    discontinuous_names,
    why_derivative_jumps,
    why_discontinuous,
    why_path_jumps,
    why_value_jumps,
)
from simkit.derivatives.validity import (
    at_range_end,
    release_interval,
    smooth,
    why_condition_moves,
    why_no_copies,
)

FEW = 6  # directions that cost about as much as a reverse pass


class AbstractOfPath(AbstractEstimator):
    """An estimator whose program simulates the paths of the run, and their derivatives with them."""

    @abc.abstractmethod
    def estimate(
        self, run: DifferentiatedRun, group: list[Selection], rows: int, targets: Sequence[int]
    ) -> tuple[PathEstimator, Release | Smoothing | None]:
        """The function of a path for derivatives of `rows` rows, and its release."""

    def part(self, run, group):
        return (second_part if group[0].is_second else first_part)(run, group)


class AbstractPathwise(AbstractOfPath):
    """The derivative of a path, where it changes continuously."""

    refusal = "the {name} derivative of {quantity} in {label} would be wrong: {reason}"

    def fits(self, run, quantity, targets, why):
        if len(targets) == 1:
            reason = why_discontinuous(run, quantity, targets[0])
        else:
            bends = discontinuous_names(run, quantity, kinks=True) & run.variables
            reason = why_derivative_jumps(run, quantity, targets) or (SLOPE if bends else None)
        return reason or Selection(quantity, targets, self, why)


class Pathwise(AbstractPathwise):
    """The derivative of a path: with tangents, by equations of its own, or in reverse of many targets."""

    name = "pathwise"
    cost = 1.3

    def group(self, run, choice):
        return (has_equations(run.simulation, run.moves[choice.targets[0]]),)

    def estimate(self, run, group, rows, targets):
        if len(targets) > FEW * rows:
            return reverse_mode, None
        if all(has_equations(run.simulation, run.moves[i]) for i in targets):
            return sensitivity_equations, None
        return forward_of(run.program), None


class Reverse(AbstractPathwise):
    """The derivative of a path by one reverse pass for each quantity and row."""

    name = "reverse"
    cost = 2.4

    def estimate(self, run, group, rows, targets):
        return reverse_mode, None


class SmoothingOfJumps(AbstractOfPath):
    """The derivative of a path, released into a weight near where the value jumps, or its slope does."""

    name = "smoothing"
    cost = 2.4
    weighted = True

    def fits(self, run, quantity, targets, why):
        result = smooth(run, quantity, targets)
        if isinstance(result, str):
            return result
        if len(targets) == 2:
            why = f"{why}: smoothed{', then pathwise' if why == SLOPE else ' twice'}"
        return Selection(quantity, targets, self, why, 0, result)

    def estimate(self, run, group, rows, targets):
        return smoothed, group[0].smoothings[0]


class Score(AbstractOfPath):
    """The value times the derivative of the density's logarithm."""

    name = "score"
    cost = 1.1
    weighted = True

    def fits(self, run, quantity, targets, why):
        every = release_interval(run, quantity, *targets, kinks=False)
        return every if isinstance(every, str) else Selection(quantity, targets, self, why, every)

    def estimate(self, run, group, rows, targets):
        every = min(choice.every for choice in group)
        if run.simulation.stepping.whole:
            return scores, None
        return with_tangents, Release(every) if every else None


class Mixed(AbstractEstimator):
    """Second derivatives: a score for the one target, and the derivative of a path for the other."""

    name = "mixed"
    cost = 2.0
    weighted = True

    def fits(self, run, quantity, targets, why):
        why_not = why_derivative_jumps(run, quantity, targets)
        if why_not is not None:
            return why_not
        for first, last in dict.fromkeys([targets, targets[::-1]]):
            every = release_interval(run, quantity, first, kinks=True)
            if isinstance(every, int):
                why = f"{why}: score for {run.targets[first].label}, then pathwise"
                return Selection(quantity, (first, last), self, why, every)
            why_not = why_not or every
        return why_not

    def part(self, run, group):
        return second_part(run, group)


class WeakDerivative(AbstractOfPath):
    """What one more event, or one more jump, at a random time would change."""

    name = "weak derivative"
    cost = 3.0

    def fits(self, run, quantity, targets, why):
        return self._refusal(run, quantity, *targets) or Selection(quantity, targets, self, why)

    def _refusal(self, run: DifferentiatedRun, quantity: str, target: int) -> str | None:
        if not run.simulation.stepping.whole:
            if why_path_jumps(run, target) != RATE:
                return f"{run.targets[target].label} moves no rate of jumps"
            return EXERCISE if run.is_exercised(quantity) else why_value_jumps(run, quantity, target)
        reason = why_no_copies(run, target) or why_condition_moves(run, target)
        if reason is None and run.functionals(quantity):
            return "it depends on the path, and an event more changes what is still to come"
        if reason is None and not run.simulation.solver.exact:
            name = type(run.simulation.solver).__name__
            return f"{name} takes many events at once, and no other fits between"
        return reason

    def estimate(self, run, group, rows, targets):
        return one_more_event if run.simulation.stepping.whole else with_extra_jump, None


class CoupledDifferences(AbstractEstimator):
    """Differences of copies of a network that fire together where they can."""

    name = "coupled differences"
    cost = 1.3

    def fits(self, run, quantity, targets, why):
        if not run.simulation.stepping.whole:
            return "only copies of a reaction network fire together"
        reason = why_no_copies(run, *targets) or at_range_end(run, *targets)
        return reason or Selection(quantity, targets, self, why)

    def group(self, run, choice):
        return choice.targets

    def part(self, run, group):
        return coupled_part(run, group)


class FiniteDifferences(AbstractEstimator):
    """Differences of the same paths at other values of the targets."""

    name = "finite differences"
    cost = 4.4

    def fits(self, run, quantity, targets, why):
        return Selection(quantity, targets, self, why)

    def group(self, run, choice):
        jumps = why_discontinuous(run, choice.quantity, choice.targets[0]) is not None
        return *choice.targets, jumps, choice.long_steps

    def part(self, run, group):
        return difference_part(run, group)


PATHWISE, REVERSE, SMOOTHING, SCORE, MIXED = Pathwise(), Reverse(), SmoothingOfJumps(), Score(), Mixed()
WEAK, COUPLED, DIFFERENCES = WeakDerivative(), CoupledDifferences(), FiniteDifferences()
ESTIMATORS: tuple[AbstractEstimator, ...] = (
    *(PATHWISE, REVERSE, SMOOTHING, SCORE, MIXED),
    *(WEAK, COUPLED, DIFFERENCES),
)
