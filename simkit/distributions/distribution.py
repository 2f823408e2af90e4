"""Distributions of uncertain parameters and of initial values, by their quantile functions.

A study evaluates them on the host: a design has far fewer points than simulations have steps. Initial values
are drawn in the program of a path, and may have traced numbers.
"""

import abc
import importlib
import math
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.typing import DTypeLike
from jaxtyping import Array, Float
from simkit_solvers.numerics.scalar import Scalar
from simkit_solvers.random.generator import Words
from simkit_solvers.random.normal import standard_normal, standard_normal_float64, uniform

KNOWN = "a value that is known is a plain number"


class Functions(NamedTuple):
    """The functions of arrays that quantiles are made of."""

    xp: Any
    module: str

    @property
    def special(self) -> Any:
        """Special functions, imported when they are needed: SciPy takes a quarter of a second."""
        return importlib.import_module(self.module)


HOST, TRACED = Functions(np, "scipy.special"), Functions(jnp, "jax.scipy.special")


class AbstractDistribution(eqx.Module):
    """The distribution of one number; `key` is its name in a file.

    Raises `ValueError` for numbers that it cannot have; traced ones were checked when they were numbers.
    """

    key: ClassVar[str]
    other_keys: ClassVar[Mapping[str, str]] = {}  # numbers that may be given in place of fields

    @classmethod
    def of_numbers(cls, **numbers: Any) -> Self:
        """The distribution of numbers by name, those of `other_keys` among them."""
        return cls(**numbers)

    @classmethod
    def refusal(cls, numbers: Mapping[str, Any]) -> str | None:
        """Why numbers by name do not go together; `None` where they do."""
        fields = [cls.other_keys.get(name, name) for name in numbers]
        for other, field in cls.other_keys.items():
            if fields.count(field) > 1:
                return f"give {field} or {other}, not both"
        return None

    def __check_init__(self):
        if not any(isinstance(x, Tracer) for x in jax.tree.leaves(self)):
            self._check()

    @abc.abstractmethod
    def quantile(self, u: np.ndarray) -> np.ndarray:
        """The inverse of the distribution function at `u` in (0, 1)."""

    @property
    def median(self) -> float:
        """The quantile at one half, where one number is needed."""
        return float(self.quantile(np.asarray(0.5)))

    def _check(self) -> None:
        """Raise `ValueError` unless numbers are finite, and `low`, if any, is below `high`."""
        numbers = vars(self)
        for name, value in numbers.items():
            if not math.isfinite(value):
                raise ValueError(f"{name} must be finite, got {value}")
        if "low" in numbers and not numbers["low"] < numbers["high"]:
            raise ValueError(f"low must be below high, got {numbers['low']:g} and {numbers['high']:g}")

    def _check_positive(self, *names: str) -> None:
        for name in names:
            if not vars(self)[name] > 0:
                raise ValueError(f"{name} must be > 0, got {vars(self)[name]:g}; {KNOWN}")


class AbstractContinuousDistribution(AbstractDistribution):
    """A distribution with a density."""

    @abc.abstractmethod
    def poincare_slope(self, x: np.ndarray) -> np.ndarray:
        r"""The weight $w(x)$ with $\mathrm{Var}\,f(X) \le E[(w(X) f'(X))^2]$ for every smooth $f$."""


class AbstractDrawn(AbstractContinuousDistribution):
    """A distribution that initial values may have: its draws have derivatives in its numbers."""

    @abc.abstractmethod
    def quantile(self, u: Any, of: Functions = HOST) -> Any:
        """The inverse of the distribution function at `u` in (0, 1), on the host or traced."""

    @property
    def least(self) -> Any:
        """The lower end; None where there is none."""
        return getattr(self, "low", None)

    def draw(self, words: Words, dtype: DTypeLike, float64_normals: bool) -> Float[Array, ""]:
        """One draw, from the words of the variable; normals are float32 unless float64 is asked for."""
        u = uniform(words)
        own = jax.tree.map(lambda x: jnp.asarray(x, u.dtype), self)
        return own.quantile(u, TRACED).astype(dtype)


class AbstractOfNormal(AbstractDrawn):
    """The distribution of a function of a normal number with this mean and standard deviation."""

    mean: Scalar
    sd: Scalar

    @abc.abstractmethod
    def of_normal(self, x: Any, of: Functions) -> Any:
        """The function."""

    def _check(self) -> None:
        super()._check()
        if not self.sd >= 0:
            raise ValueError(f"sd must be >= 0, got {self.sd:g}")

    def quantile(self, u, of=HOST):
        return self.of_normal(self.mean + self.sd * of.special.ndtri(u), of)

    def draw(self, words, dtype, float64_normals):
        z = standard_normal_float64(words) if float64_normals else standard_normal(words.a)
        x = jnp.asarray(self.mean, dtype) + jnp.asarray(self.sd, dtype) * z.astype(dtype)
        return self.of_normal(x, TRACED)


class Normal(AbstractOfNormal):
    """A normal distribution: mean and standard deviation."""

    key = "normal"

    def of_normal(self, x, of):
        return x

    def poincare_slope(self, x: np.ndarray) -> np.ndarray:
        return np.full_like(x, self.sd)


class LogNormal(AbstractOfNormal):
    """The exponential of a normal number: mean and standard deviation of the logarithm; or, of the number
    itself, median and coefficient of variation."""

    key = "lognormal"
    other_keys: ClassVar[Mapping[str, str]] = {"median": "mean", "cv": "sd"}

    @classmethod
    def of_numbers(cls, **numbers):
        for name, least in (("median", "> 0"), ("cv", ">= 0")):
            value = numbers.get(name, 1.0)
            if not isinstance(value, Tracer) and not (value > 0 or (value == 0 and name == "cv")):
                raise ValueError(f"{name} must be {least}, got {value:g}")
        traced = any(isinstance(x, jax.Array) for x in numbers.values())
        xp, number = (TRACED.xp, jnp.asarray) if traced else (HOST.xp, float)
        if "median" in numbers:
            numbers["mean"] = number(xp.log(numbers.pop("median")))
        if "cv" in numbers:
            numbers["sd"] = number(xp.sqrt(xp.log1p(xp.square(numbers.pop("cv")))))
        return cls(**numbers)

    @classmethod
    def refusal(cls, numbers):
        if not {"mean", "cv"} <= numbers.keys():
            return super().refusal(numbers)
        mean, cv = numbers["mean"], numbers["cv"]
        return (
            f"mean is that of the logarithm, cv is not; for a number whose own mean is {mean} write "
            f"{{median: ({mean})/sqrt(1 + ({cv})**2), cv: {cv}}}"
        )

    def of_normal(self, x, of):
        return of.xp.exp(x)

    def poincare_slope(self, x: np.ndarray) -> np.ndarray:
        return np.asarray(self.sd * x)


class Uniform(AbstractDrawn):
    """Between a lower and an upper end."""

    key = "uniform"
    low: Scalar
    high: Scalar

    def quantile(self, u, of=HOST):
        return self.low + (self.high - self.low) * u

    def poincare_slope(self, x: np.ndarray) -> np.ndarray:
        return np.full_like(x, (self.high - self.low) / math.pi)


class Triangular(AbstractDrawn):
    """Between two ends, with a triangular density that peaks at the mode."""

    key = "triangular"
    low: Scalar
    mode: Scalar
    high: Scalar

    def _check(self) -> None:
        super()._check()
        if not self.low <= self.mode <= self.high:
            raise ValueError(f"mode must lie between low and high, got {self.mode:g}")

    @property
    def _sides(self) -> tuple[Any, Any, Any]:
        return self.high - self.low, self.mode - self.low, self.high - self.mode

    def quantile(self, u, of=HOST):
        span, rise, fall = self._sides
        up = u * span < rise
        # One root, whose argument is > 0: the other would have no derivative where a side has no length.
        distance = of.xp.sqrt(of.xp.where(up, u * span * rise, (1 - u) * span * fall))
        return of.xp.where(up, self.low + distance, self.high - distance)

    def poincare_slope(self, x: np.ndarray) -> np.ndarray:
        span, rise, fall = self._sides
        below = x < self.mode
        side, distance = np.where(below, rise, fall), np.where(below, x - self.low, self.high - x)
        density = 2 * distance / (span * side)
        tail = distance**2 / (span * side)
        return _normal_score_slope(tail, density)


class TruncatedNormal(AbstractDrawn):
    """A normal distribution restricted to an interval: mean and sd are those without the restriction."""

    key = "truncated_normal"
    mean: Scalar
    sd: Scalar
    low: Scalar
    high: Scalar

    def _check(self) -> None:
        super()._check()
        self._check_positive("sd")
        a, b = self._ends
        if HOST.special.ndtr(-min(abs(a), abs(b))) == 0 and a * b > 0:
            raise ValueError("low and high are so far from the mean that the interval has no probability")

    @property
    def _ends(self) -> tuple[Any, Any]:
        return (self.low - self.mean) / self.sd, (self.high - self.mean) / self.sd

    def quantile(self, u, of=HOST):
        a, b = self._ends
        sign = of.xp.where(a > 0, -1.0, 1.0)  # above the mean by the upper tail, which keeps its digits
        first, last = of.special.ndtr(sign * a), of.special.ndtr(sign * b)
        z = sign * of.special.ndtri(first + (last - first) * u)
        return of.xp.clip(self.mean + self.sd * z, self.low, self.high)

    def poincare_slope(self, x: np.ndarray) -> np.ndarray:
        return np.full_like(x, self.sd)  # the Brascamp-Lieb inequality


class Beta(AbstractContinuousDistribution):
    """The beta distribution with shapes a and b, > 0, on the interval from low to high."""

    key = "beta"
    a: float
    b: float
    low: float = 0.0
    high: float = 1.0

    def _check(self) -> None:
        super()._check()
        self._check_positive("a", "b")

    def quantile(self, u: np.ndarray) -> np.ndarray:
        return self.low + (self.high - self.low) * HOST.special.betaincinv(self.a, self.b, u)

    def poincare_slope(self, x: np.ndarray) -> np.ndarray:
        y = (x - self.low) / (self.high - self.low)
        below, above = HOST.special.betainc(self.a, self.b, y), HOST.special.betaincc(self.a, self.b, y)
        logarithm = HOST.special.xlogy(self.a - 1, y) + HOST.special.xlog1py(self.b - 1, -y)
        density = np.exp(logarithm - HOST.special.betaln(self.a, self.b)) / (self.high - self.low)
        return _normal_score_slope(np.minimum(below, above), density)


class Discrete(AbstractDistribution):
    """One of several values, equally probable unless probabilities are given, which must add up to 1."""

    key = "discrete"
    values: tuple[float, ...]
    probabilities: tuple[float, ...] | None = None

    def _check(self) -> None:
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
DRAWN = {each.key: each for each in CLASSES if issubclass(each, AbstractDrawn)}


def _normal_score_slope(tail: np.ndarray, density: np.ndarray) -> np.ndarray:
    """dx/dz for x = quantile(ndtr(z)): z is standard normal, whose Poincaré constant is 1."""
    z = HOST.special.ndtri(tail)
    return np.exp(-0.5 * z * z) / math.sqrt(2 * math.pi) / density
