"""The section `uncertainty`."""

from typing import Annotated, Any, Literal

from pydantic import Field

from simkit.config.settings.values import (
    NAMES_SCHEMA,
    ONE_OF,
    Names,
    Section,
    checked,
    list_of_names,
    plain_number,
    whole,
    wrong,
)
from simkit.suggestions import shown


def _points(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 2 or value > 2**30:
        raise wrong(f"must be a whole number from 2 to 2^30, got {shown(value)}")
    return value


def _positive(value: Any) -> float:
    number = plain_number(value)
    if not number > 0:
        raise wrong(f"must be > 0, got {shown(value)}")
    return number


def _confidence(value: Any) -> float:
    number = plain_number(value)
    if not 0 < number < 1:
        raise wrong(f"must be between 0 and 1, got {shown(value)}")
    return number


def _groups(value: Any) -> dict[str, list[str]]:
    if not isinstance(value, dict) or not value:
        raise wrong(
            f"must be names with lists of parameters such as {{market: [r, sigma]}}, got {shown(value)}"
        )
    for name, members in value.items():
        if not isinstance(members, list) or not members:
            raise wrong(f"{name} must be a list of parameters such as [r, sigma], got {shown(members)}")
    return {str(name): list_of_names(members) for name, members in value.items()}


class Uncertainty(Section):
    """What `simkit uncertainty` does with the parameters that are distributions."""

    method: Annotated[Literal["sobol", "morris", "derivatives", "rank", "propagate"], ONE_OF] = Field(
        "sobol",
        description="`sobol`: fractions of the variance; `morris`: elementary effects, for many "
        "parameters; `derivatives`: mean squared derivatives; `rank`: rank correlations; "
        "`propagate`: moments and quantiles of the output.",
    )
    of: Names | None = Field(
        None,
        description="Observables, or state variables, at the end. The default is all observables, or all "
        "state variables if there are none.",
        examples=[["call"]],
    )
    points: Annotated[int, *checked(_points, {"type": "integer", "minimum": 2})] | None = Field(
        None,
        description="Points of each replicate, a power of two; for `morris` the number of walks. The "
        "default is 1024, 256 for derivatives and rank, 16 for morris.",
        examples=[1024],
    )
    replicates: Annotated[int, *whole(2, 1000)] = Field(
        8, description="Independent replicates, from which the intervals follow.", examples=[16]
    )
    paths: Annotated[int, *whole(1, 2**20)] | None = Field(
        None,
        description="Paths of each run, if paths with the same parameters differ: at least 2, and 4 for "
        "`rank`. The default is 16, or 1 if nothing is random.",
        examples=[16],
    )
    order: Annotated[int, *whole(1, 2)] = Field(
        1,
        description="For `sobol`: 2 for indices of pairs too, with nearly twice the runs.",
        examples=[2],
    )
    groups: (
        Annotated[
            dict[str, list[str]],
            *checked(_groups, {"type": "object", "additionalProperties": NAMES_SCHEMA}),
        ]
        | None
    ) = Field(
        None,
        description="For `sobol`: parameters that are varied together, by the name of the group.",
        examples=[{"market": ["r", "sigma"]}],
    )
    estimator: Annotated[Literal["saltelli", "jansen", "janon"], ONE_OF] = Field(
        "saltelli",
        description="For `sobol`: how first-order indices are estimated; total ones by Jansen's formula.",
    )
    levels: Annotated[int, *whole(2, 1000)] = Field(
        4, description="For `morris`: levels of the grid, an even number.", examples=[4]
    )
    width: Annotated[float, *checked(_positive, {"type": "number", "exclusiveMinimum": 0})] | None = Field(
        None,
        description="Double the points until the widest interval is narrower: of indices and correlations as "
        "they are, of mu_star in units of the largest, of a mean in standard deviations.",
        examples=[0.05],
    )
    budget: Annotated[int, *whole(1)] = Field(
        2**24, description="With width: the largest number of runs, counting paths.", examples=[1000000]
    )
    confidence: Annotated[
        float,
        *checked(_confidence, {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}),
    ] = Field(0.95, description="Confidence level of the intervals.", examples=[0.95])
    seed: Annotated[int, *whole(0, 2**64 - 1)] = Field(
        0, description="Seed of the points; the noise uses that of the ensemble.", examples=[1]
    )
