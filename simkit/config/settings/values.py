"""The kinds of values in an experiment, each with the message for an invalid one."""

import dataclasses
import math
import re
from collections.abc import Callable
from typing import Annotated, Any, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    PlainValidator,
    WithJsonSchema,
)
from pydantic_core import PydanticCustomError, core_schema

from simkit.suggestions import did_you_mean, shown, without_commas

MAX_STEPS = 2**31 - 1
MAX_THREADS = 1024


MAX_PATHS = 2**32


POWER_OF_TEN = re.compile(r"(?P<whole>[+-]?\d+)(?P<point>\.\d*)?[eE](?P<sign>[+-]?)(?P<power>\d+)")
NUMBER_TEXT = re.compile(
    r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.?(inf|nan)", re.IGNORECASE
)


DISTRIBUTIONS = ("normal", "lognormal", "uniform", "triangular", "truncated_normal", "beta", "discrete")


EXPRESSION_SCHEMA = {"type": ["number", "string"]}


_NUMBER_LIST = {"type": "array", "items": EXPRESSION_SCHEMA, "minItems": 1}


NAMES_SCHEMA = {"type": "array", "items": {"type": "string"}}
_VARIANTS = {"type": "object", "minProperties": 1, "additionalProperties": {"type": ["object", "null"]}}
VariantSettings = Annotated[dict[str, Any], WithJsonSchema(_VARIANTS)]


class Section(BaseModel):
    """A mapping in which every key is known."""

    model_config = ConfigDict(extra="forbid", validate_default=False)


def wrong(message: str) -> PydanticCustomError:
    return PydanticCustomError("simkit", "{message}", {"message": message})


def quoted(value: str) -> PydanticCustomError:
    if value.strip(" +-.").lower() in ("inf", "nan"):
        return wrong(f"must be a finite number, got {value.strip()}")
    context = {"message": f"{shown(value)} is text, not a number", "text": value}
    return PydanticCustomError("quoted", "{message}", context)


def without_quotes(value: str, in_file: bool) -> str:
    """What to do about a number that is text, in a YAML file or in a mapping from Python."""
    parts = POWER_OF_TEN.fullmatch(value.strip())
    if in_file or parts is None or (parts["point"] and parts["sign"]):
        return "remove the quotes"
    # YAML 1.1, which PyYAML reads, requires both.
    number = f"{parts['whole']}{parts['point'] or '.0'}e{parts['sign'] or '+'}{parts['power']}"
    return f"PyYAML takes this for text: write {number} in the file, or give simkit the file's name"


def written_plainly(value: Any) -> str:
    """What to do about 1_000 or 0,2, which are text in YAML; nothing where a value is anything else."""
    plain = value.replace("_", "") if isinstance(value, str) and "_" in value else ""
    if NUMBER_TEXT.fullmatch(plain):
        return f"; write {plain}, without underscores"
    return without_commas(value) if isinstance(value, str) else ""


def number(value: Any) -> float | str:
    """A finite number, or the text of an expression."""
    if isinstance(value, str):
        if NUMBER_TEXT.fullmatch(value.strip()):
            raise quoted(value)
        if remedy := written_plainly(value):
            raise wrong(f"must be a number or an expression, got {shown(value)}{remedy}")
        if not value.strip():
            raise wrong("must be a number or an expression, got an empty text")
        return value
    return plain_number(value, "a number or an expression")


def _number_or_list(value: Any) -> Any:
    return [_number_or_list(x) for x in value] if isinstance(value, list) else number(value)


def plain_number(value: Any, wanted: str = "a number") -> float:
    if isinstance(value, str) and NUMBER_TEXT.fullmatch(value.strip()):
        raise quoted(value)
    if isinstance(value, dict) and len(value) == 1 and next(iter(value)) in DISTRIBUTIONS:
        raise PydanticCustomError("distribution", "a distribution where a number is wanted")
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise wrong(f"must be {wanted}, got {shown(value)}{written_plainly(value)}")
    if isinstance(value, int) and value.bit_length() > 1000:
        raise wrong(f"must be {wanted} that fits into float64, got a larger one")
    if not math.isfinite(value):
        raise wrong(f"must be finite, got {value}")
    return float(value)


def text(value: Any) -> str:
    if not isinstance(value, str):
        raise wrong(f"must be text, got {shown(value)}; put it in quotes")
    return value


def _type_name(value: Any) -> str:
    if not isinstance(value, str):
        raise wrong(f"must be a name, got {shown(value)}; `simkit list` shows all")
    return value


def _dataset_name(value: Any) -> str:
    name = text(value)
    if not name.endswith((".zarr", ".nc", ".csv")):
        raise wrong(f"must end in .zarr, .nc or .csv, got {shown(name)}")
    return name


def whole_number(value: Any, low: int, high: int | None = None, why: str = "") -> int:
    if isinstance(value, str) and NUMBER_TEXT.fullmatch(value.strip()):
        raise quoted(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value // 1:
        raise wrong(f"must be a whole number, got {shown(value)}{written_plainly(value)}")
    if value < low:
        raise wrong(f"must be at least {low}, got {shown(value)}")
    if high is not None and value > high:
        raise wrong(f"must be at most {high}{why}, got {shown(value)}")
    return int(value)


def checked(check: Callable[[Any], Any], schema: dict[str, Any]) -> list:
    """Annotates a value that `check` reads or refuses, and that editors know by its schema."""
    return [PlainValidator(check), WithJsonSchema(schema)]


def whole(low: int, high: int | None = None, why: str = "") -> list:
    """Annotates a whole number from `low` to `high`; `why` is the reason for the limits."""
    limits = {"minimum": low} | ({} if high is None else {"maximum": high})
    return checked(lambda value: whole_number(value, low, high, why), {"type": "integer", **limits})


@dataclasses.dataclass(frozen=True)
class OneOf:
    """Annotates a `Literal`: what is no option of it is refused with a message that names them.

    `elsewhere` are other names of some of the options.
    """

    elsewhere: tuple[tuple[Any, str], ...] = ()

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler):
        options = get_args(source)

        def check(value: Any) -> Any:
            if value not in options:
                hint = did_you_mean(value, options) if isinstance(value, str) else ""
                hint = hint if "mean" in hint else ""
                for name, option in self.elsewhere:
                    hint = f"; did you mean {option!r}?" if name == value else hint
                raise wrong(f"must be {' or '.join(options)}, got {shown(value)}{hint}")
            return value

        return core_schema.no_info_before_validator_function(check, handler(source))


ONE_OF = OneOf()
PRECISION = OneOf(
    tuple((name, "float64") for name in ("double", "f64", 64))
    + tuple((name, "float32") for name in ("single", "half", "f32", 32, "float16", "bfloat16", 16))
)


MEMORY = re.compile(r"\s*(\d+(?:\.\d*)?)\s*([kMGT]?)(i?)B\s*")


def bytes_of(value: Any) -> int:
    """The bytes that a text such as 2GB or 500MiB says."""
    parts = MEMORY.fullmatch(value) if isinstance(value, str) else None
    if parts is None:
        raise wrong(f"must be a size such as 2GB or 500MB, got {shown(value)}")
    return round(float(parts[1]) * (1024 if parts[3] else 1000) ** " kMGT".index(parts[2] or " "))


def _memory(value: Any) -> str:
    bytes_of(value)
    return value


Memory = Annotated[str, *checked(_memory, {"type": "string", "pattern": f"^{MEMORY.pattern}$"})]


MOST_SECONDS = 1e9  # some thirty years, which clocks can count
TIME_UNITS = {"s": 1, "min": 60, "h": 3600, "d": 86400}


def seconds_in(value: Any) -> float:
    """The seconds that a text such as 90s, 30min, 3h or 2d says, or a number."""
    if isinstance(value, str):
        match = re.fullmatch(r"\s*(\d+\.?\d*|\.\d+)\s*([a-z]*)\s*", value)
        seconds = float(match[1]) * TIME_UNITS.get(match[2] or "s", 0) if match else 0.0
    else:
        seconds = plain_number(value, "a time such as 90s, 30min, 3h or 2d")
    if not 0 < seconds <= MOST_SECONDS:
        raise wrong(f"must be a time such as 90s, 30min, 3h or 2d, got {shown(value)}")
    return seconds


def _duration(value: Any) -> float | str:
    seconds = seconds_in(value)
    return value if isinstance(value, str) else seconds


Duration = Annotated[float | str, *checked(_duration, EXPRESSION_SCHEMA)]


def positive(value: Any) -> float:
    """A number above zero."""
    result = plain_number(value)
    if result <= 0:
        raise wrong(f"must be above 0, got {shown(value)}")
    return result


Positive = Annotated[float, *checked(positive, {"type": "number", "exclusiveMinimum": 0})]


def list_of_names(value: Any) -> list[str]:
    if not isinstance(value, list) or not value or not all(isinstance(name, str) for name in value):
        raise wrong(f"must be a list of names such as [S, v], got {shown(value)}")
    return value


def _by_place_or_name(value: Any) -> list[float | str] | dict[str, float | str]:
    if isinstance(value, dict) and value:
        return {name: number(x) for name, x in value.items()}
    if isinstance(value, list) and value:
        return [number(x) for x in value]
    raise wrong(f"must be a list of numbers such as [0, 1], or their names and values, got {shown(value)}")


@dataclasses.dataclass(frozen=True)
class Shorthand:
    """Annotates a section: a bare value stands for a mapping with one key."""

    key: str

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler):
        return core_schema.no_info_before_validator_function(self._expanded, handler(source))

    def __get_pydantic_json_schema__(self, schema: Any, handler: GetJsonSchemaHandler):
        return {"anyOf": [EXPRESSION_SCHEMA, handler(schema)]}

    def _expanded(self, value: Any) -> Any:
        bare = isinstance(value, str | int | float) and not isinstance(value, bool)
        return {self.key: value} if bare else value


def list_of(what: str, item: Callable[[Any], Any] = number, items: Any = EXPRESSION_SCHEMA) -> list:
    """Annotates a list, not empty, of what `item` checks."""

    def check(value: Any) -> list:
        if not isinstance(value, list) or not value:
            raise wrong(f"must be a list of {what}, got {shown(value)}")
        return [item(x) for x in value]

    return checked(check, {"type": "array", "items": items, "minItems": 1})


_NUMBERS = list_of("numbers such as [0, 0.5, 1]")


def _times(value: Any) -> list[float | str]:
    return _NUMBERS[0].func(value if isinstance(value, list) else [value])


NumberOrExpression = Annotated[float | str, *checked(number, EXPRESSION_SCHEMA)]


NumberOrList = Annotated[float | str | list[Any], PlainValidator(_number_or_list)]  # or rows of a matrix


Text = Annotated[str, *checked(text, {"type": "string"})]
TypeName = Annotated[str, *checked(_type_name, {"type": "string"})]


DatasetName = Annotated[str, *checked(_dataset_name, {"type": "string", "pattern": "\\.(zarr|nc|csv)$"})]


ByPlaceOrName = Annotated[
    list[float | str] | dict[str, float | str],
    *checked(
        _by_place_or_name,
        {
            "anyOf": [
                {"type": "array", "items": EXPRESSION_SCHEMA, "minItems": 1},
                {"type": "object", "additionalProperties": EXPRESSION_SCHEMA},
            ]
        },
    ),
]


Numbers = Annotated[list[float | str], *_NUMBERS]


Names = Annotated[list[str], *checked(list_of_names, NAMES_SCHEMA)]


Times = Annotated[list[float | str], *checked(_times, {"anyOf": [EXPRESSION_SCHEMA, _NUMBER_LIST]})]
