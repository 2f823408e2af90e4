r"""Finite differences with common random numbers: the same paths at other values of the targets.

Central differences with one Richardson step, $(4 D_h - D_{2h}) / 3$, whose error is of order $h^4$, by path;
at the end of a parameter's range differences to one side, of order $h^3$ or, second ones, $h^2$. Of values
that jump, or whose slope does, the variance grows as h falls, and the step is wider for them.
Reference: Glasserman (2003), Monte Carlo Methods in Financial Engineering,
doi:10.1007/978-0-387-21617-1, section 7.1.
"""

import dataclasses
from collections.abc import Sequence

import jax

from simkit.sensitivity.targets import Target

SMOOTH, ROUGH, SECOND, COUPLED = 1e-3, 0.02, 0.02, 0.01  # of the target's scale: its value, or 1 for 0


@dataclasses.dataclass(frozen=True)
class Stencil:
    """Where to run the same paths, as multiples of the steps by target, and what each run counts."""

    points: tuple[tuple[float, ...], ...]
    weights: tuple[float, ...]


def step_of(target: Target, share: float) -> float:
    """How far to move a target."""
    return share * target.scale


def first_difference(step: float, side: int = 0) -> Stencil:
    """The first derivative; `side` is 1 or -1 for points above or below the value alone."""
    if side:
        h = side / (6 * step)
        return Stencil(tuple((float(side * i),) for i in range(4)), (-11 * h, 18 * h, -9 * h, 2 * h))
    h = 1 / (12 * step)
    return Stencil(((1.0,), (-1.0,), (2.0,), (-2.0,)), (8 * h, -8 * h, -h, h))


def second_difference(step: float, side: int = 0) -> Stencil:
    """The second derivative in one target."""
    if side:
        h = 1 / step**2
        return Stencil(tuple((float(side * i),) for i in range(4)), (2 * h, -5 * h, 4 * h, -h))
    h = 1 / (12 * step**2)
    return Stencil(((0.0,), (1.0,), (-1.0,), (2.0,), (-2.0,)), (-30 * h, 16 * h, 16 * h, -h, -h))


def mixed_difference(steps: Sequence[float], sides: tuple[int, int] = (0, 0)) -> Stencil:
    """The second derivative in two targets; at an end of one range, points to one side of both values."""
    if any(sides):
        line = ((0.0, -1.5), (1.0, 2.0), (2.0, -0.5))
        h = [side / step for side, step in zip(sides, steps, strict=True)]
        return Stencil(
            tuple((sides[0] * x, sides[1] * y) for x, _ in line for y, _ in line),
            tuple(a * b * h[0] * h[1] for _, a in line for _, b in line),
        )
    points, weights = [], []
    for size, share in ((1.0, 4 / 3), (2.0, -1 / 3)):
        weight = share / (4 * size**2 * steps[0] * steps[1])
        for a in (1, -1):
            for b in (1, -1):
                points.append((a * size, b * size))
                weights.append(a * b * weight)
    return Stencil(tuple(points), tuple(weights))


@dataclasses.dataclass(frozen=True)
class Weighted:
    """A function of (the values of several runs, weights) that adds them by quantity, in float64."""

    runs: int

    def __call__(
        self, values: tuple[tuple[jax.Array, ...], ...], weights: jax.Array
    ) -> tuple[jax.Array, ...]:
        found = []
        for each in zip(*values, strict=True):
            total = weights[0] * each[0]
            for i in range(1, self.runs):
                total = total + weights[i] * each[i]
            found.append(total)
        return tuple(found)
