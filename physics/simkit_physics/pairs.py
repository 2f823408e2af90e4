r"""Energy and forces of particles that interact in pairs, over a list of neighbours.

$U = \tfrac12 \sum_i \sum_{j \in N(i)} \varphi(r_{ij}^2)$ and
$F_i = -2 \sum_{j \in N(i)} \varphi'(r_{ij}^2)\,(x_i - x_j)$. The list is full: where j is a neighbour of i, i
is one of j. So sums over neighbours gather and never scatter, and by two rules neither do their derivatives:
that of the energy is the force, and that of the forces, the Hessian of the energy, is its own transpose.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int, PyTree
from simkit_solvers import self_adjoint


class PairInputs(NamedTuple):
    """All that a pair sum depends on except the positions.

    `box` `(dimensions,)` has the sides of a periodic box, or is None.

    >>> from simkit_physics import PairInputs
    >>> PairInputs(args={"A": 1.0}, box=None)
    PairInputs(args={'A': 1.0}, box=None)
    """

    args: Any
    box: jax.Array | None


class PairSum(eqx.Module):
    """The sums over a list of neighbours, as programs.

    `neighbours` are whole numbers `(most, particles)`, as for `pair_forces`.

    >>> import jax.numpy as jnp
    >>> from simkit_physics import PairInputs, PairSum
    >>> pair = PairSum(jnp.array([[1, 0]]), lambda r2, A: A * (r2 - 4.0) ** 2, cutoff=2.0)
    >>> positions = jnp.array([[0.0, 1.0]])
    >>> float(pair.energy(positions, PairInputs(args=1.0, box=None)))
    9.0
    """

    neighbours: jax.Array
    potential: Callable = eqx.field(static=True)
    cutoff: float = eqx.field(static=True)

    def energy(self, positions: Float[Array, "dimensions particles"], inputs: PairInputs) -> Float[Array, ""]:
        """Half of each pair at both of its ends."""

        def of_pair(r2, difference):
            return self._if_near(r2, lambda r2: self.potential(r2, inputs.args))

        return 0.5 * jnp.sum(self._over_columns(of_pair, jnp.zeros_like(positions[0]), positions, inputs.box))

    def forces(
        self, positions: Float[Array, "dimensions particles"], inputs: PairInputs
    ) -> Float[Array, "dimensions particles"]:
        """The force on each particle, by the slope of the potential."""

        def of_pair(r2, difference):
            def slope(r2):
                return jax.jvp(lambda r2: self.potential(r2, inputs.args), (r2,), (jnp.ones_like(r2),))[1]

            return -2 * self._if_near(r2, slope) * difference

        return self._over_columns(of_pair, jnp.zeros_like(positions), positions, inputs.box)

    def _if_near(self, r2, function: Callable):
        """The function of r2, or 0 for a particle with itself or with one too far away."""
        near = (r2 > 0) & (r2 < self.cutoff**2)
        return jnp.where(near, function(jnp.where(near, r2, self.cutoff**2)), 0)

    def _over_columns(self, of_pair: Callable, zero, positions, box):
        """The sum over neighbours of `of_pair(r2, difference)`, of all particles and a column of the list."""

        @jax.checkpoint  # the reverse pass stores positions alone
        def column(total, j):
            difference = positions - positions[:, j]
            if box is not None:
                difference -= box[:, None] * jnp.round(difference / box[:, None])
            return total + of_pair(jnp.sum(difference**2, axis=0), difference), None

        return jax.lax.scan(column, zero, self.neighbours)[0]


def pair_energy(
    potential: Callable,
    positions: Float[ArrayLike, "dimensions particles"],
    neighbours: Int[ArrayLike, "most particles"],
    args: PyTree = None,
    *,
    cutoff: float,
    box: Float[ArrayLike, " dimensions"] | None = None,
) -> Float[Array, ""]:
    """The energy of all pairs nearer than `cutoff`, a scalar; all else is as for `pair_forces`.

    >>> import jax.numpy as jnp
    >>> from simkit_physics import pair_energy
    >>> def potential(r2, A):
    ...     return A * (4.0 - r2) ** 2
    >>> positions = jnp.array([[0.0, 1.0], [0.0, 0.0]])  # two particles in the plane
    >>> float(pair_energy(potential, positions, jnp.array([[1, 0]]), 1.0, cutoff=2.0))
    9.0
    """
    return _energy(*_checked(potential, positions, neighbours, args, cutoff, box))


def pair_forces(
    potential: Callable,
    positions: Float[ArrayLike, "dimensions particles"],
    neighbours: Int[ArrayLike, "most particles"],
    args: PyTree = None,
    *,
    cutoff: float,
    box: Float[ArrayLike, " dimensions"] | None = None,
) -> Float[Array, "dimensions particles"]:
    r"""The force on each particle, `(dimensions, particles)`, the gradient of `-pair_energy`.

    `potential(r2, args)` is the energy of one pair at the squared distance `r2`, $\varphi$, written for JAX;
    numbers to take derivatives in stand in `args`, a pytree. `positions` are `(dimensions, particles)`,
    `neighbours` `(most, particles)` whole numbers: in column i the neighbours of i, padded with i itself.
    `box` `(dimensions,)` are the sides of a periodic box, whose nearest images count; None is open space.

    Derivatives are of any order, forward and reverse, in positions, `args` and `box`. The list has none: it
    must name all pairs nearer than `cutoff`, where the potential should end smoothly.

    Raises `ValueError` for arrays of other shapes.

    >>> import jax.numpy as jnp
    >>> from simkit_physics import pair_forces
    >>> def potential(r2, A):
    ...     return A * (4.0 - r2) ** 2
    >>> positions = jnp.array([[0.0, 1.0], [0.0, 0.0]])  # two particles in the plane
    >>> pair_forces(potential, positions, jnp.array([[1, 0]]), 1.0, cutoff=2.0).tolist()
    [[-12.0, 12.0], [0.0, 0.0]]
    """
    return _forces(*_checked(potential, positions, neighbours, args, cutoff, box))


def _checked(potential, positions, neighbours, args, cutoff, box):
    positions, neighbours = jnp.asarray(positions), jnp.asarray(neighbours)
    shape, listed = positions.shape, neighbours.shape
    if len(shape) != 2 or len(listed) != 2 or shape[1] != listed[1]:
        raise ValueError(
            f"positions must be (dimensions, particles), neighbours (most, particles), got {shape}, {listed}"
        )
    if not jnp.issubdtype(neighbours.dtype, jnp.integer):
        raise ValueError(f"neighbours must be whole numbers, got {neighbours.dtype}")
    if box is not None and jnp.shape(box) != shape[:1]:
        raise ValueError(f"box must have {shape[0]} sides, one a dimension, got the shape {jnp.shape(box)}")
    box = None if box is None else jnp.asarray(box, positions.dtype)
    return positions, PairInputs(args, box), PairSum(neighbours, potential, cutoff)


@eqx.filter_custom_jvp
def _energy(positions, inputs, run):
    return run.energy(positions, inputs)


@_energy.def_jvp
def _energy_jvp(primals, tangents):
    (positions, inputs, run), (change, inputs_change, _) = primals, tangents
    U, dU = eqx.filter_jvp(lambda inputs: run.energy(positions, inputs), (inputs,), (inputs_change,))
    if change is not None:
        dU = _plus(dU, -jnp.sum(_forces(positions, inputs, run) * change))
    return U, dU


@eqx.filter_custom_jvp
def _forces(positions, inputs, run):
    return run.forces(positions, inputs)


@_forces.def_jvp
def _forces_jvp(primals, tangents):
    (positions, inputs, run), (change, inputs_change, _) = primals, tangents
    F, dF = eqx.filter_jvp(lambda inputs: run.forces(positions, inputs), (inputs,), (inputs_change,))
    if change is not None:

        def hessian(at, change):
            positions, inputs, run = at
            return jax.jvp(lambda x: run.forces(x, inputs), (positions,), (change,))[1]

        dF = _plus(dF, self_adjoint(hessian, primals, change))
    return F, dF


def _plus(change, more):
    """Two changes, of which the first may be none."""
    return more if change is None else change + more
