"""Picard iteration."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optimistix as optx
from jaxtyping import Array, Bool, PyTree


class IterationState(eqx.Module):
    """The residual of the last iterate in units of its tolerance."""

    error: Any


class AbstractIteration(optx.AbstractFixedPointSolver):
    """An iteration whose state has the `error` of its last iterate, in units of the tolerance."""

    def terminate(
        self, fn: Callable, y: PyTree, args: PyTree, options: dict[str, Any], state: PyTree, tags: frozenset
    ) -> tuple[Bool[Array, ""], optx.RESULTS]:
        return state.error < 1, optx.RESULTS.successful

    def postprocess(
        self,
        fn: Callable,
        y: PyTree,
        aux: PyTree,
        args: PyTree,
        options: dict[str, Any],
        state: PyTree,
        tags: frozenset,
        result: optx.RESULTS,
    ) -> tuple[PyTree, PyTree, dict[str, Any]]:
        return y, aux, {}


class Picard(AbstractIteration):
    r"""Picard iteration, $y_{n+1} = y_n + \beta\,(g(y_n) - y_n)$, with the mixing $\beta$ in (0, 1].

    Converges where the spectral radius of $1 - \beta + \beta g'$ is below one, linearly at that rate. Mixing
    tames oscillations, that is, negative eigenvalues of $g'$. Any pytree of floating-point arrays. Stops
    where $|g(y) - y|$ is below `atol + rtol |y|`. (optimistix's `FixedPointIteration` stops by the damped
    change instead, and fails in float32 while float64 is enabled.)
    Reference: Kelley (1995), Iterative Methods for Linear and Nonlinear Equations,
    doi:10.1137/1.9781611970944, chapter 4.

    >>> import jax.numpy as jnp
    >>> from simkit_solvers import Picard, fixed_point
    >>> solution = fixed_point(lambda y, args: jnp.cos(y), Picard(rtol=1e-5, atol=1e-6), 1.0)
    >>> round(float(solution.value), 4)
    0.7391
    """

    rtol: float
    atol: float
    norm: Callable = optx.max_norm
    mixing: float = 1.0

    def init(
        self,
        fn: Callable,
        y: PyTree,
        args: PyTree,
        options: dict[str, Any],
        f_struct: PyTree,
        aux_struct: PyTree,
        tags: frozenset,
    ) -> IterationState:
        return IterationState(start_error(y))

    def step(
        self, fn: Callable, y: PyTree, args: PyTree, options: dict[str, Any], state: PyTree, tags: frozenset
    ) -> tuple[PyTree, PyTree, PyTree]:
        g, aux = fn(y, args)
        f = jax.tree.map(jnp.subtract, g, y)
        new = jax.tree.map(lambda x, r: x + self.mixing * r, y, f)
        return new, IterationState(scaled_error(self, f, y)), aux


def common_dtype(tree: PyTree) -> Any:
    """The widest type of a pytree's leaves."""
    with jax.numpy_dtype_promotion("standard"):
        return jnp.result_type(*jax.tree.leaves(tree))


def start_error(y: PyTree) -> jax.Array:
    """An infinite error of the type that later ones will have."""
    return jnp.asarray(jnp.inf, common_dtype(y))


def scaled_error(
    solver: optx.AbstractFixedPointSolver | optx.AbstractRootFinder, f: PyTree, y: PyTree
) -> PyTree:
    """The size of `f` in units of `atol + rtol |y|`; below one is within the tolerance."""
    scaled = jax.tree.map(lambda r, x: r / (solver.atol + solver.rtol * jnp.abs(x)), f, y)
    return size_of(solver, scaled)


def size_of(solver: optx.AbstractFixedPointSolver | optx.AbstractRootFinder, tree: PyTree) -> jax.Array:
    """The solver's norm of a pytree, whose leaves may differ in type."""
    with jax.numpy_dtype_promotion("standard"):
        return solver.norm(tree).astype(common_dtype(tree))
