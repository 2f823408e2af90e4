"""Root finding inside implicit solvers on a fixed grid: tolerances, and when an iteration has arrived."""

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import optimistix as optx

from simkit_solvers.drift_implicit import AbstractDriftImplicit

ROOT_TOLERANCE = {jnp.dtype(jnp.float32): 1e-4, jnp.dtype(jnp.float64): 1e-9}
UNSET = diffrax.with_stepsize_controller_tols(optx.Newton)().rtol  # diffrax's mark of a tolerance left open


class Settled(optx.AbstractRootFinder):
    """A Newton or chord iteration for a step that cannot be tried again with a shorter one.

    diffrax's own gives up after two rounds unless they were enough, and judges by the ratio of the last two
    changes, which on an easy equation are both rounding errors. This one goes on until it diverges or runs
    out of rounds, and has also arrived when its last change is `kappa` of the tolerance.
    """

    finder: diffrax.VeryChord | optx.Chord | optx.Newton

    @property
    def rtol(self):
        return self.finder.rtol

    @property
    def atol(self):
        return self.finder.atol

    @property
    def norm(self):
        return self.finder.norm

    def init(self, *args, **kwargs):
        return self.finder.init(*args, **kwargs)

    def step(self, *args, **kwargs):
        return self.finder.step(*args, **kwargs)

    def terminate(self, fn, y, args, options, state, tags):
        stop, result = self.finder.terminate(fn, y, args, options, state, tags)
        result = optx.RESULTS.where(stop, result, optx.RESULTS.successful)
        settled = (state.diffsize < self.finder.kappa) & (state.result == optx.RESULTS.successful)
        return stop | settled, optx.RESULTS.where(settled, optx.RESULTS.successful, result)

    def postprocess(self, *args, **kwargs):
        return self.finder.postprocess(*args, **kwargs)


def with_tolerances(solver, y, dt):
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
    # The unknowns are slopes, but for the implicit Euler methods, which ask for the change of the state.
    changes = isinstance(solver, diffrax.ImplicitEuler | AbstractDriftImplicit)
    size = largest if changes else largest / dt
    atol = jax.lax.stop_gradient(rtol * size) + float(jnp.finfo(dtype).tiny)
    finder = solver.root_finder
    chosen = [
        default if value is UNSET else value
        for value, default in zip(
            (finder.rtol, finder.atol, finder.norm), (rtol, atol, optx.max_norm), strict=True
        )
    ]
    finder = eqx.tree_at(lambda f: (f.rtol, f.atol, f.norm), finder, chosen, is_leaf=lambda x: x is UNSET)
    if isinstance(finder, diffrax.VeryChord | optx.Chord | optx.Newton):
        finder = Settled(finder)
    return eqx.tree_at(lambda s: s.root_finder, solver, finder, is_leaf=lambda x: x is solver.root_finder)
