r"""Derivatives of a path along directions, step by step along with the path itself.

With the step $y_{k+1} = \Phi_k(\theta, y_k, Z_k)$ and $Y_k$ the derivative of $y_k$ along a direction of
$\theta$, $D = \partial_\theta\Phi + \partial_y\Phi\,Y_k$ is the derivative of its end with the normals $Z_k$
held. A fraction $\lambda$ of it can be *released*: moved from the path to its probability. The normals are
shifted by $-\lambda\,u$, $u = J^{-1} D$, $J = \partial_Z\Phi$, which leaves $Y_{k+1} = (1 - \lambda)\,D$, and
the density of the normals changes by the weight

$$w_{k+1} = w_k + \lambda\,\bigl(Z_k\cdot u - \nabla_Z\cdot u\bigr), \qquad
\partial_\theta E[f(y)] = E\bigl[f(y)\,w + f'(y)\,Y + \partial_\theta f(y)\bigr].$$

With $\lambda = 0$ this is the pathwise derivative, with $\lambda = 1$ the likelihood ratio (score) of the
scheme, and with $\lambda = 1/n$ when n steps are left until f observes the path, the weights of Malliavin
calculus for the scheme, which stay bounded where those of the score grow as steps get shorter. Where f is
observed, $Y = 0$: f may jump.

References: Glasserman (2003), Monte Carlo Methods in Financial Engineering, doi:10.1007/978-0-387-21617-1,
chapter 7; Chen & Glasserman (2007), Malliavin Greeks without Malliavin calculus,
doi:10.1016/j.spa.2007.03.012.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from simkit_solvers.numerics.elimination import solve_sparse
from simkit_solvers.numerics.scalar import Scalar


class Direction(NamedTuple):
    """The derivatives of the arguments of a run with respect to one parameter; None for zero.

    Trees like problem, observer and initial state, and the derivatives of the grid's `t0` and `dt`. That of a
    problem is, say, one of the same class with 1 in place of the parameter and 0 for the others.

    >>> from simkit_physics import GBM
    >>> from simkit_solvers import Direction
    >>> by_sigma = Direction(problem=GBM(mu=0.0, sigma=1.0))
    >>> by_start = Direction(y0=GBM.State(S=1.0))
    """

    problem: Any = None
    observer: Any = None
    y0: Any = None
    t0: Any = None
    dt: Any = None


@dataclasses.dataclass(frozen=True)
class Release:
    """When derivatives are released: all by each `every`-th step, 1/n of the rest where n steps are left.

    A direction that moves neither the initial state nor the noise is released step by step: its score has the
    same variance for short steps as for long ones.

    >>> from simkit_solvers import Release
    >>> Release(every=10).every
    10
    """

    every: int


def interval(every: int) -> Any:
    """A number of steps as an array, so that all share one trace; 1 stays a number, which is simpler."""
    return 1 if every == 1 else jnp.uint32(every)


def fraction(every: Any, k: jax.Array, like: Scalar) -> Scalar:
    """Which fraction of a derivative is released in step `k`, counted from 0."""
    if isinstance(every, int):
        return 1.0
    left = every - k % every
    return 1 / left.astype(jnp.result_type(like))


class NoDensityError(ValueError):
    """Why derivatives along a direction cannot be released: no density of the path moves with it."""


class WithTangents(NamedTuple):
    """What the loop carries of a path and, for each direction, its derivative and weight."""

    carry: Any
    changes: tuple[Any, ...]
    weights: tuple[jax.Array, ...]


class DifferentiatedRows(NamedTuple):
    """The rows of a path and, for each direction, their derivatives and the weight up to each row.

    A weight is an array `(rows,)`.

    >>> from simkit_physics import GBM
    >>> from simkit_solvers import CounterNoise, Direction, EulerMaruyama, Grid, States
    >>> from simkit_solvers import integrate_with_tangents, seed_key
    >>> model, start = GBM(mu=0.05, sigma=0.2), GBM.State(S=100.0)
    >>> grid, noise = Grid(t0=0.0, dt=0.1, steps=10, every=5), CounterNoise.of(seed_key(1), path=0)
    >>> directions = [Direction(GBM(mu=0.0, sigma=0.0), States(), GBM.State(S=1.0))]  # by the start
    >>> run = integrate_with_tangents(model, EulerMaruyama(), start, grid, noise, States(), directions)
    >>> run.changes[0]["S"].shape, run.weights[0].shape
    ((3,), (3,))
    """

    rows: dict[str, Any]
    changes: tuple[dict[str, Any], ...]
    weights: tuple[jax.Array, ...]


def padded(change: PyTree, like: PyTree, value: PyTree) -> PyTree:
    """A derivative with zeros where it is None and `like` is not; None elsewhere, as in `like`."""

    def leaf(value, change, like):
        if like is None:
            return None
        return jnp.zeros_like(value) if change is None else jnp.asarray(change, value.dtype)

    return jax.tree.map(leaf, value, change, like, is_leaf=lambda x: x is None)


def merged(a: PyTree, b: PyTree) -> PyTree:
    """Which leaves are not None in one of two trees that differ in these alone."""
    return jax.tree.map(lambda x, y: y if x is None else x, a, b, is_leaf=lambda x: x is None)


def released(
    advance: Callable[[tuple], Any],
    tangent: Callable[[tuple], Any],
    normals: tuple,
    fraction: Scalar,
    driven: tuple[int, ...],
    weighed: bool = True,
) -> tuple[Any, jax.Array]:
    """The derivative of a step's end after a fraction of it is released, and what this adds to the weight.

    `advance` gives the state at the end of the step for its normals, `tangent` its derivative D for them;
    `driven` are the positions of the variables that the normals reach, no more than there are normals. Where
    the noise vanishes nothing is released; the weight is NaN if all should have been. What is zero for all
    paths is None throughout and costs nothing. Unless it is `weighed` the weight is 0.
    """
    units = [
        tuple(jnp.ones_like(z) if i == c else None for i, z in enumerate(normals))
        for c in range(len(normals))
    ]

    def leaves_of(state):
        return jax.tree.leaves(state, is_leaf=lambda x: x is None)

    @jax.jit  # traced once, of what is differentiated along each normal
    def shift(*normals):
        """u, as many as there are normals, and whether the noise vanishes."""
        ends = [leaves_of(eqx.filter_jvp(lambda *z: advance(z), normals, unit)[1]) for unit in units]
        wanted = leaves_of(tangent(normals))
        return _least_shift([[end[row] for end in ends] for row in driven], [wanted[row] for row in driven])

    u, vanishes = shift(*normals)
    weight = jnp.zeros_like(normals[0])
    for c, (z, x, unit) in enumerate(zip(normals, u, units, strict=True) if weighed else ()):
        slope = eqx.filter_jvp(lambda *z, c=c: shift(*z)[0][c], normals, unit)[1]
        weight = weight if x is None else weight + z * x
        weight = weight if slope is None else weight - slope
    leaves, tree = jax.tree.flatten(tangent(normals), is_leaf=lambda x: x is None)
    moved = [leaves[row] != 0 for row in driven if leaves[row] is not None]
    if moved:
        stuck = vanishes & (fraction == 1) & functools.reduce(jnp.logical_or, moved)
        weight = jnp.where(stuck, jnp.nan, fraction * weight)
    fraction_here = jnp.where(vanishes, 0, fraction)

    def rest(change):
        return None if change is None or isinstance(fraction, float) else (1 - fraction_here) * change

    remaining = [rest(d) if row in driven else d for row, d in enumerate(leaves)]
    return jax.tree.unflatten(tree, remaining), weight


def _least_shift(J: list[list], D: list) -> tuple[list, jax.Array]:
    r"""The smallest u with $J u = D$: $J^{-1} D$, or $J^T (J J^T)^{-1} D$ where there is more noise.

    And whether J is singular; u is zero then. None stands for zeros.
    """
    square = len(J[0]) == len(J)
    if square and len(J) == 2:
        return _two_by_two(J, D)
    M = J if square else [[_dot(a, b) for b in J] for a in J]
    x, singular = solve_sparse(M, D)
    u = x if square else [_dot(column, x) for column in zip(*J, strict=True)]
    return [None if each is None else jnp.where(singular, 0.0, each) for each in u], singular


def _two_by_two(J, D):
    """The solution of two equations by Cramer's rule, with one division."""
    (a, b), (c, d) = J
    determinant = _dot((a, None if b is None else -b), (d, c))
    if determinant is None:
        raise NoDensityError("one noise drives two variables, so they have no joint density")
    singular = determinant == 0
    inverse = 1 / jnp.where(singular, 1.0, determinant)
    x, y = D
    u = [_dot((d, None if b is None else -b), (x, y)), _dot((a, None if c is None else -c), (y, x))]
    return [None if each is None else jnp.where(singular, 0.0, each * inverse) for each in u], singular


def _dot(a, b):
    terms = [p * q for p, q in zip(a, b, strict=True) if p is not None and q is not None]
    return sum(terms[1:], terms[0]) if terms else None
