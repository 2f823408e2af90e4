"""Iterations that stop when they diverge."""

import abc
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optimistix as optx
from jaxtyping import PyTree

from simkit_solvers.numerics.delegated import delegated
from simkit_solvers.roots.picard import common_dtype, size_of

RISES = 3  # one step that overshoots, as Newton's may, is no divergence


class _WatchState(eqx.Module):
    """The solver's own state, the last residual, the first, and how often in a row it has risen."""

    inner: Any
    residual: Any
    first: Any
    rises: Any


class _Watched(eqx.Module):
    """What the two kinds of solver share: tolerances of the solver inside, and how divergence is noticed."""

    solver: eqx.AbstractVar[Any]
    growth: eqx.AbstractVar[float]

    @abc.abstractmethod
    def residual(self, value, y):
        """The residual at `y`, where the function has this value."""

    rtol = delegated("solver")
    atol = delegated("solver")
    norm = delegated("solver")

    def init(self, fn, y, args, options, f_struct, aux_struct, tags):
        zero = jnp.zeros((), common_dtype(y))
        inner = self.solver.init(fn, y, args, options, f_struct, aux_struct, tags)
        return _WatchState(inner, zero + jnp.inf, zero, jnp.asarray(0))

    def step(
        self, fn: Callable, y: PyTree, args: PyTree, options: dict[str, Any], state: PyTree, tags: frozenset
    ) -> tuple[PyTree, PyTree, PyTree]:
        """One step of the inner solver, which evaluates `fn` once; the residual is computed on the way."""

        def with_residual(y, args):
            value, aux = fn(y, args)
            return value, (aux, jax.lax.stop_gradient(self.residual(value, y)))

        y, inner, (aux, residual) = self.solver.step(with_residual, y, args, options, state.inner, tags)
        residual = size_of(self.solver, residual)
        first = jnp.where(jnp.isinf(state.residual), jnp.maximum(residual, self.atol), state.first)
        rises = jnp.where(residual > state.residual, state.rises + 1, 0)
        return y, _WatchState(inner, residual, first, rises), aux

    def terminate(self, fn, y, args, options, state, tags):
        stop, result = self.solver.terminate(fn, y, args, options, state.inner, tags)
        diverged = (state.rises >= RISES) & (state.residual > self.growth * state.first)
        result = optx.RESULTS.where(diverged, optx.RESULTS.nonlinear_divergence, result)
        return stop | diverged, result

    def postprocess(self, fn, y, aux, args, options, state, tags, result):
        y, aux, stats = self.solver.postprocess(fn, y, aux, args, options, state.inner, tags, result)
        return y, aux, stats | {"residual": state.residual}


class WatchedFixedPoint(_Watched, optx.AbstractFixedPointSolver):
    """A fixed-point solver that stops when $|g(y) - y|$ grows, and gives it among `stats`.

    It has diverged when the residual rose three times in a row to more than `growth` times the first.
    """

    solver: optx.AbstractFixedPointSolver
    growth: float

    def residual(self, value, y):
        return jax.tree.map(jnp.subtract, value, y)


class WatchedRoot(_Watched, optx.AbstractRootFinder):
    """A root finder that stops when $|F(y)|$ grows, and gives it among `stats`."""

    solver: optx.AbstractRootFinder
    growth: float

    def residual(self, value, y):
        return value
