r"""Derivatives of means of discontinuous values, released into weights only near the discontinuities.

Let a value or its slope jump where one of the differences $g_i$ is zero, and let it be observed in $n_i$
steps. With $d_i$ the derivative of $g_i$ at the end of a step along a direction, the normals of the step
held, and $b_{ic} = \partial g_i/\partial Z_c$, the normals are shifted by $-u$,

$$u = B^T\bigl(BB^T + \mathrm{diag}\,[(n_i - 1)\,|b_i|^2 + g_i^2/c^2]\bigr)^{-1} d, \qquad
w_{k+1} = w_k + Z_k\cdot u - \nabla_Z\cdot u, \qquad
\partial_\theta E[f] = E\bigl[f\,w + \mathrm{d}f\bigr],$$

where $\mathrm{d}f$ is the derivative along the path so shifted. Where f is observed, n = 1, a difference that
is zero does not move, $B u = d$, so f is smooth along the shifted path although it jumps. Far from there the
derivative stays in the path, u is nearly 0 and the weight gathers nothing: with one difference and one normal
$u = (d/b)\,/\,(n + g^2/c^2b^2)$ is the score's shift $d/b$ times the fraction of a step, 1/n, damped over c
standard deviations of what n steps do to g. No noise has to drive what is not compared, nor to stay away from
zero.

References: Fournié, Lasry, Lebuchoux, Lions & Touzi (1999), Applications of Malliavin calculus to Monte Carlo
methods in finance, doi:10.1007/s007800050068, section 4 (localisation); Bernis, Gobet & Kohatsu-Higa (2003),
Monte Carlo evaluation of Greeks for multidimensional barrier and lookback options,
doi:10.1111/1467-9965.00008; Chen & Glasserman (2007), doi:10.1016/j.spa.2007.03.012.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from simkit_solvers.numerics.elimination import factorise, solve
from simkit_solvers.numerics.scalar import Scalar

WIDTH = 1.0  # c
RESOLUTIONS = 64  # of b^2, the least that is left of a difference when another one says the same


@dataclasses.dataclass(frozen=True)
class Smoothing:
    """Where values jump: `differences(observer, problem, acc, k, t, y)` gives differences after step `k`.

    `every` is for each the number of steps between its monitoring dates. `differences` is hashable, and
    equal to another function that gives the same. Where it gives none, derivatives stay in the path.

    >>> from simkit_solvers import Smoothing
    >>> def differences(observer, problem, acc, k, t, y):
    ...     return (y.S - 100.0,)  # what is observed jumps where this changes its sign
    >>> Smoothing(differences, every=(10,)).every
    (10,)
    """

    differences: Callable[..., tuple]
    every: tuple[int, ...]


def left_of(every: Scalar | int, k: jax.Array, dtype: DTypeLike) -> Any:
    """How many steps are left until the next monitoring date: 1 where step `k` has just ended at one."""
    if isinstance(every, int):
        return 1.0
    return (every - (k - jnp.uint32(1)) % every).astype(dtype)


def shifts_of(
    distances: Callable[..., tuple], moved: Callable[..., list[tuple]], left: tuple, normals: tuple
) -> tuple[list[tuple], list]:
    """The shift u of a step's normals for each direction, and whether a difference cannot be held.

    `distances` gives the differences at the end of the step for its normals, `moved` their derivatives along
    each direction. A difference that no normal moves where it is zero takes no part, and two that say the
    same, such as $S - K$ twice, count as one.
    """
    # Linearised, not differentiated along each normal again: a step smoothed twice would be traced as often
    # as their number to the fourth.
    g, slope = jax.linearize(distances, *normals)
    columns = [slope(*unit) for unit in units(normals)]
    B = [[column[i] for column in columns] for i in range(len(g))]
    M: list[list] = [[_dot(a, b) for b in B] for a in B]
    for i, (distance, n) in enumerate(zip(g, left, strict=True)):
        least = RESOLUTIONS * jnp.finfo(distance.dtype).eps
        M[i][i] = (n + least) * M[i][i] + distance**2 / WIDTH**2
    lost = [M[i][i] == 0 for i in range(len(g))]
    for i, nothing in enumerate(lost):
        M[i][i] = jnp.where(nothing, 1.0, M[i][i])
    factors, shifts, stuck = factorise(M), [], []
    for d in moved(*normals):
        x = solve(factors, list(d))
        shifts.append(tuple(_dot(column, x) for column in columns))
        held = [nothing & (each != 0) & (n == 1.0) for nothing, each, n in zip(lost, d, left, strict=True)]
        stuck.append(functools.reduce(jnp.logical_or, held))
    return shifts, stuck


def units(normals: tuple) -> list[tuple]:
    """The directions of single normals."""
    return [
        tuple(jnp.ones_like(z) if i == c else jnp.zeros_like(z) for i, z in enumerate(normals))
        for c in range(len(normals))
    ]


def shifts_and_gains(shifts: Callable[..., tuple[list[tuple], list]], normals: tuple) -> tuple:
    """What `shifts` gives for the normals, and what the shifts add to the weights: Z·u − ∇·u."""
    shifted, slope, stuck = jax.linearize(shifts, *normals, has_aux=True)
    gains = [_dot(normals, u) for u in shifted]
    for c, unit in enumerate(units(normals)):
        gains = [gain - u[c] for gain, u in zip(gains, slope(*unit), strict=True)]
    return shifted, stuck, gains


def _dot(a, b):
    return sum(p * q for p, q in zip(a, b, strict=True))
