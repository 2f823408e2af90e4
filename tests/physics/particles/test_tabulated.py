"""Tabulated potentials: the spline is scipy's, on even and uneven points, one curve or several."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.interpolate import CubicSpline
from simkit_physics import LennardJones, Plain, Tabulated

pytestmark = pytest.mark.more

FLUID = LennardJones(1.0, 1.0)
EVEN = np.linspace(0.8, 2.5, 120)
GAPS = np.cumsum(1 + 0.7 * np.sin(2.4 * np.arange(91)))
UNEVEN = 0.8 + 1.7 * (GAPS - GAPS[0]) / (GAPS[-1] - GAPS[0])
ENERGIES = {"even": np.asarray(FLUID.energy(EVEN**2)), "uneven": np.asarray(FLUID.energy(UNEVEN**2))}


@pytest.mark.parametrize("ends", ["natural", "clamped"])
@pytest.mark.parametrize("points", ["even", "uneven"])
def test_the_spline_is_that_of_scipy(points, ends):
    r, u = {"even": EVEN, "uneven": UNEVEN}[points], ENERGIES[points]
    slopes = None if ends == "natural" else (-30.0, 0.1)
    kind = ends if slopes is None else ((1, slopes[0]), (1, slopes[1]))
    spline = CubicSpline(r, u, bc_type=kind)
    table = Tabulated.through(r, u, slopes)
    between = np.concatenate(
        [np.random.default_rng(0).uniform(0.8, 2.5, 2000), r[:-1], r[1:-1] * (1 + 1e-15)]
    )
    r2 = jnp.asarray(between**2)
    np.testing.assert_allclose(table.energy(r2), spline(between), rtol=1e-10, atol=1e-11)
    np.testing.assert_allclose(table.slope(r2), spline(between, 1) / (2 * between), rtol=1e-9, atol=1e-9)
    derivative = jax.jvp(table.energy, (r2,), (jnp.ones_like(r2),))[1]
    np.testing.assert_allclose(table.slope(r2), derivative, rtol=1e-9, atol=1e-9)


def test_the_error_falls_with_the_fourth_power_of_the_spacing():
    between = jnp.asarray(np.linspace(0.9, 2.5, 6401) ** 2)
    ends = [2 * float(r) * float(FLUID.slope(r * r)) for r in (0.9, 2.5)]
    errors = []
    for points in (201, 401, 801):
        r = np.linspace(0.9, 2.5, points)
        table = Tabulated.through(r, FLUID.energy(r**2), ends)
        errors.append(float(jnp.max(jnp.abs(table.energy(between) - FLUID.energy(between)))))
    orders = np.log2(np.array(errors[:-1]) / errors[1:])
    assert np.all(np.abs(orders - 4) < 0.1)


def test_below_the_first_distance_it_is_a_straight_line():
    table = Tabulated.through(EVEN, ENERGIES["even"], (-30.0, 0.1))
    r = np.array([0.5, 0.7])
    np.testing.assert_allclose(table.energy(r**2), ENERGIES["even"][0] - 30 * (r - 0.8), rtol=1e-12)
    np.testing.assert_allclose(2 * r * table.slope(r**2), [-30, -30], rtol=1e-12)


def test_each_pair_of_species_has_its_curve():
    other = LennardJones(0.5, 0.9)
    table = Tabulated.through(
        EVEN, np.stack([FLUID.energy(EVEN**2), other.energy(EVEN**2)]), curve=np.array([[0, 1], [1, 0]])
    )
    r2 = jnp.asarray([1.0, 1.0, 2.0, 2.0])
    pair = Plain(table, 2.5).of_pair(jnp.asarray([0, 0, 1, 1]), jnp.asarray([0, 1, 0, 1]))
    expected = [float(p.energy(x)) for p, x in zip([FLUID, other, other, FLUID], r2, strict=True)]
    np.testing.assert_allclose(pair.energy(r2), expected, atol=2e-4)
    assert table.species == 2


def test_a_float32_table_stays_float32():
    table = Tabulated.through(EVEN, ENERGIES["even"])
    single = jax.tree.map(
        lambda a: a.astype(jnp.float32) if hasattr(a, "dtype") and a.dtype == float else a, table
    )
    r2 = jnp.asarray(EVEN[1:-1] ** 2, jnp.float32)
    assert single.energy(r2).dtype == single.slope(r2).dtype == jnp.float32
    np.testing.assert_allclose(single.energy(r2), ENERGIES["even"][1:-1], rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1.0, 2.0, 2.0, 3.0], [0.0] * 4), "at least four numbers >= 0 that increase"),
        (([1.0, 2.0, 3.0], [0.0] * 3), "at least four"),
        (([1.0, 2.0, 3.0, 4.0], [0.0] * 3), "energies must be finite numbers, one a distance, 4"),
        (([1.0, 2.0, 3.0, 4.0], [0.0, np.nan, 0.0, 0.0]), "energies must be finite"),
        (([1.0, 2.0, 3.0, 4.0], [0.0] * 4, [1.0]), "slopes must be two a curve"),
        (([1.0, 2.0, 3.0, 4.0], [0.0] * 4, None, 1), "curve 1 does not exist; there are 1"),
        (([1.0, 1.0 + 1e-9, 3.0, 4.0], [0.0] * 4), "the shortest interval, 1e-09, is too short"),
    ],
)
def test_wrong_tables_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        Tabulated.through(*arguments)


def test_it_ends_at_its_last_distance():
    table = Tabulated.through(EVEN, ENERGIES["even"])
    Plain(table, 2.5)
    with pytest.raises(ValueError, match=r"Plain.cutoffs: Tabulated ends at 2.5, got 2.6"):
        Plain(table, 2.6)
    with pytest.raises(ValueError, match="Tabulated: has no tail correction"):
        Plain(table, 2.5).tail([10], 10.0)
