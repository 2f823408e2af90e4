"""Temperature and pressure, and what follows from their fluctuations, on systems with known laws."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from simkit_physics import (
    FreeBox,
    LennardJones,
    ShiftedForce,
    adiabatic_compressibility,
    block_grid,
    box_volume,
    constant_energy_heat_capacity,
    constant_volume_heat_capacity,
    hypervirial,
    infinite_box_diffusion,
    isothermal_compressibility,
    peculiar_velocities,
    pressure,
    pressure_tensor,
    temperature,
    unwrapped_paths,
)
from simkit_solvers import Particles, ParticleTotals, Tensor, Vector, kinetic_tensor
from test_radial_distribution import cube, tilted, uniform, vectors_of


def tensor(*components: float) -> Tensor:
    return Tensor(*map(jnp.asarray, components))


def test_temperature_and_pressure_are_those_of_their_definitions():
    momentum = np.random.default_rng(0).standard_normal((10, 3))
    mass = np.arange(1.0, 11)
    particles = Particles.of(jnp.zeros((10, 3)), momentum, mass)
    virial = tensor(1.0, 2.0, 3.0, 0.1, 0.2, 0.3)
    totals = ParticleTotals(jnp.asarray(0.0), virial, kinetic_tensor(particles), jnp.asarray(0.0))
    twice = (momentum**2 / mass[:, None]).sum()
    assert temperature(totals, 27, 2.0) == pytest.approx(twice / (27 * 2), rel=1e-12)
    assert pressure(totals, 5.0) == pytest.approx((twice + 6) / 15, rel=1e-12)
    xy = (momentum[:, 0] * momentum[:, 1] / mass).sum()
    assert pressure_tensor(totals, 5.0).xy == pytest.approx((xy + 0.1) / 5, rel=1e-12)
    assert pressure_tensor(totals, 5.0).trace / 3 == pytest.approx(float(pressure(totals, 5.0)), rel=1e-12)


def test_free_space_has_no_pressure():
    assert box_volume(tilted()) == pytest.approx(np.linalg.det(vectors_of(tilted())))
    with pytest.raises(ValueError, match="free space has no volume"):
        box_volume(FreeBox())


def energy_of(rows, vectors, potential, species) -> jax.Array:
    """The energy of all pairs with their nearest images, plainly."""
    d = rows[:, None] - rows[None]
    s = d @ jnp.linalg.inv(vectors)
    d = (s - jax.lax.stop_gradient(jnp.round(s))) @ vectors
    r2 = jnp.sum(d * d, axis=2) + 1e6 * jnp.eye(len(rows))
    return 0.5 * jnp.sum(potential.of_pair(species[:, None], species[None]).energy(r2))


@pytest.mark.parametrize("box", [cube(8.0), tilted()], ids=["cube", "triclinic"])
@pytest.mark.more
def test_virial_and_hypervirial_are_derivatives_with_respect_to_the_size_of_the_system(box):
    r"""$U(\lambda x)$: $-dU/d\ln\lambda = \sum r f$, and $9 X = d^2 U / d(\ln \lambda)^2$."""
    rows = np.indices((6, 6, 6)).reshape(3, -1).T / 6 @ vectors_of(box)
    rows = jnp.asarray(rows + 0.1 * np.random.default_rng(0).standard_normal(rows.shape))
    depths = jnp.asarray([[1.3, 0.7], [0.7, 1.0]])
    potential = ShiftedForce(LennardJones(epsilon=depths, sigma=1.0), cutoffs=2.5)
    particles = Particles.of(rows, species=np.arange(len(rows)) % 3 // 2)
    vectors = jnp.asarray(vectors_of(box))

    def energy(log):
        return energy_of(jnp.exp(log) * rows, jnp.exp(log) * vectors, potential, particles.species)

    result = hypervirial(block_grid(box, particles), box, potential, particles)
    assert result == pytest.approx(float(jax.grad(jax.grad(energy))(0.0)) / 9, rel=1e-9)


def test_heat_capacities_of_oscillators_and_of_an_ideal_gas():
    """f oscillators have C = f k; K is a Beta-distributed part of their energy at constant energy."""
    f, energy, k = 200, 3.0, 0.5
    mean, variance = energy / 2, energy**2 / (4 * (f + 1))
    result = constant_energy_heat_capacity(mean, variance, f, k)
    assert result == pytest.approx(f * k, rel=1.1 / f)  # the formula's order is 1/N
    T = 1.7
    assert constant_volume_heat_capacity(f / 2 * (k * T) ** 2, T, k) == pytest.approx(f / 2 * k)


def test_compressibilities_of_an_ideal_gas():
    volume, thermal, atoms = 40.0, 1.3, 60
    ideal = isothermal_compressibility(volume, thermal, atoms, 0.0, 0.0, 0.0)
    assert ideal == pytest.approx(volume / (atoms * thermal))
    # At constant energy the pressure of an ideal gas does not fluctuate, and 1 / kappa_S = 5/3 P.
    p = atoms * thermal / volume
    assert adiabatic_compressibility(volume, thermal, 3 * atoms, p, 0.0, 0.0) == pytest.approx(3 / (5 * p))


def test_the_isothermal_compressibility_of_two_particles_on_a_line_of_images():
    """One relative coordinate s in (0, 1) with the energy u(L s): its averages by quadrature, the truth by
    differences of -dF/dL."""
    thermal, count = 0.8, 4000

    def u(x):
        return 1.5 * np.exp(-2 * x)

    s = (np.arange(count) + 0.5) / count

    def mean(L, values):
        weight = np.exp(-u(L * s) / thermal)
        return (values * weight).sum() / weight.sum()

    # In one dimension W = sum of r f and X = sum of r (r u')': the ninth and the third belong to three.
    L = 2.0
    x = L * s
    w, second = 2 * x * u(x), 4 * x**2 * u(x) - 2 * x * u(x)
    W, X = mean(L, w), mean(L, second)
    variance = mean(L, w**2) - W**2
    kappa = isothermal_compressibility(L, thermal, 2, W, variance, X)

    def force(L):
        return (2 * thermal + mean(L, 2 * L * s * u(L * s))) / L

    h = 1e-4
    exact = -L * (force(L + h) - force(L - h)) / (2 * h)
    assert 1 / kappa == pytest.approx(exact, rel=1e-6)


def test_paths_are_unwrapped_in_the_order_of_numbers_and_follow_the_centre_of_mass():
    box = tilted()
    mass = np.linspace(1, 2, 50)
    rows = uniform(box, 50)
    particles = Particles.of(jnp.asarray(rows), np.ones((50, 3)), mass)
    before = unwrapped_paths(box, particles)
    turns = np.random.default_rng(1).integers(-3, 4, (50, 3))
    moved = rows + 0.3  # all of them alike
    outside = Particles.of(jnp.asarray(moved - turns @ vectors_of(box)), np.ones((50, 3)), mass)
    image = Vector(*(jnp.asarray(t, jnp.int32) for t in turns.T))
    outside = Particles(
        outside.position, outside.momentum, image, outside.mass, outside.species, outside.identity, 50
    )
    outside = outside.padded(64).in_order(jnp.asarray(np.random.default_rng(2).permutation(64)))
    np.testing.assert_allclose(unwrapped_paths(box, outside), before, atol=1e-12)
    velocity = peculiar_velocities(outside)
    np.testing.assert_allclose(velocity @ mass, 0, atol=1e-12)
    expected = 1 / mass - 50 / mass.sum()
    np.testing.assert_allclose(velocity[0], expected, rtol=1e-12)


def test_the_correction_for_the_size_of_a_box():
    """Yeh & Hummer's example: water at 298 K in boxes of about 2 nm gains some ten percent."""
    kT, viscosity, side = 1.380649e-23 * 298, 0.9e-3, 2.0e-9
    gain = infinite_box_diffusion(2.3e-9, thermal_energy=kT, viscosity=viscosity, side=side) - 2.3e-9
    assert gain == pytest.approx(2.837297 * kT / (6 * np.pi * viscosity * side))
    assert 0.1 < gain / 2.3e-9 < 0.2
