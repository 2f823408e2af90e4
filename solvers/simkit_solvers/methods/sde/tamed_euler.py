"""The tamed Euler method."""

import diffrax
import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from simkit_solvers.methods.one_step import AbstractOneStep, total
from simkit_solvers.methods.solver_info import Orders, SolverInfo
from simkit_solvers.methods.step_types import Terms, Time


class TamedEuler(AbstractOneStep, diffrax.AbstractItoSolver):
    r"""Tamed Euler, $y_{n+1} = y_n + \frac{f h}{1 + h\,|f|} + g\,\Delta W$, for Itô problems.

    The part of the drift in a step is bounded by one in the Euclidean norm over all variables, so that means
    stay finite where the drift grows faster than linearly and pulls inwards; there Euler–Maruyama's become
    infinite. Strong order 0.5 (1 for additive noise), weak order 1.
    Reference: Hutzenthaler, Jentzen & Kloeden (2012), Strong convergence of an explicit numerical method for
    SDEs with nonglobally Lipschitz continuous coefficients, doi:10.1214/11-AAP803.
    """

    def advance(self, terms: Terms, t0: Time, t1: Time, y0: PyTree, args: PyTree) -> PyTree:
        drift, noise = terms.terms
        change = drift.vf_prod(t0, y0, args, drift.contr(t0, t1))
        leaves = jax.tree.leaves(change)
        # Scaled by the largest entry, whose square would overflow; where all are zero, so is the norm.
        # The norm does not depend on the scale, and the derivative of a maximum does on how it was rounded.
        largest = jax.lax.stop_gradient(jnp.stack([jnp.max(jnp.abs(x)) for x in leaves]).max())
        size = jnp.where(largest > 0, largest, 1)
        norm = size * jnp.sqrt(sum(jnp.sum((x / size) ** 2) for x in leaves) + jnp.finfo(size.dtype).tiny)
        tamed = jax.tree.map(lambda x: x / (1 + norm), change)
        return total(y0, tamed, noise.vf_prod(t0, y0, args, noise.contr(t0, t1)))


TAMED_EULER = SolverInfo(
    TamedEuler,
    "Tamed Euler method for Itô problems whose drift grows faster than linearly.",
    calculus="ito",
    strong=Orders(1.0, 0.5, 0.5),
    weak=Orders(1.0, 1.0, 1.0),
    one_to_one=True,
)
