"""Forces, energies and virials over lists and over all pairs, against plain sums over pairs and images."""

import dataclasses
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pair_sum_in_numpy import (
    assert_same_sums,
    bricks,
    cube,
    droplet,
    one_species,
    plain_sums,
    scattered,
    several_species,
    skewed,
)
from simkit_physics import AllPairs, FreeBox, ListedForces, complete_list, forces_for, lattice
from simkit_physics.particles import choice
from simkit_physics.particles.clusters import cluster_grid
from simkit_physics.particles.neighbours import Capacities
from simkit_solvers import Particles, Vector
from slow_cases import slow_but

totals_of = eqx.filter_jit(lambda forces, particles, listed: forces.totals(particles, listed))
forces_of = eqx.filter_jit(lambda forces, particles, listed: forces.forces(particles, listed))

arranged = eqx.filter_jit(lambda forces, particles: forces.arranged(particles))


class System(NamedTuple):
    rows: np.ndarray
    box: Any
    species: np.ndarray | None = None

    @property
    def potential(self):
        return one_species() if self.species is None else several_species()

    @property
    def particles(self) -> Particles:
        return Particles.of(self.rows, species=0 if self.species is None else self.species)

    def sums(self, some=None):
        return plain_sums(self.rows, self.box, self.species, None if self.species is not None else 2.5, some)


def mixed(count: int) -> np.ndarray:
    return np.random.default_rng(3).integers(0, 3, count)


def melt(cells: int = 9) -> System:
    """A crystal at the density of a melt, shaken."""
    particles, box = lattice("fcc", (cells,) * 3, density=0.8442)
    rows = np.asarray(particles.position.rows())
    return System(rows + 0.05 * np.random.default_rng(1).standard_normal(rows.shape), box)


LISTED = {
    "gas": lambda: System(scattered(700, (40, 40, 40)), cube(40.0)),
    "liquid of three species": lambda: System(
        scattered(800, (9, 10, 11)), bricks(9.0, 10.0, 11.0), mixed(800)
    ),
    "melt": melt,
    "tilted liquid of three species": lambda: System(
        scattered(900, (10, 10, 10)), skewed(10.0, 10.0, 10.0), mixed(900)
    ),
    "droplet across the corner of the box": lambda: System(droplet(700, (0.3, 59.0, 30.0)), cube(60.0)),
    "droplet in free space": lambda: System(droplet(700, (1e3, -2e3, 0.0)), FreeBox()),
    "slab": lambda: System(scattered(900, (12, 12, 7)), bricks(12.0, 12.0, 50.0)),
    "all in one corner": lambda: System(scattered(800, (10, 10, 10)), skewed(35.0, 30.0, 40.0)),
    "two particles": lambda: System(np.array([[0.1, 0.2, 0.3], [19.8, 19.9, 0.9]]), cube(20.0)),
}
# By default one whose clusters need the nearest image of each pair, and one across the corner of its box.
DEFAULT = ("liquid of three species", "droplet across the corner of the box")
MORE = ("melt", "droplet in free space")
SLOW = [name for name in LISTED if name not in DEFAULT + MORE]


def with_marks(names, more):
    return [pytest.param(name, marks=pytest.mark.more) if name in more else name for name in names]


def in_order(particles: Particles, force: Vector) -> Vector:
    """The forces in the order of the particles' numbers."""
    return particles.pushed(force).by_identity().momentum


@pytest.fixture
def lists(monkeypatch):
    """Lists for small systems too."""
    monkeypatch.setattr(choice, "FEW", 0)


@pytest.mark.more
@pytest.mark.parametrize("name", [*DEFAULT, *with_marks(MORE, MORE), *slow_but((), SLOW)])
def test_sums_over_lists_are_those_over_all_pairs(name, lists):
    system = LISTED[name]()
    forces, particles = forces_for(system.particles, system.box, system.potential)
    assert isinstance(forces, ListedForces)
    forces, particles, listed = complete_list(forces, particles)
    assert bool(forces.serves(listed, particles.position))
    force, totals = totals_of(forces, particles, listed)
    assert_same_sums(in_order(particles, force), totals, system.sums())
    empty = ~np.asarray(particles.real)
    assert not any(np.asarray(c)[empty].any() for c in force)


ALL_PAIRS = {
    "cutoff beyond half the box": lambda: System(
        scattered(29, (3.1, 3.2, 3.3), spacing=0.75), bricks(3.1, 3.2, 3.3), mixed(29)
    ),
    "tilted": lambda: System(scattered(26, (3.0, 3.3, 2.9)), skewed(3.0, 3.3, 2.9), mixed(26)),
    "free": lambda: System(droplet(37, (50.0, 0.0, 0.0)), FreeBox(), mixed(37)),
    "one particle and its images": lambda: System(np.array([[0.3, 0.2, 0.1]]), cube(1.1)),
    "usual box": lambda: System(scattered(200, (7, 7, 7)), cube(7.0), mixed(200)),
}


@pytest.mark.parametrize("name", with_marks(ALL_PAIRS, ["usual box", "free", "cutoff beyond half the box"]))
def test_sums_over_all_pairs_and_images(name):
    system = ALL_PAIRS[name]()
    forces, particles = forces_for(system.particles, system.box, system.potential)
    assert isinstance(forces, AllPairs)
    particles, listed = arranged(forces, particles)
    assert bool(forces.complete(listed))
    force, totals = totals_of(forces, particles, listed)
    assert_same_sums(force, totals, system.sums())


def test_all_pairs_count_the_turns_of_what_they_wrap():
    system = ALL_PAIRS["usual box"]()
    forces, particles = forces_for(system.particles, system.box, system.potential)
    widths, turns = system.box.widths, Vector(*(jnp.full(particles.places, k, jnp.int32) for k in (1, 0, -2)))
    outside = Vector(*(c + k * w for c, k, w in zip(particles.position, (1, -3, 0), widths, strict=True)))
    outside = eqx.tree_at(lambda p: (p.position, p.image), particles, (outside, turns))
    inside, _ = arranged(forces, outside)
    paths = [np.stack(system.box.unwrapped(p.position, p.image)) for p in (outside, inside)]
    np.testing.assert_allclose(*paths, atol=1e-9)
    assert (np.abs(np.stack(inside.position)) <= 2 * max(map(float, widths))).all()
    assert (np.asarray(inside.image.y) != 0).any()


@pytest.mark.more
@pytest.mark.parametrize("count", [13, pytest.param(16, marks=pytest.mark.slow)])
def test_systems_in_lanes_have_the_sums_of_each(count):
    """Boxes and depths of wells differ between ten systems; empty places are among the particles."""
    systems = [
        System(scattered(count, (3.1, 3.2, 3.3), seed), bricks(3.1 + 0.1 * seed, 3.2, 3.3))
        for seed in range(10)
    ]
    one, _ = forces_for(systems[0].particles, systems[0].box, one_species())

    def sums(rows, box, epsilon):
        forces = eqx.tree_at(lambda f: (f.box, f.potential.potential.epsilon), one, (box, epsilon))
        particles, listed = forces.arranged(Particles.of(rows).padded(count + 3))
        return forces.totals(particles, listed)

    rows = jnp.stack([system.rows for system in systems])
    boxes = jax.tree.map(lambda *sides: jnp.stack(sides), *(system.box for system in systems))
    depths = jnp.linspace(1, 2, 10)
    force, totals = jax.jit(jax.vmap(sums))(rows, boxes, depths)
    for k, system in enumerate(systems):
        expected = jax.tree.map(lambda a, k=k: a * depths[k], system.sums())
        of_one = jax.tree.map(lambda a, k=k: a[k], (force, totals))
        assert_same_sums(Vector(*(c[:count] for c in of_one[0])), of_one[1], expected)


@pytest.mark.more
def test_lattice_has_the_published_energy_and_pressure():
    """The start of LAMMPS's bench/in.lj with eight times fewer particles; temperature 1.44, 3N - 3 degrees of
    freedom."""
    particles, box = lattice("fcc", (10,) * 3, density=0.8442)
    forces, particles, listed = complete_list(*forces_for(particles, box, one_species()))
    _, totals = totals_of(forces, particles, listed)
    count, temperature = 4000, 1.44
    assert float(totals.energy) / count == pytest.approx(-6.773368053253, rel=1e-12)
    kinetic2 = temperature * (3 * 32000 - 3) / 32000  # twice the kinetic energy of one particle
    assert float(totals.energy) / count + kinetic2 / 2 == pytest.approx(-4.613435553253, rel=1e-12)
    pressure = 0.8442 * (kinetic2 + float(totals.virial.trace) / count) / 3
    assert pressure == pytest.approx(-5.019707259086, rel=1e-12)


@pytest.mark.parametrize(
    ("cells", "cutoff"),
    [pytest.param(10, 5.0, marks=pytest.mark.more), *slow_but((), [(29, 2.5)])],
)
def test_many_particles(cells, cutoff):
    """Forces on a sample of particles of a melt. The longer cutoff reaches over a whole chunk."""
    system, potential = melt(cells), one_species(cutoff)
    some = np.random.default_rng(5).integers(0, len(system.rows), 60)
    forces, particles, listed = complete_list(*forces_for(system.particles, system.box, potential))
    force = in_order(particles, forces_of(forces, particles, listed))
    expected = plain_sums(system.rows, system.box, None, cutoff, some)
    rows = np.stack([np.asarray(c) for c in force], 1)[some]
    assert (np.abs(rows - expected.force) <= 1e-11 * expected.force_terms).all()


def changed(forces: ListedForces, count: int) -> ListedForces:
    """The same forces with another skin, another grid, and more room in the lists."""
    grid = cluster_grid(count, (1.0, 2.0, 3.0))
    capacities = Capacities(*(n + 8 for n in forces.capacities))
    return dataclasses.replace(forces, skin=1.7 * forces.skin, grid=grid, capacities=capacities)


@pytest.mark.slow
def test_skin_grid_and_capacities_change_forces_by_rounding_only(lists):
    system = LISTED["liquid of three species"]()
    forces, particles, listed = complete_list(*forces_for(system.particles, system.box, system.potential))
    force = np.stack(in_order(particles, forces_of(forces, particles, listed)))
    other, again, listed = complete_list(changed(forces, particles.count), system.particles)
    assert other.grid != forces.grid
    same = np.stack(in_order(again, forces_of(other, again, listed)))
    assert np.abs(same - force).max() < 1e-12 * np.abs(force).max()
    assert (same != force).any()


def test_forces_alone_are_those_with_totals(lists):
    system = LISTED["liquid of three species"]()
    listing = complete_list(*forces_for(system.particles, system.box, system.potential))
    force, alone = np.stack(totals_of(*listing)[0]), np.stack(forces_of(*listing))
    assert np.abs(force - alone).max() < 1e-12 * np.abs(force).max()


def test_a_list_serves_until_a_particle_has_moved_half_the_skin(lists):
    system = LISTED["liquid of three species"]()
    forces, particles, listed = complete_list(*forces_for(system.particles, system.box, system.potential))
    for step, serves in ((0.499, True), (0.501, False)):
        x = particles.position.x.at[0].add(step * forces.skin)
        assert bool(forces.serves(listed, particles.position._replace(x=x))) is serves


@pytest.mark.more
@pytest.mark.parametrize("precision", ["mixed", "float32"])
@pytest.mark.parametrize(
    "name",
    [
        "melt",
        pytest.param("tilted", marks=pytest.mark.slow),
        pytest.param("droplet in free space", marks=pytest.mark.slow),
    ],
)
def test_lower_precision_has_the_stated_error(name, precision, lists):
    """Mixed: 1e-6 of the rms force, in fixed point as in free space; float32: what rounding of positions
    makes."""
    system = melt(6) if name == "melt" else {**LISTED, **ALL_PAIRS}[name]()
    if precision == "float32":
        system = system._replace(rows=system.rows.astype(np.float32))
    _, error = error_of_forces(system, precision)
    assert error < (1e-6 if precision == "mixed" else 1e-4)


@pytest.mark.more
@pytest.mark.parametrize(("few", "kind"), [(0, ListedForces), (600, AllPairs)])
def test_mixed_precision_has_its_stated_error_where_float32_rounds_sides_most(few, kind, monkeypatch):
    """In a box whose sides are halfway between two numbers of float32."""
    monkeypatch.setattr(choice, "FEW", few)
    crystal = melt(5)
    side = float(crystal.box.sides.x)
    below = np.float32(side)
    halfway = float(below) + 0.499 * float(np.spacing(below))
    forces, error = error_of_forces(System(crystal.rows * (halfway / side), cube(halfway)), "mixed")
    assert type(forces) is kind
    assert forces.fixed_point
    assert error < 1e-6


def error_of_forces(system: System, precision) -> tuple[AllPairs | ListedForces, float]:
    """The forces of a system, and the rms of their error over that of forces."""
    forces, particles = forces_for(system.particles, system.box, system.potential, precision)
    forces, particles, listed = complete_list(forces, particles)
    force = forces_of(forces, particles, listed)
    assert force.x.dtype == ("float32" if precision == "float32" else "float64")
    expected = system._replace(rows=system.rows.astype(float)).sums().force
    error = np.stack([np.asarray(c, float) for c in in_order(particles, force)], 1) - expected
    return forces, float(np.sqrt((error**2).mean() / (expected**2).mean()))
