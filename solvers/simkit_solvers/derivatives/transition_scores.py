r"""Scores of the Euler–Maruyama chain, read off its steps.

A step of length h from y to y' has the density of $y' \sim N(y + hf,\ h\,GG^T)$, with G the columns of the
noise. With $\varepsilon = G^{-1}(y' - y - hf)/\sqrt h$, the normals that were drawn, the score gains

$$\Delta Z = \partial_\theta\bigl(-\tfrac12 \varepsilon^T \varepsilon - \log|\det G|\bigr)
= \sqrt h\,\varepsilon^T G^{-1} \partial_\theta f + \varepsilon^T G^{-1} (\partial_\theta G)\,\varepsilon
- \mathrm{tr}(G^{-1} \partial_\theta G).$$

Reference: Glynn (1990), Likelihood ratio gradient estimation for stochastic systems, doi:10.1145/84537.84552.
"""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree, UInt32

from simkit_solvers.numerics.elimination import factorise, solve
from simkit_solvers.numerics.scalar import Scalar
from simkit_solvers.numerics.tangents import as_tangent, jvp
from simkit_solvers.problems.directions import Direction
from simkit_solvers.problems.observe import AbstractObserver
from simkit_solvers.problems.problem import AbstractSDE

SCORE = "score"


class WithScores(AbstractObserver):
    """The rows of an observer, and the scores of a path of Euler–Maruyama in some directions.

    The additional rows are named `score 0`, `score 1`, …. For a solver other than `EulerMaruyama` they are
    its scores up to the order of the step. Raises `ValueError` unless the problem has as many noises as
    variables; where its noise is singular the scores are not finite.

    >>> from simkit_physics import OrnsteinUhlenbeck
    >>> from simkit_solvers import CounterNoise, Direction, EulerMaruyama, Grid, States, WithScores
    >>> from simkit_solvers import integrate, seed_key
    >>> model, start = OrnsteinUhlenbeck(theta=1.0, mu=0.0, sigma=0.5), OrnsteinUhlenbeck.State(X=1.0)
    >>> by_mu = Direction(problem=OrnsteinUhlenbeck(theta=0.0, mu=1.0, sigma=0.0))
    >>> grid, noise = Grid(t0=0.0, dt=0.1, steps=10, every=5), CounterNoise.of(seed_key(1), path=0)
    >>> observer = WithScores(States(), (by_mu,))
    >>> sorted(integrate(model, EulerMaruyama(), start, grid, noise, observer))
    ['X', 'score 0']
    """

    observer: AbstractObserver
    directions: tuple[Direction, ...]

    def init(self, problem: AbstractSDE, t: Scalar, y: PyTree) -> PyTree:
        if len(problem.Noise._fields) != len(problem.State._fields):
            raise ValueError(
                f"{type(problem).__name__} has {len(problem.State._fields)} variables and "
                f"{len(problem.Noise._fields)} noises; a step has a density only where there are as many"
            )
        zero = jnp.zeros((), jnp.result_type(*y))
        return self.observer.init(problem, t, y), y, tuple(zero for _ in self.directions)

    def update(
        self,
        problem: AbstractSDE,
        acc: PyTree,
        k: UInt32[Array, ""],
        t: Scalar,
        y: PyTree,
        dt: Float[Array, ""],
    ) -> PyTree:
        own, before, scores = acc
        own = self.observer.update(problem, own, k, t, y, dt)
        gained = (
            jvp(
                lambda p: _log_density(p, t - dt, dt, before, y),
                problem,
                as_tangent(problem, each.problem, dt.dtype),
            )[1]
            for each in self.directions
        )
        return own, y, tuple(z + gain for z, gain in zip(scores, gained, strict=True))

    def changed(self, acc: PyTree, k: UInt32[Array, ""], t: Scalar, before: tuple, after: tuple) -> PyTree:
        own, _, scores = acc
        return self.observer.changed(own, k, t, before, after), after[1], scores

    def row(self, problem: AbstractSDE, acc: PyTree, t: Scalar, y: PyTree) -> dict[str, Any]:
        own, _, scores = acc
        named = {f"{SCORE} {i}": z for i, z in enumerate(scores)}
        return self.observer.row(problem, own, t, y) | named

    def coarsened(self, factor: int) -> None:
        return None

    def refined(self, factor: int) -> "WithScores":
        return WithScores(self.observer.refined(factor), self.directions)


def _log_density(
    problem: AbstractSDE, t: Scalar, h: Float[Array, ""], y: PyTree, after: PyTree
) -> Float[Array, ""]:
    """The logarithm of the density of a step, but for what does not depend on the problem."""
    names = problem.Noise._fields
    one, zero = jnp.ones_like(h), jnp.zeros_like(h)
    units = [problem.Noise(*(one if n == k else zero for n in names)) for k in names]
    columns = [list(problem.noise(t, y, unit)) for unit in units]
    rows = [[jnp.asarray(column[i], h.dtype) for column in columns] for i in range(len(names))]
    moved = [x1 - x0 - h * f for x0, x1, f in zip(y, after, problem.drift(t, y), strict=True)]
    factors = factorise(rows)
    normals: list[Any] = solve(factors, moved)
    log_det = sum(jnp.log(jnp.abs(factors.rows[i][i])) for i in range(len(names)))
    return -0.5 * sum(e * e for e in normals) / h - log_det
