"""Rosenbrock methods: linearly implicit steps for stiff problems, without an iteration."""

from typing import Any, ClassVar, NamedTuple

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import lineax as lx
from jax.flatten_util import ravel_pytree
from jaxtyping import PyTree

from simkit_solvers.methods.one_step import AbstractMemoryless
from simkit_solvers.methods.step_types import Flag, Step, Terms, Time
from simkit_solvers.numerics.elimination import factorise, inverse, solve

WRITTEN_OUT = 4  # variables up to which stages and elimination are written out: longer texts compile for long
INVERTED = 16  # variables up to which the matrix is inverted, which costs less than a call for each path


class RosenbrockTableau(NamedTuple):
    r"""A Rosenbrock method in the form without products by the Jacobian (Hairer & Wanner, IV.7).

    With $F(t, y) = h f(t, y)$, all derivatives at the start of the step,
    $$\left(\frac{1}{\gamma} - F_y\right) u_i = F\left(t + \alpha_i h,\ y + \sum_{j<i} a_{ij} u_j\right)
    + \sum_{j<i} c_{ij} u_j + \gamma_i h F_t, \qquad y_1 = y + \sum_i m_i u_i.$$
    `e` gives the error estimate $\sum e_i u_i$, and `d` the dense output
    $y(t + \theta h) = (1-\theta) y + \theta y_1 + \theta(1-\theta)(D_1 + \theta(D_2 + \dots))$ with
    $D_k = \sum_i d_{ki} u_i$.
    """

    gamma: float
    a: tuple[tuple[float, ...], ...]
    c: tuple[tuple[float, ...], ...]
    m: tuple[float, ...]
    e: tuple[float, ...]
    alpha: tuple[float, ...]
    gammas: tuple[float, ...]
    d: tuple[tuple[float, ...], ...]


class RosenbrockInterpolation(diffrax.AbstractLocalInterpolation):
    """The dense output of a Rosenbrock method within one step; `D` as in `RosenbrockTableau`."""

    t0: Any
    t1: Any
    y0: Any
    y1: Any
    D: tuple

    def evaluate(self, t0, t1=None, left=True):
        if t1 is not None:
            early, late = self.evaluate(t0), self.evaluate(t1)
            return jax.tree.map(jnp.subtract, late, early)
        length = jnp.asarray(self.t1 - self.t0)
        theta = (t0 - self.t0) / jnp.where(length == 0, jnp.ones_like(length), length)

        def at(y0, y1, *D):
            x = theta.astype(y0.dtype)
            bulge = D[-1]
            for coefficient in reversed(D[:-1]):
                bulge = coefficient + x * bulge
            return (1 - x) * y0 + x * (y1 + (1 - x) * bulge)

        return jax.tree.map(at, self.y0, self.y1, *self.D)


class AbstractRosenbrock(AbstractMemoryless, diffrax.AbstractAdaptiveSolver):
    """A Rosenbrock method, which is its tableau and nothing else.

    Takes one term with an ordinary control, such as `diffrax.ODETerm`, which it differentiates by the state
    and by time. For a state of up to four scalars, stages and elimination are written out; else the state is
    one vector and its stages are a loop, with the inverse of the matrix for up to 16 numbers and a dense
    factorisation, once a step, for more. A singular matrix gives an error estimate of infinity,
    on which an adaptive step is tried again shorter, and values that are not finite.

    >>> from simkit_solvers import AbstractRosenbrock, Rodas5P
    >>> issubclass(Rodas5P, AbstractRosenbrock)
    True
    """

    interpolation_cls: ClassVar = RosenbrockInterpolation

    tableau: eqx.AbstractClassVar[RosenbrockTableau]

    def step(
        self, terms: Terms, t0: Time, t1: Time, y0: PyTree, args: PyTree, solver_state: Any, made_jump: Flag
    ) -> Step:
        t0 = jnp.asarray(t0)
        h, control = t1 - t0, terms.contr(t0, t1)
        few = sum(jnp.size(leaf) for leaf in jax.tree.leaves(y0)) <= WRITTEN_OUT
        numbers_of = _as_scalars if few else _as_vector
        start, state_of = numbers_of(y0)

        def change(t, y):
            return numbers_of(terms.vf_prod(t, state_of(y), args, control))[0]

        f0, slope = jax.jvp(lambda t: change(t, start), (t0,), (jnp.ones_like(t0),))
        drift = jax.tree.map(lambda s: s * h.astype(s.dtype), slope)
        stages = _stages_written_out if few else _stages_in_a_loop
        u = stages(self.tableau, change, t0, h, start, f0, drift)
        y1 = _sum(self.tableau.m, u, start)
        error = _sum(self.tableau.e, u)
        finite = jnp.stack([jnp.isfinite(x).all() for x in jax.tree.leaves((y1, error))]).all()
        error = jax.tree.map(lambda x: jnp.where(finite, x, jnp.inf), error)
        y1, error, *D = (state_of(y) for y in (y1, error, *(_sum(row, u) for row in self.tableau.d)))
        return y1, error, {"y0": y0, "y1": y1, "D": tuple(D)}, None, diffrax.RESULTS.successful


def _as_vector(y):
    """The numbers of a state, (n,), and the way back."""
    return ravel_pytree(y)


def _as_scalars(y):
    """The numbers of a state, a list, and the way back."""
    leaves, tree = jax.tree.flatten(y)
    if all(jnp.shape(leaf) == () for leaf in leaves):
        return leaves, lambda numbers: jax.tree.unflatten(tree, numbers)
    flat, unravel = ravel_pytree(y)
    return list(flat), lambda numbers: unravel(jnp.stack(numbers))


@jax.custom_jvp
def _barrier(tree):
    """These values, each computed once; tangents pass, since jax 0.12 fails to transpose some barriers."""
    return jax.lax.optimization_barrier(tree)


@_barrier.defjvp
def _(primals, tangents):
    return _barrier(*primals), tangents[0]


def _sum(weights, trees, start=None):
    """`start` + the sum of weight * tree over the weights that are not zero."""
    pairs = [(w, tree) for w, tree in zip(weights, trees, strict=True) if w != 0]
    if start is None:
        (w, tree), *pairs = pairs
        start = jax.tree.map(lambda x: w * x, tree)
    for w, tree in pairs:
        start = jax.tree.map(lambda x, u, w=w: x + w * u, start, tree)
    return start


def _stages_written_out(tableau: RosenbrockTableau, change, t0, h, y0, f0, drift) -> list:
    """The stages of a few scalars: one kernel each under `vmap`, but a long program for many scalars."""
    factors = _barrier(factorise(_scalar_rows(lambda y: change(t0, y), y0, tableau.gamma)))
    u: list[Any] = []
    for alpha, gamma, a, c in zip(tableau.alpha, tableau.gammas, tableau.a, tableau.c, strict=True):
        f = change(t0 + alpha * h, _sum(a, u, y0)) if a else f0
        stage = solve(factors, _sum((*c, gamma), [*u, drift], f))
        # XLA's CPU compiler would compute all earlier stages again for each variable of each later one.
        u.append(_barrier(stage))
    return u


def _stages_in_a_loop(tableau: RosenbrockTableau, change, t0, h, y0, f0, drift):
    """The stages of a vector, (stages, n): one program for all, which is quick to compile."""
    n, count, dtype = y0.size, len(tableau.m), y0.dtype
    solved = _solver(lambda y: change(t0, y), y0, tableau.gamma)

    def padded(rows):
        return jnp.asarray([[*row, *[0.0] * (count - len(row))] for row in rows[1:]], dtype)

    alphas, gammas = jnp.asarray(tableau.alpha[1:], t0.dtype), jnp.asarray(tableau.gammas[1:], dtype)
    later = padded(tableau.a), padded(tableau.c), alphas, gammas

    def stage(state, given):
        u, b = state
        i, a, c, alpha, gamma = given
        u = jnp.where(jnp.arange(count)[:, None] == i, solved(b), u)
        f = change(t0 + alpha * h, y0 + _weighted(a, u))
        return (u, f + _weighted(c, u) + gamma * drift), None

    begin = jnp.zeros((count, n), dtype), f0 + tableau.gammas[0] * drift
    (u, b), _ = jax.lax.scan(stage, begin, (jnp.arange(count - 1), *later))
    return [*u[:-1], solved(b)]


def _weighted(weights, rows):
    """The sum of weight * row, written out, since a product of matrices is a call for each path."""
    return sum(w * row for w, row in zip(weights, rows, strict=True))


def _solver(F, y, gamma):
    """The map from b to the solution of $(1/\\gamma - F_y) x = b$, vectors of y's length."""
    unit = jnp.eye(y.size, dtype=y.dtype)
    columns = jax.vmap(lambda tangent: jax.jvp(F, (y,), (tangent,))[1])(unit)
    if y.size <= INVERTED:
        transposed = inverse(unit / gamma - columns)
        return lambda b: _weighted(b, transposed)
    operator = lx.MatrixLinearOperator(unit / gamma - columns.T)
    solver = lx.LU()
    state = solver.init(operator, {})
    return lambda b: lx.linear_solve(operator, b, solver, state=state, throw=False).value


def _scalar_rows(F, y: list, gamma):
    """$1/\\gamma - F_y$ by one derivative for each scalar, so that no array over the variables arises."""
    columns = []
    for j, leaf in enumerate(y):

        def along(x, j=j):
            return F([*y[:j], x, *y[j + 1 :]])

        column = jax.jvp(along, (leaf,), (jnp.ones_like(leaf),))[1]
        columns.append([1 / gamma - x if i == j else -x for i, x in enumerate(column)])
    return [list(row) for row in zip(*columns, strict=True)]
