"""Derivatives of what particles do after some steps: forward, reverse, and against differences."""

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
)

STEPS = 24


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


MORE = [pytest.param(name, marks=pytest.mark.more) for name in ("BAOAB", "NoseHooverChains")]


@pytest.mark.parametrize("name", ["VelocityVerlet", *MORE])
def test_forward_and_reverse_derivatives_agree_with_differences(name):
    method, at = METHODS[name], (jnp.asarray(1.5), jnp.asarray(0.01), jnp.asarray(1.0))
    reverse = jax.jit(jax.grad(lambda p: energy_after(p, scheduled, method)))(at)
    values = jax.jit(lambda p: energy_after(p, two_level, method))

    @jax.jit
    def forward(direction):
        return jax.jvp(lambda p: energy_after(p, two_level, method), (at,), (direction,))[1]

    for i in range(3):
        direction = tuple(jnp.asarray(float(i == j)) for j in range(3))
        step = 1e-6
        ends = [values(tuple(x + h * d for x, d in zip(at, direction, strict=True))) for h in (step, -step)]
        difference = float(ends[0] - ends[1]) / (2 * step)
        assert float(forward(direction)) == pytest.approx(float(reverse[i]), rel=1e-9)
        assert float(reverse[i]) == pytest.approx(difference, rel=1e-6)


def test_both_loops_take_the_same_steps():
    setting = dynamics(listed_soft_spheres(), ParticleBAOAB(1.0, 0.5), 0.01)
    observer = TotalsSeries(6, 5)
    start = setting.start(spheres())
    state, series = run_chunk(setting, start, STEPS, observer, observer.init(start.particles))
    run = jax.jit(lambda s: scheduled_steps(setting, s, STEPS, 6, observer, observer.init(s.particles)))(
        start
    )
    assert run.valid
    np.testing.assert_allclose(rows_of(run.state), rows_of(state), atol=1e-12)
    for ours, theirs in zip(jax.tree.leaves(run.accumulator), jax.tree.leaves(series), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-10)


def test_a_list_that_does_not_serve_its_interval_makes_a_run_invalid():
    for skin, capacity, valid in ((0.3, 26, True), (0.02, 26, False), (0.3, 3, False)):
        setting = dynamics(listed_soft_spheres(skin, capacity), VelocityVerlet(), 0.01)
        assert scheduled_steps(setting, setting.start(spheres()), 12, 6).valid == valid
    with pytest.raises(ValueError, match="renew_every: must divide the number of steps, 12, got 5"):
        scheduled_steps(setting, setting.start(spheres()), 12, 5)
