"""One definition of a network, and the processes that it defines."""

from typing import ClassVar

import jax.numpy as jnp
import numpy as np
import pytest
from simkit_physics import ImmigrationDeath, Schlogl
from simkit_solvers import (
    AbstractReactionNetwork,
    ChemicalLangevin,
    Grid,
    States,
    integrate,
    make_solver,
    reaction,
)


def test_the_views_on_a_network_differ_as_they_should():
    """Mass action: pairs in the jump process and in the Langevin equation, squares in the rate equation."""
    network = Schlogl(**Schlogl.example)
    y = Schlogl.State(X=jnp.asarray(10.0))
    c1, c2, c3, c4 = Schlogl.example.values()
    expected = (c1 * 45, c2 * 120, c3, c4 * 10)
    np.testing.assert_allclose(network.propensities(0.0, y), expected, rtol=1e-14)
    slope = c1 * 50 - c2 * 1000 / 6 + c3 - c4 * 10
    assert float(network.drift(0.0, y).X) == pytest.approx(slope, rel=1e-14)
    view = ChemicalLangevin(network)
    assert view.Noise._fields == tuple(Schlogl.reactions)
    assert float(view.drift(0.0, y).X) == pytest.approx(
        expected[0] - expected[1] + expected[2] - expected[3], rel=1e-14
    )
    one = [float(view.noise(0.0, y, view.Noise(*unit)).X) for unit in np.eye(4)]
    signs = np.array([1, -1, 1, -1])
    np.testing.assert_allclose(one, signs * np.sqrt(expected), rtol=1e-14)
    below = Schlogl.State(X=jnp.asarray(-2.0))
    assert float(view.noise(0.0, below, view.Noise(0.0, 0.0, 0.0, 1.0)).X) == 0
    assert float(view.drift(0.0, below).X) == pytest.approx(c1 * 3 + c2 * 4 + c3 + c4 * 2, rel=1e-14)


def test_the_rate_equation_of_a_linear_network_is_the_mean():
    model = ImmigrationDeath(**ImmigrationDeath.example)
    grid = Grid(0.0, 0.05, 200, 200)
    end = integrate(model, make_solver("Tsit5"), model.State(X=jnp.asarray(20.0)), grid, None, States())["X"][
        -1
    ]
    mean = model.exact_mean(10.0, model.State(X=20.0)).X
    assert float(end) == pytest.approx(float(mean), rel=1e-9)


def test_a_reaction_of_an_unknown_species():
    class Wrong(AbstractReactionNetwork):
        State = ImmigrationDeath.State
        reactions: ClassVar = {"decay": reaction("Y -> 0")}

        def rates(self, t, y):
            return (1.0,)

    with pytest.raises(
        ValueError, match=r"^Wrong.reactions\['decay'\]: unknown species 'Y'; the state has X$"
    ):
        Wrong()
