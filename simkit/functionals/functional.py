"""The contract of a functional: its accumulator along a path, and what simkit must know about it."""

import abc
import dataclasses
import math
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

import jax.numpy as jnp

Clock = Literal["steps", "events", "ordinary", "stochastic"]
Kink = Literal["extreme", "barrier", "anywhere"]
Range = tuple[float, float]
ANY: Range = (-math.inf, math.inf)
ADAPTIVE = (
    "monitors the path step by step, and adaptive steps have no common times; give time.steps in place of "
    "rtol and atol"
)


class Formula(Protocol):
    """An argument of a functional, as the formula language compiles it."""

    @property
    def text(self) -> str: ...

    @property
    def names(self) -> frozenset[str]: ...

    def __call__(self, environment: Mapping[Any, Any]) -> Any: ...


class Moment(NamedTuple):
    """A monitored step of a path: call it with a formula for its value there.

    `step` is its number, `dt` its length, and every `every`-th step is monitored. Where there is none yet
    (at t0), or where values change at once, `step` and `dt` are `None`. A `middle` is how far a bridge over
    the step is from its mean at half the time, in standard deviations.
    """

    values: Mapping[Any, Any]
    dtype: Any
    step: Any = None
    dt: Any = None
    every: int = 1
    middle: Any = None

    def __call__(self, formula: Formula) -> Any:
        return jnp.asarray(formula(self.values), self.dtype)

    def holds(self, condition: Formula) -> Any:
        """Whether a condition is true."""
        return jnp.asarray(condition(self.values), bool)

    @property
    def interval(self) -> Any:
        """The time between monitored steps."""
        return self.every * self.dt

    @property
    def count(self) -> Any:
        """How many steps have been monitored, t0 excluded."""
        return self.step // jnp.uint32(self.every)


@dataclasses.dataclass(frozen=True)
class AbstractFunctional(abc.ABC):
    """A path functional in an expression, such as `mean(S)`. It is itself the key of its value.

    A subclass states what it accumulates along a path, as tuples of arrays: `begin`, `add`, `value`, and
    `change` where values change at once. Class variables state what is special about it. Their defaults are
    the careful ones: a functional that does not know better is refused where it might be wrong.
    """

    arguments: tuple[Any, ...]  # formulas: first what is watched along the path, for `of_time` the time

    # In the formula language.
    name: ClassVar[str]
    summary: ClassVar[str]
    takes: ClassVar[int] = 1  # arguments, as they are written
    conditional: ClassVar[bool] = False  # the last argument is a condition, whose first time it waits for
    of_time: ClassVar[bool] = False  # watches t, which is not written
    of_two_numbers: ClassVar[str] = ""  # the function of two numbers that may have been meant
    monotone: ClassVar[bool] = False  # in its argument
    keeps_unit: ClassVar[bool] = False  # has the unit of what it watches

    # On which runs, and where on a path.
    clocks: ClassVar[tuple[Clock, ...]] = ("steps",)
    not_on_events: ClassVar[str] = "monitors the path step by step, and events have no common times"
    not_with_jumps: ClassVar[str] = ""  # why not where a model jumps between steps
    sees_start: ClassVar[bool] = True  # its value depends on the values at t0
    sees_both: ClassVar[bool] = True  # where values change at once, it depends on those before too
    unmet: ClassVar[str] = ""  # at the end of a path whose condition never held; "" of those without one

    # For errors and derivatives.
    order: ClassVar[float | None] = (
        None  # with which fixed steps approximate what needs none, between exact states
    )
    kink: ClassVar[Kink | None] = "anywhere"  # where its slope jumps: between times, or where x meets 0
    keeps_start: ClassVar[bool] = True  # moves at once with the value at t0
    bridges: ClassVar[bool] = False  # sees Brownian bridges between steps, through middles if given

    @abc.abstractmethod
    def begin(self, at: Moment) -> tuple:
        """What it keeps at t0."""

    @abc.abstractmethod
    def add(self, state: tuple, at: Moment) -> tuple:
        """What it keeps after one more monitored step."""

    def change(self, state: tuple, before: Moment, after: Moment) -> tuple:
        """What it keeps where the values change at once, at the end of a monitored step."""
        return self.add(state, after)

    def value(self, state: tuple, at: Moment) -> Any:
        """The value so far."""
        return state[0]

    def held(self, state: tuple, at: Moment) -> tuple:
        """What it keeps once its condition holds, where that happens between steps."""
        raise NotImplementedError(f"{self.name} waits for no condition")

    @staticmethod
    def bounds(*arguments: Range, time: Range) -> Range:
        """The least and the largest value, given those of its arguments as written, and of t."""
        return ANY

    @property
    def written(self) -> tuple[Any, ...]:
        """The arguments as they are written."""
        return self.arguments[self.of_time :]

    @property
    def argument(self) -> Any:
        """What is watched along the path."""
        return self.arguments[0]

    @property
    def condition(self) -> Any:
        """The condition whose first time it is about; `None` of others."""
        return self.arguments[-1] if self.conditional else None

    @property
    def time(self) -> Any:
        """The one time at which it reads the path; `None` for those that are monitored step by step."""
        return None

    @property
    def over_time(self) -> bool:
        """Whether it approximates what takes no notice of steps."""
        return self.order is not None

    @property
    def names(self) -> frozenset[str]:
        """The names in all arguments."""
        return frozenset().union(*(each.names for each in self.arguments))

    @property
    def text(self) -> str:
        """The functional as it is written."""
        return f"{self.name}({', '.join(each.text for each in self.written)})"

    @classmethod
    def refusal(cls, clock: Clock) -> str | None:
        """Why a run of this kind does not know it; `None` if it does."""
        if clock in cls.clocks:
            return None
        return cls.not_on_events if clock == "events" else ADAPTIVE
