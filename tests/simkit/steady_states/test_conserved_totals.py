"""Conserved totals: found, kept, and no zero eigenvalues of them."""

import itertools
import math

import jax
import numpy as np
import pytest
from scipy.optimize import brentq
from simkit_physics import MODELS
from simkit_solvers import AbstractReactionNetwork
from steady_examples import ISOMERS, assert_within_errors, numbers, ode, states_of

import simkit
from simkit.steady_states.conserved import conserved_totals, sampled_totals, total_text
from simkit.steady_states.rates import Rates

NETWORKS = [name for name, cls in MODELS.items() if issubclass(cls, AbstractReactionNetwork)]


def test_isomers_share_their_total():
    (state,) = states_of(ISOMERS, ["k", "A", "B"])
    assert_within_errors(state, {"A": 11 * 0.2, "B": 11 * 0.8})
    assert [each["real"] for each in state["eigenvalues"]] == pytest.approx([-2.5])
    derivatives = state["values"]["B"]["derivatives"]
    exact = {"k": 11 * 0.5 / 2.5**2, "A": 0.8, "B": 0.8}
    assert {name: each["derivative"] for name, each in derivatives.items()} == pytest.approx(exact)


def test_an_enzyme_is_conserved_while_its_substrate_is_used_up():
    enzyme = {"model": {"type": "MichaelisMenten", "k1": 0.01, "k_1": 0.1, "k2": 0.1}, "time": {"t1": 1.0}}
    dataset = simkit.steady(enzyme | {"initial": {"E": 10, "S": 100, "ES": 5, "P": 0}})
    totals = dict(zip(dataset["conserved"].values.tolist(), dataset["total"].values.tolist(), strict=True))
    assert totals == {"E + ES": 15.0, "S + ES + P": 105.0}
    np.testing.assert_allclose(dataset["value"].values, [[15, 0, 0, 105]], atol=1e-12)
    # At S = ES = 0 the free directions are those of the linear scheme S <-> ES -> P with E = 15.
    exact = np.linalg.eigvals([[-0.01 * 15, 0.1], [0.01 * 15, -0.2]])
    np.testing.assert_allclose(np.sort(dataset["eigenvalue_real"].values[0]), np.sort(exact), rtol=1e-10)
    assert bool(dataset["stable"][0])


def final_size(s0: float, total: float, ratio: float) -> float:
    """Who is never infected: s = s0 exp(-ratio (total - s)/total)."""
    return brentq(lambda s: s - s0 * math.exp(-ratio * (total - s) / total), 0, s0 * 0.999, xtol=1e-13)


def test_an_epidemic_ends_at_its_final_size():
    model = {"model": {"type": "SIR", "beta": 0.3, "gamma": 0.1, "N": 1000.0}, "time": {"t1": 1.0}}
    dataset = simkit.steady(model | {"initial": {"S": 990, "I": 10, "R": 0}}, ["beta"], search=5)
    assert dataset.sizes["root"] == 1
    value, error = dataset["value"].values[0], dataset["value_error"].values[0]
    exact = final_size(990, 1000, 3)
    assert abs(value[0] - exact) <= error[0] < 1e-7
    assert value.sum() == pytest.approx(1000, abs=1e-10)
    assert str(dataset["kind"].values[0]) == "stable, one of a continuum"
    assert abs(dataset["eigenvalue_real"].values[0][1] - (0.3 * exact / 1000 - 0.1)) < 1e-9
    assert np.isnan(dataset["derivative"].values).all()
    assert "use `simkit sensitivity`" in dataset.attrs["notes"]


def test_equations_in_the_file_have_the_totals_of_the_network():
    drifts = {"S": "-b*S*I", "I": "b*S*I - g*I", "R": "g*I"}
    (state,) = states_of(ode(drifts, {"S": 990.0, "I": 10.0, "R": 0.0}, b=3e-4, g=0.1))
    exact = final_size(990, 1000, 3)
    assert_within_errors(state, {"S": exact, "R": 1000 - exact}, worst=1e-8)


def rates_of(name: str) -> Rates:
    cls = MODELS[name]
    spec = {"model": {"type": name, **cls.example}, "initial": cls.example_initial, "time": cls.example_time}
    return Rates(simkit.load(spec))


@pytest.mark.parametrize("name", NETWORKS)
def test_random_states_show_the_totals_that_the_reactions_have(name):
    rates = rates_of(name)
    with jax.enable_x64(True):
        exact, sampled = conserved_totals(rates), sampled_totals(rates)
    assert exact.shape == sampled.shape
    if len(exact):
        both = np.concatenate([exact, sampled])
        assert np.linalg.matrix_rank(both, tol=1e-8) == len(exact)


def test_stiff_rates_hide_no_total_and_invent_none():
    with jax.enable_x64(True):
        np.testing.assert_array_equal(conserved_totals(rates_of("Robertson")), [[1, 1, 1]])
        assert len(conserved_totals(rates_of("HodgkinHuxley"))) == 0


def test_units_that_differ_hide_no_total():
    drifts = {"A": "-A + 1e-12*B", "B": "1e12*A - B"}
    dataset = simkit.steady(ode(drifts, {"A": 3.0, "B": 0.0}))
    np.testing.assert_allclose(dataset["weight"].values, [[1, 1e-12]], rtol=1e-9)
    np.testing.assert_allclose(dataset["value"].values, [[1.5, 1.5e12]], rtol=1e-12)


def test_rates_that_grow_exponentially_hide_no_total():
    drifts = {"A": "B - A*exp(D)", "B": "A*exp(D) - 2*B + C", "C": "B - C", "D": "2 - D + 0.1*A"}
    rates = Rates(simkit.load(ode(drifts, {"A": 1.0, "B": 1.0, "C": 1.0, "D": 6.0})))
    with jax.enable_x64(True):
        np.testing.assert_allclose(conserved_totals(rates), [[1, 1, 1, 0]])


def test_starts_of_a_search_are_moved_to_the_totals():
    states = states_of(ISOMERS, search=5, ranges={"A": (0, 50), "B": (0, 50)})
    assert len(states) == 1
    assert_within_errors(states[0], {"A": 2.2, "B": 8.8})


def test_totals_are_sums_without_minus_signs_where_they_can_be():
    network = {
        "bind": {"equation": "S + E -> ES", "rate": 1.0},
        "free": {"equation": "ES -> S + E", "rate": 1.0},
        "make": {"equation": "ES -> P + E", "rate": 1.0},
    }
    spec = {"model": {"reactions": network}, "initial": dict.fromkeys(("S", "E", "ES", "P"), 3)}
    for names in itertools.permutations(spec["initial"]):
        ordered = {"wait": {"equation": f"{' + '.join(names)} -> {' + '.join(names)}", "rate": 0.0}}
        model = {"reactions": ordered | network}
        rates = Rates(simkit.load(spec | {"model": model, "time": {"t1": 1.0}}))
        assert rates.names == names
        weights = conserved_totals(rates)
        assert np.linalg.matrix_rank(weights) == 2
        assert (weights >= 0).all(), (names, weights)


def test_totals_that_are_nearly_kept_are_not_conserved():
    leaky = ode({"A": "-A + B - leak*A", "B": "A - B"}, {"A": 3.0, "B": 0.0}, leak=1e-6)
    (state,) = states_of(leaky)
    assert numbers(state) == pytest.approx({"A": 0, "B": 0}, abs=1e-9)
    assert len(state["eigenvalues"]) == 2


def test_totals_are_written_as_chemists_do():
    assert total_text(np.asarray([1.0, 0.0, 2.0]), ("A", "B", "C")) == "A + 2 C"
    assert total_text(np.asarray([-1.0, 1.0, -0.5]), ("A", "B", "C")) == "- A + B - 0.5 C"
