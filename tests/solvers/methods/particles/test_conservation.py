"""What methods of molecular dynamics conserve: energy, momentum, the way back, and their own quantities."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from particle_examples import (
    COUNT,
    at_rest,
    dynamics,
    listed_soft_spheres,
    rows_of,
    soft_spheres,
    spheres,
    unwrapped,
)
from simkit_solvers import (
    BrownianDynamics,
    MotionUnits,
    NoseHooverChains,
    ParticleBAOAB,
    StochasticVelocityRescaling,
    TotalsSeries,
    VelocityVerlet,
    kinetic_energy,
    simulate_particles,
    total_momentum,
)
from slow_cases import slow_but

ROWS = 401  # of all runs, so that one program serves them

THERMOSTATS = {
    "BAOAB": lambda s=1.0, b=1.0: ParticleBAOAB(1.0 / b, 0.5 / s),
    "NoseHooverChains": lambda s=1.0, b=1.0: NoseHooverChains(1.0 / b, 0.4 * s),
    "StochasticVelocityRescaling": lambda s=1.0, b=1.0: StochasticVelocityRescaling(1.0 / b, 0.4 * s),
}


def totals_of(method, dt, time, seed=1):
    """All totals of a run of a given length."""
    steps = round(time / dt)
    setting = dynamics(soft_spheres(), method, dt)
    run = simulate_particles(setting, setting.start(spheres(seed)), steps, TotalsSeries(1, ROWS))
    assert int(run.accumulator.seen) == steps + 1
    return run, jax.tree.map(lambda rows: rows[: steps + 1], run.accumulator.totals)


def energy_slope(method) -> float:
    """The power of the step at which the variance of the energy falls."""
    steps = (0.02, 0.01, 0.005)
    variances = [float(jnp.var(totals_of(method, dt, 2.0)[1].energy)) for dt in steps]
    return np.polyfit(np.log(steps), np.log(variances), 1)[0]


def test_the_variance_of_the_energy_falls_with_the_fourth_power_of_the_step():
    assert 3.7 < energy_slope(VelocityVerlet()) < 4.3


def test_the_way_back_ends_where_it_began_across_renewals_of_the_list():
    setting = dynamics(listed_soft_spheres(), VelocityVerlet(), 0.01)
    start = setting.start(spheres())
    there = simulate_particles(setting, start, 500)
    assert int(there.state.renewals.count) > 20
    turned = there.state.particles.pushed(there.state.particles.momentum.times(-1.0))
    back = simulate_particles(there.dynamics, setting.start(turned), 500)
    assert abs(unwrapped(there.state) - unwrapped(start)).max() > 0.5
    difference = unwrapped(back.state) * ([1] * 3 + [-1] * 3) - unwrapped(start)
    assert abs(difference).max() < 1e-8


@pytest.mark.parametrize("method", ["VelocityVerlet", "NoseHooverChains", "StochasticVelocityRescaling"])
def test_momentum_is_conserved_to_rounding(method):
    made = THERMOSTATS[method]() if method in THERMOSTATS else VelocityVerlet()
    run, _ = totals_of(made, 0.02, 2.0)
    assert max(abs(float(p)) for p in total_momentum(run.state.particles)) < 1e-12
    assert made.degrees_of_freedom(COUNT) == 3 * COUNT - 3


@pytest.mark.more
@pytest.mark.parametrize("name", slow_but(("NoseHooverChains",), THERMOSTATS))
def test_the_conserved_quantity_of_a_thermostat_fluctuates_with_the_square_of_the_step(name):
    """The energy itself changes by much more; from step to half the step a fourth is left."""
    deviations = []
    for dt in (0.02, 0.01):
        runs = [totals_of(THERMOSTATS[name](), dt, 4.0, seed)[1] for seed in range(8)]
        assert min(float(jnp.std(totals.energy)) for totals in runs) > 1
        deviations.append(np.mean([float(jnp.std(totals.conserved)) for totals in runs]))
    assert deviations[1] < 0.02
    assert 3 < deviations[0] / deviations[1] < 5.5


@pytest.mark.more
def test_substeps_of_a_chain_are_steps_of_a_part_of_the_length():
    """Where no force acts."""
    first = spheres()
    no_force = first.position.times(0.0)
    ends = []
    for substeps, dt, steps in ((3, 0.3, 1), (1, 0.1, 3)):
        method = NoseHooverChains(1.0, 0.4, substeps=substeps)
        setting = dynamics(soft_spheres(), method, dt)
        step = setting.at(jnp.uint32(0), first)
        particles, memory = first, method.init(first, step.units)
        for _ in range(steps):
            particles, memory = jax.jit(method.second)(particles, no_force, memory, step)
        ends.append(np.append(particles.momentum.rows(), memory.eta))
    np.testing.assert_allclose(*ends, rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("substeps", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_substeps_of_a_chain_change_a_run_with_the_fourth_power_of_the_step(substeps):
    """That is the order of the weights with which its thermostats take turns."""
    differences = []
    for dt in (0.02, 0.01):
        runs = [totals_of(NoseHooverChains(1.0, 0.4, substeps=n), dt, 2.0)[1] for n in (1, substeps)]
        differences.append(float(jnp.max(jnp.abs(runs[0].kinetic.xx - runs[1].kinetic.xx))))
    assert differences[1] < 1e-5
    assert 12 < differences[0] / differences[1] < 40


METHODS = THERMOSTATS | {
    "VelocityVerlet": lambda s=1.0, b=1.0: VelocityVerlet(),
    "BrownianDynamics": lambda s=1.0, b=1.0: BrownianDynamics(1.0 / b, 5.0 / s),
}


@pytest.mark.parametrize("name", METHODS)
def test_a_system_of_units_changes_nothing(name):
    """With a unit of time 1/s of that of the other system, and one of temperature b times as large."""
    s, b, particles = 3.0, 7.0, spheres()
    one = dynamics(soft_spheres(), METHODS[name](), 0.01)
    other = dynamics(soft_spheres(), METHODS[name](s, b), 0.01 * s, units=MotionUnits(b, s * s))
    plain = simulate_particles(one, one.start(particles), 50, TotalsSeries(1, ROWS))
    slow = particles.pushed(particles.momentum.times(1 / s))
    scaled = simulate_particles(other, other.start(slow), 50, TotalsSeries(1, ROWS))
    rows = rows_of(scaled.state) * ([1] * 3 + [s] * 3)
    assert abs(rows - rows_of(plain.state)).max() < 1e-9
    for ours, theirs in zip(*map(jax.tree.leaves, (plain.accumulator, scaled.accumulator)), strict=True):
        assert np.asarray(ours) == pytest.approx(np.asarray(theirs), abs=1e-9)


def test_empty_places_neither_move_nor_count():
    particles = at_rest(np.eye(3)).pushed(at_rest(np.ones((3, 3))).position)
    padded = particles.padded(8)
    setting = dynamics(soft_spheres(), ParticleBAOAB(1.0, 1.0), 0.1)
    step, force = setting.at(jnp.uint32(0), padded), padded.position.times(0.0)
    moved, _ = jax.jit(setting.method.first)(padded, force, jnp.asarray(0.0), step)
    still = np.asarray(moved.position.rows())[3:]
    assert not still.any()
    assert float(kinetic_energy(padded)) == pytest.approx(float(kinetic_energy(particles)), rel=1e-15)
