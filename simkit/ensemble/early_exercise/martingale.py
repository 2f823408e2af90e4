r"""A martingale from the normals of a path, for an upper bound of the value of an option.

For every martingale M with $M_0 = 0$ an option that pays $Z_j$ once is worth at most $E \max_j (Z_j - M_j)$,
and this is its value where M is the martingale part of its value along the path (Rogers 2002,
doi:10.1111/1467-9965.02010). Functions of the state times Hermite polynomials of the normals that drive the
path next have mean 0 whatever came before, in every discretisation. Their coefficients are found by
regression (Belomestny, Bender & Schoenmakers 2009, doi:10.1111/j.1467-9965.2008.00357.x), without simulations
inside simulations.
"""

import functools
import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from simkit.ensemble.early_exercise.regression import regressed
from simkit.ensemble.jump_distribution import RAMPS as MARK_RAMPS
from simkit.ensemble.jump_distribution import JumpDistribution, functions_of_marks
from simkit.observe.exercise import Exercise, polynomials

RAMPS, LEAST_RAMPS = 12, 2
MOST_TERMS = 160
ORDERS = {1: 4, 2: 3, 3: 3}  # of the normals, by the intervals of the shortest period between dates
ORDER = 2  # where there are more
INTERVALS = 4
RANK = 1e-10


class Shape(NamedTuple):
    """How fine a martingale is: each basis function has `ramps`, the normals polynomials up to an `order`."""

    ramps: int
    order: int


class Martingale(eqx.Module):
    """Increments by period between dates: functions of the basis times surprises of what drives the path.

    `knots`, `(dates, basis, ramps + 1)`, are those of the functions of each basis function, `coefficients`
    `(dates, surprises, functions)`. Those of jumps have `mark_knots`, and the means `mark_means`.
    """

    knots: Any
    coefficients: Any
    order: int = eqx.field(static=True)
    mark_knots: Any = None
    mark_means: Any = None

    def increment(self, period, basis: Sequence[Any], normals: Sequence[Any], marks: Sequence[Any]) -> Any:
        """Over an interval within a period, an `int32` from 0, from the basis at its start."""
        knots, coefficients = (
            jax.lax.dynamic_index_in_dim(jnp.asarray(x), period, keepdims=False)
            for x in (self.knots, self.coefficients)
        )
        functions = functions_of(basis, knots)
        total = 0.0
        driving = surprises(normals, marks, self.order, self.mark_knots, self.mark_means)
        for row, surprise in zip(coefficients, driving, strict=True):
            total = total + surprise * sum(c * f for c, f in zip(row, functions, strict=True))
        return total


def surprises(normals: Sequence[Any], marks: Sequence[Any], order: int, knots: Any, means: Any) -> list[Any]:
    """Terms of mean 0 whatever came before: polynomials of normals, functions of jumps less their means."""
    result = list(polynomials(list(normals), order)[1:])
    for z in marks:
        result += [f - mean for f, mean in zip(functions_of_marks(z, knots), means, strict=True)]
    return result


def functions_of(basis: Sequence[Any], knots: Any) -> list[Any]:
    """1, ramps from knot to knot of each basis function, and products of two basis functions, by rank."""
    result, ranks = [1.0], []
    for x, at in zip(basis, knots, strict=True):
        widths = jnp.diff(at)
        widths = jnp.where(widths > 0, widths, 1.0)
        ramps = [jnp.clip((x - at[i]) / widths[i], 0.0, 1.0) for i in range(len(at) - 1)]
        result += ramps
        ranks.append(2 * sum(ramps) / len(ramps) - 1)
    for a, b in itertools.combinations(ranks, 2):
        result += [a * b, a * a * b, a * b * b] if len(ranks) == 2 else [a * b]
    return result


def count_of(functions: int, ramps: int) -> int:
    """How many `functions_of` there are."""
    return 1 + functions * ramps + (3 if functions == 2 else math.comb(functions, 2))


def shape_of(exercise: Exercise, components: int, every: int, jumps: bool = False) -> Shape:
    """The finest shape that the regression on its paths bears; `every` is the steps of an interval."""
    functions = len(exercise.basis)
    shortest = min(b - a for a, b in itertools.pairwise((0, *exercise.when)))
    ramps, order = RAMPS, ORDERS.get(shortest // every, ORDER)

    def terms() -> int:
        driving = math.comb(components + order, order) - 1 + (1 + MARK_RAMPS if jumps else 0)
        return count_of(functions, ramps) * driving

    while terms() > MOST_TERMS and order > 1:
        order -= 1
    while terms() > MOST_TERMS and ramps > LEAST_RAMPS:
        ramps -= 1
    return Shape(ramps, order)


def interval_of(exercise: Exercise) -> int:
    """How many steps an increment of the martingale takes: few increments between dates are enough."""
    common = math.gcd(exercise.of, *exercise.when)
    return next(n for n in range(max(1, common // INTERVALS), 0, -1) if common % n == 0)


def fit_martingale(
    exercise: Exercise, shape: Shape, sample: Any, ends: Sequence[int], jumps: JumpDistribution | None = None
) -> Martingale:
    """The martingale of the value of the option, from a `Sample` of paths of its own.

    `ends` are the intervals that end at the dates, counted from 1. Backwards in time the increments so far
    are subtracted from what paths are worth, so that hardly any noise is left to the earlier regressions.
    """
    values, basis, starts, normals, marks = sample
    mark_knots = None if jumps is None else jumps.knots
    mark_means = None if jumps is None or mark_knots is None else jumps.means(mark_knots)
    future = np.maximum(values[-1], 0.0)
    knots, coefficients = [], []
    for j in reversed(range(exercise.dates)):
        inside = range(ends[j - 1] if j else 0, ends[j])
        pooled = np.concatenate([starts[:, inside].reshape(len(starts), -1), basis[:, j]], axis=1)
        at = np.quantile(pooled, np.linspace(0, 1, shape.ramps + 1), axis=1).T
        products: Any = sum(
            _products(starts[:, i], normals[:, i], marks[:, i], at, shape.order, mark_knots, mark_means)
            for i in inside
        )
        functions = _functions(starts[:, inside[0]], at)
        result = _solved(*map(np.asarray, _normal_equations(functions, products, future)))[len(functions) :]
        future = future - np.asarray(_weighted(result, products))
        knots.append(at)
        coefficients.append(result.reshape(-1, len(functions)))
        if j:
            regression = regressed(exercise, values[j - 1], basis[:, j - 1], future)
            if regression is not None:
                future[regression.exercised] = values[j - 1, regression.exercised]
    return Martingale(
        np.stack(knots[::-1]), np.stack(coefficients[::-1]), shape.order, mark_knots, mark_means
    )


def gains_of(martingale: Martingale, sample: Any, ends: Sequence[int]) -> np.ndarray:
    """What it gains up to each date from the one before, `(dates, paths)`."""
    periods = np.searchsorted(np.asarray(ends), np.arange(1, ends[-1] + 1))
    driving = (np.moveaxis(x, 1, 0) for x in (sample.starts, sample.normals, sample.marks))
    intervals = *driving, periods
    increments = np.asarray(_increments(martingale, intervals))
    return np.add.reduceat(increments, [0, *ends[:-1]], axis=0)


@jax.jit
def _increments(martingale, intervals):
    def one(_, interval):
        basis, normals, marks, period = interval
        return None, martingale.increment(period, list(basis), list(normals), list(marks))

    return jax.lax.scan(one, None, intervals)[1]


@jax.jit
def _functions(basis, knots):
    return jnp.stack([jnp.broadcast_to(f, basis.shape[1:]) for f in functions_of(list(basis), knots)])


@functools.partial(jax.jit, static_argnums=4)
def _products(basis, normals, marks, knots, order, mark_knots, mark_means):
    """All products of a function of the basis and a surprise of what drives the path, `(products, paths)`."""
    functions = _functions(basis, knots)
    return jnp.concatenate([functions * p for p in surprises(normals, marks, order, mark_knots, mark_means)])


@jax.jit
def _normal_equations(functions, products, wanted):
    rows = jnp.concatenate([functions, products])
    return rows @ rows.T, rows @ wanted


@jax.jit
def _weighted(coefficients, rows):
    return coefficients @ rows


def _solved(squares: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """The shortest solution of normal equations, of functions scaled to one size."""
    size = np.sqrt(np.diag(squares))
    scale = np.divide(1.0, size, out=np.zeros_like(size), where=size > 0)
    return np.linalg.lstsq(squares * np.outer(scale, scale), wanted * scale, rcond=RANK)[0] * scale
