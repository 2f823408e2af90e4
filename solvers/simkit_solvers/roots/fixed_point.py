"""Fixed points and roots: one entry each, for every solver of optimistix's interface."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import lineax as lx
import optimistix as optx
from jax.core import Tracer
from jaxtyping import PyTree

from simkit_solvers.roots.krylov import ScaledGMRES
from simkit_solvers.roots.picard import common_dtype
from simkit_solvers.roots.watch import WatchedFixedPoint, WatchedRoot

DENSE = 500  # unknowns up to which derivatives factorise the Jacobian


def fixed_point(
    fn: Callable,
    solver: optx.AbstractFixedPointSolver | optx.AbstractRootFinder,
    y0: PyTree,
    args: PyTree = None,
    *,
    steps: int | None = None,
    max_steps: int = 256,
    throw: bool = True,
    growth: float = 1e3,
    derivative_solver: lx.AbstractLinearSolver | None = None,
) -> optx.Solution:
    r"""The solution of $y = g(y)$ near `y0`, with `fn(y, args)` for $g$; `y0` is any pytree of floats.

    `solver` is `Picard` or `Anderson`, or a root finder (`optimistix.Newton`, `NewtonKrylov`), which then
    solves $g(y) - y = 0$.

    Without `steps` it iterates until the solver's tolerance is met, at most `max_steps` times. Derivatives by
    `args`, forward and reverse, are those of the solution, by the implicit function theorem, and nothing of
    the iterations is stored. Their linear system is solved by `derivative_solver`, which is by default dense
    for up to 500 unknowns and GMRES beyond.

    With `steps` it takes exactly that many iterations, whether or not the tolerance is met, and derivatives
    are those of the iterations themselves.

    Of the returned `optimistix.Solution`, `value` is the solution, `stats["num_steps"]` the iterations,
    `stats["residual"]` the largest $|g(y) - y|$ at the last point where $g$ was evaluated (the one before
    `value`) and, with `steps`, `stats["residuals"]` all of them in order. `result` says how it went, and an
    unsuccessful one is raised as an error unless `throw` is false: `nonfinite` for NaN and infinite values,
    `nonlinear_divergence` where the residual rose three times in a row to more than `growth` times the first,
    `nonlinear_max_steps_reached` where the tolerance was not met.

    Raises `ValueError` where `steps` or `max_steps` is not a positive whole number, or `fn` does not return
    what it is given.

    >>> import jax
    >>> import jax.numpy as jnp
    >>> from simkit_solvers import Picard, fixed_point
    >>> def solve(a):
    ...     return fixed_point(lambda y, a: a * jnp.cos(y), Picard(rtol=1e-5, atol=1e-6), 1.0, a).value
    >>> round(float(solve(0.5)), 4), round(float(jax.grad(solve)(0.5)), 3)
    (0.4502, 0.739)
    """
    if isinstance(solver, optx.AbstractRootFinder):
        fn, watched = _Residual(fn), WatchedRoot(solver, growth)
    elif isinstance(solver, optx.AbstractFixedPointSolver):
        watched = WatchedFixedPoint(solver, growth)
    else:
        raise ValueError(
            f"fixed_point: {type(solver).__name__} is neither a fixed-point solver nor a root finder; use "
            "Picard, Anderson, NewtonKrylov or optimistix.Newton"
        )
    return _solve("fixed_point", fn, watched, y0, args, steps, max_steps, throw, derivative_solver)


def root(
    fn: Callable,
    solver: optx.AbstractRootFinder,
    y0: PyTree,
    args: PyTree = None,
    *,
    steps: int | None = None,
    max_steps: int = 256,
    throw: bool = True,
    growth: float = 1e3,
    derivative_solver: lx.AbstractLinearSolver | None = None,
) -> optx.Solution:
    r"""The solution of $F(y) = 0$ near `y0`, with `fn(y, args)` for $F$, of the structure of `y`.

    `solver` is a root finder such as `optimistix.Newton` or `NewtonKrylov`. Everything else is as in
    `fixed_point`; residuals are $|F(y)|$.

    >>> import jax.numpy as jnp
    >>> from simkit_solvers import NewtonKrylov, root
    >>> solver = NewtonKrylov(rtol=1e-5, atol=1e-5)
    >>> solution = root(lambda y, a: y**2 - a, solver, jnp.array([1.0]), args=jnp.array([2.0]))
    >>> round(float(solution.value[0]), 3)
    1.414
    """
    if not isinstance(solver, optx.AbstractRootFinder):
        raise ValueError(
            f"root: {type(solver).__name__} is not a root finder; use NewtonKrylov or optimistix.Newton, or "
            "write the problem as y = g(y) and call fixed_point"
        )
    watched = WatchedRoot(solver, growth)
    return _solve("root", fn, watched, y0, args, steps, max_steps, throw, derivative_solver)


class _Residual(eqx.Module):
    """$g(y) - y$."""

    fn: Any

    def __call__(self, y, args):
        g = self.fn(y, args)
        _check_structure("fixed_point", y, g)
        return jax.tree.map(jnp.subtract, g, y)


def _solve(place, fn, watched, y0, args, steps, max_steps, throw, derivative_solver):
    for name, count in (("steps", steps), ("max_steps", max_steps)):
        if name == "steps" and count is None:
            continue
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise ValueError(f"{place}: {name} must be a positive whole number, got {count!r}")
    y0 = jax.tree.map(_as_floats, y0)
    _check_structure(place, y0, eqx.filter_eval_shape(fn, y0, args))
    if steps is not None:
        solution = _fixed_number(fn, watched, y0, args, steps)
        return _successful(place, solution) if throw else solution
    solve = optx.root_find if isinstance(watched, WatchedRoot) else optx.fixed_point
    adjoint = optx.ImplicitAdjoint(derivative_solver or _derivative_solver(y0))
    solution = solve(fn, watched, y0, args, max_steps=max_steps, throw=False, adjoint=adjoint)
    return _successful(place, solution) if throw else solution


def _successful(place: str, solution: optx.Solution) -> optx.Solution:
    """The solution, or an error if it failed, raised at once or by the compiled program around this."""
    failed = solution.result != optx.RESULTS.successful
    if isinstance(failed, Tracer):
        return solution.result.error_if(solution, failed)
    if failed:
        residual, steps = solution.stats["residual"], solution.stats["num_steps"]
        raise eqx.EquinoxRuntimeError(
            f"{place}: {optx.RESULTS[solution.result]} The residual is {residual:.3g} after {steps} steps. "
            "Start nearer, or use another solver; throw=False gives the last point and why it ended."
        )
    return solution


@eqx.filter_jit
def _fixed_number(fn, watched, y0, args, steps):
    def with_aux(y, args):
        return fn(y, args), None

    options, tags = {}, frozenset()
    struct = jax.eval_shape(lambda: y0)
    state = watched.init(with_aux, y0, args, options, struct, None, tags)
    arrays, static = eqx.partition(state, eqx.is_array)

    def iteration(carry, _):
        y, arrays = carry
        y, state, _ = watched.step(with_aux, y, args, options, eqx.combine(arrays, static), tags)
        return (y, eqx.filter(state, eqx.is_array)), jax.lax.stop_gradient(state.residual)

    (y, arrays), residuals = jax.lax.scan(iteration, (y0, arrays), length=steps)
    state = eqx.combine(arrays, static)
    _, result = watched.terminate(with_aux, y, args, options, state, tags)
    finite = jnp.stack([jnp.isfinite(x).all() for x in jax.tree.leaves(y)]).all()
    result = optx.RESULTS.where(finite, result, optx.RESULTS.nonfinite)
    stats = {
        "num_steps": jnp.asarray(steps),
        "max_steps": steps,
        "residual": residuals[-1],
        "residuals": residuals,
    }
    return optx.Solution(value=y, result=result, state=state, aux=None, stats=stats)


def _as_floats(x):
    dtype = jnp.result_type(x)
    return jnp.asarray(x, dtype if jnp.issubdtype(dtype, jnp.inexact) else float)


def _derivative_solver(y) -> lx.AbstractLinearSolver:
    if sum(leaf.size for leaf in jax.tree.leaves(y)) <= DENSE:
        return lx.AutoLinearSolver(well_posed=None)
    return ScaledGMRES(100 * float(jnp.finfo(common_dtype(y)).eps))


def _check_structure(place, y, out):
    def described(tree):
        return jax.tree.map(lambda x: f"{jnp.result_type(x)}{list(jnp.shape(x))}", tree)

    given, returned = described(y), described(out)
    if given != returned:
        raise ValueError(f"{place}: fn must return what y is, {given}, got {returned}")
