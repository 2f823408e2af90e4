"""Truncations: how smoothly each ends, that nothing is left beyond, published sums, and tails."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from all_pairs import pair_vectors
from scipy.integrate import quad
from simkit_physics import (
    POTENTIALS,
    TRUNCATIONS,
    WCA,
    Coulomb,
    LennardJones,
    Plain,
    Shifted,
    ShiftedForce,
    Switched,
    lattice,
    table_of_pairs,
)

FLUID = LennardJones(epsilon=1.0, sigma=1.0)
CUTOFF = 2.5
# The others take long to compile, and add little: they run with `-m more`.
each_potential = pytest.mark.parametrize(
    "potential",
    [
        pytest.param(name, marks=[] if name in ("LennardJones", "Morse") else pytest.mark.more)
        for name in POTENTIALS
    ],
)
NONE = jnp.asarray(0)


def truncated(name: str, potential=FLUID, cutoff=CUTOFF):
    onset = {"onsets": 0.8 * cutoff} if name == "switched" else {}
    return TRUNCATIONS[name](potential, cutoff, **onset)


def order(function, name: str) -> float:
    """The power of h with which the function at r_c - h vanishes."""
    pair = truncated(name).of_pair(NONE, NONE)
    h = np.array([1e-3, 1e-4])
    big, small = np.abs(getattr(pair, function)(jnp.asarray((CUTOFF - h) ** 2)))
    return np.log10(big / small)


@pytest.mark.parametrize(
    ("name", "energy", "slope"),
    [("plain", 0, 0), ("shifted", 1, 0), ("shifted_force", 2, 1), ("switched", 3, 2)],
)
def test_each_ends_as_smoothly_as_its_name_says(name, energy, slope):
    assert abs(order("energy", name) - energy) < 0.05
    assert abs(order("slope", name) - slope) < 0.05


@pytest.mark.parametrize("name", TRUNCATIONS)
def test_each_says_what_jumps_at_its_cutoff(name):
    whole, pair = truncated(name), truncated(name).of_pair(NONE, NONE)
    r2 = jnp.asarray((CUTOFF * (1 - 1e-9)) ** 2)
    assert whole.energy_jumps == (abs(pair.energy(r2)) > 1e-3)
    assert whole.force_jumps == (abs(pair.slope(r2)) > 1e-3)


@pytest.mark.parametrize("name", TRUNCATIONS)
@each_potential
def test_the_slope_is_the_derivative_of_the_energy(name, potential):
    pair = truncated(name, POTENTIALS[potential](**POTENTIALS[potential].example), 1.05).of_pair(NONE, NONE)
    r2 = jnp.asarray(np.linspace(0.8, 1.15, 40) ** 2)
    derivative = jax.jvp(pair.energy, (r2,), (jnp.ones_like(r2),))[1]
    np.testing.assert_allclose(pair.slope(r2), derivative, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("dtype", [jnp.float64, jnp.float32])
@pytest.mark.parametrize("name", TRUNCATIONS)
@each_potential
def test_nothing_is_left_beyond_the_cutoff(name, potential, dtype):
    """Energy, slope and their derivatives in distance and parameters are exactly 0, also very far away."""
    cutoff = 1.05
    r2 = jnp.asarray([cutoff**2, 1.2, 25.0, (1e4 * cutoff) ** 2, 1e30], dtype)
    values = {key: dtype(value) for key, value in POTENTIALS[potential].example.items()}

    def pair(values):
        return truncated(name, POTENTIALS[potential](**values), dtype(cutoff)).of_pair(NONE, NONE)

    def results(r2, values):
        whole = pair(values)
        return whole.energy(r2), whole.slope(r2)

    ones = jax.tree.map(jnp.ones_like, (r2, values))
    for each in jax.tree.leaves(jax.jvp(results, (r2, values), ones)):
        assert each.dtype == dtype
        assert np.all(np.asarray(each) == 0), each


@pytest.mark.parametrize("name", TRUNCATIONS)
@each_potential
def test_python_numbers_leave_a_float32_distance_as_it_is(name, potential):
    pair = truncated(name, POTENTIALS[potential](**POTENTIALS[potential].example), 1.05).of_pair(NONE, NONE)
    r2 = jnp.asarray([0.9, 1.0, 7.0], jnp.float32)
    assert pair.energy(r2).dtype == pair.slope(r2).dtype == jnp.float32


def fcc_sums(name: str) -> tuple[float, float]:
    """Energy and sum of r.f per atom of a face-centred cubic lattice."""
    particles, box = lattice("fcc", (4, 4, 4), density=0.8442)
    rows, sides = np.asarray(particles.position.rows()), np.asarray(box.sides)
    r2 = np.sum(pair_vectors(rows, sides)[2] ** 2, axis=1)
    assert np.sum(r2 < CUTOFF**2) * 2 == 54 * len(rows)
    pair = truncated(name).of_pair(NONE, NONE)
    virial = np.sum(-2 * pair.slope(jnp.asarray(r2)) * r2)
    return float(jnp.sum(pair.energy(jnp.asarray(r2)))) / len(rows), virial / len(rows)


@pytest.mark.parametrize(
    ("name", "energy"),
    [("plain", -6.773368053253), ("shifted", -6.332811992581), ("shifted_force", -5.693278275712)],
)
def test_the_energy_of_a_lattice_is_the_published_one(name, energy):
    assert fcc_sums(name)[0] == pytest.approx(energy, abs=2e-12)


def test_the_virial_of_a_lattice_is_the_published_one():
    assert fcc_sums("plain")[1] == pytest.approx(-22.158199254035, abs=2e-11)
    assert fcc_sums("shifted")[1] == pytest.approx(-22.158199254035, abs=2e-11)


def test_below_its_onset_a_switched_potential_is_the_whole_one():
    r2 = jnp.asarray([0.9, 2.0, 3.99])
    pair = Switched(FLUID, 2.5, 2.0).of_pair(NONE, NONE)
    assert np.array_equal(pair.energy(r2), FLUID.energy(r2))
    assert np.array_equal(pair.slope(r2), FLUID.slope(r2))


def test_the_switching_function_is_the_one_that_is_stated():
    onset, cutoff, r = 2.0, 2.5, np.linspace(2.01, 2.49, 9)
    x = (r**2 - onset**2) / (cutoff**2 - onset**2)
    expected = FLUID.energy(jnp.asarray(r**2)) * (1 - 10 * x**3 + 15 * x**4 - 6 * x**5)
    pair = Switched(FLUID, cutoff, onset).of_pair(NONE, NONE)
    np.testing.assert_allclose(pair.energy(jnp.asarray(r**2)), expected, rtol=1e-12, atol=1e-16)


def kob_andersen(truncation=Shifted):
    """Cut at 2.5 sigma of each pair. Kob & Andersen (1995), doi:10.1103/PhysRevE.51.4626."""
    sigma = table_of_pairs(2, {(0, 0): 1.0, (0, 1): 0.8, (1, 1): 0.88})
    epsilon = table_of_pairs(2, {(0, 0): 1.0, (0, 1): 1.5, (1, 1): 0.5})
    onsets = {"onsets": 2.0 * sigma} if truncation is Switched else {}
    return truncation(LennardJones(epsilon, sigma), 2.5 * sigma, **onsets)


@pytest.mark.parametrize("truncation", TRUNCATIONS.values())
def test_each_pair_of_species_has_a_cutoff_of_its_own(truncation):
    mixture = kob_andersen(truncation)
    assert mixture.species == 2
    assert float(mixture.cutoff) == 2.5
    a, b = jnp.asarray([0, 0, 1, 1]), jnp.asarray([0, 1, 0, 1])
    pair = mixture.of_pair(a, b)
    for r in (0.9, 1.99, 2.1, 2.3):
        for k, (epsilon, sigma) in enumerate([(1.0, 1.0), (1.5, 0.8), (1.5, 0.8), (0.5, 0.88)]):
            onsets = {"onsets": 2.0 * sigma} if truncation is Switched else {}
            single = truncation(LennardJones(epsilon, sigma), 2.5 * sigma, **onsets).of_pair(NONE, NONE)
            r2 = jnp.asarray(r * r)
            for function in ("energy", "slope"):
                expected = float(getattr(single, function)(r2))
                assert getattr(pair, function)(r2)[k] == pytest.approx(expected, rel=1e-13)
                assert (expected == 0) == (r >= 2.5 * sigma)


def test_tail_corrections_are_the_published_ones():
    N, density = 500, 0.8442
    tail = Plain(FLUID, CUTOFF).tail([N], N / density)
    assert float(tail.energy) / N == pytest.approx(-0.452012624764, abs=1e-12)
    assert float(tail.pressure) == pytest.approx(-0.762134698519, abs=1e-12)


def energy_and_pressure(missing, change, start: float, counts, volume: float) -> tuple[float, float]:
    """Of pairs that lie evenly, by numerical integrals of an energy and its derivative."""
    pairs = 2 * np.pi * float(sum(counts)) ** 2 / volume
    U = quad(lambda r: missing(r) * r * r, start, np.inf, epsabs=1e-13)[0]
    P = -quad(lambda r: change(r) * r**3, start, np.inf, epsabs=1e-13)[0] / 3
    return pairs * U, pairs / volume * P


@pytest.mark.parametrize("name", ["plain", "switched"])
def test_a_tail_is_the_integral_of_what_is_cut_off(name):
    onset = 2.0 if name == "switched" else CUTOFF
    whole = truncated(name)
    pair = whole.of_pair(NONE, NONE)

    def missing(r):
        return float(FLUID.energy(r * r) - (pair.energy(jnp.asarray(r * r)) if r < CUTOFF else 0))

    def change(r):
        return 2 * r * float(FLUID.slope(r * r) - (pair.slope(jnp.asarray(r * r)) if r < CUTOFF else 0))

    U, P = energy_and_pressure(missing, change, onset, [100], 120.0)
    tail = whole.tail([100], 120.0)
    assert float(tail.energy) == pytest.approx(U, rel=1e-7)
    assert float(tail.pressure) == pytest.approx(P, rel=1e-7)


def test_the_tail_of_a_mixture_of_equals_is_that_of_one_species():
    same = jnp.ones((2, 2))
    mixture = Plain(LennardJones(same, same), CUTOFF).tail([30, 70], 110.0)
    single = Plain(FLUID, CUTOFF).tail([100], 110.0)
    np.testing.assert_allclose(mixture, single, rtol=1e-13)
    kob = kob_andersen(Plain)
    pairs = [(0, 0, 1.0, 1.0), (0, 1, 1.5, 0.8), (1, 0, 1.5, 0.8), (1, 1, 0.5, 0.88)]
    N = [80, 20]
    expected = sum(
        N[a] * N[b] * np.asarray(Plain(LennardJones(e, s), 2.5 * s).tail([1], 90.0)) for a, b, e, s in pairs
    )
    # Pressure goes with 1/V^2, as the energy does with 1/V: both are sums over pairs.
    np.testing.assert_allclose(kob.tail(N, 90.0), expected, rtol=1e-13)


@pytest.mark.parametrize(
    ("whole", "reason"),
    [
        (Shifted(FLUID, 2.5), "Shifted: has no tail correction, since it changes the potential everywhere"),
        (ShiftedForce(FLUID, 2.5), "ShiftedForce: has no tail correction"),
        (Plain(Coulomb(1.0, 1.0), 2.5), "Coulomb: has no tail correction"),
        (kob_andersen(Plain), "3 counts for potentials of 2 species"),
    ],
)
def test_a_tail_that_does_not_exist_is_refused(whole, reason):
    with pytest.raises(ValueError, match=reason):
        whole.tail([1, 2, 3] if "counts" in reason else [100], 100.0)


def test_wrong_cutoffs_are_refused():
    with pytest.raises(ValueError, match=r"Plain.cutoffs: must be > 0, got 0"):
        Plain(FLUID, 0.0)
    with pytest.raises(ValueError, match=r"Switched.onsets: must be below the cutoffs 2.5, got 2.5"):
        Switched(FLUID, 2.5, 2.5)
    with pytest.raises(ValueError, match=r"Plain.cutoffs: WCA ends at 1.12\d*, got 2.5"):
        Plain(WCA(1.0, 1.0), 2.5)
    with pytest.raises(ValueError, match="Plain: tables for 2 and for 3 species"):
        Plain(LennardJones(jnp.ones((3, 3)), 1.0), jnp.ones((2, 2)))


def test_derivatives_in_the_cutoff_agree_with_differences():
    r2 = jnp.asarray([1.1, 4.6])

    def energy(cutoff, name):
        onsets = {"onsets": 2.0} if name == "switched" else {}
        return jnp.sum(TRUNCATIONS[name](FLUID, cutoff, **onsets).of_pair(NONE, NONE).energy(r2))

    for name in TRUNCATIONS:
        h = 1e-6
        difference = (energy(CUTOFF + h, name) - energy(CUTOFF - h, name)) / (2 * h)
        np.testing.assert_allclose(jax.grad(energy)(CUTOFF, name), difference, rtol=1e-6, atol=1e-9)
