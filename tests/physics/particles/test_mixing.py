"""Mixing rules, by their published formulas."""

import numpy as np
import pytest
from simkit_physics import (
    Buckingham,
    Coulomb,
    LennardJones,
    Morse,
    arithmetic_means,
    geometric_means,
    mixed_parameters,
    products_of_pairs,
    table_of_pairs,
)

ARGON_KRYPTON = {"epsilon": [0.996, 1.39], "sigma": [3.405, 3.65]}


def test_lorentz_berthelot_takes_means_of_diameters_and_roots_of_energies():
    tables = mixed_parameters(LennardJones, "lorentz_berthelot", ARGON_KRYPTON)
    np.testing.assert_allclose(tables["sigma"], [[3.405, 3.5275], [3.5275, 3.65]], rtol=1e-14)
    root = np.sqrt(0.996 * 1.39)
    np.testing.assert_allclose(tables["epsilon"], [[0.996, root], [root, 1.39]], rtol=1e-14)
    assert LennardJones(**tables).species == 2


def test_the_geometric_rule_takes_roots_of_both():
    tables = mixed_parameters(LennardJones, "geometric", ARGON_KRYPTON)
    root = np.sqrt(3.405 * 3.65)
    np.testing.assert_allclose(tables["sigma"], [[3.405, root], [root, 3.65]], rtol=1e-14)


def test_numbers_and_equal_numbers_stay_numbers():
    tables = mixed_parameters(LennardJones, "geometric", {"epsilon": 2.0, "sigma": [1.0, 1.0]})
    assert tables == {"epsilon": 2.0, "sigma": 1.0}


def test_strengths_of_attractions_mix_geometrically():
    tables = mixed_parameters(
        Buckingham, "lorentz_berthelot", {"A": [1.0, 4.0], "rho": [0.1, 0.3], "C": [4.0, 9.0]}
    )
    assert [float(tables[name][0, 1]) for name in "AC"] == [2.0, 6.0]
    assert float(tables["rho"][0, 1]) == pytest.approx(0.2, rel=1e-15)


def test_what_no_rule_mixes_is_refused():
    with pytest.raises(
        ValueError, match=r"Morse.a: no rule mixes numbers in 1/length; give one for each pair"
    ):
        mixed_parameters(Morse, "geometric", {"D": [1.0, 2.0], "a": [1.0, 2.0], "r0": [1.0, 1.0]})
    with pytest.raises(ValueError, match=r"Coulomb.charge_product: no rule mixes numbers in charge\^2"):
        mixed_parameters(Coulomb, "geometric", {"charge_product": [1.0, 1.0], "constant": 1.0})
    with pytest.raises(ValueError, match="LennardJones: parameters for 2 and for 3 species"):
        mixed_parameters(LennardJones, "geometric", {"epsilon": [1.0, 2.0], "sigma": [1.0, 2.0, 3.0]})
    with pytest.raises(ValueError, match=r"geometric mixing: takes numbers >= 0, got \[1.0, -2.0\]"):
        geometric_means([1.0, -2.0])


def test_tables_are_symmetric():
    values = [1.0, -2.0, 3.0]
    np.testing.assert_array_equal(products_of_pairs(values), np.outer(values, values))
    np.testing.assert_array_equal(arithmetic_means(values)[0], [1.0, -0.5, 2.0])
    table = table_of_pairs(2, {(1, 0): 1.5, (0, 0): 1.0, (1, 1): 0.5})
    np.testing.assert_array_equal(table, [[1.0, 1.5], [1.5, 0.5]])


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ({(0, 0): 1.0, (1, 1): 1.0}, r"pair \(0, 1\): has no parameters"),
        ({(0, 0): 1.0, (0, 1): 1.0, (1, 0): 2.0, (1, 1): 1.0}, r"pair \(1, 0\): given twice"),
        ({(0, 2): 1.0}, r"pair \(0, 2\): species are numbered from 0 to 1"),
    ],
)
def test_pairs_are_given_once_each(pairs, message):
    with pytest.raises(ValueError, match=message):
        table_of_pairs(2, pairs)
