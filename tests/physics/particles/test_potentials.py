"""Each pair potential: its equation, its slope, its tables of species pairs, and its tail."""

import re
from typing import Any
from unittest import mock

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from checkout import ROOT
from scipy.integrate import quad
from simkit_physics import (
    POTENTIALS,
    WCA,
    AbstractPotential,
    Coulomb,
    FunctionOfDistance,
    LennardJones,
    Mie,
    Plain,
    SoftSphere,
)
from simkit_physics.particles.potentials.pair_tables import pair_parameters

exp = np.exp
# The equations once more, with the parameters of the examples.
EQUATIONS: dict[str, Any] = {
    "BornMayer": lambda r: exp((1.0 - r) / 0.1) - 0.5 / r**6 - 0.2 / r**8,
    "Buckingham": lambda r: 2e5 * exp(-r / 0.08) - 2 / r**6,
    "Coulomb": lambda r: 1 / r,
    "LennardJones": lambda r: 4 * (r**-12.0 - r**-6.0),
    "Mie": lambda r: 14 / 7.5 * (14 / 6.5) ** (6.5 / 7.5) * (r**-14.0 - r**-6.5),
    "Morse": lambda r: (1 - exp(-6.0 * (r - 1.1))) ** 2 - 1,
    "SoftSphere": lambda r: r**-12.0,
    "WCA": lambda r: np.where(r < 2 ** (1 / 6), 4 * (r**-12.0 - r**-6.0) + 1, 0),
    "Yukawa": lambda r: 10 * exp(-2 * r) / r,
}
# The others take long to compile, and add little: they run with `-m more`.
each_potential = pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name in ("LennardJones", "Morse") else pytest.mark.more)
        for name in POTENTIALS
    ],
)
DISTANCES = np.linspace(0.8, 3.0, 45)


def example(name: str) -> AbstractPotential:
    return POTENTIALS[name](**POTENTIALS[name].example)


def tables(name: str, species: int) -> dict[str, np.ndarray]:
    """Symmetric tables around the numbers of the example, all entries different."""
    i, j = np.triu_indices(species)
    factors = np.zeros((species, species))
    factors[i, j] = factors[j, i] = 1 + np.arange(len(i)) / (10 * len(i))
    return {key: value * factors for key, value in POTENTIALS[name].example.items()}


def test_all_are_registered_and_documented():
    assert set(POTENTIALS) == set(EQUATIONS)
    for name, potential in POTENTIALS.items():
        assert list(pair_parameters(potential)) == list(potential.example), name
        assert re.search(r"Reference.*doi:10\.", potential.__doc__ or "", re.S), name
        assert all(spec.unit and spec.description for spec in pair_parameters(potential).values())


@pytest.mark.parametrize("name", POTENTIALS)
def test_energy_is_that_of_the_equation_and_the_slope_its_derivative(name):
    potential, equation = example(name), EQUATIONS[name]
    r2 = jnp.asarray(DISTANCES**2)
    np.testing.assert_allclose(potential.energy(r2), equation(DISTANCES), rtol=1e-12, atol=1e-14)
    h = 1e-3
    right, left = ([equation(np.sqrt(r2 + sign * k * h)) for k in (1, 2, 3)] for sign in (1, -1))
    a, b, c = (plus - minus for plus, minus in zip(right, left, strict=True))
    slope = (45 * a - 9 * b + c) / (60 * h)  # error h^6
    smooth = np.abs(DISTANCES - 2 ** (1 / 6)) > 4 * h if name == "WCA" else slice(None)
    np.testing.assert_allclose(potential.slope(r2)[smooth], slope[smooth], rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("name", POTENTIALS)
def test_a_slope_given_in_closed_form_is_that_of_the_energy(name):
    potential, r2 = example(name), jnp.asarray(DISTANCES**2)
    derivative = jax.jvp(potential.energy, (r2,), (jnp.ones_like(r2),))[1]
    np.testing.assert_allclose(potential.slope(r2), derivative, rtol=1e-12, atol=1e-14)


@each_potential
@pytest.mark.parametrize("number", [float, jnp.float32])
def test_a_float32_distance_stays_float32(name, number):
    potential = POTENTIALS[name](**{key: number(value) for key, value in POTENTIALS[name].example.items()})
    r2 = jnp.asarray(DISTANCES**2, jnp.float32)
    energy, slope = potential.energy(r2), potential.slope(r2)
    assert energy.dtype == slope.dtype == jnp.float32
    np.testing.assert_allclose(energy, EQUATIONS[name](DISTANCES), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("species", [2, 3, 5])
def test_a_table_gives_each_pair_of_species_its_own_parameters(species):
    given = tables("LennardJones", species)
    whole = LennardJones(**{key: jnp.asarray(table) for key, table in given.items()})
    assert whole.species == species
    a, b = (x.ravel() for x in np.meshgrid(np.arange(species), np.arange(species)))
    r = np.linspace(1.0, 1.5, species**2)
    s, epsilon = (given["sigma"][a, b] / r) ** 6, given["epsilon"][a, b]
    pair = whole.of_pair(jnp.asarray(a), jnp.asarray(b))
    np.testing.assert_allclose(pair.energy(r * r), 4 * epsilon * (s * s - s), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(pair.slope(r * r), epsilon / r**2 * (12 * s - 24 * s * s), rtol=1e-12)


def test_the_potential_of_the_readme_works():
    names: dict[str, Any] = {"__name__": "example"}
    page = (ROOT / "physics/README.md").read_text("utf-8")
    with mock.patch.dict(POTENTIALS):
        exec(re.findall(r"```python\n(.*?)```", page, re.S)[1], names)
        potential = POTENTIALS["GaussianCore"](**POTENTIALS["GaussianCore"].example)
    r2 = jnp.asarray(DISTANCES**2)
    np.testing.assert_allclose(Plain(potential, 5.0).of_pair(r2, r2).slope(r2), -np.exp(-r2), rtol=1e-14)
    numerical = quad(lambda r: np.exp(-r * r) * r * r, 1.0, np.inf)[0]
    assert potential.tail_integral(1.0) == pytest.approx(numerical, rel=1e-10)


def test_a_parameter_that_is_a_number_is_that_of_all_pairs():
    sigma = jnp.asarray([[1.0, 0.9], [0.9, 0.8]])
    pair = LennardJones(epsilon=2.0, sigma=sigma).of_pair(jnp.asarray([0, 1]), jnp.asarray([1, 1]))
    np.testing.assert_allclose(pair.energy(jnp.asarray([0.81, 0.64])), [0, 0], atol=1e-14)
    assert pair.epsilon == 2.0


@pytest.mark.parametrize("name", [name for name in POTENTIALS if name != "Coulomb"])
def test_the_tail_is_the_integral_beyond_the_cutoff(name):
    cutoff = 1.0 if name == "WCA" else 2.5
    numerical = quad(
        lambda r: EQUATIONS[name](r) * r * r, cutoff, 40.0, epsabs=1e-14, epsrel=1e-12, limit=500
    )[0]
    if name in ("LennardJones", "Mie", "Buckingham", "BornMayer", "SoftSphere"):
        numerical += quad(lambda x: EQUATIONS[name](1 / x) * x**-4.0, 0, 1 / 40.0)[0]
    np.testing.assert_allclose(example(name).tail_integral(cutoff), numerical, rtol=1e-7, atol=1e-13)


def test_the_tail_of_any_function_is_found_numerically():
    """Against closed forms: a slow power, fast decay, and a potential with tables."""
    power = FunctionOfDistance(lambda r, n: r**-n, {"n": 4.5})
    np.testing.assert_allclose(power.tail_integral(2.0), 2.0**-1.5 / 1.5, rtol=1e-11)
    sigma = jnp.asarray([[1.0, 0.9], [0.9, 0.8]])
    mixture = LennardJones(epsilon=1.0, sigma=sigma)
    same = FunctionOfDistance(lambda r, sigma: 4 * ((sigma / r) ** 12 - (sigma / r) ** 6), {"sigma": sigma})
    cutoffs = 2.5 * sigma
    np.testing.assert_allclose(same.tail_integral(cutoffs), mixture.tail_integral(cutoffs), rtol=1e-11)
    screened = FunctionOfDistance(lambda r: jnp.exp(-3 * r) / r, {})
    np.testing.assert_allclose(
        screened.tail_integral(1.0), POTENTIALS["Yukawa"](1.0, 3.0).tail_integral(1.0), rtol=1e-11
    )


@pytest.mark.parametrize(
    ("potential", "reason"),
    [
        (Coulomb(charge_product=1.0, constant=1.0), "Coulomb: has no tail correction"),
        (SoftSphere(epsilon=1.0, sigma=1.0, n=3.0), "exponents above 3, got 3.0"),
        (Mie(epsilon=1.0, sigma=1.0, n=6.0, m=2.0), "exponents above 3, got 2.0"),
        (FunctionOfDistance(lambda r: 1 / r**3, {}), "FunctionOfDistance: has no tail correction"),
        (FunctionOfDistance(lambda r: jnp.cos(r) / r**4, {}), "does not converge"),
    ],
)
def test_an_integral_that_diverges_is_refused(potential, reason):
    with pytest.raises(ValueError, match=reason):
        potential.tail_integral(2.5)


@each_potential
def test_derivatives_in_the_parameters_agree_with_differences(name):
    values = {key: jnp.asarray(value) for key, value in POTENTIALS[name].example.items()}
    r2 = jnp.asarray([0.9, 1.1])

    def energy(values):
        return jnp.sum(POTENTIALS[name](**values).energy(r2))

    for key, derivative in eqx.filter_grad(energy)(values).items():
        h = 1e-6 * float(values[key])
        right, left = (energy(values | {key: values[key] + sign * h}) for sign in (1, -1))
        np.testing.assert_allclose(derivative, (right - left) / (2 * h), rtol=1e-6, atol=1e-8, err_msg=key)


def test_wca_ends_at_its_minimum():
    potential = WCA(epsilon=2.0, sigma=1.5)
    end = 2 ** (1 / 6) * 1.5
    np.testing.assert_allclose(potential.natural_cutoff, end)
    r2 = jnp.asarray([(0.999999 * end) ** 2, end**2 * (1 + 1e-12), 9.0])
    assert float(potential.energy(r2)[0]) > 0
    assert not np.any(potential.energy(r2)[1:])
    assert not np.any(potential.slope(r2)[1:])


def test_lennard_jones_divides_once_and_takes_no_root():
    program = str(jax.make_jaxpr(LennardJones(epsilon=1.0, sigma=1.0).slope)(jnp.ones(8)))
    assert program.count("div") == 1
    assert not re.search(r"sqrt|pow\[|exp", program)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"epsilon": -1.0, "sigma": 1.0}, "LennardJones.epsilon: must be >= 0, got -1"),
        ({"epsilon": 1.0, "sigma": np.nan}, "LennardJones.sigma: must be > 0, got nan"),
        ({"epsilon": 1.0, "sigma": jnp.ones((2, 3))}, "must be a number or an array .* got .2, 3."),
        ({"epsilon": 1.0, "sigma": [[1.0]]}, "must be a number or an array"),
        ({"epsilon": 1.0, "sigma": jnp.asarray([[1.0, 2.0], [3.0, 1.0]])}, "must be symmetric"),
        (
            {"epsilon": jnp.ones((3, 3)), "sigma": jnp.ones((2, 2))},
            "epsilon is for 3 species and sigma for 2",
        ),
    ],
)
def test_wrong_parameters_are_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        LennardJones(**wrong)


def test_mie_needs_a_repulsion_steeper_than_its_attraction():
    with pytest.raises(ValueError, match=r"Mie.n: must be larger than m, got n = 6.0 and m = 12.0"):
        Mie(epsilon=1.0, sigma=1.0, n=6.0, m=12.0)


def test_mie_12_6_is_lennard_jones_with_whole_and_traced_exponents():
    r2 = jnp.asarray(DISTANCES**2)
    expected = example("LennardJones").energy(r2)
    traced = jax.jit(lambda n: Mie(epsilon=1.0, sigma=1.0, n=n, m=6.0).energy(r2))
    np.testing.assert_allclose(Mie(epsilon=1.0, sigma=1.0, n=12, m=6).energy(r2), expected, rtol=1e-13)
    np.testing.assert_allclose(traced(12.0), expected, rtol=1e-12, atol=1e-14)
