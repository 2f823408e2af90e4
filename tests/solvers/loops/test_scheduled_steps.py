"""Derivatives of what particles do after some steps: forward, reverse, and against differences."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from particle_examples import ListedSoftSpheres, dynamics, listed_soft_spheres, rows_of, spheres
from simkit_solvers import (
    NoseHooverChains,
    ParticleBAOAB,
    TotalsSeries,
    VelocityVerlet,
    run_chunk,
    scheduled_steps,
    simulate_particles,
)
from slow_cases import slow_but

pytestmark = pytest.mark.more

STEPS, DIFFERENCE = 24, 1e-6
OBSERVER = TotalsSeries(6, 5)


def energy_after(parameters, loop, method=VelocityVerlet):
    """A function of the state after 24 steps: of the cutoff, the step and the momenta."""
    cutoff, dt, faster = parameters
    plain = listed_soft_spheres()
    forces = ListedSoftSpheres(plain.side, cutoff, plain.skin, plain.capacity)
    setting = dynamics(forces, method(), dt)
    particles = spheres()
    state = loop(setting, setting.start(particles.pushed(particles.momentum.times(faster))))
    p = state.particles.by_identity()
    return jnp.sum(p.position.dot(p.momentum)[::3]) + jnp.sum(jnp.sin(p.position.x))


def two_level(setting, state):
    return run_chunk(setting, state, STEPS)[0]


def scheduled(setting, state):
    return scheduled_steps(setting, state, STEPS, 6).state


METHODS = {
    "VelocityVerlet": VelocityVerlet,
    "BAOAB": lambda: ParticleBAOAB(1.0, 0.5),
    "NoseHooverChains": lambda: NoseHooverChains(1.0, 0.3),
}


@pytest.mark.parametrize("name", slow_but(("BAOAB",), METHODS))
def test_forward_and_reverse_derivatives_agree_with_differences(name):
    method, at = METHODS[name], (jnp.asarray(1.5), jnp.asarray(0.01), jnp.asarray(1.0))
    reverse = jax.jit(jax.grad(lambda p: energy_after(p, scheduled, method)))(at)

    @jax.jit
    def forward(at, direction):
        return jax.jvp(lambda p: energy_after(p, two_level, method), (at,), (direction,))

    for i in range(3):
        direction = tuple(jnp.asarray(float(i == j)) for j in range(3))
        moved = [
            tuple(x + h * d for x, d in zip(at, direction, strict=True)) for h in (DIFFERENCE, -DIFFERENCE)
        ]
        _, slope = forward(at, direction)
        ends = [forward(each, direction)[0] for each in moved]
        assert float(slope) == pytest.approx(float(reverse[i]), rel=1e-9)
        assert float(ends[0] - ends[1]) / (2 * DIFFERENCE) == pytest.approx(float(slope), rel=1e-6)


@eqx.filter_jit
def run_on_schedule(setting, state):
    return scheduled_steps(setting, state, STEPS, 6, OBSERVER, OBSERVER.init(state.particles))


@pytest.mark.slow
def test_both_loops_take_the_same_steps():
    setting = dynamics(listed_soft_spheres(), ParticleBAOAB(1.0, 0.5), 0.01)
    start = setting.start(spheres())
    run, plain = run_on_schedule(setting, start), simulate_particles(setting, start, STEPS, OBSERVER)
    assert run.valid
    np.testing.assert_allclose(rows_of(run.state), rows_of(plain.state), atol=1e-7)  # normals are of float32
    for ours, theirs in zip(*map(jax.tree.leaves, (run.accumulator, plain.accumulator)), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-5)


def test_a_list_that_does_not_serve_its_interval_makes_a_run_invalid():
    for skin, capacity, valid in ((0.3, 26, True), (0.02, 26, False), (0.3, 3, False)):
        setting = dynamics(listed_soft_spheres(skin, capacity), ParticleBAOAB(1.0, 0.5), 0.01)
        assert run_on_schedule(setting, setting.start(spheres())).valid == valid
    with pytest.raises(ValueError, match="renew_every: must divide the number of steps, 24, got 5"):
        scheduled_steps(setting, setting.start(spheres()), STEPS, 5)
