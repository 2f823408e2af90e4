"""An observable: an expression of the state and of the path so far, and the steps that it monitors."""

import dataclasses

from simkit.expressions import Expression
from simkit.functionals.functional import AbstractFunctional
from simkit.observe.exercise import Exercise
from simkit.observe.monitors import Monitor


def waits(name: str) -> str:
    """The row that says whether a condition is yet to hold; with a space, it is no observable's name."""
    return f"{name} waits"


@dataclasses.dataclass(frozen=True)
class Observable:
    """One observable; its path functionals monitor every `every`-th step, each step if `None`.

    `dates` are the steps of functionals of one time, or the numbers of the observer's stops. With `exercise`
    it is the value of the expression at the date that a policy chose, and 0 until then. Functionals over time
    approximate by every `spacing`-th step, or, if `None`, by the steps that the others monitor. Brownian
    bridges over single steps go through points at half the time with `middles`.
    """

    name: str
    expression: Expression
    every: int | None = None
    exercise: Exercise | None = None
    dates: tuple[tuple[AbstractFunctional, int], ...] = ()
    spacing: int | None = None
    middles: bool = False

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """The observable's expression and those of the basis of early exercise."""
        return (self.expression, *(self.exercise.basis if self.exercise else ()))

    @property
    def functionals(self) -> tuple[AbstractFunctional, ...]:
        """The path functionals in all of them."""
        return tuple(functional for expression in self.expressions for functional in expression.functionals)

    @property
    def monitors(self) -> tuple[Monitor, ...]:
        """The accumulators of the path functionals."""
        dates = dict(self.dates)
        return tuple(
            Monitor(f, 1, dates[f])
            if f in dates
            else Monitor(f, n := self._interval(f), None, self._parts(f, n))
            for f in self.functionals
        )

    def _parts(self, functional: AbstractFunctional, interval: int) -> bool:
        """Whether bridges over so many steps go through middles."""
        return self.middles and functional.bridges and interval == 1

    def with_middles(self) -> "Observable":
        """The observable with bridges through points at half the time of a step, if it has bridges."""
        bridged = dataclasses.replace(self, middles=True)
        return bridged if any(each.middles for each in bridged.monitors) else self

    def _interval(self, functional: AbstractFunctional) -> int:
        own = self.spacing if functional.over_time else None
        return own or self.every or 1

    @property
    def approximates(self) -> bool:
        """Whether it has a functional over time whose accuracy depends on the number of steps."""
        free = self.every is None or self.spacing is not None
        return free and any(functional.over_time for functional in self.functionals)

    @property
    def is_dated(self) -> bool:
        """Whether a functional is defined by monitored steps rather than by continuous time."""
        return any(m.date is None and not m.functional.over_time for m in self.monitors)

    @property
    def has_dates(self) -> bool:
        """Whether it monitors the path at dates that every grid has to have."""
        return self.is_dated or (self.every is not None and bool(self.functionals))

    @property
    def has_extremes_of_steps(self) -> bool:
        """Whether the largest or smallest value at any step is in it, and not that of requested dates."""
        return self.every is None and any(functional.kink == "extreme" for functional in self.functionals)

    @property
    def has_first_times_of_steps(self) -> bool:
        """Whether it waits for a condition at any step, and not at requested dates."""
        return self.every is None and any(functional.conditional for functional in self.functionals)

    @property
    def first_time(self) -> Monitor | None:
        """The accumulator of the `hitting_time(c)` or `first(x, c)` that it is, if it is nothing else."""
        whole = None if self.exercise else self.expression.whole
        return Monitor(whole, self._interval(whole)) if whole and whole.conditional else None

    @property
    def names(self) -> frozenset[str]:
        """The names in all of them."""
        return frozenset().union(*(expression.names for expression in self.expressions))

    def coarsened(self, factor: int) -> "Observable | None":
        """This observable on a grid of `factor` times as long steps; `None` where it would miss a step."""
        steps = [step for _, step in self.dates] + list(self.exercise.when if self.exercise else ())
        steps += [self.every or 1] if self.has_dates else []
        return None if any(step % factor for step in steps) else self._on_steps(1 / factor, self.spacing)

    def refined(self, factor: int) -> "Observable":
        """This observable on a grid of `factor` times as short steps."""
        return self._on_steps(factor, 1 if self.every is None and self.approximates else self.spacing)

    def _on_steps(self, factor: float, spacing: int | None) -> "Observable":
        """This observable on a grid with `factor` times as many steps."""
        return dataclasses.replace(
            self,
            every=round((self.every or 1) * factor) if self.has_dates else None,
            exercise=self.exercise.on_steps(factor) if self.exercise else None,
            dates=tuple((functional, round(step * factor)) for functional, step in self.dates),
            spacing=spacing,
        )

    def spaced(self, spacing: int) -> "Observable | None":
        """The observable with functionals over time approximated by every `spacing`-th step; all else stays.

        `None` where a decision to exercise would use one between those steps.
        """
        if not self.approximates:
            return self
        if self.exercise is not None and any(step % spacing for step in self.exercise.when):
            return None
        return dataclasses.replace(self, spacing=spacing)
