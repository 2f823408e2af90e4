"""The keys of an experiment, with their types, defaults and descriptions."""

import math
import re
from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    PlainValidator,
    PrivateAttr,
    Tag,
    WithJsonSchema,
)
from pydantic_core import PydanticCustomError

from simkit.documents import Document
from simkit.suggestion import did_you_mean, shown

MAX_STEPS = 2**31 - 1
MAX_PATHS = 2**32
NUMBER_TEXT = re.compile(
    r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.?(inf|nan)", re.IGNORECASE
)

NAMED, INLINE_SDE, INLINE_ODE, INLINE_HAMILTONIAN, INLINE_NETWORK, PLAIN, RANDOM = (
    "by name",
    "inline sde",
    "inline ode",
    "inline hamiltonian",
    "inline reactions",
    "plain value",
    "random value",
)
DISTRIBUTIONS = ("normal", "lognormal", "uniform", "triangular", "truncated_normal", "beta", "discrete")
PER_PATH, FROM_FILE, LISTED = "values of the paths", "values of a file", "values of a list"
TAGS = frozenset(
    {NAMED, INLINE_SDE, INLINE_ODE, INLINE_HAMILTONIAN, INLINE_NETWORK, PLAIN, RANDOM}
    | {PER_PATH, FROM_FILE, LISTED}
)


def _wrong(message: str) -> PydanticCustomError:
    return PydanticCustomError("simkit", "{message}", {"message": message})


def _quoted(value: str) -> PydanticCustomError:
    return _wrong(f"{shown(value)} is text, not a number; remove the quotes")


def _number(value: Any) -> float | str:
    """A finite number, or the text of an expression."""
    if isinstance(value, str):
        if NUMBER_TEXT.fullmatch(value.strip()):
            raise _quoted(value)
        if not value.strip():
            raise _wrong("must be a number or an expression, got an empty text")
        return value
    return _plain_number(value, "a number or an expression")


def _number_or_list(value: Any) -> float | str | list[float | str]:
    return [_number(x) for x in value] if isinstance(value, list) else _number(value)


def _plain_number(value: Any, wanted: str = "a number") -> float:
    if isinstance(value, str) and NUMBER_TEXT.fullmatch(value.strip()):
        raise _quoted(value)
    if isinstance(value, dict) and len(value) == 1 and next(iter(value)) in DISTRIBUTIONS:
        raise _wrong(
            "a distribution may stand under constants and for a model's parameter, for `simkit uncertainty`; "
            "to run the experiment give one number, as by --set KEY=NUMBER"
        )
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _wrong(f"must be {wanted}, got {shown(value)}")
    if isinstance(value, int) and value.bit_length() > 1000:
        raise _wrong(f"must be {wanted} that fits into float64, got a larger one")
    if not math.isfinite(value):
        raise _wrong(f"must be finite, got {value}")
    return float(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise _wrong(f"must be text, got {shown(value)}; put it in quotes")
    return value


def _whole(low: int, high: int | None = None, why: str = ""):

    def check(value: Any) -> int:
        if isinstance(value, str) and NUMBER_TEXT.fullmatch(value.strip()):
            raise _quoted(value)
        if isinstance(value, bool) or not isinstance(value, int | float) or value != value // 1:
            raise _wrong(f"must be a whole number, got {shown(value)}")
        if value < low:
            raise _wrong(f"must be at least {low}, got {shown(value)}")
        if high is not None and value > high:
            raise _wrong(f"must be at most {high}{why}, got {shown(value)}")
        return int(value)

    limits = {"minimum": low} | ({} if high is None else {"maximum": high})
    return [PlainValidator(check), WithJsonSchema({"type": "integer", **limits})]


def _choice(*options: str):
    def check(value: Any) -> str:
        if value not in options:
            hint = did_you_mean(value, options) if isinstance(value, str) else ""
            hint = hint if "mean" in hint else ""
            raise _wrong(f"must be {' or '.join(options)}, got {shown(value)}{hint}")
        return value

    return [PlainValidator(check), WithJsonSchema({"type": "string", "enum": list(options)})]


def _stored(value: Any) -> int | str:
    if value == "all":
        return value
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise _wrong(f"must be a whole number of paths or all, got {shown(value)}")
    return value


def _quantiles(value: Any) -> list[float]:
    if not isinstance(value, list):
        raise _wrong(f"must be a list such as [0.05, 0.5, 0.95], got {shown(value)}")
    numbers = [_plain_number(x) for x in value]
    if any(not 0 < x < 1 for x in numbers):
        raise _wrong(f"each must be between 0 and 1, got {shown(next(x for x in numbers if not 0 < x < 1))}")
    if any(b <= a for a, b in pairwise(numbers)):
        raise _wrong("must increase from one to the next")
    return numbers


def _numbers(value: Any) -> list[float]:
    if not isinstance(value, list) or not value:
        raise _wrong(f"must be a list of numbers such as [99.0, 101.0], got {shown(value)}")
    return [_plain_number(x) for x in value]


def _names(value: Any) -> list[str]:
    if not isinstance(value, list) or not value or not all(isinstance(name, str) for name in value):
        raise _wrong(f"must be a list of names such as [S, v], got {shown(value)}")
    return value


def _pairs(value: Any) -> list[list[str]]:
    pairs = [value] if isinstance(value, list) and all(isinstance(name, str) for name in value) else value
    if isinstance(pairs, list) and pairs:
        lists = [pair for pair in pairs if isinstance(pair, list) and len(pair) == 2]
        if len(lists) == len(pairs) and all(isinstance(name, str) for pair in lists for name in pair):
            return pairs
    raise _wrong(f"must be two names such as [x, y], or a list of such pairs, got {shown(value)}")


def _output(value: Any) -> str:
    name = _text(value)
    if not name.endswith((".zarr", ".nc")):
        raise _wrong(f"must end in .zarr or .nc, got {shown(name)}")
    return name


def _expressions(value: Any) -> list[float | str]:
    if not isinstance(value, list) or not value:
        raise _wrong(f"must be a list of expressions such as [S, v], got {shown(value)}")
    return [_number(x) for x in value]


def _pair(value: Any) -> list[float | str]:
    if not isinstance(value, list) or len(value) != 2:
        raise _wrong(f"must be a list of two numbers, got {shown(value)}")
    return [_number(x) for x in value]


def _shorthand(key: str):
    """A bare value stands for a mapping with one key."""

    def expand(value: Any) -> Any:
        return {key: value} if isinstance(value, str | int | float) and not isinstance(value, bool) else value

    return BeforeValidator(expand)


def _list_of_numbers(value: Any) -> list[float | str]:
    if not isinstance(value, list) or not value:
        raise _wrong(f"must be a list of numbers such as [0, 0.5, 1], got {shown(value)}")
    return [_number(x) for x in value]


def _times(value: Any) -> list[float | str]:
    return _list_of_numbers(value if isinstance(value, list) else [value])


_EXPRESSION = {"type": ["number", "string"]}
Number = Annotated[float | str, PlainValidator(_number), WithJsonSchema(_EXPRESSION)]
NumberOrList = Annotated[float | str | list[float | str], PlainValidator(_number_or_list)]
Text = Annotated[str, PlainValidator(_text), WithJsonSchema({"type": "string"})]
Pair = Annotated[
    list[float | str],
    PlainValidator(_pair),
    WithJsonSchema({"type": "array", "items": _EXPRESSION, "minItems": 2, "maxItems": 2}),
]


_NUMBER_LIST = {"type": "array", "items": _EXPRESSION, "minItems": 1}
Numbers = Annotated[list[float | str], PlainValidator(_list_of_numbers), WithJsonSchema(_NUMBER_LIST)]
Times = Annotated[
    list[float | str], PlainValidator(_times), WithJsonSchema({"anyOf": [_EXPRESSION, _NUMBER_LIST]})
]


class Section(BaseModel):
    """A mapping in which every key is known."""

    model_config = ConfigDict(extra="forbid", validate_default=False)


class NamedModel(Section):
    """A registered model by its class name, and its parameters beside the name."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, NumberOrList]

    type: Text = Field(description="Name of the model; `simkit list` shows all.", examples=["GBM"])


class SDEVariable(Section):
    """One variable of a stochastic equation."""

    drift: Number = Field(0.0, description="Rate of change; an expression.", examples=["mu * S"])
    noise: dict[str, Number] = Field(
        default_factory=dict,
        description="What multiplies each noise, by the name of the noise. One name in several equations is "
        "one and the same noise.",
        examples=[{"W1": "sigma * S"}],
    )


class InlineSDE(Section):
    """A stochastic differential equation written in the file."""

    sde: dict[str, Annotated[SDEVariable, _shorthand("drift")]] = Field(
        description="One entry for each variable: {drift: …, noise: {name: …}}, or the drift alone.",
        examples=[{"S": {"drift": "mu * S", "noise": {"W1": "sigma * S"}}}],
    )
    parameters: dict[str, Number] = Field(
        default_factory=dict,
        description="Named numbers in the equations; expressions of constants.",
        examples=[{"mu": 0.05, "sigma": 0.2}],
    )
    correlation: dict[str, Number] = Field(
        default_factory=dict,
        description="Correlation of pairs of noises, each from -1 to 1; 0 for pairs that are not named.",
        examples=[{"W1-W2": -0.7}],
    )
    calculus: Annotated[Literal["ito", "stratonovich"], *_choice("ito", "stratonovich")] = Field(
        "ito", description="How the stochastic integral is meant."
    )


class InlineODE(Section):
    """An ordinary differential equation written in the file."""

    ode: dict[str, Number] = Field(
        description="The rate of change of each variable; an expression.",
        examples=[{"x": "sigma * (y - x)"}],
    )
    parameters: dict[str, Number] = Field(
        default_factory=dict,
        description="Named numbers in the equations; expressions of constants.",
        examples=[{"sigma": 10.0}],
    )


class Energies(Section):
    """The two parts of a separable energy; the equations follow by differentiation."""

    kinetic: Number = Field(
        description="Kinetic energy; an expression of the momenta.", examples=["p**2 / (2*m)"]
    )
    potential: Number = Field(
        description="Potential energy; an expression of the positions.", examples=["k*q**2 / 2"]
    )


class InlineHamiltonian(Section):
    """A Hamiltonian system written in the file by its energies, for symplectic solvers such as Leapfrog."""

    hamiltonian: Energies = Field(
        description="The kinetic and the potential energy, from which the equations follow.",
        examples=[{"kinetic": "p**2 / (2*m)", "potential": "k*q**2 / 2"}],
    )
    coordinates: dict[str, Text] = Field(
        description="Each position with its momentum.", examples=[{"q": "p"}]
    )
    parameters: dict[str, Number] = Field(
        default_factory=dict,
        description="Named numbers in the energies; expressions of constants.",
        examples=[{"m": 1.0, "k": 4.0}],
    )


class ReactionSettings(Section):
    """One reaction, and how often it happens: rate or propensity."""

    equation: Text = Field(
        description="What reacts and what comes of it; 0 is nothing.", examples=["S + I -> 2 I"]
    )
    rate: Number | None = Field(
        None,
        description="Mass action: the propensity is this expression of parameters, constants and t, times "
        "the ways to choose the reactants: S*I for S + I, X*(X-1)/2 for 2 X. In the rate equation X**2/2.",
        examples=["beta/N"],
    )
    propensity: Number | None = Field(
        None,
        description="In place of rate: events per unit of time, an expression that may use the species too. "
        "It must be zero where reactants are missing.",
        examples=["alpha/(1 + X**2)"],
    )


class InlineNetwork(Section):
    """A reaction network written in the file. The solver says whether its jump process, its chemical Langevin
    equation or its rate equation is meant."""

    reactions: dict[str, ReactionSettings] = Field(
        description="The reactions by name; the species are those in their equations.",
        examples=[{"decay": {"equation": "X -> 0", "rate": "mu"}}],
    )
    parameters: dict[str, Number] = Field(
        default_factory=dict,
        description="Named numbers in the rates; expressions of constants.",
        examples=[{"mu": 0.1}],
    )


class RandomValue(Section):
    """An initial value drawn for each path; exactly one key."""

    normal: Pair | None = Field(None, description="Mean and standard deviation.", examples=[[100, 1]])
    lognormal: Pair | None = Field(
        None, description="Mean and standard deviation of the logarithm.", examples=[[4.6, 0.1]]
    )
    uniform: Pair | None = Field(None, description="Lower and upper end.", examples=[[0, 1]])


class PerPath(Section):
    """An initial value for each path: path i takes value i, counted from 0, and after the last the first."""

    values: Annotated[
        list[float],
        PlainValidator(_numbers),
        WithJsonSchema({"type": "array", "items": {"type": "number"}, "minItems": 1}),
    ] = Field(
        description="The values of the paths. Their number must divide that of the paths, and is the default "
        "for it.",
        examples=[[99.0, 100.0, 101.0]],
    )


class FromFile(Section):
    """Initial values read from a file. One row is the value of all paths; of several, path i takes row i,
    counted from 0, and after the last the first."""

    file: Text = Field(
        description="A table .csv with a line of names above its numbers, or the .nc or .zarr of an earlier "
        "run, of which the stored paths' last values are taken. Beside the experiment's file.",
        examples=["start.csv"],
    )
    column: Text | None = Field(
        None,
        description="The column, or quantity of an earlier run; the one of the variable's name unless given.",
        examples=["S0"],
    )
    variant: Text | None = Field(
        None, description="Which variant of an earlier run, if it has several.", examples=["low"]
    )
    sha256: Text | None = Field(
        None,
        description="Checksum that the file must have; a resolved configuration has it.",
    )

    _origin: Any = PrivateAttr(None)  # the column, read once


class Solver(Section):
    """A solver by its class name, and its options beside the name."""

    model_config = ConfigDict(extra="allow")

    type: Text = Field(description="Name of the solver; `simkit list` shows all.", examples=["EulerMaruyama"])
    convert: bool = Field(
        False,
        description="Whether an Itô model may be read as the equivalent Stratonovich model, or the other way "
        "round, where the solver is for the other calculus.",
        examples=[True],
    )


class Time(Section):
    """When it begins and ends, and its steps: so many of equal length, or as long as tolerances allow.

    The jump process of a reaction network has none.
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

    t0: Number = Field(
        0.0, description="Where time begins; may be an expression of constants.", examples=[0.0]
    )
    t1: Number = Field(
        description="Where time ends; may be an expression of constants.", examples=[1.0, "2*T"]
    )
    steps: Annotated[int, *_whole(1, MAX_STEPS, " (the step counter has 31 bits)")] | None = Field(
        None,
        description="Steps of equal length between t0 and t1. Either steps or rtol and atol.",
        examples=[252],
    )
    rtol: Number | None = Field(
        None,
        description="In place of steps: steps as long as their estimated error stays below "
        "atol + rtol * |y|. May be an expression of constants, as may atol and first_step.",
        examples=[1e-6],
    )
    atol: Number | None = Field(
        None, description="Beside rtol: the error allowed where a variable is near zero.", examples=[1e-9]
    )
    first_step: Number | None = Field(
        None,
        description="Beside rtol: length of the first step; chosen from the slope at t0 unless given. Of a "
        "stochastic equation the longest step, from one saved time to the next unless given.",
        examples=[1e-3],
    )
    max_steps: Annotated[int, *_whole(1, MAX_STEPS)] | None = Field(
        None,
        description="Beside rtol: a path that takes more steps has failed; the default is 65536. Of a jump "
        "process the events or leaps of a path; the default is 100 million.",
        examples=[100000],
    )


class Ensemble(Section):
    """How many paths, and how they are run."""

    paths: Annotated[int, *_whole(1, MAX_PATHS, " (the path counter has 32 bits)")] | None = Field(
        None,
        description="Number of paths. The default is 10000, 1 for an ordinary equation from fixed initial "
        "values, and the number of rows where a file has several.",
        examples=[100000],
    )
    seed: Annotated[int, *_whole(0, 2**64 - 1)] = Field(
        0, description="The same seed gives the same paths; 0 is a seed like any other.", examples=[42]
    )
    chunk: Annotated[int, *_whole(1, MAX_PATHS)] | None = Field(
        None,
        description="Paths in memory at a time, rounded up to whole blocks; chosen by itself unless given. "
        "Results do not depend on it.",
        examples=[65536],
    )
    devices: Annotated[int, *_whole(1)] | None = Field(
        None,
        description="How many local devices to use; all unless given. Results do not depend on it.",
        examples=[1],
    )
    failures: Annotated[Literal["stop", "exclude"], *_choice("stop", "exclude")] = Field(
        "stop",
        description="When a path becomes NaN or infinite: `stop` with an error, or `exclude` it and show how "
        "many there were.",
    )
    normals: Annotated[Literal["float32", "float64"], *_choice("float32", "float64")] = Field(
        "float32",
        description="Arithmetic in which normal numbers are drawn. float32 has 31 random bits, an error far "
        "below any sampling error, and is several times faster.",
    )


class Save(Section):
    """What is kept."""

    points: Annotated[int, *_whole(1)] | None = Field(
        None,
        description="Statistics at so many equally spaced times after t0, and at t0. Must divide the steps, "
        "where their number is given. The default is 1: at t0 and at the end.",
        examples=[12],
    )
    every: Annotated[int, *_whole(1)] | None = Field(
        None, description="In place of points: statistics at each so many-th step.", examples=[21]
    )
    paths: (
        Annotated[
            int | Literal["all"],
            PlainValidator(_stored),
            WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 0}, {"const": "all"}]}),
        ]
        | None
    ) = Field(
        None,
        description="How many paths to store in full, from the first one: a number, or all. The default is "
        "20.",
        examples=[100],
    )
    quantiles: Annotated[
        list[float],
        PlainValidator(_quantiles),
        WithJsonSchema(
            {"type": "array", "items": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}}
        ),
    ] = Field(default=[0.05, 0.25, 0.5, 0.75, 0.95], description="Which quantiles to give, increasing.")


class EarlyExercise(Section):
    """The right to take the value once, at one of several dates, by a policy found on other paths. Where the
    value is positive at a date and above what going on is worth, by regression (Longstaff and Schwartz), it
    is taken."""

    dates: Annotated[int, *_whole(1, MAX_STEPS)] = Field(
        description="At how many equally spaced dates it may be taken: the last is the end, t0 is none. Must "
        "divide the steps.",
        examples=[50],
    )
    basis: (
        Annotated[
            list[float | str],
            PlainValidator(_expressions),
            WithJsonSchema({"type": "array", "items": _EXPRESSION}),
        ]
        | None
    ) = Field(
        None,
        description="What the decision may depend on: expressions as in value. The default is all state "
        "variables.",
        examples=[["S", "mean(S)"]],
    )
    degree: Annotated[int, *_whole(1, 10)] = Field(
        4, description="Highest total degree of the polynomials in the basis.", examples=[4]
    )
    paths: Annotated[int, *_whole(2, 2**24)] = Field(
        65536,
        description="How many paths the policy is found on, besides those of the ensemble. All their dates "
        "are in memory at a time.",
        examples=[65536],
    )


class ObservableSettings(Section):
    """An observable."""

    value: Number = Field(
        description="An expression of state variables, parameters, constants, t and the path functionals "
        "mean, max, min, integral and no_touch.",
        examples=["exp(-r*t) * maximum(S - K, 0)"],
    )
    at: Annotated[Literal["end", "each"], *_choice("end", "each")] = Field(
        "end", description="Kept at the end, or at each saved time."
    )
    every: Annotated[int, *_whole(1, MAX_STEPS)] | None = Field(
        None,
        description="Path functionals look at each so many-th step; each step unless given.",
        examples=[21],
    )
    exact: Number | None = Field(
        None,
        description="The exact value of the mean at the end: a number, or an expression of constants, "
        "parameters, t (the end time) and closed forms such as black_scholes_call.",
        examples=["black_scholes_call(S=100, K=K, r=r, sigma=0.2, T=1)"],
    )
    unit: Text = Field("", description="Unit, for table and dataset.", examples=["currency"])
    early_exercise: EarlyExercise | None = Field(
        None,
        description="Whether the value may be taken before the end: give it as worth at t0, if taken at t.",
        examples=[{"dates": 50}],
    )


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
        description="In place of times and values: a CSV file with a header, relative to the folder of the "
        "experiment. It is read before the run, and the result holds its numbers.",
        examples=["rain.csv"],
    )
    time: Text | None = Field(None, description="Beside file: the column of the times.", examples=["day"])
    value: Text | None = Field(None, description="Beside file: the column of the values.", examples=["mm"])
    interpolation: Annotated[
        Literal["linear", "previous", "cubic"], *_choice("linear", "previous", "cubic")
    ] = Field(
        "linear",
        description="Between the points: lines, the value of the point before (a step function), or a smooth "
        "cubic that does not overshoot (PCHIP).",
    )
    outside: Annotated[Literal["refuse", "hold"], *_choice("refuse", "hold")] = Field(
        "refuse", description="Whether a run may go beyond the points: `hold` keeps the first and last value."
    )


class EventSettings(Section):
    """A change of the state at given times: at, or every with first and last."""

    at: Times | None = Field(
        None,
        description="When it happens: a time, or a list of them, increasing; may be expressions of "
        "constants.",
        examples=[[0, 24, 48]],
    )
    every: Number | None = Field(
        None, description="In place of at: the time from one to the next.", examples=[24]
    )
    first: Number | None = Field(
        None, description="Beside every: when it happens first; t0 + every unless given.", examples=[0]
    )
    last: Number | None = Field(
        None,
        description="Beside every: when it happens last at the latest; before t1 unless given.",
        examples=[96],
    )
    set: dict[str, Number] = Field(
        description="New values of state variables: expressions of state variables, parameters, constants, "
        "curves and t. All are computed from the state before the event.",
        examples=[{"A": "A + 100"}],
    )


_NAMES = {"type": "array", "items": {"type": "string"}}


_VARIANTS = {"type": "object", "minProperties": 1, "additionalProperties": {"type": ["object", "null"]}}


class Plot(Section):
    """What the picture shows."""

    over_time: Annotated[list[str], PlainValidator(_names), WithJsonSchema(_NAMES)] | None = Field(
        None,
        description="State variables and observables kept at each saved time, a row for each. The default is "
        "the first four variables and all such observables, five rows at most.",
        examples=[["V", "n"]],
    )
    portrait: (
        Annotated[
            list[list[str]],
            PlainValidator(_pairs),
            WithJsonSchema({"type": "array", "items": {"anyOf": [{"type": "string"}, _NAMES]}}),
        ]
        | None
    ) = Field(
        None,
        description="Two such quantities to draw against each other, as orbits: [x, y], or a list of pairs.",
        examples=[["x", "y"]],
    )


def _points(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 2 or value > 2**30:
        raise _wrong(f"must be a whole number from 2 to 2^30, got {shown(value)}")
    return value


def _positive(value: Any) -> float:
    number = _plain_number(value)
    if not number > 0:
        raise _wrong(f"must be > 0, got {shown(value)}")
    return number


def _confidence(value: Any) -> float:
    number = _plain_number(value)
    if not 0 < number < 1:
        raise _wrong(f"must be between 0 and 1, got {shown(value)}")
    return number


def _groups(value: Any) -> dict[str, list[str]]:
    if not isinstance(value, dict) or not value:
        raise _wrong(
            f"must be names with lists of parameters such as {{market: [r, sigma]}}, got {shown(value)}"
        )
    return {str(name): _names(members) for name, members in value.items()}


_METHODS = ("sobol", "morris", "derivatives", "rank", "propagate")
_ESTIMATORS = ("saltelli", "jansen", "janon")


class Uncertainty(Section):
    """What `simkit uncertainty` does with the parameters that are distributions."""

    method: Annotated[Literal["sobol", "morris", "derivatives", "rank", "propagate"], *_choice(*_METHODS)] = (
        Field(
            "sobol",
            description="`sobol`: shares of the variance; `morris`: elementary effects, for many parameters; "
            "`derivatives`: mean squared derivatives; `rank`: rank correlations; `propagate`: moments and "
            "quantiles of the output.",
        )
    )
    of: Annotated[list[str], PlainValidator(_names), WithJsonSchema(_NAMES)] | None = Field(
        None,
        description="Observables, or state variables, at the end. The default is all observables, or all "
        "state variables where there are none.",
        examples=[["call"]],
    )
    points: (
        Annotated[int, PlainValidator(_points), WithJsonSchema({"type": "integer", "minimum": 2})] | None
    ) = Field(
        None,
        description="Points of each replicate, a power of two; of `morris` walks, any number. The default "
        "is 1024, 256 for derivatives and rank, 16 for morris.",
        examples=[1024],
    )
    replicates: Annotated[int, *_whole(2, 1000)] = Field(
        8, description="Independent replicates, from which the intervals follow.", examples=[16]
    )
    paths: Annotated[int, *_whole(1, 2**20)] | None = Field(
        None,
        description="Paths of each run, where paths with the same parameters differ: at least 2. The default "
        "is 16, and 1 where nothing is random.",
        examples=[16],
    )
    order: Annotated[int, *_whole(1, 2)] = Field(
        1, description="Of `sobol`: 2 for indices of pairs too, with nearly twice as many runs.", examples=[2]
    )
    groups: (
        Annotated[
            dict[str, list[str]],
            PlainValidator(_groups),
            WithJsonSchema({"type": "object", "additionalProperties": _NAMES}),
        ]
        | None
    ) = Field(
        None,
        description="Of `sobol`: parameters that are varied together, by the name of the group.",
        examples=[{"market": ["r", "sigma"]}],
    )
    estimator: Annotated[Literal["saltelli", "jansen", "janon"], *_choice(*_ESTIMATORS)] = Field(
        "saltelli",
        description="Of `sobol`: how first-order indices are estimated; total ones by Jansen's formula.",
    )
    levels: Annotated[int, *_whole(2, 1000)] = Field(
        4, description="Of `morris`: levels of the grid, an even number.", examples=[4]
    )
    width: (
        Annotated[float, PlainValidator(_positive), WithJsonSchema({"type": "number", "exclusiveMinimum": 0})]
        | None
    ) = Field(
        None,
        description="Double the points until the widest interval is narrower: of indices and correlations as "
        "they are, of mu_star in units of the largest, of a mean in standard deviations.",
        examples=[0.05],
    )
    budget: Annotated[int, *_whole(1)] = Field(
        2**24, description="Beside width: no more runs than this, paths counted.", examples=[1000000]
    )
    confidence: Annotated[
        float,
        PlainValidator(_confidence),
        WithJsonSchema({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}),
    ] = Field(0.95, description="Of the intervals.", examples=[0.95])
    seed: Annotated[int, *_whole(0, 2**64 - 1)] = Field(
        0, description="Of the points; the noise has that of the ensemble.", examples=[1]
    )


def _model_tag(value: Any) -> str:
    tags = {
        "sde": INLINE_SDE,
        "ode": INLINE_ODE,
        "hamiltonian": INLINE_HAMILTONIAN,
        "reactions": INLINE_NETWORK,
    }
    if isinstance(value, InlineSDE | InlineODE | InlineHamiltonian | InlineNetwork):
        return next(tag for key, tag in tags.items() if key in type(value).model_fields)
    if isinstance(value, dict) and "type" not in value:
        return next((tag for key, tag in tags.items() if key in value), NAMED)
    return NAMED


def _initial_tag(value: Any) -> str:
    for key, section, tag in (("file", FromFile, FROM_FILE), ("values", PerPath, PER_PATH)):
        if isinstance(value, section) or (isinstance(value, dict) and key in value):
            return tag
    if isinstance(value, list):
        return LISTED
    return RANDOM if isinstance(value, dict | RandomValue) else PLAIN


Model = Annotated[
    Annotated[NamedModel, Tag(NAMED)]
    | Annotated[InlineSDE, Tag(INLINE_SDE)]
    | Annotated[InlineODE, Tag(INLINE_ODE)]
    | Annotated[InlineHamiltonian, Tag(INLINE_HAMILTONIAN)]
    | Annotated[InlineNetwork, Tag(INLINE_NETWORK)],
    Discriminator(_model_tag),
]
Initial = Annotated[
    Annotated[Number, Tag(PLAIN)]
    | Annotated[RandomValue, Tag(RANDOM)]
    | Annotated[PerPath, Tag(PER_PATH)]
    | Annotated[FromFile, Tag(FROM_FILE)]
    | Annotated[list[Number], Tag(LISTED)],
    Discriminator(_initial_tag),
]


def _second(value: Any) -> list[str | list[str]]:
    wrong = _wrong(f"must be a list of names and pairs such as [S, [S, sigma]], got {shown(value)}")
    if not isinstance(value, list) or not value:
        raise wrong
    for each in value:
        pair = each if isinstance(each, list) else [each, each]
        if len(pair) != 2 or not all(isinstance(name, str) for name in pair):
            raise wrong
    return value


SENSITIVITY_METHODS = ("auto", "pathwise", "reverse", "smoothing", "score", "finite_differences")


class Sensitivity(Section):
    """What `simkit sensitivity` differentiates."""

    wrt: Annotated[list[str], PlainValidator(_names), WithJsonSchema(_NAMES)] = Field(
        description="What the derivatives are taken with respect to: constants, parameters of the model, "
        "state variables for their initial values, t0 and t1. Full names, such as model.sigma, initial.S and "
        "time.t1, tell them apart.",
        examples=[["sigma", "r", "S"]],
    )
    of: Annotated[list[str], PlainValidator(_names), WithJsonSchema(_NAMES)] | None = Field(
        None,
        description="Whose means are differentiated: observables and state variables. The default is all "
        "observables, or all state variables where there are none.",
        examples=[["call"]],
    )
    second: (
        Annotated[
            list[str | list[str]],
            PlainValidator(_second),
            WithJsonSchema({"type": "array", "items": {"anyOf": [{"type": "string"}, _NAMES]}}),
        ]
        | None
    ) = Field(
        None,
        description="Second derivatives: names of wrt, and pairs of them.",
        examples=[["S", ["S", "sigma"]]],
    )
    method: Annotated[
        Literal["auto", "pathwise", "reverse", "smoothing", "score", "finite_differences"],
        *_choice(*SENSITIVITY_METHODS),
    ] = Field(
        "auto",
        description="The estimator of the first derivatives. By default that which is right for the "
        "observable: pathwise where its value changes continuously, smoothing or score where it jumps, "
        "finite_differences otherwise.",
    )
    check: bool = Field(
        False,
        description="Whether finite differences with common random numbers are set beside each derivative, "
        "with how many standard errors it is away from them.",
    )


class Experiment(Section):
    """Everything about a run. `load` makes one from a file; `resolved` gives it back with all defaults."""

    constants: dict[str, Number] = Field(
        default_factory=dict,
        description="Names for use anywhere below: numbers, or expressions of constants above. For "
        "`simkit uncertainty` also distributions such as {normal: [0.05, 0.01]}.",
        examples=[{"r": 0.05, "K": 100.0}],
    )
    curves: dict[str, CurveSettings] = Field(
        default_factory=dict,
        description="Numbers that change with time, by name: for parameters and equations of the model, for "
        "observables and events.",
        examples=[{"r": {"times": [0, 1, 2], "values": [0.01, 0.02, 0.025]}}],
    )
    model: Model = Field(
        description="What is simulated: a model by name {type: GBM, mu: …}, equations under sde or ode, or "
        "energies under hamiltonian.",
        examples=[{"type": "GBM", "mu": "r", "sigma": 0.2}],
    )
    initial: dict[str, Initial] = Field(
        description="The value of each state variable at t0: a number, an expression of constants, a "
        "distribution such as {normal: [100, 1]}, or {file: start.csv}. The key `file` beside them names a "
        "file for all variables that are not given. Of variables x1, x2, … the key `x` has the value of "
        "all, or a list.",
        examples=[{"S": 100.0}],
    )
    solver: Annotated[Solver, _shorthand("type")] | None = Field(
        None,
        description="Name of the solver, or {type: name, option: …}. The default is EulerMaruyama for an Itô "
        "equation (Milstein if steps are adaptive), EulerHeun for a Stratonovich one, BAOAB for underdamped "
        "Langevin dynamics and Tsit5 for an ordinary one.",
        examples=["EulerMaruyama"],
    )
    time: Time = Field(
        description="The grid of times, such as {t1: 1.0, steps: 252}. With {t1: 1.0, rtol: 1e-6, "
        "atol: 1e-9} each path chooses its steps by itself.",
        examples=[{"t1": 1.0, "steps": 252}],
    )
    events: dict[str, EventSettings] = Field(
        default_factory=dict,
        description="Changes of the state at given times, such as doses, by name. Those at the same time "
        "happen in the order of the file; a saved row shows the state after them.",
        examples=[{"dose": {"at": [0, 24, 48], "set": {"A": "A + 100"}}}],
    )
    ensemble: Ensemble = Field(
        default_factory=lambda: Ensemble(),
        description="How many paths, and how they are run.",
        examples=[{"paths": 100000, "seed": 42}],
    )
    precision: Annotated[Literal["float32", "float64"], *_choice("float32", "float64")] = Field(
        "float64", description="Arithmetic of the simulation. Statistics are always in float64."
    )
    save: Save = Field(default_factory=lambda: Save(), description="What is kept.", examples=[{"points": 12}])
    observe: dict[str, Annotated[ObservableSettings, _shorthand("value")]] = Field(
        default_factory=dict,
        description="Observables by name: an expression, or {value: …} with further keys.",
        examples=[{"call": "exp(-r*t) * maximum(S - K, 0)"}],
    )
    plot: Plot = Field(
        default_factory=lambda: Plot(),
        description="What the picture shows.",
        examples=[{"portrait": ["x", "y"]}],
    )
    sensitivity: Sensitivity | None = Field(
        None,
        description="What `simkit sensitivity` differentiates; `simkit run` takes no notice of it.",
        examples=[{"wrt": ["sigma", "r", "S"]}],
    )
    uncertainty: Uncertainty | None = Field(
        None,
        description="What `simkit uncertainty` does with parameters that are distributions; `simkit run` "
        "takes no notice of it.",
        examples=[{"method": "sobol", "points": 1024}],
    )
    output: (
        Annotated[
            str, PlainValidator(_output), WithJsonSchema({"type": "string", "pattern": "\\.(zarr|nc)$"})
        ]
        | None
    ) = Field(
        None,
        description="The dataset to write, .zarr or .nc; a picture lies beside it. Without it nothing is "
        "written but the table.",
        examples=["gbm.zarr"],
    )

    variants: Annotated[dict[str, Any], WithJsonSchema(_VARIANTS)] | None = Field(
        None,
        description="Several experiments in one file, by name: each is the file with these settings changed. "
        "Keys are dotted as in --set, or sections; null takes a key away.",
        examples=[{"low": {"model.sigma": 0.1}, "high": {"model.sigma": 0.4}}],
    )

    _document: Document | None = PrivateAttr(None)

    @property
    def document(self) -> Document:
        """Where the keys stand in the file, for messages."""
        return self._document or Document({})

    def resolved(self) -> dict[str, Any]:
        """The experiment as plain data, every default filled in. Loading it gives the same simulation."""
        return self.model_dump(mode="json", exclude_none=True)
