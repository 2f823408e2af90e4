"""Systems of units: constants, conversions, and that physics is the same in all of them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.constants as codata
from all_pairs import pair_vectors
from simkit_physics import (
    UNITS,
    LennardJones,
    ShiftedForce,
    UnitSystem,
    convert_units,
    lattice,
    reduced_units,
    with_velocities,
)
from simkit_solvers import seed_key

LJ, METAL, REAL, SI = (UNITS[name] for name in ("lj", "metal", "real", "si"))
# Argon as in Rahman (1964), doi:10.1103/PhysRev.136.A405.
EPSILON, SIGMA, MASS = 119.8 * METAL.boltzmann, 3.405, 39.948
ARGON = reduced_units(EPSILON, SIGMA, MASS, METAL)


@pytest.mark.parametrize(
    ("system", "boltzmann", "kinetic", "pressure", "coulomb"),
    [  # as in LAMMPS, src/update.cpp
        (METAL, 8.617333262e-5, 1.0364269e-4, 1.6021766e6, 14.399645),
        (REAL, 0.0019872067, 48.88821291**2, 68568.415, 332.06371),  # of an older gas constant
        (SI, 1.380649e-23, 1.0, 1.0, 8.9875517923e9),
        (LJ, 1.0, 1.0, 1.0, 1.0),
    ],
)
def test_the_constants_are_those_of_lammps(system, boltzmann, kinetic, pressure, coulomb):
    assert system.boltzmann == pytest.approx(boltzmann, rel=2e-6)
    assert system.kinetic == pytest.approx(kinetic, rel=2e-7)
    assert system.pressure == pytest.approx(pressure, rel=2e-7)
    assert system.coulomb == pytest.approx(coulomb, rel=2e-7)
    assert system.motion == (system.boltzmann, system.kinetic)


def test_the_constants_of_nature_are_those_of_codata():
    assert SI.boltzmann == codata.Boltzmann
    assert METAL.boltzmann == pytest.approx(codata.Boltzmann / codata.e, rel=1e-15)
    assert REAL.boltzmann == pytest.approx(codata.R / (1e3 * codata.calorie), rel=1e-15)
    assert METAL.size("charge") == METAL.size("energy") == codata.elementary_charge
    assert METAL.size("mass") == pytest.approx(1e-3 / codata.Avogadro, rel=1e-15)
    assert REAL.size("energy") == pytest.approx(1e3 * codata.calorie / codata.Avogadro, rel=1e-15)
    assert (REAL.size("pressure"), METAL.size("pressure")) == (codata.atmosphere, codata.bar)
    assert SI.coulomb == pytest.approx(1 / (4 * np.pi * codata.epsilon_0), rel=1e-9)


@pytest.mark.parametrize(
    ("quantity", "value", "system", "expected"),
    [  # Frenkel & Smit (2002), table 3.1, doi:10.1016/B978-0-12-267351-1.X5000-7; 2.156 ps in many papers
        ("temperature", 1.0, SI, 119.8),
        ("mass/length^3", 1.0, SI, 1680),
        ("pressure", 1.0, SI, 41.9e6),
        ("pressure", 1.0, METAL, 419),
        ("time", 1.0, METAL, 2.156),
        ("time", 1.0, REAL, 2156),
        ("length/time", 1.0, SI, 3.405e-10 / 2.156e-12),
        ("energy", 1.0, REAL, 119.8 * 1.98720e-3),
    ],
)
def test_argon_in_reduced_units_has_the_known_values(quantity, value, system, expected):
    assert convert_units(value, quantity, ARGON, system) == pytest.approx(expected, rel=1e-3)


def test_conversions_go_both_ways():
    assert convert_units(1.0, "energy", METAL, REAL) == pytest.approx(23.060548, rel=1e-7)
    there = convert_units(3.7, "energy*length^6/(mass*time^2)", METAL, REAL)
    assert convert_units(there, "energy*length^6/(mass*time^2)", REAL, METAL) == pytest.approx(3.7, rel=1e-14)
    assert METAL.size("1/time") == 1e12
    assert ARGON.coulomb == pytest.approx(1.0, rel=1e-14)
    assert (ARGON.boltzmann, ARGON.kinetic, ARGON.pressure) == pytest.approx((1.0, 1.0, 1.0), rel=1e-14)


def test_units_have_names():
    assert METAL.label("energy/length^3") == "eV/Å^3"
    assert METAL.label("mass") == "g/mol"
    assert METAL.label("1/mass") == "1/(g/mol)"
    assert REAL.label("length^2/time") == "Å^2/fs"
    assert REAL.label("energy/temperature") == "(kcal/mol)/K"
    assert LJ.label("energy/temperature") == "k"
    assert LJ.label("energy/pressure") == "sigma^3"
    assert LJ.label("energy/length^2/temperature^2/time") == "epsilon/sigma^2/(epsilon/k)^2/tau"
    assert LJ.label("energy/length/temperature/time") == "k/(sigma*tau)"


def test_what_is_no_unit_is_refused():
    with pytest.raises(ValueError, match="unit 'volume': must be a product of powers of length, mass"):
        METAL.size("volume")
    with pytest.raises(ValueError, match=r"unit 'energy\*\(': must be a product"):
        METAL.label("energy*(")
    with pytest.raises(ValueError, match="units lj: have no size; reduced_units"):
        convert_units(1.0, "energy", LJ, METAL)


@jax.jit
def energies_and_slopes(potential, r2):
    pair = potential.of_pair(jnp.asarray(0), jnp.asarray(0))
    return pair.energy(r2), pair.slope(r2)


def run(units: UnitSystem) -> dict[str, float]:
    """Ten steps of velocity Verlet in the units of a system, and its observables in those of argon."""

    def to(value, quantity):
        return convert_units(value, quantity, ARGON, units)

    particles, box = lattice("fcc", (2, 2, 2), density=to(0.8442, "1/length^3"), mass=to(1.0, "mass"))
    particles = with_velocities(particles, to(1.44, "temperature"), seed_key(7), units=units.motion)
    potential = ShiftedForce(LennardJones(to(1.0, "energy"), to(1.0, "length")), to(1.6, "length"))
    x, p, m = particles.position.rows(), particles.momentum.rows(), particles.mass[0]
    x, p, sides, dt = np.asarray(x), np.asarray(p), np.asarray(box.sides), to(0.005, "time")

    def forces(x):
        i, j, d = pair_vectors(x, sides)
        r2 = np.sum(d * d, axis=1)
        energies, slopes = (np.asarray(each) for each in energies_and_slopes(potential, r2))
        pull = -2 * slopes[:, None] * d
        F = np.zeros_like(x)
        np.add.at(F, i, pull)
        np.add.at(F, j, -pull)
        return F, np.sum(energies), np.sum(pull * d)

    F, U, W = forces(x)
    for _ in range(10):
        p = p + 0.5 * dt * F / units.kinetic
        x = x + dt * p / m
        F, U, W = forces(x)
        p = p + 0.5 * dt * F / units.kinetic
    twice_kinetic = units.kinetic * np.sum(p * p) / m
    pressure = (twice_kinetic + W) / (3 * np.prod(sides)) * units.pressure
    results = {
        "energy": U + 0.5 * twice_kinetic,
        "temperature": twice_kinetic / ((3 * len(x) - 3) * units.boltzmann),
        "pressure": pressure,
        "length": np.max(np.abs(x)),
    }
    return {name: convert_units(float(value), name, units, ARGON) for name, value in results.items()}


def test_the_same_argon_in_four_systems_of_units_gives_the_same_physics():
    reference = run(ARGON)
    assert 0.5 < reference["temperature"] < 1.4  # potential energy has taken some
    for system in (METAL, REAL, SI):
        results = run(system)
        assert results == pytest.approx(reference, rel=1e-9), system.name
