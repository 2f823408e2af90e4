"""GMRES whose tolerance has no unit."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import lineax as lx
import optimistix as optx

from simkit_solvers.numerics.delegated import delegated


class ScaledGMRES(lx.AbstractLinearSolver):
    """lineax's GMRES on the right-hand side divided by its size.

    lineax takes vectors below the rounding unit for zero, whatever their unit, and wants each component of
    the residual to be small compared with its own right-hand side. Here the residual is at most `tolerance`
    of the largest component. `restart` is the size of the Krylov space, `max_steps` the number of restarts.
    """

    tolerance: Any  # a number, traced or not
    restart: int = eqx.field(static=True, default=20)
    max_steps: int | None = eqx.field(static=True, default=None)

    init = delegated("gmres")
    transpose = delegated("gmres")
    conj = delegated("gmres")
    assume_full_rank = delegated("gmres")

    @property
    def gmres(self) -> lx.GMRES:
        """lineax's own, with these tolerances."""
        return lx.GMRES(
            rtol=self.tolerance, atol=self.tolerance, restart=self.restart, max_steps=self.max_steps
        )

    def compute(self, state, vector, options):
        size = optx.max_norm(vector)
        size = jnp.where(size > 0, size, jnp.ones_like(size))
        scaled = jax.tree.map(lambda x: x / size.astype(x.dtype), vector)
        solution, result, stats = self.gmres.compute(state, scaled, options)
        return jax.tree.map(lambda x: x * size.astype(x.dtype), solution), result, stats
