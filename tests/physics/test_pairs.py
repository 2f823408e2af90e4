"""Pair forces over a list of neighbours: derivatives of every order against those of all pairs at once."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simkit_physics import pair_energy, pair_forces
from user_code import user_jit

CUTOFF = 2.0
ARGS = {"depth": jnp.asarray(1.3), "diameter": jnp.asarray(0.9)}
BOX = jnp.asarray([4.1, 4.4, 4.8])


def potential(r2, args):
    """Lennard-Jones, that ends smoothly at the cutoff."""
    s6 = (args["diameter"] ** 2 / r2) ** 3
    return 4 * args["depth"] * (s6**2 - s6) * (1 - r2 / CUTOFF**2) ** 2


def some_positions(particles: int, dimensions: int, seed: int):
    rng = np.random.default_rng(seed)
    cells = np.stack(np.meshgrid(*[np.arange(4)] * dimensions)).reshape(dimensions, -1)
    chosen = rng.permutation(cells.shape[1])[:particles]
    return jnp.asarray(1.05 * cells[:, chosen] + 0.1 * rng.standard_normal((dimensions, particles)))


def apart_of(x, box):
    separation = x[:, :, None] - x[:, None, :]
    return (
        separation
        if box is None
        else separation - box[:, None, None] * jnp.round(separation / box[:, None, None])
    )


def full_list(x, box, reach: float = CUTOFF + 0.2):
    """The neighbours of each, filled up with itself."""
    near = np.sum(np.asarray(apart_of(x, box)) ** 2, axis=0) < reach**2
    np.fill_diagonal(near, False)
    neighbours = np.tile(np.arange(x.shape[1]), (near.sum(0).max() + 1, 1))
    for i, column in enumerate(near.T):
        neighbours[: column.sum(), i] = np.flatnonzero(column)
    return jnp.asarray(neighbours)


def all_pairs(x, args, box):
    """The energy by one array of all pairs."""
    r2 = jnp.sum(apart_of(x, box) ** 2, axis=0)
    near = (r2 > 0) & (r2 < CUTOFF**2)
    return 0.5 * jnp.sum(jnp.where(near, potential(jnp.where(near, r2, 1.0), args), 0))


def programs(x, box):
    """Energy and forces by the list, and the energy of all pairs, as functions of (x, args, box)."""
    neighbours = full_list(x, box)
    return (
        lambda x, args, box: pair_energy(potential, x, neighbours, args, cutoff=CUTOFF, box=box),
        lambda x, args, box: pair_forces(potential, x, neighbours, args, cutoff=CUTOFF, box=box),
    )


def agree(actual, expected):
    leaves = jax.tree.leaves(expected)
    scale = max(float(jnp.max(jnp.abs(x))) for x in leaves)
    for a, b in zip(jax.tree.leaves(actual), leaves, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11 * scale)


@user_jit
def laws(x, neighbours, box):
    """Energy and forces by the list, and of all pairs."""
    by_list = {"neighbours": neighbours, "args": ARGS, "cutoff": CUTOFF, "box": box}
    energy, gradient = jax.value_and_grad(all_pairs)(x, ARGS, box)
    return pair_energy(potential, x, **by_list), pair_forces(potential, x, **by_list), energy, -gradient


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(dimensions=st.integers(2, 3), periodic=st.booleans(), seed=st.integers(0, 9999))
def test_forces_are_minus_the_gradient_of_all_pairs(dimensions, periodic, seed):
    x = some_positions(10, dimensions, seed)
    box = BOX[:dimensions] if periodic else None
    neighbours = full_list(x, box)
    padding = jnp.broadcast_to(jnp.arange(10), (12 - len(neighbours), 10))
    U, F, energy, forces = laws(x, jnp.concatenate([neighbours, padding]), box)
    assert float(U) == pytest.approx(float(energy), rel=1e-12)
    agree(F, forces)
    assert np.abs(F.sum(1)).max() <= 1e-12 * np.abs(F).max()  # Newton's third law


X = some_positions(20, 3, 1)
V = jnp.asarray(np.random.default_rng(2).standard_normal(X.shape))
ENERGY, FORCES = programs(X, BOX)


def other_forces(x, args, box):
    return -jax.grad(all_pairs)(x, args, box)


@pytest.mark.parametrize("mode", [jax.jacfwd, pytest.param(jax.jacrev, marks=pytest.mark.slow)])
class TestDerivatives:
    """In positions, parameters and the box, forward and reverse."""

    @pytest.mark.slow
    def test_of_the_energy(self, mode):
        agree(mode(ENERGY, (0, 1, 2))(X, ARGS, BOX), jax.grad(all_pairs, (0, 1, 2))(X, ARGS, BOX))

    @pytest.mark.more
    def test_of_the_forces(self, mode):
        agree(mode(FORCES, (0, 1, 2))(X, ARGS, BOX), jax.jacrev(other_forces, (0, 1, 2))(X, ARGS, BOX))

    @pytest.mark.slow
    def test_of_third_order(self, mode):
        def twice(forces):
            return lambda x, args: jax.grad(lambda x: jnp.vdot(forces(x, args, BOX), V))(x)

        agree(
            mode(twice(FORCES), (0, 1))(X, ARGS),
            user_jit(jax.jacrev(twice(other_forces), (0, 1)))(X, ARGS),
        )


@pytest.mark.slow
def test_a_map_over_batches_is_the_map_of_each():
    def back(forces):
        return lambda x, v: jax.vjp(lambda x: forces(x, ARGS, BOX), x)[1](v)[0]

    xs = jnp.stack([X, X + 0.01 * V, X - 0.02 * V])
    vs = jnp.stack([V, V**2, jnp.sin(V)], axis=-1)
    result = user_jit(jax.vmap(back(FORCES), (0, -1)))(xs, vs)
    agree(result, jnp.stack([back(FORCES)(x, v) for x, v in zip(xs, jnp.moveaxis(vs, -1, 0), strict=True)]))
    agree(jax.vmap(back(FORCES), (0, None))(xs, V), jnp.stack([back(FORCES)(x, V) for x in xs]))


def test_no_derivative_scatters():
    def compiled(function, *more):
        return user_jit(function).lower(X, ARGS, *more).compile().as_text()

    assert " scatter(" in compiled(jax.grad(lambda x, args: x[0, jnp.arange(20) // 2].sum()))  # how it looks
    for forces in (FORCES, jax.grad(ENERGY)):

        def work(x, args, forces=forces):
            return jnp.vdot(forces(x, args, BOX), V)

        assert " scatter(" not in compiled(forces, BOX)
        assert " scatter(" not in compiled(jax.grad(work, (0, 1)))


def test_a_way_back_keeps_no_pairs():
    """What the reverse pass of the forces keeps does not grow with the neighbours."""
    kept = []
    for reach in (CUTOFF, 4.0):
        neighbours = full_list(X, BOX, reach)

        def work(x, args, neighbours=neighbours):
            return jnp.vdot(pair_forces(potential, x, neighbours, args, cutoff=CUTOFF, box=BOX), V)

        back = user_jit(jax.grad(work, (0, 1))).lower(X, ARGS).compile()
        kept.append(back.memory_analysis().temp_size_in_bytes - neighbours.nbytes)
    assert kept[1] < 1.5 * kept[0]


@pytest.mark.slow
def test_a_trajectory_has_the_gradients_of_all_pairs_and_keeps_its_energy():
    h = 0.002

    def after(forces, x, args):
        def step(state, _):
            x, p = state
            p = p + 0.5 * h * forces(x, args, BOX)
            x = x + h * p
            return (x, p + 0.5 * h * forces(x, args, BOX)), None

        return jax.lax.scan(step, (x, jnp.zeros_like(x)), None, 40)[0]

    def spread(forces):
        return user_jit(jax.value_and_grad(lambda x, args: jnp.sum(after(forces, x, args)[1] ** 2), (0, 1)))

    x, p = after(FORCES, X, ARGS)
    initial, final = ENERGY(X, ARGS, BOX), ENERGY(x, ARGS, BOX) + 0.5 * jnp.sum(p**2)
    assert float(jnp.sum(p**2)) > 1.0
    assert final == pytest.approx(float(initial), abs=2e-3 * float(jnp.sum(p**2)))
    agree(spread(FORCES)(X, ARGS), spread(other_forces)(X, ARGS))


@pytest.mark.parametrize(
    ("positions", "neighbours", "box", "message"),
    [
        (X[0], full_list(X, BOX), None, r"positions must be .*, got \(20,\), \("),
        (X, full_list(X, BOX)[:, :5], None, r"neighbours \(most, particles\), got"),
        (X, jnp.zeros((3, 20)), None, "neighbours must be whole numbers, got float"),
        (X, full_list(X, BOX), BOX[:2], r"box must have 3 sides, one a dimension, got the shape \(2,\)"),
    ],
)
def test_arrays_of_other_shapes_are_refused(positions, neighbours, box, message):
    with pytest.raises(ValueError, match=message):
        pair_forces(potential, positions, neighbours, ARGS, cutoff=CUTOFF, box=box)
