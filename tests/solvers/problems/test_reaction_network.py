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
from simkit_solvers.problems.reaction_network import check_rates


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


RATES = {
    "got a tuple of 1": lambda model, y: (model.alpha,),
    "got a list of 3": lambda model, y: [model.alpha, model.mu, model.mu],
    "got one number": lambda model, y: model.alpha,
    "got an array of shape (3,)": lambda model, y: jnp.ones(3) * y.X,
    "got a dict": lambda model, y: {"immigration": model.alpha, "death": model.mu},
    "got a ImmigrationDeathState with X one number": lambda model, y: model.State(X=model.mu),
    "got None": lambda model, y: None,
    "got an array of shape (2,) for death": lambda model, y: (model.alpha, jnp.ones(2)),
}
FAILING = {
    "AttributeError: .* 'x'": lambda model, y: (model.alpha, y.x),
    "AttributeError: .* 'nu'": lambda model, y: (model.alpha, model.nu),
    "TypeError: .*": lambda model, y: (model.alpha, y + 1),
}


def with_rates(law) -> AbstractReactionNetwork:
    class Own(AbstractReactionNetwork):
        State = ImmigrationDeath.State
        reactions = ImmigrationDeath.reactions
        alpha: float = 10.0
        mu: float = 0.5

        def rates(self, t, y):
            return law(self, y)

    return Own()


@pytest.mark.parametrize("got", RATES)
def test_rates_that_are_not_one_number_for_each_reaction_are_refused(got):
    with pytest.raises(ValueError, match=r"^Own.rates: must return a tuple with one ") as caught:
        check_rates(with_rates(RATES[got]), ImmigrationDeath.State(X=4.0))
    assert str(caught.value).endswith(f" immigration, death; {got}")


@pytest.mark.parametrize("reason", FAILING)
def test_rates_that_fail_are_told_how_to_be_written(reason):
    how = r"it is rates\(self, t, y\), with the variables y\.X$"
    with pytest.raises(ValueError, match=f"^Own.rates: {reason}; {how}"):
        check_rates(with_rates(FAILING[reason]), ImmigrationDeath.State(X=4.0))


@pytest.mark.parametrize("kind", [tuple, list, jnp.stack])
def test_rates_may_be_a_tuple_a_list_or_an_array(kind):
    network = with_rates(lambda model, y: kind([model.alpha * y.X, model.mu]))
    check_rates(network, ImmigrationDeath.State(X=4.0))
    assert [float(a) for a in network.propensities(0.0, ImmigrationDeath.State(X=4.0))] == [40.0, 2.0]


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (
            {"in": reaction("0 -> X"), "out": "X -> 0"},
            r"\['out'\]: must be made by reaction\(\"X -> 0\"\), got",
        ),
        ({"out": None}, r"\['out'\]: must be made by reaction\(\"S \+ I -> 2 I\"\), got None$"),
        ([reaction("X -> 0")], ": must be a dict of names and reactions, got a list$"),
        ("X -> 0", ": must be a dict of names and reactions, got a str$"),
    ],
)
def test_what_is_no_reaction_is_refused(given, reason):
    class Wrong(AbstractReactionNetwork):
        State = ImmigrationDeath.State
        reactions = given

        def rates(self, t, y):
            return (1.0,) * len(given)

    with pytest.raises(ValueError, match=rf"^Wrong\.reactions{reason}"):
        Wrong()
