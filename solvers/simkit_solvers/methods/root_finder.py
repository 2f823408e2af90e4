"""Root finding inside implicit solvers: tolerances, and when an iteration ends."""

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import optimistix as optx
from jaxtyping import PyTree

from simkit_solvers.grids.adaptive_grid import Tolerances
from simkit_solvers.numerics.delegated import delegated
from simkit_solvers.numerics.scalar import Scalar

ROOT_TOLERANCE = {jnp.dtype(jnp.float32): 1e-4, jnp.dtype(jnp.float64): 1e-9}
UNSET = diffrax.with_stepsize_controller_tols(optx.Newton)().rtol  # diffrax's mark of a tolerance left open


class EndedByChanges(optx.AbstractRootFinder):
    """A Newton or chord iteration that also ends when its last change is `kappa` of the tolerance.

    diffrax's own gives up after two rounds unless they were enough, and judges by the ratio of the last two
    changes, which on an easy equation are both rounding errors. This one goes on until it diverges or runs
    out of rounds.
    """

    finder: diffrax.VeryChord | optx.Chord | optx.Newton

    rtol = delegated("finder")
    atol = delegated("finder")
    norm = delegated("finder")
    init = delegated("finder")
    step = delegated("finder")
    postprocess = delegated("finder")

    def terminate(self, fn, y, args, options, state, tags):
        stop, result = self.finder.terminate(fn, y, args, options, state, tags)
        result = optx.RESULTS.where(stop, result, optx.RESULTS.successful)
        small = (state.diffsize < self.finder.kappa) & (state.result == optx.RESULTS.successful)
        return stop | small, optx.RESULTS.where(small, optx.RESULTS.successful, result)


def with_tolerances(solver: diffrax.AbstractSolver, y: PyTree, dt: Scalar) -> diffrax.AbstractSolver:
    """A solver for a step of length `dt` from `y`, the tolerances of its root finder chosen where left open.

    diffrax would take those from the adaptive step-size controller, and a fixed grid has none. Ours are
    relative to the largest variable: rounding errors are, and no absolute one suits every unit. A solver that
    is not implicit is returned as it is.
    """
    if not isinstance(solver, diffrax.AbstractImplicitSolver):
        return solver
    leaves = jax.tree.leaves(y)
    dtype = jnp.result_type(*leaves)
    rtol = ROOT_TOLERANCE[dtype]
    largest = jnp.max(jnp.stack([jnp.max(jnp.abs(x)) for x in leaves]))
    # The unknowns are slopes, but for the implicit Euler methods, whose unknown is the change of the state.
    changes = isinstance(solver, diffrax.ImplicitEuler | diffrax.AbstractItoSolver)
    size = largest if changes else largest / dt
    atol = jax.lax.stop_gradient(rtol * size) + float(jnp.finfo(dtype).tiny)
    finder = _completed(solver.root_finder, rtol, atol, optx.max_norm)
    if isinstance(finder, diffrax.VeryChord | optx.Chord | optx.Newton):
        finder = EndedByChanges(finder)
    return _with_finder(solver, finder)


def no_finer_than(finder: optx.AbstractRootFinder, y: PyTree) -> optx.AbstractRootFinder:
    """A root finder whose absolute tolerance is at least its relative one times the largest number in `y`.

    Where noise moves a state from zero, what it was before says nothing about the rounding of what it
    becomes.
    """
    largest = jnp.max(jnp.stack([jnp.max(jnp.abs(x)) for x in jax.tree.leaves(y)]))
    atol = jnp.maximum(finder.atol, finder.rtol * jax.lax.stop_gradient(largest))
    if isinstance(finder, EndedByChanges):
        return EndedByChanges(eqx.tree_at(lambda f: f.atol, finder.finder, atol))
    return eqx.tree_at(lambda f: f.atol, finder, atol)


def for_adaptive_steps(solver: diffrax.AbstractSolver, tolerances: Tolerances) -> diffrax.AbstractSolver:
    """A solver for steps of adaptive length, whose Newton iteration ends by its changes.

    By itself it would end where residuals are below `atol`. These are slopes: with time in nanoseconds
    rounding alone is larger and steps fail, with time in years they are below it unsolved. A solver with
    another root finder, or that is not implicit, is returned as it is.
    """
    if not (
        isinstance(solver, diffrax.AbstractImplicitSolver) and isinstance(solver.root_finder, optx.Newton)
    ):
        return solver
    finder = _completed(solver.root_finder, tolerances.rtol, tolerances.atol, optx.rms_norm)
    return _with_finder(solver, EndedByChanges(eqx.tree_at(lambda f: f.cauchy_termination, finder, False)))


def _completed(finder, rtol, atol, norm):
    """A root finder with a choice for whatever it leaves open."""
    chosen = [
        default if value is UNSET else value
        for value, default in zip((finder.rtol, finder.atol, finder.norm), (rtol, atol, norm), strict=True)
    ]
    return eqx.tree_at(lambda f: (f.rtol, f.atol, f.norm), finder, chosen, is_leaf=lambda x: x is UNSET)


def _with_finder(solver, finder):
    return eqx.tree_at(lambda s: s.root_finder, solver, finder, is_leaf=lambda x: x is solver.root_finder)
