"""Numbers as text: with the digits that their errors justify, and their distances from others."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import xarray as xr

BIAS_DIGITS = 4
PLAIN = 1e-3, 1e5  # from, to: numbers of this size are without an exponent, however small their error
ROUNDINGS = 100
WELL_ABOVE = 10  # times an error: a step bias that takes a digit of those that the error leaves
OFF = (" %", " abs")
MARK = " !"
AT_ANY_TIME, AT_STEPS = "before the end", "at the end of any step"  # when a condition was looked at
RULE_OF_THREE = 3.0  # if none of n paths does, fewer than 3/n of all do, with 95 % confidence


def rarer_paths(count: int) -> str:
    """How many of all paths may do what none of `count` paths does."""
    return f"rarer paths (below {min(100 * RULE_OF_THREE / count, 100):.2g} % of all, by the rule of three)"


def rounding_of(dataset: "xr.Dataset") -> float:
    """What rounding may make of a figure, relative to it."""
    return rounding_in(dataset.attrs.get("precision", "float64"))


def rounding_in(precision: str) -> float:
    """What rounding may make of a figure in this precision; sums of mixed precision are in float64."""
    return ROUNDINGS * float(np.finfo("float64" if precision == "mixed" else precision).eps)


def finite_or_none(value: Any) -> float | None:
    """A number that is finite; None in place of others."""
    return float(value) if math.isfinite(value) else None


def percentage(part: float) -> str:
    """With two digits of what is smaller, the part or the rest: 99.97, as 100 would be all."""
    smaller = 100 * min(part, 1 - part)
    return f"{100 * part:.{max(1 - math.floor(math.log10(smaller)), 0) if smaller > 0 else 0}f}"


def percentages(parts: np.ndarray) -> str:
    """The percentage that all parts are, or from which one to which: `0 to 98`."""
    low, high = (percentage(float(end)) for end in (parts.min(), parts.max()))
    return low if low == high else f"{low} to {high}"


def row_title(name: str, unit: str, with_unit: bool) -> str:
    """The name of a row, and its unit where no column has that."""
    return f"{name} [{unit}]" if with_unit and unit not in ("", "1") else name


def titled(cells: list[str]) -> str:
    """The title of a column of z, and of differences where there is no spread."""
    off = [cell == "equal" or cell.removesuffix(MARK).endswith(OFF) for cell in cells if cell]
    return "z" if not any(off) else "off by" if all(off) else "z or off by"


def with_error(value: float | None, error: float | None, shown: int = 3) -> str:
    """A figure with as many digits as its error gives meaning to, as `10.4506 ± 0.0147`: `shown` of those.

    An error that is NaN is unknown, and gives meaning to none; the figure has `shown` digits then.
    """
    if value is None:
        return ""
    if error is not None and math.isnan(error):
        return f"{value:.{shown}g} ± ?"
    if error is None or error == 0:
        return f"{value:.10g}"
    if math.isinf(error):
        return f"{value:.10g} ± inf"
    exponent = math.floor(math.log10(error))
    largest = max(exponent, math.floor(math.log10(abs(value)))) if value else exponent
    digits = max(shown - 1 - exponent, 0)
    usual = PLAIN[0] <= abs(value) < PLAIN[1] and digits <= 15
    if (exponent > -6 or usual) and largest < 9:
        return f"{value:.{digits}f} ± {error:.{digits}f}"
    digits = largest - exponent + shown - 1
    if digits > 15:
        return f"{value:.15g} ± {error:.{shown}g}"
    scale = 10.0**largest
    return f"({value / scale:.{digits}f} ± {error / scale:.{digits}f})e{largest:+03d}"


def mean_text(row: Mapping[str, Any]) -> str:
    """A mean with its error, which of several paths is a number unless it is too large for one.

    A value has no more digits than its step bias leaves, where that is well above the error. One that is the
    same on all paths has no spread: what its error says is rounding.
    """
    error = math.inf if row["stderr"] is None and row["n"] > 1 else row["stderr"]
    mark = "" if row["resolved"] and not row["noticeable_bias"] else MARK
    if limit := _limit(row):
        return f"{row['mean']:.10g}{limit}{mark}"
    if row["n"] == 1 or "same_on_all_paths" in row:
        return _to_bias(row) + (" ± 0" if row["n"] > 1 else "") + mark
    mean = row["mean"]
    if mean is not None and error and math.isfinite(error) and abs(mean) > _off(row) > WELL_ABOVE * error:
        return f"{_to_bias(row)} ± {error:.2g}{mark}"
    return with_error(row["mean"], error) + (" ± 0" if error == 0 else "") + mark


def _to_bias(row: Mapping[str, Any]) -> str:
    """A value with as many digits as its step bias, or the bias's own error, leaves."""
    off, value = _off(row), row["mean"]
    if value is None or not off:
        return with_error(value, None)
    return f"{round(value, 2 - math.floor(math.log10(off))):.10g}"


def _off(row: Mapping[str, Any]) -> float:
    """The step bias, or the bias's own error, whichever is larger; 0 where neither is known."""
    return max(abs(row.get(key) or 0) for key in ("bias", "bias_stderr", "bias_bound"))


def _limit(row: Mapping[str, Any]) -> str:
    """For a mean of identical values, the limit on the side where others would be."""
    for key, side in (("upper", "below"), ("lower", "above")):
        if row.get(key) is not None and row[key] != row["mean"]:
            return f" ({side} {row[key]:.5g})"
    return ""


def exact_difference(row: Mapping[str, Any], rounding: float) -> str:
    """The difference of a mean from its exact value; nothing where an error is too large for a number."""
    spread = row["stderr"] is None and row["n"] > 1
    if spread or row["mean"] is None or row["exact"] is None or "bias_bound" in row:
        return ""
    if row.get("lower") is not None and row["lower"] <= row["exact"] <= (row["upper"] or math.inf):
        return ""
    return difference_text(
        row["mean"], row["exact"], row["z"], 2, rounding * max(abs(row["mean"]), abs(row["exact"]))
    )


def bias_text(row: Mapping[str, Any], digits: int = 3) -> str:
    """The step bias with its error; of many digits to the first one of its error, which saves room."""
    if "bias_bound" in row:
        return "unknown" if row["bias_bound"] is None else f"at least {row['bias_bound']:.3g}"
    value, error = row["bias"], row["bias_stderr"]
    error = math.inf if error is None and value is not None else error  # too large for a number
    if not value or not error or abs(value) <= 10**BIAS_DIGITS * error:
        return with_error(value, error, digits)
    return f"{value:#.{digits_to(value, error)}g} ± {error:.1g}".replace(". ", " ")


def digits_to(value: float, error: float) -> int:
    """How many digits of a figure reach to the first one of its error, 15 at most."""
    last = int(f"{error:.0e}".partition("e")[2])
    return min(math.floor(math.log10(abs(value))) - last + 1, 15)


def difference_text(
    value: float | None, other: float | None, z: float | None, digits: int, rounding: float
) -> str:
    """The difference of a value from another: z, or where neither has a spread the difference in %.

    Where the other is 0 it is the difference itself, `abs`. What is as close as `rounding` is `equal`.
    """
    if z is not None:
        return f"{z:+.{digits}f}"
    if value is None or other is None:
        return ""
    if abs(value - other) <= rounding:
        return "equal"
    if not other:
        return f"{value:+.2g} abs"
    percent = 100 * (value - other) / abs(other)
    return f"{percent:+.{3 if abs(percent) >= 100 else 2}g} %"
