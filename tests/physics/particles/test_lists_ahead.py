"""Lists made where particles are going: the same forces, never too far ahead, and fewer of them."""

import dataclasses
import functools
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pair_sum_in_numpy import assert_same_sums, bricks, one_species, plain_sums, scattered, skewed
from particle_examples import dynamics, rows_of, unwrapped
from simkit_physics import ListedForces, complete_list, enlarged, forces_for, lattice
from simkit_physics.particles.listed_forces import AHEAD
from simkit_solvers import BrownianDynamics, Course, Particles, Vector, VelocityVerlet, simulate_particles

COUNT, SKIN = 700, 0.3
BOXES = {
    "orthorhombic": (bricks(12.0, 13.0, 14.0), (12, 13, 14)),
    "triclinic": (skewed(13.0, 13.0, 13.0), (13, 13, 13)),
}


@eqx.filter_jit
def arranged(forces, particles, course):
    return forces.arranged(particles, course)


@eqx.filter_jit
def totals_at(forces, particles, listed, position):
    """Sums at other positions with a list that serves them."""
    particles = particles.moved(position)
    force, totals = forces.totals(particles, listed)
    return particles.pushed(force).by_identity(), totals, forces.serves(listed, position)


class Listing(NamedTuple):
    forces: ListedForces
    particles: Particles
    half: float  # the skin

    def ahead(self, course):
        """The particles in the order of a list for this course, and that list."""
        particles, listed = arranged(self.forces, self.particles, course)
        assert bool(self.forces.complete(listed))
        return particles, listed


@functools.cache
def listing(name: str, precision: str = "float64") -> Listing:
    """Particles all over a box, on its faces too, with room in their lists for another arrangement."""
    box, extents = BOXES[name]
    start = Particles.of(scattered(COUNT, extents, spacing=1.3) - 0.65)
    forces, particles, _ = complete_list(*forces_for(start, box, one_species(), precision, skin=SKIN))
    assert isinstance(forces, ListedForces)
    roomy = type(forces.capacities)(*(n + 16 for n in forces.capacities))
    return Listing(dataclasses.replace(forces, capacities=roomy), particles, float(forces.skin) / 2)


def directions(particles: Particles, seed: int) -> Vector:
    """A vector of length 1 for each particle."""
    rows = np.random.default_rng(seed).standard_normal((particles.places, 3))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return Vector.of(rows * np.asarray(particles.real)[:, None])


def furthest(way: Vector) -> float:
    return float(jnp.sqrt(jnp.max(way.dot(way))))


@pytest.mark.more
@pytest.mark.parametrize("name", ["orthorhombic", pytest.param("triclinic", marks=pytest.mark.more)])
def test_sums_with_a_list_ahead_are_those_over_all_pairs(name):
    """Wherever the particles are within half the skin of where they are listed."""
    forces, start, half = both = listing(name)
    course = Course(directions(start, 1), directions(start, 2).times(0.1), jnp.asarray(10.0))
    particles, listed = both.ahead(course)
    outside = forces.box.wrapped(listed.origin)[1]
    assert all(np.asarray(turns).any() for turns in outside)
    assert furthest(listed.origin.plus(-1, particles.position)) > 0.8 * half
    position = listed.origin.plus(0.9999 * half, directions(particles, 3))
    moved, totals, serves = totals_at(forces, particles, listed, position)
    assert bool(serves)
    exact = plain_sums(np.asarray(moved.position.rows()), forces.box, cutoff=2.5)
    assert_same_sums(moved.momentum, totals, exact)


@pytest.mark.more
@pytest.mark.parametrize("name", ["orthorhombic", pytest.param("triclinic", marks=pytest.mark.more)])
def test_mixed_precision_has_its_stated_error_with_a_list_ahead(name):
    forces, start, half = both = listing(name, "mixed")
    assert forces.fixed_point
    particles, listed = both.ahead(Course(directions(start, 1), directions(start, 2), jnp.asarray(10.0)))
    position = listed.origin.plus(0.9999 * half, directions(particles, 3))
    moved, _, serves = totals_at(forces, particles, listed, position)
    assert bool(serves)
    exact = plain_sums(np.asarray(moved.position.rows()), forces.box, cutoff=2.5).force
    error = np.asarray(moved.momentum.rows()) - exact
    relative = np.linalg.norm(error, axis=1) / np.linalg.norm(exact, axis=1)
    assert np.median(relative) < 1e-6
    # Of the triclinic box a few pairs at half a diameter have most of the force, and 13 times the relative
    # error of distances.
    bound = {"orthorhombic": 1e-6, "triclinic": 4e-6}[name]
    assert np.sqrt(np.mean(error**2)) < bound * np.sqrt(np.mean(exact**2))


POWERS = st.integers(-200, 200).map(lambda n: 10.0 ** (n / 4))
SIZES = st.one_of(st.just(0.0), POWERS)


@settings(max_examples=40, deadline=None)
@given(speed=SIZES, acceleration=SIZES, lasts=SIZES, fast=SIZES)
@example(speed=1.0, acceleration=0.0, lasts=1e3, fast=1.0)
@example(speed=1.0, acceleration=1e3, lasts=1e3, fast=1.0)
@example(speed=1.0, acceleration=1.0, lasts=1.0, fast=1e9)
@example(speed=0.0, acceleration=1.0, lasts=1e9, fast=0.0)
def test_no_list_is_further_ahead_than_it_may_be(speed, acceleration, lasts, fast):
    """So a new list serves the particles where they are."""
    forces, start, half = both = listing("orthorhombic")
    v = directions(start, 1).times(jnp.ones(start.places).at[3].set(fast) * speed)
    course = Course(v, directions(start, 2).times(acceleration), jnp.asarray(lasts))
    particles, listed = both.ahead(course)
    assert furthest(listed.origin.plus(-1, particles.position)) <= AHEAD * half * (1 + 1e-12)
    assert bool(forces.serves(listed, particles.position))


def test_in_straight_flight_a_list_serves_nearly_twice_as_long():
    forces, start, half = listing("orthorhombic")
    start = start.pushed(directions(start, 1).times(2.0))
    step = dynamics(forces, VelocityVerlet(), 0.01).at(jnp.uint32(0), start)
    course = VelocityVerlet().course(start, start.position.times(0.0), step)
    particles, listed = arranged(forces, start, course)
    for factor, serves in ((0.0, True), (0.99, True), (1.01, False)):
        flown = particles.position.plus(factor * (1 + AHEAD) * half / 2, particles.momentum)
        assert bool(forces.serves(listed, flown)) is serves


class Aimless(VelocityVerlet):
    """The same path, with lists where particles stand."""

    def course(self, particles, force, step):
        return None


def melt(method, runs=(50, 250), momenta=1.0, density=0.8442, skin=None):
    """The states after runs of a melting crystal with lists, one after the other."""
    particles, box = lattice("fcc", (6,) * 3, density=density)
    rows = momenta * np.random.default_rng(0).standard_normal((particles.count, 3))
    particles = particles.pushed(Vector.of(rows - rows.mean(0)))
    forces, particles = forces_for(particles, box, one_species(), skin=skin)
    assert isinstance(forces, ListedForces)
    setting, states = dynamics(forces, method, 0.005), []
    state = setting.start(particles)
    for steps in runs:
        run = simulate_particles(setting, state, steps, enlarge=enlarged)
        setting, state = run.dynamics, run.state
        states.append(state)
    return states


@pytest.mark.more
def test_a_melt_needs_fewer_lists_for_the_same_path():
    ahead, here = melt(VelocityVerlet()), melt(Aimless())
    side = (4 / 0.8442) ** (1 / 3) * 6
    assert abs(unwrapped(ahead[0], side) - unwrapped(here[0], side)).max() < 1e-10
    assert 5 < int(ahead[1].renewals.count) < 0.8 * int(here[1].renewals.count)
    assert int(ahead[1].renewals.fewest) > int(here[1].renewals.fewest)


@pytest.mark.more
def test_lists_of_a_cold_crystal_serve_for_ever():
    """Particles that oscillate by less than half the skin are listed where they oscillate about."""
    early, late = melt(VelocityVerlet(), runs=(100, 400), momenta=0.45, density=1.05, skin=0.3)
    assert int(late.renewals.count) == int(early.renewals.count)


@pytest.mark.more
def test_momenta_that_mean_nothing_move_no_list():
    method = BrownianDynamics(1.0, 10.0)
    resting, moving = (melt(method, runs=(50,), momenta=momenta)[0] for momenta in (0.0, 1.0))
    assert int(moving.renewals.count) == int(resting.renewals.count) > 1
    np.testing.assert_array_equal(rows_of(moving)[:, :3], rows_of(resting)[:, :3])
