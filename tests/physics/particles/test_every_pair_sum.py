"""Forces, energies and virials of every potential with every truncation, against formulas in NumPy."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pair_sum_in_numpy import (
    Law,
    assert_same_sums,
    bricks,
    cube,
    droplet,
    edges,
    lennard_jones,
    plain_sums,
    scattered,
    skewed,
)
from scipy.interpolate import CubicSpline
from simkit_physics import (
    POTENTIALS,
    TRUNCATIONS,
    AllPairs,
    FreeBox,
    FunctionOfDistance,
    LennardJones,
    ListedForces,
    Plain,
    Tabulated,
    TriclinicBox,
    complete_list,
    forces_for,
    lattice,
)
from simkit_solvers import Particles, Vector
from slow_cases import slow_but

# Energies as the papers write them.
FORMULAS = {
    "LennardJones": lambda r, epsilon, sigma: 4 * epsilon * ((sigma / r) ** 12 - (sigma / r) ** 6),
    "WCA": lambda r, epsilon, sigma: 4 * epsilon * ((sigma / r) ** 12 - (sigma / r) ** 6) + epsilon,
    "Morse": lambda r, D, a, r0: D * ((1 - np.exp(-a * (r - r0))) ** 2 - 1),
    "Buckingham": lambda r, A, rho, C: A * np.exp(-r / rho) - C / r**6,
    "Yukawa": lambda r, A, kappa: A * np.exp(-kappa * r) / r,
    "SoftSphere": lambda r, epsilon, sigma, n: epsilon * (sigma / r) ** n,
    "BornMayer": lambda r, A, sigma, rho, C, D: A * np.exp((sigma - r) / rho) - C / r**6 - D / r**8,
    "Coulomb": lambda r, charge_product, constant: constant * charge_product / r,
    "Mie": lambda r, epsilon, sigma, n, m: (
        n / (n - m) * (n / m) ** (m / (n - m)) * epsilon * ((sigma / r) ** n - (sigma / r) ** m)
    ),
    "FunctionOfDistance": lambda r, height, width: height * np.exp(-((r / width) ** 2)) / r,
    "Tabulated": lambda r, curve: SPLINES[int(curve)](r),
}

DISTANCES = np.linspace(0.3, 2.6, 200)
TABLES = [3 * np.exp(-DISTANCES) / DISTANCES, np.cos(3 * DISTANCES) / DISTANCES**2]


def spline_of(energies):
    """A spline that takes the small imaginary parts by which others are differentiated."""
    spline = CubicSpline(DISTANCES, energies, bc_type="natural")
    return lambda r: spline(np.real(r)) + 1j * np.imag(r) * spline(np.real(r), 1)


SPLINES = [spline_of(table) for table in TABLES]

# Of each two of three species, times the potential's example; exponents are those of all.
TILT = np.array([[1.0, 1.07, 0.95], [1.07, 0.9, 1.03], [0.95, 1.03, 1.1]])
CUTOFF = np.array([[2.5, 2.1, 2.3], [2.1, 2.2, 2.4], [2.3, 2.4, 1.9]])
OF_ALL = ("n", "m")


def parameters_of(name: str) -> dict[str, np.ndarray]:
    """Tables (species, species) of the parameters of a potential."""
    if name == "Tabulated":
        return {"curve": np.array([[0, 1, 0], [1, 1, 0], [0, 0, 1]])}
    example = {"height": 2.0, "width": 1.1} if name == "FunctionOfDistance" else POTENTIALS[name].example
    return {k: np.full((3, 3), v) if k in OF_ALL else v * TILT for k, v in example.items()}


def potential_of(name: str):
    values = parameters_of(name)
    if name == "Tabulated":
        return Tabulated.through(DISTANCES, np.stack(TABLES), curve=values["curve"])
    given = {k: jnp.asarray(v[0, 0] if k in OF_ALL else v) for k, v in values.items()}
    if name == "FunctionOfDistance":
        return FunctionOfDistance(lambda r, height, width: height * jnp.exp(-((r / width) ** 2)) / r, given)
    return POTENTIALS[name](**given)


def cutoffs_of(name: str) -> np.ndarray:
    return 2 ** (1 / 6) * parameters_of(name)["sigma"] if name == "WCA" else CUTOFF


def truncated(name: str, truncation: str):
    """The potential as the kernels take it, and the same as a law in NumPy."""
    cutoffs = cutoffs_of(name)
    onsets = {"onsets": jnp.asarray(0.8 * cutoffs)} if truncation == "switched" else {}
    ours = TRUNCATIONS[truncation](potential_of(name), jnp.asarray(cutoffs), **onsets)
    parameters, tiny = parameters_of(name), 1e-200

    def whole(r, a, b):
        return FORMULAS[name](r, **{k: v[a, b] for k, v in parameters.items()})

    def energy(r, a, b):
        c = cutoffs[a, b]
        u, at_cutoff = whole(r, a, b), whole(c + 1j * tiny, a, b)
        if truncation == "shifted":
            u = u - at_cutoff.real
        if truncation == "shifted_force":
            u = u - at_cutoff.real - (r - c) * (at_cutoff.imag / tiny)
        if truncation == "switched":
            x = (r**2 - (0.8 * c) ** 2) / (c**2 - (0.8 * c) ** 2)
            u = u * np.where(x.real < 0, 1, 1 - 10 * x**3 + 15 * x**4 - 6 * x**5)
        return u

    def of(r, a, b):
        values = np.empty(len(r), complex)
        for kind in range(3):
            at = b == kind
            values[at] = energy(r[at] + 1j * tiny, a, kind)
        return values.real, values.imag / tiny

    return ours, Law(cutoffs, of)


def shaken(density: float, cells: int = 6):
    particles, box = lattice("fcc", (cells,) * 3, density=density)
    rows = np.asarray(particles.position.rows())
    return rows + 0.04 * np.random.default_rng(1).standard_normal(rows.shape), box


CONFIGURATIONS = {
    "gas": lambda: (scattered(640, (30, 31, 32)), bricks(30.0, 31.0, 32.0)),
    "tilted gas": lambda: (scattered(640, (30, 31, 32)), skewed(30.0, 31.0, 32.0)),
    "liquid": lambda: (scattered(700, (9, 10, 11)), bricks(9.0, 10.0, 11.0)),
    "tilted liquid": lambda: (scattered(700, (10, 10, 10)), skewed(10.0, 10.0, 10.0)),
    "solid": lambda: shaken(1.0),
    "droplet in vacuum": lambda: (droplet(650, (0.3, 44.0, 22.0)), skewed(45.0, 45.0, 45.0)),
    "droplet in free space": lambda: (droplet(650, (70.0, -9.0, 0.0)), FreeBox()),
    "slab": lambda: (scattered(700, (11, 11, 7)), bricks(11.0, 11.0, 40.0)),
    "all in one corner": lambda: (scattered(700, (10, 9, 10)), skewed(35.0, 30.0, 40.0)),
    "small tilted box": lambda: (scattered(30, (3.1, 3.4, 3.2)), skewed(3.1, 3.4, 3.2)),
    "small box": lambda: (scattered(30, (3.1, 3.4, 3.2)), cube(3.4)),
}
totals_of = eqx.filter_jit(lambda forces, particles, listed: forces.totals(particles, listed))


def check(name: str, truncation: str, configuration: str) -> None:
    rows, box = CONFIGURATIONS[configuration]()
    species = np.random.default_rng(3).integers(0, 3, len(rows))
    ours, law = truncated(name, truncation)
    forces, particles = forces_for(Particles.of(rows, species=species), box, ours)
    assert isinstance(forces, AllPairs if len(rows) < 600 else ListedForces)
    forces, particles, listed = complete_list(forces, particles)
    force, totals = totals_of(forces, particles, listed)
    ordered = particles.pushed(force).by_identity().momentum
    expected = plain_sums(rows, box, species, law=law)
    assert_same_sums(Vector(*(c[: len(rows)] for c in ordered)), totals, expected)
    # The other way round: the law is not one that everything fits.
    assert expected.energy_terms > 0
    assert np.abs(expected.force).max() > 1e-3


# A configuration for each, so that each potential meets four, and each truncation all of them.
CASES = [
    (name, truncation, list(CONFIGURATIONS)[(4 * i + k) % len(CONFIGURATIONS)])
    for i, name in enumerate(FORMULAS)
    for k, truncation in enumerate(TRUNCATIONS)
]

# Each truncation once: over lists in a tilted box, beside a vacuum and in free space, and over all pairs.
FEW = [
    ("LennardJones", "switched", "tilted liquid"),
    ("Coulomb", "shifted", "slab"),
    ("WCA", "shifted_force", "droplet in free space"),
    ("Mie", "plain", "small box"),
]


@pytest.mark.more
@pytest.mark.parametrize(("name", "truncation", "configuration"), slow_but(FEW, CASES))
def test_sums_of_every_potential_and_truncation_are_those_of_its_formula(name, truncation, configuration):
    check(name, truncation, configuration)


def test_sums_of_a_morse_potential_are_those_of_its_formula():
    check("Morse", "shifted_force", "small tilted box")


def test_every_potential_has_a_formula_here():
    assert set(POTENTIALS) < set(FORMULAS)
    assert {name for name, *_ in CASES} == set(FORMULAS)
    assert {case[1:] for case in CASES} == {(t, c) for t in TRUNCATIONS for c in CONFIGURATIONS}


ATOMS = 11
factor = st.floats(0.6, 1.0)
tilt = st.floats(-0.5, 0.5)


@pytest.fixture(scope="module")
def any_sums():
    """Forces and totals of Lennard-Jones particles in any box, with one image on each side."""

    @eqx.filter_jit
    def sums(rows, sides, tilts, cutoffs):
        box = TriclinicBox(Vector(*sides), Vector(*tilts))
        potential = Plain(LennardJones(jnp.asarray(TILT), jnp.asarray(TILT)), cutoffs)
        forces = AllPairs(potential, box, jnp.max(cutoffs), (1, 1, 1))
        species = np.arange(ATOMS) % 3
        particles, listed = forces.arranged(Particles.of(rows, species=species))
        return forces.totals(particles, listed), forces.complete(listed), box

    return sums


@settings(max_examples=40)
@given(
    seed=st.integers(0, 2**32 - 1),
    sides=st.tuples(*[st.floats(2.6, 9.0)] * 3),
    tilts=st.tuples(tilt, tilt, tilt),
    reach=st.tuples(*[factor] * 6),
)
def test_sums_in_any_box_with_any_cutoffs(any_sums, seed, sides, tilts, reach):
    x, y, _ = sides
    tilts = np.array([tilts[0] * x, tilts[1] * x, tilts[2] * y])
    matrix = edges(TriclinicBox(Vector(*map(jnp.asarray, sides)), Vector(*map(jnp.asarray, tilts))))
    width = (1 / np.linalg.norm(np.linalg.inv(matrix), axis=0)).min()
    cutoffs = np.empty((3, 3))
    cutoffs[np.triu_indices(3)] = np.minimum(1.45 * width * np.array(reach), 4.0)
    cutoffs.T[np.triu_indices(3)] = cutoffs[np.triu_indices(3)]
    generator = np.random.default_rng(seed)
    cells = generator.permutation(27)[:ATOMS]  # of the box, so that none come too close
    places = (
        np.stack(np.unravel_index(cells, (3, 3, 3)), 1) + 0.5 + 0.3 * (generator.random((ATOMS, 3)) - 0.5)
    )
    rows = places / 3 @ matrix + generator.integers(-2, 3, (ATOMS, 3)) @ matrix  # any image of each
    law = lennard_jones(cutoffs, TILT, TILT)
    (force, totals), complete, box = any_sums(rows, np.array(sides), tilts, cutoffs)
    assert bool(complete)
    assert_same_sums(force, totals, plain_sums(rows, box, np.arange(ATOMS) % 3, law=law))
