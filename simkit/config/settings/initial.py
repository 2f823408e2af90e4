"""The section `initial`: numbers, distributions, lists and files."""

from typing import Annotated, Any

from pydantic import Discriminator, Field, Tag

from simkit.config.settings.tags import FROM_FILE, LISTED, PER_PATH, PLAIN, RANDOM
from simkit.config.settings.values import (
    ByPlaceOrName,
    NumberOrExpression,
    Section,
    Text,
    list_of,
    plain_number,
)


class RandomValue(Section):
    """An initial value drawn for each path; exactly one key, with its numbers in this order as a list or by
    name as a mapping."""

    normal: ByPlaceOrName | None = Field(
        None, description="mean and sd, the standard deviation.", examples=[[100, 1]]
    )
    lognormal: ByPlaceOrName | None = Field(
        None,
        description="mean and sd of the logarithm; by name also median and cv, the coefficient of variation, "
        "of the value itself.",
        examples=[[4.6, 0.1], {"median": 100, "cv": 0.1}],
    )
    uniform: ByPlaceOrName | None = Field(None, description="low and high.", examples=[[0, 1]])
    triangular: ByPlaceOrName | None = Field(
        None, description="low, mode (where the density peaks) and high.", examples=[[0, 0.2, 1]]
    )
    truncated_normal: ByPlaceOrName | None = Field(
        None,
        description="mean and sd of a normal distribution, and low and high, the ends it is cut off at.",
        examples=[{"mean": 0.04, "sd": 0.02, "low": 0, "high": 0.2}],
    )


class PerPath(Section):
    """An initial value for each path: path i has value i, counted from 0, and after the last the first."""

    values: Annotated[
        list[float], *list_of("numbers such as [99.0, 101.0]", plain_number, {"type": "number"})
    ] = Field(
        description="The values of the paths. Their number must divide the number of paths, and is its "
        "default. Standard errors are those of a random sample of such values.",
        examples=[[99.0, 100.0, 101.0]],
    )


class FromFile(Section):
    """Initial values read from a file. A single row is the value of all paths; with several, path i has
    row i, counted from 0, and after the last the first."""

    file: Text = Field(
        description="A .csv table with a line of names above its numbers, or the .nc or .zarr of an "
        "earlier run, whose stored paths' last values are used. The path is relative to the "
        "experiment's folder.",
        examples=["start.csv"],
    )
    column: Text | None = Field(
        None,
        description="The column, or quantity of an earlier run; by default that with the variable's name.",
        examples=["S0"],
    )
    variant: Text | None = Field(
        None, description="Which variant of an earlier run, if it has several.", examples=["low"]
    )
    sha256: Text | None = Field(
        None,
        description="Checksum that the file must have; a resolved configuration has it.",
    )


def _initial_tag(value: Any) -> str:
    for key, section, tag in (("file", FromFile, FROM_FILE), ("values", PerPath, PER_PATH)):
        if isinstance(value, section) or (isinstance(value, dict) and key in value):
            return tag
    if isinstance(value, list):
        return LISTED
    return RANDOM if isinstance(value, dict | RandomValue) else PLAIN


Initial = Annotated[
    Annotated[NumberOrExpression, Tag(PLAIN)]
    | Annotated[RandomValue, Tag(RANDOM)]
    | Annotated[PerPath, Tag(PER_PATH)]
    | Annotated[FromFile, Tag(FROM_FILE)]
    | Annotated[list[NumberOrExpression], Tag(LISTED)],
    Discriminator(_initial_tag),
]
