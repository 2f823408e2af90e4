"""Derivatives of pair sums by their rules against JAX's own of a dense sum over all pairs."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pair_sum_in_numpy import CUTOFFS, EPSILON, SIGMA, bricks, scattered, skewed
from simkit_physics import LennardJones, ShiftedForce, complete_list, forces_for
from simkit_physics.particles import choice
from simkit_solvers import PairTotals, Particles, Tensor, Vector

pytestmark = pytest.mark.more

COMPONENTS = ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))
COUNT = 60
BOXES = {"orthorhombic": bricks(7.0, 7.5, 8.0), "triclinic": skewed(8.0, 7.5, 7.0)}


def potential() -> ShiftedForce:
    part = slice(2), slice(2)
    pair = LennardJones(epsilon=jnp.asarray(EPSILON[part]), sigma=jnp.asarray(SIGMA[part]))
    return ShiftedForce(pair, jnp.asarray(CUTOFFS[part]))


def dense_totals(forces, position: Vector, species) -> PairTotals:
    """Energy and virial over one array of all pairs with their nearest images."""
    d = forces.box.nearest(Vector(*(c[:, None] - c[None] for c in position)))
    itself = jnp.eye(len(species), dtype=bool)
    r2 = jnp.where(itself, 1e6, d.dot(d))
    pair = forces.potential.of_pair(species[:, None], species[None])
    strength = -2 * pair.slope(r2)
    virial = (0.5 * jnp.sum(strength * d[a] * d[b]) for a, b in COMPONENTS)
    return PairTotals(0.5 * jnp.sum(pair.energy(r2)), Tensor(*virial))


def weighted(totals: PairTotals) -> jax.Array:
    """One number of energy and virial, with weights that differ."""
    return totals.energy + sum(w * each for w, each in zip(0.1 * np.arange(1, 7), totals.virial, strict=True))


class Case:
    """One configuration, with its list and with the dense sum, as functions of positions and parameters."""

    def __init__(self, box: str, listed: bool, precision: str = "float64"):
        few, choice.FEW = choice.FEW, 0 if listed else choice.FEW
        rows = scattered(COUNT, (7, 7, 7))
        species = np.random.default_rng(2).integers(0, 2, COUNT)
        forces = forces_for(Particles.of(rows, species=species), BOXES[box], potential(), precision)
        self.forces, self.particles, self.list = complete_list(*forces)
        choice.FEW = few
        self.numbers, self.rest = eqx.partition(self.forces, eqx.is_inexact_array)
        rng = np.random.default_rng(4)
        shape = self.particles.position.x.shape
        real = np.asarray(self.particles.real)
        self.change, self.other = (Vector(*(real * rng.standard_normal((3, *shape)))) for _ in range(2))
        self.numbers_change = jax.tree.map(lambda a: 0.1 * jnp.ones_like(a), self._physical(self.numbers))
        self.real = real

    def _physical(self, numbers):
        """Without skin and largest cutoff, which change nothing."""
        zeros = {name: 0 * getattr(numbers, name) for name in ("skin", "cutoff") if hasattr(numbers, name)}
        return dataclasses.replace(numbers, **zeros)

    def sums(self, position: Vector, numbers):
        forces = eqx.combine(numbers, self.rest)
        return forces.totals(self.particles.moved(position), self.list)

    def forces_at(self, position: Vector, numbers):
        return eqx.combine(numbers, self.rest).forces(self.particles.moved(position), self.list)

    def dense(self, position: Vector, numbers):
        position = Vector(*(c[self.real] for c in position))
        species = self.particles.species[self.real]
        return dense_totals(eqx.combine(numbers, self.rest), position, species)

    def dense_forces(self, position: Vector, numbers):
        return jax.grad(lambda x: -self.dense(x, numbers).energy)(position)


CASES = [("orthorhombic", True), pytest.param(("triclinic", False), marks=pytest.mark.slow)]


@pytest.fixture(scope="module", params=CASES, ids=["lists", "all pairs"])
def case(request):
    return Case(*request.param)


def agree(ours, theirs, within: float = 1e-10):
    for one, other in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=within * (1e-300 + np.abs(other).max()))


def physical(numbers):
    """The parameters of potential and box among the numbers of forces."""
    return numbers.potential, numbers.box


def test_gradients_of_energy_and_virial(case):
    """In positions, in the parameters of the potential and in the box, backward."""

    def both(sums):
        return jax.jit(jax.grad(lambda x, numbers: weighted(sums(x, numbers)), (0, 1)))

    ours = both(lambda *at: case.sums(*at)[1])(case.particles.position, case.numbers)
    theirs = both(case.dense)(case.particles.position, case.numbers)
    agree(ours[0], theirs[0])
    agree(physical(ours[1]), physical(theirs[1]))


def test_the_gradient_of_the_energy_is_the_force_to_the_bit(case):
    force, slope = jax.jit(
        lambda x: (case.sums(x, case.numbers)[0], jax.grad(lambda x: case.sums(x, case.numbers)[1].energy)(x))
    )(case.particles.position)
    for f, g in zip(force, slope, strict=True):
        np.testing.assert_array_equal(f, -g)


def test_forces_have_derivatives_forward_and_backward(case):
    """Hessian-vector products, changes of forces with parameters, and both the other way round."""
    at = case.particles.position, case.numbers

    def forward(forces):
        return jax.jit(lambda: jax.jvp(forces, at, (case.change, case.numbers_change))[1])()

    def backward(forces):
        return jax.jit(lambda: jax.vjp(forces, *at)[1](case.other))()

    agree(forward(case.forces_at), forward(case.dense_forces))
    ours, theirs = backward(case.forces_at), backward(case.dense_forces)
    agree(ours[0], theirs[0])
    agree(physical(ours[1]), physical(theirs[1]))


def test_hessian_vector_products_in_positions_alone(case):
    def product(forces):
        return jax.jit(lambda x, dx: jax.jvp(lambda x: forces(x, case.numbers), (x,), (dx,))[1])

    x, change, other = case.particles.position, case.change, case.other
    ours = product(case.forces_at)
    agree(ours(x, change), product(case.dense_forces)(x, change))
    assert float(jnp.sum(other.dot(ours(x, change)))) == pytest.approx(
        float(jnp.sum(change.dot(ours(x, other)))), rel=1e-10
    )


@pytest.mark.slow
def test_second_derivatives_in_parameters(case):
    """Of the energy, forward over reverse and reverse over reverse."""

    def slope(sums):
        def along(numbers):
            gradient = jax.grad(lambda n: sums(case.particles.position, n).energy)(numbers)
            parts = zip(
                jax.tree.leaves(physical(gradient)),
                jax.tree.leaves(physical(case.numbers_change)),
                strict=True,
            )
            return sum(jnp.sum(a * b) for a, b in parts)

        return along

    ours, theirs = slope(lambda *at: case.sums(*at)[1]), slope(case.dense)
    for second in (
        lambda f: jax.jit(lambda: jax.jvp(f, (case.numbers,), (case.numbers_change,))[1])(),
        lambda f: physical(jax.jit(jax.grad(f))(case.numbers)),
    ):
        agree(second(ours), second(theirs))


def test_no_reverse_pass_scatters_or_crosses_a_loop(case):
    """What a reverse pass does is a sum over pairs again."""
    program = jax.make_jaxpr(lambda x: jax.vjp(lambda x: case.forces_at(x, case.numbers), x)[1](case.other))
    assert "scatter" not in str(program(case.particles.position))


def test_derivatives_of_forces_do_not_pass_through_fixed_point():
    case, h = Case("orthorhombic", True, "mixed"), 1e-3
    assert case.forces.fixed_point
    at, along = case.particles.position, case.change
    both = jax.jit(lambda x: jax.jvp(lambda x: case.forces_at(x, case.numbers), (x,), (along,)))
    (before, _), (_, slope), (after, _) = (both(at.plus(k * h, along)) for k in (-1, 0, 1))
    agree(slope, after.plus(-1, before).times(0.5 / h), within=1e-3)


@pytest.mark.slow
def test_mixed_precision_has_the_derivatives_of_float64():
    """Also where positions are in fixed point, through which no derivative passes."""
    mixed, exact = Case("orthorhombic", True, "mixed"), Case("orthorhombic", True)
    assert mixed.forces.fixed_point

    def derivatives(case):
        at = case.particles.position, case.numbers
        change = case.change, case.numbers_change
        return jax.jit(lambda: jax.jvp(lambda *at: (case.forces_at(*at), case.sums(*at)[1]), at, change)[1])()

    agree(derivatives(mixed), derivatives(exact), within=1e-4)
