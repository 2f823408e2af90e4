"""The estimators of derivatives: for each where it is valid, what it costs, and its program."""

from simkit_solvers.problems.directions import Release

from simkit.derivatives import derivative_program as programs
from simkit.derivatives.derivative_part import coupled_part, first_part, second_part
from simkit.derivatives.difference_part import difference_part
from simkit.derivatives.error_controlled import has_equations
from simkit.derivatives.estimator import AbstractEstimator, AbstractOfPath, Selection
from simkit.derivatives.facts import Facts
from simkit.derivatives.validity import no_copies, release_interval, smooth, why_rough

FEW = 6  # a reverse pass costs about as much as so many directions


def _forward(facts: Facts) -> programs.Estimate:
    """Derivatives that ride along the path, in the loop of a fixed grid."""
    return programs.along if facts.simulation.grid.steps is not None else programs.forward


class AbstractPathwise(AbstractOfPath):
    """The derivative of a path, where it changes continuously."""

    refusal = "the {name} derivative of {quantity} in {label} would be wrong: {reason}"

    def fits(self, facts, quantity, target, why):
        return why_rough(facts, quantity, target) or Selection(quantity, (target,), self, why)


class Pathwise(AbstractPathwise):
    """The derivative of a path: along it, by equations of its own, or backwards where targets are many."""

    name = "pathwise"
    cost = 1.3

    def group(self, facts, choice):
        return (has_equations(facts.simulation, facts.moves[choice.targets[0]]),)

    def estimate(self, facts, group, rows, targets):
        if len(targets) > FEW * rows:
            return programs.reverse, None
        solved = all(has_equations(facts.simulation, facts.moves[i]) for i in targets)
        return programs.equations if solved else _forward(facts), None

    def part(self, facts, group):
        return (second_part if group[0].is_second else first_part)(facts, group)


class Reverse(AbstractPathwise):
    """The derivative of a path by one reverse pass for each quantity and row."""

    name = "reverse"
    cost = 2.4

    def estimate(self, facts, group, rows, targets):
        return programs.reverse, None

    def part(self, facts, group):
        return first_part(facts, group)


class SmoothingOfJumps(AbstractOfPath):
    """The derivative of a path, released into a weight near where the value jumps."""

    name = "smoothing"
    cost = 2.4
    weighted = True

    def fits(self, facts, quantity, target, why):
        smoothed = smooth(facts, quantity, (target,), kinks=False)
        return (
            smoothed if isinstance(smoothed, str) else Selection(quantity, (target,), self, why, 0, smoothed)
        )

    def estimate(self, facts, group, rows, targets):
        return programs.smoothed, group[0].smoothings[0]

    def part(self, facts, group):
        return (second_part if group[0].is_second else first_part)(facts, group)


class Score(AbstractOfPath):
    """The value times the derivative of the density's logarithm."""

    name = "score"
    cost = 1.1
    weighted = True

    def fits(self, facts, quantity, target, why):
        every = release_interval(facts, quantity, target, "jumps")
        return every if isinstance(every, str) else Selection(quantity, (target,), self, why, every)

    def estimate(self, facts, group, rows, targets):
        every = min(choice.every for choice in group)
        if facts.simulation.grid.has_events:
            return programs.counts, None
        return programs.along, Release(every) if every else None

    def part(self, facts, group):
        return first_part(facts, group)


class Mixed(AbstractEstimator):
    """Second derivatives: a score for the one, and the derivative of a path for the other."""

    name = "mixed"
    cost = 2.0
    weighted = True

    def fits(self, facts, quantity, target, why):
        return "it is of second derivatives"

    def part(self, facts, group):
        return second_part(facts, group)


class WeakDerivative(AbstractOfPath):
    """What one event more, or one jump more, at a random time would change."""

    name = "weak derivative"
    cost = 3.0

    def fits(self, facts, quantity, target, why):
        return no_copies(facts, quantity, target, self.name) or Selection(quantity, (target,), self, why)

    def estimate(self, facts, group, rows, targets):
        events = facts.simulation.grid.has_events
        return programs.one_event_more if events else programs.with_extra_jump, None

    def part(self, facts, group):
        return first_part(facts, group)


class CoupledDifferences(AbstractEstimator):
    """Differences of copies of a network that fire together where they can."""

    name = "coupled differences"
    cost = 1.3

    def fits(self, facts, quantity, target, why):
        return no_copies(facts, quantity, target, self.name) or Selection(quantity, (target,), self, why)

    def part(self, facts, group):
        return coupled_part(facts, group)


class FiniteDifferences(AbstractEstimator):
    """Differences of the same paths at other values of the targets."""

    name = "finite differences"
    cost = 4.4

    def fits(self, facts, quantity, target, why):
        return Selection(quantity, (target,), self, why)

    def group(self, facts, choice):
        return *choice.targets, facts.is_rough(choice.quantity, choice.targets[0]), choice.long_steps

    def part(self, facts, group):
        return difference_part(facts, group)


PATHWISE, REVERSE, SMOOTHING, SCORE, MIXED = Pathwise(), Reverse(), SmoothingOfJumps(), Score(), Mixed()
WEAK, COUPLED, DIFFERENCES = WeakDerivative(), CoupledDifferences(), FiniteDifferences()
ESTIMATORS: tuple[AbstractEstimator, ...] = (
    *(PATHWISE, REVERSE, SMOOTHING, SCORE, MIXED),
    *(WEAK, COUPLED, DIFFERENCES),
)
