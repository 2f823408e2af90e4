"""Distributions of uncertain parameters, by their quantile functions.

They work on numpy arrays in float64, on the host: a design has far fewer points than simulations have steps.
"""

import abc
import dataclasses
import math
from typing import ClassVar

import numpy as np
from scipy import special


@dataclasses.dataclass(frozen=True)
class AbstractDistribution(abc.ABC):
    """The distribution of one parameter; `key` is its name in a file."""

    key: ClassVar[str]

    @abc.abstractmethod
    def quantile(self, u: np.ndarray) -> np.ndarray:
        """The inverse of the distribution function at `u` in (0, 1)."""

    @property
    def median(self) -> float:
        """The quantile at one half, where one number is needed."""
        return float(self.quantile(np.asarray(0.5)))

    def _check(self, *positive: str) -> None:
        """Raise `ValueError` unless numbers are finite, some of them > 0, and `low`, if any, below `high`."""
        numbers = vars(self)
        for name, value in numbers.items():
            if not math.isfinite(value):
                raise ValueError(f"{name} must be finite, got {value}")
        for name in positive:
            if not numbers[name] > 0:
                remedy = "a parameter that is known is a plain number"
                raise ValueError(f"{name} must be > 0, got {numbers[name]:g}; {remedy}")
        if "low" in numbers and not numbers["low"] < numbers["high"]:
            raise ValueError(f"low must be below high, got {numbers['low']:g} and {numbers['high']:g}")


class AbstractContinuousDistribution(AbstractDistribution):
    """A distribution with a density."""

    @abc.abstractmethod
    def poincare_slope(self, x: np.ndarray) -> np.ndarray:
        r"""The weight $w(x)$ with $\mathrm{Var}\,f(X) \le E[(w(X) f'(X))^2]$ for every smooth $f$."""


@dataclasses.dataclass(frozen=True)
class Normal(AbstractContinuousDistribution):
    """A normal distribution: mean and standard deviation, > 0."""

    key = "normal"
    mean: float
    sd: float

    def __post_init__(self):
        self._check("sd")

    def quantile(self, u: np.ndarray) -> np.ndarray:
        return self.mean + self.sd * special.ndtri(u)

    def poincare_slope(self, x: np.ndarray) -> np.ndarray:
        return np.full_like(x, self.sd)


@dataclasses.dataclass(frozen=True)
class LogNormal(AbstractContinuousDistribution):
    """The exponential of a normal number: mean and standard deviation, > 0, of the logarithm."""

    key = "lognormal"
    mean: float
    sd: float

    def __post_init__(self):
        self._check("sd")

    def quantile(self, u: np.ndarray) -> np.ndarray:
        return np.exp(self.mean + self.sd * special.ndtri(u))

    def poincare_slope(self, x: np.ndarray) -> np.ndarray:
        return self.sd * x


@dataclasses.dataclass(frozen=True)
class Uniform(AbstractContinuousDistribution):
    """Between a lower and an upper end."""

    key = "uniform"
    low: float
    high: float

    def __post_init__(self):
        self._check()

    def quantile(self, u: np.ndarray) -> np.ndarray:
        return self.low + (self.high - self.low) * u

    def poincare_slope(self, x: np.ndarray) -> np.ndarray:
        return np.full_like(x, (self.high - self.low) / math.pi)


@dataclasses.dataclass(frozen=True)
class Triangular(AbstractContinuousDistribution):
    """Between two ends, with a triangular density that peaks at the mode."""

    key = "triangular"
    low: float
    mode: float
    high: float

    def __post_init__(self):
        self._check()
        if not self.low <= self.mode <= self.high:
            raise ValueError(f"mode must lie between low and high, got {self.mode:g}")

    @property
    def _sides(self) -> tuple[float, float, float]:
        return self.high - self.low, self.mode - self.low, self.high - self.mode

    def quantile(self, u: np.ndarray) -> np.ndarray:
        span, rise, fall = self._sides
        up = self.low + np.sqrt(u * span * rise)
        down = self.high - np.sqrt((1 - u) * span * fall)
        return np.where(u * span < rise, up, down)

    def poincare_slope(self, x: np.ndarray) -> np.ndarray:
        span, rise, fall = self._sides
        below = x < self.mode
        side, distance = np.where(below, rise, fall), np.where(below, x - self.low, self.high - x)
        density = 2 * distance / (span * side)
        tail = distance**2 / (span * side)
        return _normal_score_slope(tail, density)


@dataclasses.dataclass(frozen=True)
class TruncatedNormal(AbstractContinuousDistribution):
    """A normal distribution restricted to an interval: mean and sd are those without the restriction."""

    key = "truncated_normal"
    mean: float
    sd: float
    low: float
    high: float

    def __post_init__(self):
        self._check("sd")
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

    def poincare_slope(self, x: np.ndarray) -> np.ndarray:
        return np.full_like(x, self.sd)  # the Brascamp-Lieb inequality


@dataclasses.dataclass(frozen=True)
class Beta(AbstractContinuousDistribution):
    """The beta distribution with shapes a and b, > 0, on the interval from low to high."""

    key = "beta"
    a: float
    b: float
    low: float = 0.0
    high: float = 1.0

    def __post_init__(self):
        self._check("a", "b")

    def quantile(self, u: np.ndarray) -> np.ndarray:
        return self.low + (self.high - self.low) * special.betaincinv(self.a, self.b, u)

    def poincare_slope(self, x: np.ndarray) -> np.ndarray:
        y = (x - self.low) / (self.high - self.low)
        below, above = special.betainc(self.a, self.b, y), special.betaincc(self.a, self.b, y)
        logarithm = special.xlogy(self.a - 1, y) + special.xlog1py(self.b - 1, -y)
        density = np.exp(logarithm - special.betaln(self.a, self.b)) / (self.high - self.low)
        return _normal_score_slope(np.minimum(below, above), density)


@dataclasses.dataclass(frozen=True)
class Discrete(AbstractDistribution):
    """One of several values, equally probable unless probabilities are given, which must add up to 1."""

    key = "discrete"
    values: tuple[float, ...]
    probabilities: tuple[float, ...] | None = None

    def __post_init__(self):
        if len(self.values) < 2 or len(set(self.values)) < len(self.values):
            raise ValueError("values must be at least two different numbers")
        if not all(map(math.isfinite, (*self.values, *(self.probabilities or ())))):
            raise ValueError("all numbers must be finite")
        if self.probabilities is None:
            return
        values, count, total = len(self.values), len(self.probabilities), math.fsum(self.probabilities)
        if count != values:
            raise ValueError(
                f"there are {values} values and {count} probabilities; give one probability per value"
            )
        if min(self.probabilities) <= 0 or abs(total - 1) > 1e-9:
            raise ValueError(f"probabilities must be > 0 and add up to 1, and these add up to {total:g}")

    def quantile(self, u: np.ndarray) -> np.ndarray:
        probabilities = self.probabilities or (1 / len(self.values),) * len(self.values)
        order = np.argsort(self.values)
        ends = np.cumsum(np.asarray(probabilities)[order])[:-1]
        return np.asarray(self.values)[order][np.searchsorted(ends, u, side="right")]


CLASSES: tuple[type[AbstractDistribution], ...] = (
    *(Normal, LogNormal, Uniform, Triangular),
    *(TruncatedNormal, Beta, Discrete),
)
BY_KEY = {each.key: each for each in CLASSES}


def _normal_score_slope(tail: np.ndarray, density: np.ndarray) -> np.ndarray:
    """dx/dz for x = quantile(ndtr(z)): z is standard normal, whose Poincaré constant is 1."""
    z = special.ndtri(tail)
    return np.exp(-0.5 * z * z) / math.sqrt(2 * math.pi) / density
