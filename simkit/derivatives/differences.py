r"""Finite differences with common random numbers: the same paths at other values of the targets.

Central differences with one Richardson step, $(4 D_h - D_{2h}) / 3$, whose error is of order $h^4$, by path;
at the end of a parameter's range differences to one side, of order $h^3$ or, second ones, $h^2$. Of values
that jump, or whose slope does, the variance grows as h falls, and the step is wider for them. It is widest
where the noise has a root: two solutions of such an equation that begin with a difference of h keep it in the
mean, but in the mean square only as the root of h. How far the differences are from a formula of lower order
at the same points says whether the step is too long.
Reference: Glasserman (2003), Monte Carlo Methods in Financial Engineering,
doi:10.1007/978-0-387-21617-1, section 7.1.
"""

import dataclasses
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from simkit.derivatives.targets import Target

# Steps relative to the target's scale, which is its value, or 1 for 0.
SMOOTH, DISCONTINUOUS, SECOND, COUPLED = 1e-3, 0.02, 0.02, 0.01
LONG_STEP = 0.2  # where noise has roots, and the variance is one over the step
SHORTER = 8.0  # by what a step that is too long is divided
SIGNIFICANT = 4.0  # standard errors
NEGLIGIBLE = 1e-3  # of a derivative
SHORTEST, RESOLUTIONS = (
    1e-7,
    1e3,
)  # of steps: relative to the target, and in units in the last place of the target
ROUNDINGS = 16.0  # units in the last place that the value of a path may be off


@dataclasses.dataclass(frozen=True)
class Stencil:
    """Where to run the same paths, as multiples of the steps by target, and what each run counts.

    `lower_order` is what each counts in a formula of lower order, whose error is far larger.
    """

    points: tuple[tuple[float, ...], ...]
    weights: tuple[float, ...]
    lower_order: tuple[float, ...]


def step_of(target: Target, relative_step: float) -> float:
    """How far to move a target."""
    return relative_step * target.scale


def is_too_long(
    mean: np.ndarray,
    stderr: np.ndarray,
    difference: np.ndarray,
    difference_stderr: np.ndarray,
    rounding: np.ndarray,
) -> bool:
    """Whether a step leaves an error that shows, anywhere among the rows.

    `difference` is that from the lower order. Orders that fall off by one factor would leave the derivative
    itself as much nearer, difference² / |mean|: too much where that is more than the derivative's standard
    error, and not rounding.
    """
    difference, size = np.abs(difference), np.abs(mean)
    significant = difference > np.maximum(SIGNIFICANT * np.nan_to_num(difference_stderr), rounding)
    allowed = np.maximum(np.nan_to_num(stderr), NEGLIGIBLE * size)
    return bool(np.any(significant & (difference**2 > allowed * size)))


def shortest(precision: str) -> float:
    """The shortest relative step: it must change the target in numbers of this precision."""
    return max(SHORTEST, RESOLUTIONS * float(np.finfo(precision).eps))


def first_difference(step: float, side: int = 0) -> Stencil:
    """The first derivative; `side` is 1 or -1 for points above or below the value alone."""
    if side:
        h = side / (6 * step)
        points = tuple((float(side * i),) for i in range(4))
        return Stencil(points, (-11 * h, 18 * h, -9 * h, 2 * h), (-9 * h, 12 * h, -3 * h, 0.0))
    h = 1 / (12 * step)
    return Stencil(((1.0,), (-1.0,), (2.0,), (-2.0,)), (8 * h, -8 * h, -h, h), (6 * h, -6 * h, 0.0, 0.0))


def second_difference(step: float, side: int = 0) -> Stencil:
    """The second derivative in one target."""
    if side:
        h = 1 / step**2
        points = tuple((float(side * i),) for i in range(4))
        return Stencil(points, (2 * h, -5 * h, 4 * h, -h), (h, -2 * h, h, 0.0))
    h = 1 / (12 * step**2)
    points = ((0.0,), (1.0,), (-1.0,), (2.0,), (-2.0,))
    return Stencil(points, (-30 * h, 16 * h, 16 * h, -h, -h), (-24 * h, 12 * h, 12 * h, 0.0, 0.0))


def mixed_difference(steps: Sequence[float], sides: tuple[int, int] = (0, 0)) -> Stencil:
    """The second derivative in two targets; at an end of one range, points to one side of both values."""
    if any(sides):
        line, short = (-1.5, 2.0, -0.5), (-1.0, 1.0, 0.0)
        h = [side / step for side, step in zip(sides, steps, strict=True)]
        return Stencil(
            tuple((float(sides[0] * x), float(sides[1] * y)) for x in range(3) for y in range(3)),
            tuple(a * b * h[0] * h[1] for a in line for b in line),
            tuple(a * b * h[0] * h[1] for a in short for b in short),
        )
    points, weights, lower_order = [], [], []
    for size, weight, alone in ((1.0, 4 / 3, 1.0), (2.0, -1 / 3, 0.0)):
        one = 1 / (4 * size**2 * steps[0] * steps[1])
        for a in (1, -1):
            for b in (1, -1):
                points.append((a * size, b * size))
                weights.append(a * b * one * weight)
                lower_order.append(a * b * one * alone)
    return Stencil(tuple(points), tuple(weights), tuple(lower_order))


@dataclasses.dataclass(frozen=True)
class Weighted:
    """A function of (the values of several runs, weights, those of a lower order) in float64, by quantity.

    First the differences, then how far those of the lower order are away, then how large the terms are, of
    which both have rounding. What is the same in all runs has a difference of 0.
    """

    runs: int

    def __call__(
        self, values: tuple[tuple[jax.Array, ...], ...], weights: jax.Array, lower_order: jax.Array
    ) -> tuple[jax.Array, ...]:
        totals, difference, sizes = [], [], []
        for each in zip(*values, strict=True):
            rows = [x.astype(weights.dtype) for x in each]
            changes = [x - rows[0] for x in rows]
            totals.append(sum(weights[i] * changes[i] for i in range(1, self.runs)))
            difference.append(sum((weights[i] - lower_order[i]) * changes[i] for i in range(1, self.runs)))
            sizes.append(sum(jnp.abs(weights[i] * rows[i]) for i in range(self.runs)))
        return *totals, *difference, *sizes
