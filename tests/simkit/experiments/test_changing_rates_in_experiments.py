"""Experiments with rates that change continuously: first times, fine pieces, bits, derivatives."""

import math

import numpy as np
import pytest
from derivative_examples import LIMIT, derivative
from scipy.integrate import quad
from scipy.stats import poisson

import simkit
from simkit import InputError, load

END, TURN = 1.5, 2 * math.pi
SEASON = {
    "model": {
        "reactions": {"make": {"equation": "0 -> X", "rate": "k*(1 + A*sin(2*pi*t))"}},
        "parameters": {"k": 3.0, "A": 0.9},
    },
    "initial": {"X": 0},
    "time": {"t1": END},
    "ensemble": {"paths": 2**13, "seed": 4, "devices": 1},
}
CLOUDS = {"times": [0, 0.3, 0.6, 1.0, 1.5], "values": [5.0, 0.0, 0.0, 30.0, 10.0]}
LIGHT = {
    "curves": {"light": CLOUDS | {"interpolation": "linear"}},
    "constants": {"q": 2.0},
    "model": {"type": "ImmigrationDeath", "alpha": "q*light*(1 + t)", "mu": 1.5},
    "initial": {"X": 7},
    "time": {"t1": END},
    "ensemble": {"paths": 2**13, "seed": 4, "devices": 1},
    "save": {"points": 5},
}


def expected(t, k=3.0, A=0.9):
    """The mean number of arrivals by a time."""
    return k * (t + A * (1 - math.cos(TURN * t)) / TURN)


def z(result, name, wanted):
    mean, error = (np.atleast_1d(result[f"{name}_{what}"].values)[-1] for what in ("mean", "stderr"))
    return (mean - wanted) / error


@pytest.mark.more
def test_first_times_have_the_distribution_of_the_integrated_rate():
    """The third arrival comes after t with the chance of fewer than three by t."""
    dates = {f"by_{i}": f"first(1, X > 2) * (hitting_time(X > 2) < {0.15 * i})" for i in range(1, 10)}
    observe = {"tau": "hitting_time(X > 2)", "square": "hitting_time(X > 2)**2", "area": "integral(X)"}
    result = simkit.run({**SEASON, "observe": observe | dates})
    left = lambda t: poisson.cdf(2, expected(t))  # noqa: E731
    assert abs(z(result, "tau", quad(left, 0, END)[0])) < 5
    assert abs(z(result, "square", quad(lambda t: 2 * t * left(t), 0, END)[0])) < 5
    assert abs(z(result, "area", quad(expected, 0, END)[0])) < 5
    for i in range(1, 10):
        assert abs(z(result, f"by_{i}", 1 - left(0.15 * i))) < 5
    assert abs(result.attrs["events_mean"] - expected(END)) < 5 * math.sqrt(expected(END) / 2**13)


@pytest.mark.more
def test_a_curve_agrees_with_its_fine_pieces_and_with_the_rate_equation():
    """The rate equation has the mean, since rates are linear in the counts."""
    result = simkit.run(LIGHT)
    mean = simkit.run({**LIGHT, "solver": "Tsit5", "time": {"t1": END, "steps": 1500}})["X_mean"].values
    edges = np.linspace(0, END, 601)
    middles = 0.5 * (edges[:-1] + edges[1:])
    values = np.interp(middles, CLOUDS["times"], CLOUDS["values"]) * (1 + middles)
    pieces = {"times": edges[:-1].tolist(), "values": values.tolist(), "interpolation": "previous"}
    model = LIGHT["model"] | {"alpha": "q*light"}
    outside = {"curves": {"light": pieces | {"outside": "hold"}}, "model": model}
    other = simkit.run({**LIGHT, **outside, "ensemble": {"paths": 2**13, "seed": 5, "devices": 1}})
    errors = [each["X_stderr"].values[1:] for each in (result, other)]
    assert np.abs((result["X_mean"].values - mean)[1:] / errors[0]).max() < 5
    assert np.abs((other["X_mean"].values - mean)[1:] / errors[1]).max() < 5
    assert result.attrs["view"] == "jump process"


@pytest.mark.more
@pytest.mark.user_code
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_bits_do_not_depend_on_chunks_devices_or_saved_times(precision):
    doses = {"dose": {"at": [0.45, 0.8], "set": {"X": "X + 2"}}}
    base = {**LIGHT, "precision": precision, "events": doses, "observe": {"most": "max(X)", "now": "X"}}
    first = None
    for chunk, devices, points in ((1000, 1, 5), (37, 1, 5), (64, 4, 5), (200, 2, 10)):
        ensemble = {"paths": 1000, "seed": 1, "devices": devices, "chunk": chunk}
        result = simkit.run({**base, "ensemble": ensemble, "save": {"points": points}})
        values = [result[name].values for name in ("now_mean", "now_stderr", "most_mean", "most_stderr")]
        values = [x[:: points // 5] if x.ndim else x for x in values]
        first = first or values
        assert all(np.array_equal(a, b) for a, b in zip(first, values, strict=True))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"solver": "NextReaction"}, r"a rate changes continuously .*NextReaction.*use DirectMethod"),
        ({"solver": "TauLeaping"}, r"TauLeaping takes rates as constant .*interpolation: previous"),
        ({"observe": {"x": "hitting_time(X > alpha)"}}, r"observe.x: .*alpha in X > alpha changes between"),
        ({"observe": {"x": "integral(X*light)"}}, r"observe.x: .*light in X \* light changes between events"),
        ({"model": LIGHT["model"] | {"mu": "atan2(t, 1)"}}, r"by the operation atan2, for which"),
        ({"model": LIGHT["model"] | {"mu": "sin(5*t)"}}, r"model.mu: must be >= 0, got -.* at t = 0.6"),
    ],
)
def test_what_is_refused(change, message):
    with pytest.raises(InputError, match=message):
        load({**LIGHT, **change})


@pytest.mark.more
def test_a_rate_that_turns_negative_is_reported():
    reactions = {"make": {"equation": "0 -> X", "rate": "3*cos(2*t)"}}
    with pytest.raises(simkit.NumericalError, match="a propensity is negative"):
        simkit.run({**SEASON, "model": {"reactions": reactions}})


@pytest.mark.more
@pytest.mark.parametrize("method", ["weak_derivative", "coupled_differences"])
def test_derivatives_by_parameters_of_a_season(method):
    """E X is k (t + A (1 - cos(2 pi t)) / 2 pi); at the time 0 the rate does not change with A."""
    wave = (1 - math.cos(TURN * 0.7)) / TURN
    wrt = {"wrt": ["A", "k"], "method": method}
    result = simkit.sensitivity({**SEASON, "time": {"t1": 0.7}, "sensitivity": wrt})
    estimates, errors = (result[f"X_{what}"].values[:, -1] for what in ("derivative", "derivative_stderr"))
    assert set(result["X_derivative_estimator"].values) == {method.replace("_", " ")}
    assert np.abs((estimates - [3 * wave, 0.7 + 0.9 * wave]) / errors).max() < LIMIT
    assert errors.max() < 0.1


@pytest.mark.more
def test_scores_of_rates_that_change_are_refused_and_differences_used():
    scored = {**LIGHT, "sensitivity": {"wrt": ["q"], "method": "score"}}
    with pytest.raises(InputError, match=r"no score for X in q: rates change between events"):
        simkit.sensitivity(scored)
    estimate, error, estimator, reason = derivative(LIGHT, "q", "X")
    assert estimator == "finite differences"
    assert "rates change between events" in reason
    arrivals = lambda s: np.interp(s, CLOUDS["times"], CLOUDS["values"]) * (1 + s)  # noqa: E731
    wanted = quad(lambda s: arrivals(s) * math.exp(-1.5 * (END - s)), 0, END, points=[0.3, 0.6, 1.0])[0]
    assert abs(estimate - wanted) < LIMIT * error
