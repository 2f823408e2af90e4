"""Where Newton's equations lead, and the kinetic energy by direction."""

import jax.numpy as jnp
import numpy as np
import pytest
from particle_examples import dynamics, rows_of, springs
from simkit_solvers import (
    MotionUnits,
    Particles,
    VelocityVerlet,
    kinetic_energy,
    kinetic_tensor,
    simulate_particles,
)
from simkit_solvers.problems.motion import newtonian_course


def test_newtonian_course_is_the_way_that_two_steps_go():
    """Velocity Verlet has x_2 - x_0 = 2 h v_1 and x_2 - 2 x_1 + x_0 = h^2 a_1, whatever h is."""
    generator, h, units = np.random.default_rng(0), 0.01, MotionUnits(kinetic=0.3)
    mass = np.array([0.5, 1.0, 2.0, 7.0])
    position, momentum = generator.standard_normal((2, 4, 3))
    setting = dynamics(springs(1.0, 2.0, 3.0), VelocityVerlet(), h, units=units)
    states = [setting.start(Particles.of(position, momentum, mass))]
    for _ in range(2):
        states.append(simulate_particles(setting, states[-1], 1).state)
    x0, x1, x2 = (rows_of(state)[:, :3] for state in states)
    course = newtonian_course(states[1].particles, states[1].force, units)
    np.testing.assert_allclose(course.velocity.rows(), (x2 - x0) / (2 * h), atol=1e-12)
    acceleration = (x2 - 2 * x1 + x0) / h**2
    np.testing.assert_allclose(course.acceleration.rows(), acceleration, atol=1e-10)
    turned = np.linalg.norm((x2 - x0) / (2 * h)) / np.linalg.norm(acceleration)
    assert float(course.lasts) == pytest.approx(turned, rel=1e-10)


def test_empty_places_and_particles_at_rest_have_a_course():
    particles = Particles.of(np.zeros((3, 3))).padded(5)
    pulled = particles.position._replace(x=jnp.ones(5))
    course = newtonian_course(particles, pulled, MotionUnits())
    np.testing.assert_array_equal(course.acceleration.x, [1, 1, 1, 0, 0])
    assert float(course.lasts) == 0
    assert np.isfinite(newtonian_course(particles, particles.momentum, MotionUnits()).lasts)


def test_the_kinetic_tensor_has_a_product_of_velocities_in_each_place():
    mass, units = np.array([0.5, 1.0, 2.0, 7.0]), MotionUnits(kinetic=0.3)
    velocity = np.random.default_rng(1).standard_normal((4, 3))
    particles = Particles.of(np.zeros((4, 3)), mass[:, None] * velocity, mass).padded(6)
    tensor = kinetic_tensor(particles, units)
    expected = 0.3 * np.einsum("i,ia,ib", mass, velocity, velocity)
    for name, value in tensor._asdict().items():
        a, b = ("xyz".index(axis) for axis in name)
        assert float(value) == pytest.approx(expected[a, b], rel=1e-12)
    assert float(tensor.trace) == pytest.approx(2 * float(kinetic_energy(particles, units)), rel=1e-12)
