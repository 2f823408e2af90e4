"""Distributions of uncertain parameters, by their quantile functions.

In a file they are `{normal: [mean, sd]}` or `{normal: {mean: …, sd: …}}`; `LAWS` has them by name. They work
on numpy arrays in float64, on the host: a design has far fewer points than simulations have steps.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np
from scipy import special

from simkit.config.settings.values import NUMBER_TEXT
from simkit.expressions import ExpressionError, compile_expression
from simkit.suggestions import did_you_mean, shown


@runtime_checkable
class Law(Protocol):
    """The distribution of one parameter."""

    def quantile(self, u: np.ndarray) -> np.ndarray:
        """The inverse of the distribution function at `u` in (0, 1)."""
        ...

    @property
    def centre(self) -> float:
        """A typical value, where one number is needed."""
        ...


@runtime_checkable
class ContinuousLaw(Law, Protocol):
    """A distribution with a density."""

    def poincare_slope(self, x: np.ndarray) -> np.ndarray:
        r"""The weight $w(x)$ with $\mathrm{Var}\,f(X) \le E[(w(X) f'(X))^2]$ for every smooth $f$."""
        ...


@dataclasses.dataclass(frozen=True)
class Normal:
    """A normal distribution: mean and standard deviation, > 0."""

    mean: float
    sd: float

    def __post_init__(self):
        _finite(self)
        _positive(self, "sd")

    def quantile(self, u: np.ndarray) -> np.ndarray:
        return self.mean + self.sd * special.ndtri(u)

    @property
    def centre(self) -> float:
        return self.mean

    def poincare_slope(self, x: np.ndarray) -> np.ndarray:
        return np.full_like(x, self.sd)


@dataclasses.dataclass(frozen=True)
class LogNormal:
    """The exponential of a normal number: mean and standard deviation, > 0, of the logarithm."""

    mean: float
    sd: float

    def __post_init__(self):
        _finite(self)
        _positive(self, "sd")

    def quantile(self, u: np.ndarray) -> np.ndarray:
        return np.exp(self.mean + self.sd * special.ndtri(u))

    @property
    def centre(self) -> float:
        return math.exp(self.mean)

    def poincare_slope(self, x: np.ndarray) -> np.ndarray:
        return self.sd * x


@dataclasses.dataclass(frozen=True)
class Uniform:
    """Between a lower and an upper end."""

    low: float
    high: float

    def __post_init__(self):
        _finite(self)
        _increasing(self, "low", "high")

    def quantile(self, u: np.ndarray) -> np.ndarray:
        return self.low + (self.high - self.low) * u

    @property
    def centre(self) -> float:
        return (self.low + self.high) / 2

    def poincare_slope(self, x: np.ndarray) -> np.ndarray:
        return np.full_like(x, (self.high - self.low) / math.pi)


@dataclasses.dataclass(frozen=True)
class Triangular:
    """Between two ends, with a triangular density that peaks at the mode."""

    low: float
    mode: float
    high: float

    def __post_init__(self):
        _finite(self)
        _increasing(self, "low", "high")
        if not self.low <= self.mode <= self.high:
            raise ValueError(f"mode must lie between low and high, got {self.mode:g}")

    def quantile(self, u: np.ndarray) -> np.ndarray:
        span, rise, fall = self.high - self.low, self.mode - self.low, self.high - self.mode
        up = self.low + np.sqrt(u * span * rise)
        down = self.high - np.sqrt((1 - u) * span * fall)
        return np.where(u * span < rise, up, down)

    @property
    def centre(self) -> float:
        return float(self.quantile(np.asarray(0.5)))

    def poincare_slope(self, x: np.ndarray) -> np.ndarray:
        span, rise, fall = self.high - self.low, self.mode - self.low, self.high - self.mode
        below = x < self.mode
        side, distance = np.where(below, rise, fall), np.where(below, x - self.low, self.high - x)
        density = 2 * distance / (span * side)
        tail = distance**2 / (span * side)
        return _normal_score_slope(tail, density)


@dataclasses.dataclass(frozen=True)
class TruncatedNormal:
    """A normal distribution restricted to an interval: mean and sd are those without the restriction."""

    mean: float
    sd: float
    low: float
    high: float

    def __post_init__(self):
        _finite(self)
        _positive(self, "sd")
        _increasing(self, "low", "high")
        a, b = self._ends
        if special.ndtr(-abs(a)) == 0 and special.ndtr(-abs(b)) == 0 and a * b > 0:
            raise ValueError("low and high are so far from the mean that the interval has no probability")

    @property
    def _ends(self) -> tuple[float, float]:
        return (self.low - self.mean) / self.sd, (self.high - self.mean) / self.sd

    def quantile(self, u: np.ndarray) -> np.ndarray:
        a, b = self._ends
        if a > 0:  # by the upper tail, which keeps its digits
            upper, lower = special.ndtr(-a), special.ndtr(-b)
            z = -special.ndtri(upper + (lower - upper) * u)
        else:
            z = special.ndtri(special.ndtr(a) + (special.ndtr(b) - special.ndtr(a)) * u)
        return np.clip(self.mean + self.sd * z, self.low, self.high)

    @property
    def centre(self) -> float:
        return float(self.quantile(np.asarray(0.5)))

    def poincare_slope(self, x: np.ndarray) -> np.ndarray:
        return np.full_like(x, self.sd)  # the Brascamp-Lieb inequality


@dataclasses.dataclass(frozen=True)
class Beta:
    """The beta distribution with shapes a and b, > 0, on the interval from low to high."""

    a: float
    b: float
    low: float = 0.0
    high: float = 1.0

    def __post_init__(self):
        _finite(self)
        _positive(self, "a")
        _positive(self, "b")
        _increasing(self, "low", "high")

    def quantile(self, u: np.ndarray) -> np.ndarray:
        return self.low + (self.high - self.low) * special.betaincinv(self.a, self.b, u)

    @property
    def centre(self) -> float:
        return float(self.quantile(np.asarray(0.5)))

    def poincare_slope(self, x: np.ndarray) -> np.ndarray:
        y = (x - self.low) / (self.high - self.low)
        below, above = special.betainc(self.a, self.b, y), special.betaincc(self.a, self.b, y)
        logarithm = special.xlogy(self.a - 1, y) + special.xlog1py(self.b - 1, -y)
        density = np.exp(logarithm - special.betaln(self.a, self.b)) / (self.high - self.low)
        return _normal_score_slope(np.minimum(below, above), density)


@dataclasses.dataclass(frozen=True)
class Discrete:
    """One of several values, equally probable unless probabilities are given, which must add up to 1."""

    values: tuple[float, ...]
    probabilities: tuple[float, ...] | None = None

    def __post_init__(self):
        if len(self.values) < 2 or len(set(self.values)) < len(self.values):
            raise ValueError("values must be at least two different numbers")
        if not all(map(math.isfinite, (*self.values, *(self.probabilities or ())))):
            raise ValueError("all numbers must be finite")
        if self.probabilities is None:
            return
        if len(self.probabilities) != len(self.values):
            values, shares = len(self.values), len(self.probabilities)
            raise ValueError(f"there are {values} values and {shares} probabilities; give each value one")
        if min(self.probabilities) <= 0 or abs(math.fsum(self.probabilities) - 1) > 1e-9:
            total = math.fsum(self.probabilities)
            raise ValueError(f"probabilities must be > 0 and add up to 1, and these add up to {total:g}")

    def quantile(self, u: np.ndarray) -> np.ndarray:
        shares = self.probabilities or (1 / len(self.values),) * len(self.values)
        order = np.argsort(self.values)
        ends = np.cumsum(np.asarray(shares)[order])[:-1]
        return np.asarray(self.values)[order][np.searchsorted(ends, u, side="right")]

    @property
    def centre(self) -> float:
        return float(self.quantile(np.asarray(0.5)))


LAWS: dict[str, type] = {
    "normal": Normal,
    "lognormal": LogNormal,
    "uniform": Uniform,
    "triangular": Triangular,
    "truncated_normal": TruncatedNormal,
    "beta": Beta,
    "discrete": Discrete,
}
LISTS = ("values", "probabilities")


def law_of(given: Mapping[str, Any], constants: Mapping[str, float] | None = None) -> Law:
    """The distribution given by plain data: `{normal: [0.05, 0.01]}` or `{normal: {mean: 0.05, sd: 0.01}}`.

    Numbers may be expressions of `constants`, such as `uniform: [-pi, pi]`.
    Raises `ValueError` with what is wrong and what is expected.
    """
    if len(given) != 1:
        raise ValueError(f"a distribution has one key, one of {', '.join(LAWS)}; got {len(given)}")
    ((kind, numbers),) = given.items()
    if kind not in LAWS:
        raise ValueError(f"unknown distribution {shown(kind)}{did_you_mean(str(kind), LAWS)}")
    fields = dataclasses.fields(LAWS[kind])
    names = [field.name for field in fields]
    usage = f"write {kind}: {{{', '.join(f'{name}: …' for name in names)}}}"
    if isinstance(numbers, list) and kind == "discrete":
        numbers = {"values": numbers}
    if isinstance(numbers, list):
        if len(numbers) > len(names):
            raise ValueError(f"{kind} takes {', '.join(names)}, got {len(numbers)} numbers; {usage}")
        numbers = dict(zip(names, numbers, strict=False))
    if not isinstance(numbers, dict):
        raise ValueError(f"{kind}: must be its numbers, got {shown(numbers)}; {usage}")
    for name in numbers:
        if name not in names:
            raise ValueError(f"{kind} has no {shown(name)}{did_you_mean(str(name), names)}; {usage}")
    for field in fields:
        if field.name not in numbers and field.default is dataclasses.MISSING:
            raise ValueError(f"{kind}: {field.name} is missing; {usage}")
    try:
        values = {name: _numbers(name, value, constants or {}) for name, value in numbers.items()}
    except ValueError as error:
        raise ValueError(f"{kind}: {error}; {usage}") from None
    try:
        return LAWS[kind](**values)
    except ValueError as error:
        raise ValueError(f"{kind}: {error}") from error


def poincare_slope(law: Law, x: np.ndarray) -> np.ndarray:
    """The `poincare_slope` of a distribution with a density. Raises `ValueError` for one without."""
    if not isinstance(law, ContinuousLaw):
        raise ValueError("a discrete distribution has no Poincaré constant")
    return law.poincare_slope(x)


def law_keys(kind: type) -> dict[str, bool]:
    """The keys of a distribution, in order, and whether each is a list."""
    return {field.name: field.name in LISTS for field in dataclasses.fields(kind)}


def plain(law: Law) -> dict[str, Any]:
    """The distribution as plain data that `law_of` reads."""
    kind = next(name for name, cls in LAWS.items() if type(law) is cls)
    values = {field.name: getattr(law, field.name) for field in dataclasses.fields(LAWS[kind])}
    return {kind: {k: list(x) if isinstance(x, tuple) else x for k, x in values.items() if x is not None}}


def _numbers(name: str, value: Any, constants: Mapping[str, float]) -> Any:
    if name not in LISTS:
        return _number(f"{name} must be a number", value, constants)
    if not isinstance(value, list | tuple):
        raise ValueError(f"{name} must be a list of numbers, got {shown(value)}")
    return tuple(_number(f"{name} must be numbers", x, constants) for x in value)


def _number(wanted: str, value: Any, constants: Mapping[str, float]) -> float:
    if isinstance(value, str) and not NUMBER_TEXT.fullmatch(value.strip()):
        try:
            return float(compile_expression(value, constants.keys())(constants))
        except ExpressionError as error:
            raise ValueError(
                f"{wanted}, or an expression of constants that are not uncertain: {error}"
            ) from None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{wanted}, got {shown(value)}")
    return float(value)


def _finite(law: Any) -> None:
    for field in dataclasses.fields(law):
        if not math.isfinite(getattr(law, field.name)):
            raise ValueError(f"{field.name} must be finite, got {getattr(law, field.name)}")


def _positive(law: Any, name: str) -> None:
    value = getattr(law, name)
    if not value > 0:
        raise ValueError(f"{name} must be > 0, got {value:g}; a parameter that is known is a plain number")


def _increasing(law: Any, low: str, high: str) -> None:
    a, b = getattr(law, low), getattr(law, high)
    if not a < b:
        raise ValueError(f"{low} must be below {high}, got {a:g} and {b:g}")


def _normal_score_slope(tail: np.ndarray, density: np.ndarray) -> np.ndarray:
    """dx/dz for x = quantile(ndtr(z)): z is standard normal, whose Poincaré constant is 1."""
    z = special.ndtri(tail)
    return np.exp(-0.5 * z * z) / math.sqrt(2 * math.pi) / density
