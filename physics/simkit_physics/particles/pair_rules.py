r"""Derivatives of sums over pairs: rules, by which no reverse pass crosses a loop of dynamic length or
scatters.

All that a sum over pairs gives is in the gradient of one number, the weighted sum $S(x, \theta, w) = w_E U +
\sum_{ab} w_{ab} W_{ab}$ of energy and virial: in the positions $x$ it is minus the force (at $w_E = 1$, all
other weights 0), in the weights it is the totals, and in the parameters $\theta$ of potential and box it is
what a fit needs. The derivative of a gradient is symmetric, so that its reverse pass is its forward pass.
"""

import abc
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int
from simkit_solvers import AbstractForces, PairTotals, Particles, Tensor, Vector, self_adjoint


class Places(NamedTuple):
    """What a sum over pairs needs of the particles besides their positions."""

    species: Int[Array, " places"]
    real: Bool[Array, " places"] | None  # none if all are

    @classmethod
    def of(cls, particles: Particles) -> "Places":
        return cls(particles.species, None if particles.count == particles.places else particles.real)


class AbstractPairForces(AbstractForces):
    """Forces of pairs, with rules for their derivatives.

    The gradient of the energy is minus the force; forces have derivatives in positions and in the parameters
    of potential and box, forward and reverse; energy and virial too. The list has none.
    """

    def forces(self, particles: Particles, listed: Any) -> Vector:
        return _forces(particles.position, self, Places.of(particles), listed)

    def totals(self, particles: Particles, listed: Any) -> tuple[Vector, PairTotals]:
        return _totals(particles.position, self, Places.of(particles), listed)

    @abc.abstractmethod
    def sum_forces(self, position: Vector, places: Places, listed: Any) -> Vector:
        """The force on each particle, by a fast program."""

    @abc.abstractmethod
    def sum_totals(self, position: Vector, places: Places, listed: Any) -> tuple[Vector, PairTotals]:
        """The forces, the energy and the virial, by a fast program."""

    @abc.abstractmethod
    def gradient(
        self, position: Vector, places: Places, listed: Any, weights: PairTotals
    ) -> tuple[Vector, Any, PairTotals]:
        """The gradients of S in positions, in the numbers of this module and in the weights."""

    @abc.abstractmethod
    def differentiable(self) -> "AbstractPairForces":
        """These forces, in programs that JAX can differentiate forward."""


@eqx.filter_custom_jvp
def _forces(position, model, places, listed):
    return model.sum_forces(position, places, listed)


@_forces.def_jvp
def _forces_jvp(primals, tangents):
    position, model, places, listed = primals
    change, model_change, _, _ = tangents
    F = _forces(*primals)
    if not jax.tree.leaves(model_change):
        return F, _force_change(position, model, places, listed, _or_zeros(position, change))
    changes = _joint_change(position, model, places, listed, _of_energy(F), (change, model_change, None))
    return F, changes[0].times(-1)


@eqx.filter_custom_jvp
def _totals(position, model, places, listed):
    return model.sum_totals(position, places, listed)


@_totals.def_jvp
def _totals_jvp(primals, tangents):
    position, model, places, listed = primals
    change, model_change, _, _ = tangents
    F, sums = _totals(*primals)
    weights = _of_energy(F)
    gradient_change, _, sums_change = _joint_change(
        position, model, places, listed, weights, (change, model_change, None)
    )
    energy_change = -jnp.sum(F.dot(_or_zeros(position, change)))
    if jax.tree.leaves(model_change):
        slopes = _gradient(position, model, weights, places, listed)[1]
        products = jax.tree.map(_product, slopes, _or_zeros(slopes, model_change))
        energy_change += sum(jax.tree.leaves(products))
    return (F, sums), (gradient_change.times(-1), sums_change._replace(energy=energy_change))


@eqx.filter_custom_jvp
def _gradient(position, model, weights, places, listed):
    return model.differentiable().gradient(position, places, listed, weights)


@_gradient.def_jvp
def _gradient_jvp(primals, tangents):
    position, model, weights, places, listed = primals
    change, model_change, weights_change, _, _ = tangents
    changes = (change, model_change, weights_change)
    return _gradient(*primals), _joint_change(position, model, places, listed, weights, changes)


def _force_change(position, model, places, listed, change: Vector) -> Vector:
    """The Hessian of minus the energy times a change of the positions."""
    arrays, rest = eqx.partition((position, model.differentiable(), places, listed), eqx.is_array)

    def hessian(arrays, change):
        position, model, places, listed = eqx.combine(arrays, rest)

        def forces(x):
            return jnp.stack(model.sum_forces(Vector(*x), places, listed))

        return jax.jvp(forces, (jnp.stack(position),), (change,))[1]

    return Vector(*self_adjoint(hessian, arrays, jnp.stack(change)))


def _joint_change(position, model, places, listed, weights, changes):
    """The change of the gradient of S with changes of positions, parameters and weights, any of which may be
    none."""
    model = model.differentiable()
    numbers, rest = eqx.partition(model, eqx.is_inexact_array)
    at = (position, numbers, weights)
    more, fixed = eqx.partition((rest, places, listed), eqx.is_array)

    def hessian(arrays, vector):
        at, more = arrays
        rest, places, listed = eqx.combine(more, fixed)

        def gradient(position, numbers, weights):
            return eqx.combine(numbers, rest).gradient(position, places, listed, weights)

        return _joined(jax.jvp(gradient, at, _split(vector, at))[1])

    vector = _joined([_or_zeros(*each) for each in zip(at, changes, strict=True)])
    return _split(self_adjoint(hessian, (at, more), vector), at)


def _of_energy(like: Vector) -> PairTotals:
    """Weights with which S is the energy."""
    one, zero = jnp.ones((), like.x.dtype), jnp.zeros((), like.x.dtype)
    return PairTotals(one, Tensor(*(zero,) * 6))


def _or_zeros(like: Any, change: Any) -> Any:
    """A change of the numbers of a pytree, of which parts or all may be none."""
    leaves, structure = jax.tree.flatten(like, is_leaf=_is_none)
    changes = [None] * len(leaves) if change is None else jax.tree.leaves(change, is_leaf=_is_none)
    pairs = zip(leaves, changes, strict=True)
    return structure.unflatten([jnp.zeros_like(x) if dx is None and x is not None else dx for x, dx in pairs])


def _is_none(x: Any) -> bool:
    return x is None


def _product(slope: Float[Array, "..."], change: Float[Array, "..."]) -> Float[Array, ""]:
    return jnp.sum(slope * change)


def _joined(tree: Any) -> Float[Array, " numbers"]:
    """All numbers of a pytree in one array."""
    leaves = jax.tree.leaves(tree)
    return jnp.concatenate([jnp.ravel(leaf).astype(leaves[0].dtype) for leaf in leaves])


def _split(vector: Float[Array, " numbers"], like: Any) -> Any:
    """The pytree of the numbers of one array."""
    leaves, structure = jax.tree.flatten(like)
    parts = []
    for leaf in leaves:
        part, vector = vector[: leaf.size], vector[leaf.size :]
        parts.append(part.reshape(leaf.shape).astype(leaf.dtype))
    return structure.unflatten(parts)
