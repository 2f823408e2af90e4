"""A solver that is chosen while the program runs."""

from collections.abc import Callable
from typing import Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
from jax.core import Tracer
from jaxtyping import PyTree

from simkit_solvers.numerics.scalar import Scalar
from simkit_solvers.problems.problem import AbstractODE


class SwitchedSolver(eqx.Module):
    """One of several solvers, chosen for each path inside the compiled program.

    `which` is an integer or a boolean scalar, the position in `solvers`. It is traced, so that another one
    needs no recompilation, and `vmap` may map it over paths. Or it is a function of `(problem, y)` that
    returns one and is called before each step; where its value changes, the solver that takes over starts
    afresh from there. One with traced numbers of its own has to be an equinox module with these as
    fields. The solvers need not be of one kind, but each must fit the problem; the noise has the Lévy areas
    that the most demanding one wants. A traced position outside the range counts as the nearest one.

    For one path only the chosen solver is computed. Under `vmap` with a position of each path's own all are,
    and one is chosen. A choice that changes along a path makes the step map discontinuous: a symplectic
    solver is then symplectic in between only.

    This is for `integrate`; the records of the registry are of its parts. Raises `ValueError` for no solvers,
    for a position that is not a whole number, and for a known one that is not in the range.

    >>> import jax.numpy as jnp
    >>> from simkit_physics import GBM
    >>> from simkit_solvers import EulerMaruyama, Milstein, SwitchedSolver
    >>> solver = SwitchedSolver((EulerMaruyama(), Milstein()), which=jnp.int32(1))
    >>> int(solver.position(GBM(mu=0.05, sigma=0.2), GBM.State(S=100.0)))
    1
    """

    solvers: tuple
    which: Scalar | Callable[[Any, Any], Any]

    def __check_init__(self):
        if not self.solvers:
            raise ValueError("SwitchedSolver.solvers: give at least one solver, got none")
        if callable(self.which):
            return
        position = self._whole(self.which)
        if not isinstance(position, Tracer) and not 0 <= int(position) < len(self.solvers):
            raise ValueError(
                f"SwitchedSolver.which: must be from 0 to {len(self.solvers) - 1} for {len(self.solvers)} "
                f"solvers, got {int(position)}"
            )

    def position(self, problem: AbstractODE, y: PyTree) -> jax.Array:
        """Which solver takes the step from the state `y`, an int32 scalar."""
        return self._whole(self.which(problem, y) if callable(self.which) else self.which)

    def _whole(self, value) -> jax.Array:
        kind, shape = jnp.result_type(value), jnp.shape(value)
        if shape or not (jnp.issubdtype(kind, jnp.integer) or kind == jnp.bool_):
            raise ValueError(
                f"SwitchedSolver.which: must be an integer or boolean scalar, got {kind.name} of shape "
                f"{shape}; map over paths by `vmap`, and compare an energy to make a choice of it"
            )
        return jnp.asarray(value, jnp.int32)


Solver = diffrax.AbstractSolver | SwitchedSolver
