"""The section `observe`, with early exercise."""

from typing import Annotated, Any, Literal

from pydantic import Field

from simkit.config.settings.values import (
    EXPRESSION_SCHEMA,
    MAX_STEPS,
    ONE_OF,
    NumberOrExpression,
    Section,
    Text,
    checked,
    list_of,
    number,
    whole,
    whole_number,
    wrong,
)

MOST_DATES = 65536
_DATES_SCHEMA = {
    "anyOf": [
        {"type": "integer", "minimum": 1, "maximum": MOST_DATES},
        {"type": "array", "items": EXPRESSION_SCHEMA, "minItems": 1},
    ]
}


def _dates(value: Any) -> int | list[float | str]:
    if not isinstance(value, list):
        return whole_number(value, 1, MOST_DATES)
    if not value:
        raise wrong("must be a number of dates, or a list of times, got an empty list")
    return [number(x) for x in value]


class EarlyExercise(Section):
    """An option exercised at one of several dates, by a policy fitted on other paths: at a date where
    the value is positive and above the continuation value by regression (Longstaff and Schwartz)."""

    dates: Annotated[int | list[float | str], *checked(_dates, _DATES_SCHEMA)] = Field(
        description="The number of equally spaced exercise dates, which must divide the steps; the last is "
        "the end, and t0 is not a date. Or a list of the times, increasing, each the end of a "
        "step. Times may be expressions of constants.",
        examples=[50, [0.25, 0.5, 1.0], ["91/365", "182/365", 1]],
    )
    basis: Annotated[list[float | str], *list_of("expressions such as [S, v]")] | None = Field(
        None,
        description="What the decision may depend on: expressions as in value. The default is all state "
        "variables.",
        examples=[["S", "mean(S)"]],
    )
    degree: Annotated[int, *whole(1, 10)] = Field(
        4, description="Highest total degree of the polynomials in the basis.", examples=[4]
    )
    paths: Annotated[int, *whole(2, 2**24)] = Field(
        65536,
        description="The number of paths for fitting the policy, in addition to those of the ensemble. All "
        "their dates are in memory at once.",
        examples=[65536],
    )


class DerivedSettings(Section):
    """A quantity derived from means."""

    value: NumberOrExpression = Field(
        description="An expression of observables and state variables, which mean their means at the end, "
        "of constants, parameters and closed forms.",
        examples=["implied_volatility(price=call, S=100, K=K, r=r, T=1)"],
    )
    exact: NumberOrExpression | None = Field(
        None, description="The exact value: a number, or an expression of constants.", examples=[0.2]
    )
    unit: Text = Field("", description="Unit, for table and dataset.", examples=["1/time^0.5"])


class ObservableSettings(Section):
    """An observable."""

    value: NumberOrExpression = Field(
        description="An expression of state variables, parameters, constants, t, closed forms and path "
        "functionals such as mean(x), max(x) and hitting_time(c), all of which `simkit list` names.",
        examples=["exp(-r*t) * maximum(S - K, 0)"],
    )
    at: Annotated[Literal["end", "each"], ONE_OF] = Field(
        "end", description="Evaluated at the end, or at each saved time."
    )
    every: Annotated[int, *whole(1, MAX_STEPS)] | None = Field(
        None,
        description="Path functionals use every n-th step; by default every step.",
        examples=[21],
    )
    exact: NumberOrExpression | None = Field(
        None,
        description="The exact value of the mean at the end: a number, or an expression of constants, "
        "parameters, t (the end time) and closed forms such as black_scholes_call.",
        examples=["black_scholes_call(S=100, K=K, r=r, sigma=0.2, T=1)"],
    )
    unit: Text = Field(
        "",
        description="Unit, for table and dataset; by default that of the variable which it is, or of which "
        "it is a value, as max(S) is, and that of time for hitting_time(c).",
        examples=["currency"],
    )
    early_exercise: EarlyExercise | None = Field(
        None,
        description="Whether the option may be exercised before the end; the value is then the payment at "
        "t discounted to t0.",
        examples=[{"dates": 50}],
    )
