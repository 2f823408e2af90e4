"""The loop of molecular dynamics: lists in time, each observer at its steps, nothing lost by an overflow."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from particle_examples import (
    COUNT,
    LennardJonesCluster,
    ListedSoftSpheres,
    at_rest,
    dynamics,
    listed_soft_spheres,
    rows_of,
    soft_spheres,
    spheres,
    unwrapped,
)
from simkit_solvers import (
    AbstractParticleObserver,
    ListOverflowError,
    NoseHooverChains,
    ParticleBAOAB,
    ParticleNoise,
    TotalsSeries,
    UnstableStepError,
    VelocityVerlet,
    run_chunk,
    seed_key,
    simulate_particles,
)

BAOAB, VERLET = ParticleBAOAB(1.0, 0.5), VelocityVerlet()


def after(steps, *, skin=0.3, capacity=26, method=VERLET, chunks=1, forces=None, **options):
    """A run of `steps` steps in equal chunks."""
    forces = listed_soft_spheres(skin, capacity) if forces is None else forces
    setting = dynamics(forces, method, 0.01)
    state = setting.start(spheres())
    for _ in range(chunks):
        run = simulate_particles(setting, state, steps // chunks, **options)
        setting, state = run.dynamics, run.state
    return state


@pytest.mark.more
def test_how_often_the_list_is_renewed_changes_rounding_only():
    states = [after(200, skin=skin) for skin in (0.05, 0.3, 1.2)]
    renewals = [int(state.renewals.count) for state in states]
    assert renewals[0] > 2 * renewals[1] > 2 * renewals[2] > 0
    for state in states[1:]:
        assert abs(unwrapped(state) - unwrapped(states[0])).max() < 1e-9
    assert 1 <= int(states[0].renewals.fewest) < int(states[1].renewals.fewest)


class Clock(VelocityVerlet):
    """Remembers the times of both parts of its steps."""

    def init(self, particles, units):
        return jnp.zeros(2)

    def first(self, particles, force, memory, step):
        return super().first(particles, force, memory, step)[0], memory.at[0].add(step.t)

    def second(self, particles, force, memory, step):
        return super().second(particles, force, memory, step)[0], memory.at[1].add(step.t)


def test_both_parts_of_a_step_have_the_time_at_which_it_begins():
    setting = dynamics(listed_soft_spheres(), Clock(), 0.01, t0=3.0)
    state = simulate_particles(setting, setting.start(spheres(), step=5), 4).state
    np.testing.assert_allclose(state.memory, [4 * 3.0 + 0.01 * (5 + 6 + 7 + 8)] * 2, rtol=1e-12)


def test_the_fewest_steps_between_two_lists_are_counted():
    setting = dynamics(listed_soft_spheres(skin=0.05), VERLET, 0.01)
    state, made = setting.start(spheres()), []
    for _ in range(60):
        state = simulate_particles(setting, state, 1).state
        made.append(int(state.renewals.last))
    between = np.diff(np.unique(made))
    assert int(state.renewals.fewest) == min(between) < max(between)


def test_lists_and_all_pairs_move_particles_alike():
    listed, plain = after(100), after(100, forces=soft_spheres())
    assert abs(unwrapped(listed) - unwrapped(plain)).max() < 1e-10
    assert not np.array_equal(listed.particles.identity, np.arange(COUNT))


@pytest.mark.more
def test_how_a_run_is_cut_into_chunks_changes_no_bit():
    whole, parts = after(60, method=BAOAB), after(60, method=BAOAB, chunks=4)
    for a, b in zip(jax.tree.leaves(whole), jax.tree.leaves(parts), strict=True):
        np.testing.assert_array_equal(a, b)


class LateListed(ListedSoftSpheres):
    """Never says that its list serves no longer: what the test below must notice."""

    def serves(self, listed, position):
        return jnp.asarray(True)


def test_a_list_that_is_kept_too_long_is_noticed_here():
    exact = listed_soft_spheres(0.05)
    late = LateListed(exact.side, exact.cutoff, exact.skin, exact.capacity)
    assert abs(unwrapped(after(200, forces=late)) - unwrapped(after(200))).max() > 1e-3


def enlarged(forces, particles, listed):
    """More neighbours, and two more places."""
    assert int(jnp.max(listed[2])) > forces.capacity
    return eqx.tree_at(lambda f: f.capacity, forces, forces.capacity + 3), particles


@pytest.mark.more
def test_an_overflow_in_the_middle_of_a_run_changes_rounding_only():
    roomy = after(200)
    start = dynamics(listed_soft_spheres(), BAOAB, 0.01).start(spheres())
    _, listed = listed_soft_spheres().arranged(start.particles)
    first = int(jnp.max(listed[2]))
    tight = after(200, capacity=first, enlarge=enlarged)
    assert abs(unwrapped(tight) - unwrapped(roomy)).max() < 1e-9
    assert int(tight.renewals.fewest) == int(roomy.renewals.fewest) > 0
    with pytest.raises(ListOverflowError, match=r"overflowed at step [1-9]\d*: give larger capacities"):
        after(200, capacity=first)


def test_no_step_is_taken_with_a_list_that_is_not_complete():
    setting = dynamics(listed_soft_spheres(capacity=2), VelocityVerlet(), 0.01)
    run = eqx.filter_jit(lambda state: run_chunk(setting, state, 10)[0])
    state = run(setting.start(spheres()))
    assert not state.complete
    assert not state.known
    assert int(state.step) == 0
    assert int(run(state).step) == 0


def test_forces_that_belong_to_another_order_are_forgotten():
    """An overflow in the middle of a run leaves those of the step before, in the order of the old list."""
    _, listed = listed_soft_spheres().arranged(spheres())
    setting = dynamics(listed_soft_spheres(capacity=int(jnp.max(listed[2]))), BAOAB, 0.01)
    run = eqx.filter_jit(lambda state, steps: run_chunk(setting, state, steps)[0])
    states = [run(setting.start(spheres()), jnp.uint32(steps)) for steps in (3, 200)]
    assert [bool(state.known) for state in states] == [True, False]
    assert all(np.asarray(state.force).any() for state in states)
    roomy = [state.with_forces(listed_soft_spheres()).force for state in states]
    np.testing.assert_array_equal(roomy[0], states[0].force)
    assert not np.asarray(roomy[1]).any()


def test_lists_that_never_become_large_enough_end_in_an_error():
    with pytest.raises(ListOverflowError, match="after it was enlarged"):
        after(10, capacity=2, enlarge=lambda forces, particles, listed: (forces, particles))


class Visits(AbstractParticleObserver):
    """The steps that it sees, and their positions and momenta by number."""

    def init(self, particles):
        return jnp.int32(0), jnp.zeros(20, jnp.uint32), jnp.zeros((20, COUNT, 6))

    def due(self, step):
        return (step % jnp.uint32(7) == 0) | (step % jnp.uint32(5) == 0)

    def update(self, accumulator, particles, totals, step):
        row, steps, rows = accumulator
        ordered = particles.by_identity()
        here = jnp.concatenate([ordered.position.rows(), ordered.momentum.rows()], axis=1)
        return row + 1, steps.at[row].set(step), rows.at[row].set(here)


@pytest.mark.more
def test_an_observer_sees_each_due_step_once_and_whole():
    setting = dynamics(listed_soft_spheres(), BAOAB, 0.01)
    state, accumulator = setting.start(spheres()), None
    for steps in (0, 10, 1, 13):
        run = simulate_particles(setting, state, steps, Visits(), accumulator)
        state, accumulator = run.state, run.accumulator
    seen, steps, rows = accumulator
    expected = [k for k in range(25) if k % 5 == 0 or k % 7 == 0]
    assert int(seen) == len(expected)
    np.testing.assert_array_equal(steps[: len(expected)], expected)
    np.testing.assert_allclose(rows[3], rows_of(after(10, method=BAOAB)), atol=1e-12)


@pytest.mark.slow
def test_no_steps_give_the_forces_and_totals_at_the_start():
    forces = soft_spheres()
    setting = dynamics(forces, BAOAB, 0.01)
    start = setting.start(spheres())
    run = simulate_particles(setting, start, 0, TotalsSeries(1, 1))
    assert float(run.accumulator.totals.potential[0]) == pytest.approx(
        float(forces.energy(start.particles.position.rows())), rel=1e-14
    )
    np.testing.assert_array_equal(rows_of(run.state), rows_of(start))
    assert run.state.known
    assert int(run.state.step) == 0


def test_the_order_of_particles_does_not_change_their_noise():
    order = np.random.default_rng(4).permutation(COUNT)
    setting = dynamics(soft_spheres(), BAOAB, 0.01)
    plain = simulate_particles(setting, setting.start(spheres()), 50)
    shuffled = simulate_particles(setting, setting.start(spheres().in_order(jnp.asarray(order))), 50)
    assert abs(rows_of(shuffled.state) - rows_of(plain.state)).max() < 1e-11


@pytest.mark.slow
def test_replicas_in_lanes_are_the_runs_of_their_paths():
    starts = [spheres(seed) for seed in range(3)]
    together = jax.tree.map(lambda *leaves: jnp.stack(leaves), *starts)

    def replica(path):
        setting = dynamics(listed_soft_spheres(), BAOAB, 0.01)  # in float64: rounding may differ in lanes
        return dataclasses.replace(setting, noise=ParticleNoise.of(seed_key(0), path, float64=True))

    @jax.jit
    @jax.vmap
    def replicas(path, particles):
        return run_chunk(replica(path), replica(path).start(particles), 40)[0]

    states = replicas(jnp.arange(3, dtype=jnp.uint32), together)
    assert len(set(np.asarray(states.renewals.count).tolist())) > 1
    for path, particles in enumerate(starts):
        alone = simulate_particles(replica(path), replica(path).start(particles), 40).state
        ours = jax.tree.map(lambda leaf, path=path: leaf[path], states)
        assert abs(unwrapped(ours) - unwrapped(alone)).max() < 1e-11


class Counted(ListedSoftSpheres):
    """Counts how often its forces are traced."""

    def forces(self, particles, listed):
        TRACES.append(1)
        return super().forces(particles, listed)


TRACES: list[int] = []


def test_one_program_serves_all_lengths_steps_and_temperatures():
    spheres_ = listed_soft_spheres()
    forces = Counted(spheres_.side, spheres_.cutoff, spheres_.skin, spheres_.capacity)
    TRACES.clear()
    for steps, dt, temperature in ((3, 0.01, 1.0), (40, 0.01, 1.0), (1, 0.02, 0.5)):
        setting = dynamics(forces, ParticleBAOAB(temperature, 0.5), dt)
        state = simulate_particles(setting, setting.start(spheres()), steps).state
        simulate_particles(setting, state, steps)
        assert int(state.step) == steps
    assert len(TRACES) <= 3  # of a single program


@pytest.mark.more
def test_donated_states_are_used_up_and_others_stay():
    setting = dynamics(listed_soft_spheres(), NoseHooverChains(1.0, 0.3), 0.01)
    particles = spheres()
    state = setting.start(particles)
    kept = simulate_particles(setting, state, 5).state
    given = simulate_particles(setting, state, 5, donate=True).state
    np.testing.assert_array_equal(rows_of(given), rows_of(kept))
    with pytest.raises(RuntimeError, match="deleted"):
        np.asarray(state.particles.position.x)
    np.asarray(particles.position.x)


def test_a_step_that_blows_up_is_reported():
    rows = np.array([[0, 0, 0], [1.2, 0, 0], [1.2, 1e-3, 0], [0, 1.2, 0]])
    setting = dynamics(LennardJonesCluster(), VelocityVerlet(), 0.01, largest_move=0.5)
    with pytest.raises(UnstableStepError, match=r"step 1 blew up: particle [12] .*minimised first") as error:
        simulate_particles(setting, setting.start(at_rest(rows)), 10)
    assert error.value.step == 1
    assert error.value.kinetic_energy > 1e30


def test_a_place_that_is_no_number_is_reported():
    particles = spheres()
    broken = particles.pushed(particles.momentum._replace(y=particles.momentum.y.at[5].set(jnp.nan)))
    setting = dynamics(soft_spheres(), VelocityVerlet(), 0.01)
    with pytest.raises(UnstableStepError, match=r"step 1 blew up: particle 5 \(counted from 0\) is nowhere"):
        simulate_particles(setting, setting.start(broken), 10)


def test_a_run_in_single_precision_stays_in_it():
    def single(tree):
        return jax.tree.map(
            lambda x: x.astype(jnp.float32) if getattr(x, "dtype", 0) == jnp.float64 else x, tree
        )

    setting = dynamics(single(listed_soft_spheres()), VERLET, 0.01)
    run = simulate_particles(setting, setting.start(single(spheres())), 20, TotalsSeries(10, 3))
    assert run.accumulator.totals.conserved.dtype == jnp.float32
    assert run.state.particles.position.x.dtype == jnp.float32
    double = after(20)
    assert abs(unwrapped(run.state) - unwrapped(double)).max() < 1e-4
