"""The sections for changes with time: `curves` and `events`."""

from typing import Annotated, Literal

from pydantic import Field

from simkit.config.settings.values import (
    ONE_OF,
    NumberOrExpression,
    Numbers,
    OneOf,
    Section,
    Text,
    Times,
)

INTERPOLATION = OneOf((("spline", "cubic"), ("pchip", "cubic"), ("step", "previous")))


class CurveSettings(Section):
    """A number that changes with time, by points: times and values, or columns of a file."""

    times: Numbers | None = Field(
        None,
        description="The times of the points, increasing; may be expressions of constants.",
        examples=[[0, 0.5, 1, 2]],
    )
    values: Numbers | None = Field(
        None,
        description="The values at the times; may be expressions of constants.",
        examples=[[0.01, 0.02, 0.025, 0.03]],
    )
    file: Text | None = Field(
        None,
        description="Instead of times and values: a CSV file with a header, relative to the folder of the "
        "experiment. It is read before the run, and the result holds its numbers.",
        examples=["rain.csv"],
    )
    time: Text | None = Field(None, description="With file: the column of the times.", examples=["day"])
    value: Text | None = Field(None, description="With file: the column of the values.", examples=["mm"])
    interpolation: Annotated[Literal["linear", "previous", "cubic"], INTERPOLATION] = Field(
        "linear",
        description="Between the points: lines, the value at the previous point (a step function), or a "
        "smooth cubic that does not overshoot (PCHIP).",
    )
    outside: Annotated[Literal["refuse", "hold"], ONE_OF] = Field(
        "refuse", description="Whether a run may go beyond the points: `hold` keeps the first and last value."
    )


class EventSettings(Section):
    """A change of the state: at given times (at, or every with first and last), or by a condition (when)."""

    at: Times | None = Field(
        None,
        description="When it happens: a time, or a list of them, increasing; may be expressions of "
        "constants.",
        examples=[[0, 24, 48]],
    )
    every: NumberOrExpression | None = Field(
        None, description="Instead of at: the time from one event to the next.", examples=[24]
    )
    first: NumberOrExpression | None = Field(
        None, description="With every: the time of the first event; by default t0 + every.", examples=[0]
    )
    last: NumberOrExpression | None = Field(
        None,
        description="With every: no event after this time; by default before t1.",
        examples=[96],
    )
    when: Text | None = Field(
        None,
        description="A condition on the state. Alone: the event happens whenever it becomes true. With at or "
        "every: the event happens at those times at which it holds.",
        examples=["X > 100"],
    )
    set: dict[str, NumberOrExpression] = Field(
        description="New values of state variables: expressions of state variables, parameters, constants, "
        "curves and t. All are computed from the state before the event.",
        examples=[{"A": "A + 100"}],
    )
