"""Methods of molecular dynamics by name, and what is wrong with options."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from particle_examples import dynamics, no_forces, spheres
from simkit_solvers import (
    PARTICLE_METHODS,
    BrownianDynamics,
    Curve,
    MotionUnits,
    ParticleBAOAB,
    ParticleDynamics,
    make_particle_method,
    parameters_of,
    run_chunk,
)
from simkit_solvers.problems.motion import newtonian_course

FALLING = Curve(np.array([0.0, 1.0]), np.array([1.0, 0.0]))
NEEDED = {"temperature": 0.8, "friction": 1.0, "relaxation_time": 0.5}


@pytest.mark.parametrize("name", PARTICLE_METHODS)
def test_every_method_says_what_it_is(name):
    cls = PARTICLE_METHODS[name]
    method = make_particle_method(name, {key: NEEDED[key] for key in parameters_of(cls) if key in NEEDED})
    assert type(method) is cls
    assert method.ensemble in ("NVE", "NVT", "configurations", "none")
    assert "doi:10." in cls.__doc__
    assert all(spec.description for spec in parameters_of(method).values())
    expected = {"BAOAB": 30, "BrownianDynamics": 0, "FIRE": 0}.get(name, 27)
    assert method.degrees_of_freedom(10) == expected
    particles = spheres()
    step = dynamics(no_forces(), method, 0.1).at(jnp.uint32(0), particles)
    assert float(method.given_energy(particles, method.init(particles, MotionUnits()), step)) == 0


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("VelocityVerlett", {}, "unknown method 'VelocityVerlett' .*did you mean 'VelocityVerlet'"),
        (
            "BAOAB",
            {"temperature": 1.0},
            "BAOAB needs friction: give, say, {type: BAOAB, fric",
        ),
        ("BAOAB", {"temperature": -1.0, "friction": 1.0}, "temperature must be > 0, got -1"),
        ("BAOAB", {"temprature": 1.0}, "no option 'temprature'; did you mean 'temperature'"),
        ("NoseHooverChains", {**NEEDED, "thermostats": 2.5}, "no option 'friction'"),
        ("NoseHooverChains", {"thermostats": 2.5}, "thermostats must be a whole number, got 2.5"),
        ("NoseHooverChains", {"thermostats": 0}, "thermostats must be >= 1, got 0"),
        (
            "VelocityVerlet",
            {"momentum_is_conserved": 1},
            "must be true or false, got 1",
        ),
        ("FIRE", {"cut": "half"}, "cut must be a number, got 'half'"),
        (
            "BAOAB",
            {"temperature": Curve(np.array([0.0, 1.0]), np.array([1.0, 0.0]))},
            "temperature must be > 0",
        ),
    ],
)
def test_what_is_wrong_with_a_method_is_said(name, options, message):
    with pytest.raises(ValueError, match=message):
        make_particle_method(name, options)


@pytest.mark.parametrize("name", PARTICLE_METHODS)
def test_particles_have_a_course_where_momenta_mean_something(name):
    """Newton's, which friction ends."""
    cls = PARTICLE_METHODS[name]
    method = make_particle_method(name, {key: NEEDED[key] for key in parameters_of(cls) if key in NEEDED})
    particles, force = spheres(), spheres(1).momentum
    step = dynamics(no_forces(), method, 0.1, units=MotionUnits(kinetic=0.5)).at(jnp.uint32(0), particles)
    course = method.course(particles, force, step)
    if method.ensemble in ("configurations", "none"):
        assert course is None
        return
    expected = newtonian_course(particles, force, step.units)
    for ours, newtonian in zip(course.velocity + course.acceleration, expected[0] + expected[1], strict=True):
        np.testing.assert_array_equal(ours, newtonian)
    assert 0 < float(course.lasts) <= float(expected.lasts)


def test_a_course_ends_where_friction_has_stopped_the_particles():
    particles, force = spheres(), spheres(1).momentum
    falling = Curve(np.array([0.0, 1.0]), np.array([40.0, 0.0]))  # 38 in the middle of the step
    for friction, most in ((0.0, np.inf), (20.0, 1 / 20), (falling, 1 / 38)):
        method = ParticleBAOAB(1.0, friction)
        step = dynamics(no_forces(), method, 0.1).at(jnp.uint32(0), particles)
        turned = float(newtonian_course(particles, force, step.units).lasts)
        assert 0.1 < turned < np.inf
        assert float(method.course(particles, force, step).lasts) == pytest.approx(min(turned, most))


def test_a_random_method_without_noise_is_refused():
    setting = ParticleDynamics(no_forces(), ParticleBAOAB(1.0, 1.0), 0.1)
    with pytest.raises(
        ValueError, match=r"draws random numbers: give `noise`, ParticleNoise.of\(key, path\)"
    ):
        run_chunk(setting, setting.start(spheres()), 1)


@pytest.mark.parametrize("method", [ParticleBAOAB(0.8, 2.0), BrownianDynamics(0.8, 2.0)])
def test_noise_depends_on_the_mass_of_each_particle(method):
    r"""From rest and without forces momenta are as $\sqrt m$, and ways as $1/\sqrt m$."""
    setting, start = dynamics(no_forces(), method, 0.1), spheres()
    start = start.pushed(start.momentum.times(0.0))
    masses = np.linspace(1, 9, start.count)
    scaled = []
    for mass in (np.ones(start.count), masses):
        state = setting.start(eqx.tree_at(lambda p: p.mass, start, jnp.asarray(mass)))
        after = eqx.filter_jit(run_chunk)(setting, state, 1)[0].particles
        root = np.sqrt(mass)[:, None]
        way = np.asarray(after.position.rows() - start.position.rows())
        scaled.append(np.hstack([way * root, np.asarray(after.momentum.rows()) / root]))
    assert np.all(scaled[0][:, :3] != 0)
    np.testing.assert_allclose(*scaled, rtol=1e-6, atol=1e-9)
