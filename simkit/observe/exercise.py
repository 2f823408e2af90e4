"""Early exercise: when the holder of an option exercises it, and by which rule."""

import dataclasses
import itertools
import math
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from simkit.expressions import Expression

PATHS_PER_TERM = 10  # of a regression, at least
POLICIES = 8  # whose spread is the error that fitting one leaves in a derivative
MARTINGALE_PATHS = 16384  # at most


@dataclasses.dataclass(frozen=True)
class Exercise:
    """An option that pays an observable's value once, after one of the steps `when` of 1 to `of`.

    The value of going on is a polynomial of total degree `degree` in the `basis`, by regression on `paths`
    paths of their own. `times` are the dates where constants give them.
    """

    when: tuple[int, ...]
    of: int
    basis: tuple[Expression, ...]
    degree: int
    paths: int
    times: tuple[Expression, ...] = ()

    @property
    def reserved(self) -> int:
        """How many of the last path ids are for policies and martingales."""
        return POLICIES * self.paths + MARTINGALE_PATHS

    @property
    def dates(self) -> int:
        """How many dates there are."""
        return len(self.when)

    @property
    def fractions(self) -> np.ndarray:
        """The dates as fractions of the run's time."""
        return np.asarray(self.when) / self.of

    @property
    def terms(self) -> int:
        """How many polynomials there are."""
        return math.comb(len(self.basis) + self.degree, self.degree)

    def on_steps(self, scale: float) -> "Exercise":
        """These dates on `scale` times as many steps."""
        when = tuple(round(step * scale) for step in self.when)
        return dataclasses.replace(self, when=when, of=round(self.of * scale))


class Policy(eqx.Module):
    r"""A rule for exercising: at date j where the value exceeds $\sum_i c_{ji}\,P_i(u)$, and zero.

    `coefficients`, `(dates, terms)`, are of products P of Hermite polynomials in $u = (x - m_j)/s_j$, with x
    the basis, `centre` m, `scale` s and `low` and `high` the range in which they were fitted, all
    `(dates, basis)`. Beyond that range the rule is that of its edge. An infinite constant forbids a date.
    `held` are the numbers by name, `(dates,)`, with which value and basis are seen for the decision, wherever
    those of the run are moved: what is held is a region of states.
    """

    coefficients: Any
    centre: Any
    scale: Any
    low: Any
    high: Any
    degree: int = eqx.field(static=True)
    held: dict[str, Any] = eqx.field(default_factory=dict)

    def continuation(self, date, basis: Sequence[jax.Array]) -> jax.Array:
        """The value of going on at a date, an `int32` from 0, with these values of the basis."""
        centre, scale, low, high, coefficients = (
            jax.lax.dynamic_index_in_dim(jnp.asarray(x), date, keepdims=False)
            for x in (self.centre, self.scale, self.low, self.high, self.coefficients)
        )
        normal = [(jnp.clip(x, low[i], high[i]) - centre[i]) / scale[i] for i, x in enumerate(basis)]
        terms = polynomials(normal, self.degree)
        value = coefficients[0]
        for i, term in enumerate(terms[1:], 1):
            value = value + coefficients[i] * term
        return value


def polynomials(values: Sequence[Any], degree: int) -> list[Any]:
    """All products of Hermite polynomials of total degree up to `degree`, the constant 1 first.

    They are orthogonal for normal variables, so that a least squares problem in them is well conditioned
    where values have mean 0 and variance 1.
    """
    single = [_hermite(x, degree) for x in values]
    exponents = itertools.product(range(degree + 1), repeat=len(values))
    chosen = sorted((e for e in exponents if sum(e) <= degree), key=lambda e: (sum(e), e))
    return [math.prod((single[i][n] for i, n in enumerate(e) if n), start=1.0) for e in chosen]


def _hermite(x: Any, degree: int) -> list[Any]:
    """The probabilists' Hermite polynomials 1, x, x^2 - 1, …"""
    result = [1.0, x]
    for n in range(1, degree):
        result.append(x * result[n] - n * result[n - 1])
    return result


@dataclasses.dataclass(frozen=True)
class ExerciseFit:
    """A policy, and what the paths say on which it was fitted.

    The `dates` are fractions of the time from t0 to t1. `mean` and `stderr` are of the payments. By
    date, `(dates,)`: the `fraction` of paths that exercise, and the `low`est and `high`est first basis value
    at which they do, NaN where none does. `upper` is a bound of the value, estimated with the `martingale` on
    other paths; both are None where no Brownian noise drives the model.
    """

    policy: Policy
    dates: np.ndarray
    mean: float
    stderr: float
    fraction: np.ndarray
    low: np.ndarray
    high: np.ndarray
    martingale: Any = None
    upper: float | None = None
    upper_stderr: float | None = None
