"""Regressions at a date: the shortest of all that fit."""

import numpy as np
import pytest

from simkit.ensemble.early_exercise.regression import least_squares


@pytest.mark.parametrize(
    "functions", [[(0, 1), (0, 1)], [(0, 1), (1, 2), (-2, 3)], [(0, 1), (0, 0, 1), (1, -2, 1)]], ids=str
)
def test_functions_that_coincide_share_the_shortest_coefficients(functions):
    """Those of the pseudoinverse, small however many polynomials of x and 1 say the same."""
    x = np.random.default_rng(0).uniform(2, 5, 3000)
    design = np.stack([np.polynomial.polynomial.polyval(x, each) for each in [(1,), *functions]], axis=1)
    wanted = np.exp(-x) + 1
    shortest = np.linalg.pinv(design, rcond=1e-12) @ wanted
    np.testing.assert_allclose(least_squares(design, wanted), shortest, rtol=0, atol=1e-9)
