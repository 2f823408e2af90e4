"""The sections `solver`, `time`, `ensemble` and `save`; how they fit together is checked in
`experiments/sections/`.
"""

import dataclasses
from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import core_schema

from simkit.config.settings.values import (
    MAX_PATHS,
    MAX_STEPS,
    MAX_THREADS,
    NAMES_SCHEMA,
    ONE_OF,
    Duration,
    Memory,
    Names,
    NumberOrExpression,
    Positive,
    Section,
    Text,
    TypeName,
    checked,
    list_of_names,
    plain_number,
    whole,
    wrong,
)
from simkit.suggestions import did_you_mean, shown


def _stored(value: Any) -> int | str:
    if value == "all":
        return value
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise wrong(f"must be a whole number of paths or all, got {shown(value)}")
    return value


def _quantiles(value: Any) -> list[float]:
    if not isinstance(value, list):
        raise wrong(f"must be a list such as [0.05, 0.5, 0.95], got {shown(value)}")
    numbers = [plain_number(x) for x in value]
    if any(not 0 < x < 1 for x in numbers):
        raise wrong(f"each must be between 0 and 1, got {shown(next(x for x in numbers if not 0 < x < 1))}")
    if any(b <= a for a, b in pairwise(numbers)):
        raise wrong("must increase from one to the next")
    return numbers


class Solver(Section):
    """A solver by its class name, with its options."""

    model_config = ConfigDict(extra="allow")

    type: TypeName = Field(
        description="Name of the solver; `simkit list` shows all.", examples=["EulerMaruyama"]
    )
    convert: bool = Field(
        False,
        description="Whether an Itô model may be converted to the equivalent Stratonovich model, or vice "
        "versa, if the solver is for the other calculus.",
        examples=[True],
    )


class Time(Section):
    """Start, end and steps: a number of equal steps, or adaptive steps by tolerances.

    The jump process of a reaction network takes no steps, so it needs neither.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [
                {"required": ["steps"]},
                {"required": ["rtol", "atol"]},
                {"not": {"anyOf": [{"required": [key]} for key in ("steps", "rtol", "atol")]}},
            ]
        }
    )

    t0: NumberOrExpression = Field(
        0.0, description="The start time; may be an expression of constants.", examples=[0.0]
    )
    t1: NumberOrExpression = Field(
        description="The end time; may be an expression of constants.", examples=[1.0, "2*T"]
    )
    steps: Annotated[int, *whole(1, MAX_STEPS, " (the step counter has 31 bits)")] | None = Field(
        None,
        description="The number of equal steps between t0 and t1. Give either steps, or rtol and atol.",
        examples=[252],
    )
    unit: Text | None = Field(
        None, description="Unit of time, for the dataset and the axes of pictures.", examples=["h"]
    )
    rtol: NumberOrExpression | None = Field(
        None,
        description="Instead of steps: adaptive steps whose estimated error stays below atol + rtol * |y|. "
        "May be an expression of constants, like atol and first_step.",
        examples=[1e-6],
    )
    atol: NumberOrExpression | None = Field(
        None, description="With rtol: the error allowed where a variable is near zero.", examples=[1e-9]
    )
    first_step: NumberOrExpression | None = Field(
        None,
        description="With rtol: length of the first step; by default chosen from the slope at t0. For a "
        "stochastic equation the longest step, by default from one saved time to the next.",
        examples=[1e-3],
    )
    max_steps: Annotated[int, *whole(1, MAX_STEPS)] | None = Field(
        None,
        description="With rtol: a path that needs more steps has failed; the default is 65536. For a jump "
        "process the events or leaps of a path; the default is 100 million.",
        examples=[100000],
    )


class ErrorTarget(Section):
    """The error of means that is wanted, in place of a number of paths."""

    model_config = ConfigDict(
        json_schema_extra={"oneOf": [{"required": ["stderr"]}, {"required": ["total_error"]}]}
    )

    stderr: Positive | None = Field(
        None, description="The standard error of each mean that is wanted.", examples=[0.01]
    )
    total_error: Positive | None = Field(
        None,
        description="Instead of stderr: the root mean square error, of the standard error and the step bias "
        "together.",
        examples=[0.01],
    )
    relative: bool = Field(
        False, description="Whether the error is a part of the mean, as 0.01 for 1 %.", examples=[True]
    )
    of: Names | None = Field(
        None,
        description="The observables, quantities derived from means or state variables whose error is "
        "meant; by default all observables, and without any the state.",
        examples=[["call"]],
    )
    max_paths: Annotated[int, *whole(1, MAX_PATHS)] | None = Field(
        None, description="The most paths, though the error is larger then.", examples=[10000000]
    )
    max_time: Duration | None = Field(
        None,
        description="About how long the paths may take, as in 90s, 30min or 3h, or seconds, though "
        "the error is larger then.",
        examples=["10min"],
    )


FEWEST_SCRAMBLINGS = 16  # with fewer, the spread of their means says little of the error
MOST_SCRAMBLINGS = 256
REDUCTIONS = ("antithetic", "control", "importance", "stratified")


def _by_name(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    if value not in REDUCTIONS:
        hint = did_you_mean(value, REDUCTIONS) if len(value) > 2 else ""
        known = f"{', '.join(REDUCTIONS[:-1])} or {REDUCTIONS[-1]}"
        raise wrong(f"must be {known}, got {shown(value)}{hint if 'mean' in hint else ''}")
    return {value: True}


@dataclasses.dataclass(frozen=True)
class ByName:
    """Annotates a section: the name of one of its keys stands for that key set to true."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler):
        return core_schema.no_info_before_validator_function(_by_name, handler(source))

    def __get_pydantic_json_schema__(self, schema: Any, handler: GetJsonSchemaHandler):
        return {"anyOf": [{"enum": [*REDUCTIONS]}, handler(schema)]}


def _drift(value: Any) -> float | list[float] | dict[str, float]:
    """One number, those of all noises in their order, or those of some by name."""
    if isinstance(value, list) and value:
        return [plain_number(x) for x in value]
    if isinstance(value, dict) and value:
        return {str(name): plain_number(x) for name, x in value.items()}
    return plain_number(value, "a number, a list of numbers, or numbers by the names of noises")


def _unset(value: Any) -> Any:
    return {} if value is True else None if value is False else value


@dataclasses.dataclass(frozen=True)
class OrTrue:
    """Annotates a section: true stands for it without any key."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler):
        return core_schema.no_info_before_validator_function(_unset, handler(source))

    def __get_pydantic_json_schema__(self, schema: Any, handler: GetJsonSchemaHandler):
        return {"anyOf": [{"type": "boolean"}, handler(schema)]}


class ImportanceSettings(Section):
    """A drift of the Brownian noise that brings paths to where values are large, with exact weights."""

    drift: (
        Annotated[
            float | list[float] | dict[str, float],
            *checked(
                _drift,
                {
                    "anyOf": [
                        {"type": "number"},
                        {"type": "array", "items": {"type": "number"}, "minItems": 1},
                        {"type": "object", "additionalProperties": {"type": "number"}, "minProperties": 1},
                    ]
                },
            ),
        ]
        | None
    ) = Field(
        None,
        description="What the noise W gains per unit of time, `W(t) + drift*t`, one over the square root of "
        "time: a number where there is one noise, else a list in the order of the noises, or numbers by "
        "their names. By default a pilot finds the one of the least variance.",
        examples=[3.5],
    )
    of: Text | None = Field(
        None,
        description="The observable or state variable whose variance a pilot makes least; by default the "
        "only observable.",
        examples=["call"],
    )


def _controls(value: Any) -> list[str] | bool:
    return value if isinstance(value, bool) else list_of_names(value)


class VarianceReductionSettings(Section):
    """What makes the errors of means smaller for as many paths."""

    antithetic: bool = Field(
        False,
        description="Whether paths come in pairs whose Brownian noise has opposite signs.",
        examples=[True],
    )
    control: Annotated[
        list[str] | bool, *checked(_controls, {"anyOf": [{"type": "boolean"}, NAMES_SCHEMA]})
    ] = Field(
        False,
        description="Control variates: observables with an `exact` mean, and state variables whose model "
        "knows it; true for the state, or where its means are unknown such observables. A pilot finds the "
        "coefficients.",
        examples=[["S"]],
    )
    importance: Annotated[ImportanceSettings | None, OrTrue()] = Field(
        None,
        description="Importance sampling: a drift of the Brownian noise, given or found by a pilot, and "
        "weights that undo it; true for a drift that a pilot finds.",
        examples=[{"drift": 3.5}],
    )
    stratified: bool = Field(
        False,
        description="Whether the values of Brownian motions at the end are stratified: scrambled Sobol' "
        "points, with independent noise before.",
        examples=[True],
    )


class Ensemble(Section):
    """The number of paths, and how they are run."""

    paths: Annotated[int, *whole(1, MAX_PATHS, " (the path counter has 32 bits)")] | None = Field(
        None,
        description="Number of paths. The default is 10000, 1 for an ordinary equation from fixed initial "
        "values, and the number of rows if a file has several.",
        examples=[100000],
    )
    target: ErrorTarget | None = Field(
        None,
        description="Instead of paths: the error that is wanted; a pilot run finds how many paths that "
        "takes.",
        examples=[{"stderr": 0.01}],
    )
    method: Annotated[Literal["plain", "multilevel"], ONE_OF] = Field(
        "plain",
        description="How a target is reached: by paths on the steps given, or by `multilevel` Monte Carlo, "
        "with many paths on these steps and few on ever shorter ones.",
        examples=["multilevel"],
    )
    seed: Annotated[int, *whole(0, 2**64 - 1)] = Field(
        0, description="The same seed gives the same paths; 0 is a seed like any other.", examples=[42]
    )
    chunk: Annotated[int, *whole(1, MAX_PATHS)] | None = Field(
        None,
        description="Paths that a thread simulates at a time, rounded up to whole blocks; by default "
        "chosen automatically. Results do not depend on it.",
        examples=[65536],
    )
    devices: Annotated[int, *whole(1)] | None = Field(
        None,
        description="The number of local devices to use; by default all accelerators, or one processor with "
        "all its cores. Results do not depend on it.",
        examples=[1],
    )
    threads: Annotated[int, *whole(1, MAX_THREADS)] | None = Field(
        None,
        description="The largest number of threads that simulate on processors, each a chunk of paths at a "
        "time, and so of processor devices; by default one for each core. Results do not depend on it.",
        examples=[4],
    )
    memory: Memory | None = Field(
        None,
        description="The memory that the process may take on processors, jax included: chunks are made to "
        "fit; by default a GB for them. Results do not depend on it.",
        examples=["2GB"],
    )
    variance_reduction: Annotated[VarianceReductionSettings, ByName()] | None = Field(
        None,
        description="What makes the errors of means smaller for as many paths: antithetic, control, "
        "importance, stratified, or a section.",
        examples=["antithetic"],
    )
    driver: Annotated[Literal["random", "sobol"], ONE_OF] = Field(
        "random",
        description="What Brownian noise is made of: independent random numbers, or `sobol`, scrambled "
        "Sobol' points along a Brownian bridge, which leave means of smooth functions much smaller errors.",
        examples=["sobol"],
    )
    scramblings: Annotated[int, *whole(FEWEST_SCRAMBLINGS, MOST_SCRAMBLINGS)] | None = Field(
        None,
        description="With `driver: sobol` or stratified values, the number of independent scramblings, 16 by "
        "default, whose means tell the error. It and `paths` are powers of two.",
        examples=[32],
    )
    failures: Annotated[Literal["stop", "exclude"], ONE_OF] = Field(
        "stop",
        description="If a path becomes NaN or infinite: `stop` with an error, or `exclude` it and report "
        "the number of such paths.",
    )
    unresolved: Annotated[Literal["stop", "keep"], ONE_OF] = Field(
        "stop",
        description="If a step bias is as large as the mean or the derivative itself, which is then no "
        "result: results are shown, marked and written, and the command ends with exit code 3 "
        "(`stop`) or 0 (`keep`).",
    )
    normals: Annotated[Literal["float32", "float64"], ONE_OF] = Field(
        "float32",
        description="Precision of the normal random numbers. float32 has 31 random bits, with an error far "
        "below any sampling error, and is several times faster.",
    )
    couple: Annotated[Literal["steps"], ONE_OF] | None = Field(
        None,
        description="For variants with different `time.steps`: with `steps` they all follow the Brownian "
        "paths of the one with the most steps, and increments of the others are sums of its "
        "own. The result then has strong errors and the strong order of the solver. The steps "
        "of each must divide those of the finest.",
        examples=["steps"],
    )


class Save(Section):
    """What is saved."""

    points: Annotated[int, *whole(1)] | None = Field(
        None,
        description="The number of equally spaced times after t0 with statistics, in addition to t0. Must "
        "divide the number of steps, if given. The default is 1: at t0 and at the end.",
        examples=[12],
    )
    every: Annotated[int, *whole(1)] | None = Field(
        None, description="Instead of points: statistics at every n-th step.", examples=[21]
    )
    paths: (
        Annotated[
            int | Literal["all"],
            *checked(_stored, {"anyOf": [{"type": "integer", "minimum": 0}, {"const": "all"}]}),
        ]
        | None
    ) = Field(
        None,
        description="How many paths to store in full, starting with the first: a number, or all. The "
        "default is 20.",
        examples=[100],
    )
    quantiles: Annotated[
        list[float],
        *checked(
            _quantiles,
            {"type": "array", "items": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}},
        ),
    ] = Field(default=[0.05, 0.25, 0.5, 0.75, 0.95], description="The levels of the quantiles, increasing.")
