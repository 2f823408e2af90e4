"""Newton's method without a matrix."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import lineax as lx
import optimistix as optx
from jaxtyping import Array, Bool, PyTree

from simkit_solvers.roots.krylov import ScaledGMRES
from simkit_solvers.roots.picard import AbstractIteration, common_dtype, scaled_error, size_of, start_error


class _NewtonKrylovState(eqx.Module):
    """Size of the last residual, its error and that of the last change, both in units of what is allowed."""

    size: Any
    residual: Any
    change: Any


class NewtonKrylov(optx.AbstractRootFinder):
    r"""Inexact Newton method for $F(y) = 0$: $F'(y_n)\,d = F(y_n)$ by GMRES, $y_{n+1} = y_n - d$.

    The Jacobian is never formed: GMRES takes its products with vectors, so that a system of $10^5$ unknowns
    costs as many copies of the state as the Krylov space has dimensions (`restart`). Each linear system is
    solved to the residual $\eta_n |F(y_n)|$ with
    $\eta_n = \min(\eta_{\max}, 0.9\,|F(y_n)|^2 / |F(y_{n-1})|^2)$, which keeps quadratic convergence and
    wastes no work far from the root; `forcing` is $\eta_{\max}$. A linear solve that does not get there in
    `max_linear` restarts still gives its step. Any pytree of floating-point arrays. Stops where $|d|$ is
    below `atol + rtol |y|` and $|F|$ below `atol`.
    References: Eisenstat & Walker (1996), Choosing the forcing terms in an inexact Newton method,
    doi:10.1137/0917003; Knoll & Keyes (2004), Jacobian-free Newton–Krylov methods,
    doi:10.1016/j.jcp.2003.08.010.

    >>> import jax.numpy as jnp
    >>> from simkit_solvers import NewtonKrylov, root
    >>> solver = NewtonKrylov(rtol=1e-5, atol=1e-5)
    >>> round(float(root(lambda y, args: y**3 - y - 1.0, solver, jnp.array([1.0])).value[0]), 3)
    1.325
    """

    rtol: float
    atol: float
    norm: Callable = optx.max_norm
    forcing: float = 0.1
    restart: int = eqx.field(static=True, default=20)
    max_linear: int = eqx.field(static=True, default=20)

    def init(
        self,
        fn: Callable,
        y: PyTree,
        args: PyTree,
        options: dict[str, Any],
        f_struct: PyTree,
        aux_struct: PyTree,
        tags: frozenset,
    ) -> _NewtonKrylovState:
        infinite = start_error(y)
        return _NewtonKrylovState(infinite, infinite, infinite)

    def step(
        self, fn: Callable, y: PyTree, args: PyTree, options: dict[str, Any], state: PyTree, tags: frozenset
    ) -> tuple[PyTree, PyTree, PyTree]:
        f, product, aux = jax.linearize(lambda x: fn(x, args), y, has_aux=True)
        operator = lx.FunctionLinearOperator(product, jax.eval_shape(lambda: y), tags=tags)
        with jax.numpy_dtype_promotion("standard"):
            size = optx.two_norm(f).astype(common_dtype(f))
        forcing = jnp.minimum(0.9 * (size / state.size) ** 2, self.forcing)
        forcing = jnp.where(jnp.isinf(state.size), self.forcing, forcing)
        # Below the rounding of a product there is nothing to gain.
        forcing = jnp.maximum(forcing, 100 * jnp.finfo(size.dtype).eps)
        solver = ScaledGMRES(jax.lax.stop_gradient(forcing), self.restart, self.max_linear)
        change = lx.linear_solve(operator, f, solver, throw=False).value
        new = jax.tree.map(jnp.subtract, y, change)
        residual = size_of(self, f) / self.atol
        return new, _NewtonKrylovState(size, residual, scaled_error(self, change, new)), aux

    def terminate(
        self, fn: Callable, y: PyTree, args: PyTree, options: dict[str, Any], state: PyTree, tags: frozenset
    ) -> tuple[Bool[Array, ""], optx.RESULTS]:
        return (state.residual < 1) & (state.change < 1), optx.RESULTS.successful

    postprocess = AbstractIteration.postprocess
