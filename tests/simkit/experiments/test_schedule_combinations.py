"""Curves and events together with jumps, exact sampling, monitored barriers and early exercise."""

import numpy as np
import pytest
from slow_cases import slow_but

import simkit
from simkit import InputError, load

pytestmark = pytest.mark.more

STEADY = {"times": [0.0, 0.5, 1.0], "values": [0.05, 0.05, 0.05], "interpolation": "previous"}
MERTON = {
    "model": {"type": "Merton", "mu": 0.05, "sigma": 0.2, "lam": 3.0, "m": -0.1, "delta": 0.1},
    "initial": {"S": 100.0},
    "time": {"t1": 1.0, "steps": 8},
    "ensemble": {"paths": 64, "seed": 3, "devices": 1},
    "save": {"points": 2, "paths": "all"},
}


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["EulerMaruyama", pytest.param("ExactSampling", marks=pytest.mark.slow)])
def test_a_curve_leaves_jumps_where_they_were(solver):
    plain = simkit.run(MERTON | {"solver": solver})
    curved = MERTON | {"curves": {"rate": STEADY}, "model": MERTON["model"] | {"mu": "rate"}}
    result = simkit.run(curved | {"solver": solver})
    np.testing.assert_allclose(result["S_path"], plain["S_path"], rtol=1e-12)
    assert ("S_bias" in result) == ("S_bias" in plain) == (solver == "EulerMaruyama")


@pytest.mark.slow
def test_rates_of_jumps_may_change_with_time():
    """A rate that grows in proportion to time: paths without jumps are all at one place."""
    growing = {"times": [0.0, 1.0], "values": [0.0, 4.0]}
    rates = {"curves": {"rate": growing}, "model": MERTON["model"] | {"lam": "rate", "sigma": 0.0, "mu": 0.0}}
    many = {"ensemble": MERTON["ensemble"] | {"paths": 4096}}
    paths = simkit.run(MERTON | rates | many)["S_path"].values
    for row, t in ((1, 0.5), (2, 1.0)):
        without_jump = np.unique(paths[:, row], return_counts=True)[1].max() / 4096
        fraction = np.exp(-2 * t * t)  # exact at the middle of each step
        assert abs(without_jump - fraction) < 5 * np.sqrt(fraction * (1 - fraction) / 4096)


DIVIDEND = {
    "model": {"type": "GBM", "mu": 0.05, "sigma": 0.2},
    "initial": {"S": 100.0},
    "time": {"t1": 1.0, "steps": 20},
    "ensemble": {"paths": 64, "seed": 3, "devices": 1},
    "events": {"dividend": {"at": [0.5], "set": {"S": "S - 200"}}},
}


def test_a_barrier_crossed_by_an_event_is_touched():
    result = simkit.run(
        DIVIDEND
        | {"observe": {"alive": {"value": "no_touch(S - 1, 0.2*S)", "at": "each"}}, "save": {"points": 4}}
    )
    np.testing.assert_allclose(result["alive_mean"][:2], 1.0, rtol=1e-6)
    np.testing.assert_array_equal(result["alive_mean"][2:], 0.0)


@pytest.mark.slow
def test_a_barrier_is_watched_with_the_volatility_of_each_step():
    """At rest at a distance of 1, the chance of a bridge is known; the volatility jumps between steps."""
    result = simkit.run(
        {
            "model": {"ode": {"x": 0}},
            "curves": {
                "vol": {"times": [0.0, 0.5, 1.0], "values": [0.5, 2.0, 9.0], "interpolation": "previous"}
            },
            "initial": {"x": 1.0},
            "time": {"t1": 1.0, "steps": 4},
            "observe": {"alive": "no_touch(x, vol)"},
        }
    )
    steps = -np.expm1(-2 / (np.array([0.5, 0.5, 2.0, 2.0]) ** 2 * 0.25))
    assert float(result["alive_mean"]) == pytest.approx(steps.prod(), rel=1e-12)


@pytest.mark.parametrize("time", [{"steps": 4}, {"rtol": 1e-6, "atol": 1e-9}], ids=str)
def test_an_event_reads_a_curve_as_it_goes_on(time):
    result = simkit.run(
        {
            "model": {"ode": {"x": "0*level"}},
            "curves": {
                "level": {
                    "times": [0.0, 0.5],
                    "values": [1.0, 5.0],
                    "interpolation": "previous",
                    "outside": "hold",
                }
            },
            "events": {"rise": {"at": [0.5], "set": {"x": "x + level"}}},
            "initial": {"x": 0.0},
            "time": {"t1": 1.0} | time,
        }
    )
    assert float(result["x_mean"][-1]) == 5.0


@pytest.mark.slow
def test_an_option_is_exercised_at_what_holds_after_its_date():
    """The policy and those who follow it see the same side of a jump of the strike, or their means part."""
    strike = {"times": [0.0, 0.5, 1.0], "values": [130.0, 90.0, 90.0], "interpolation": "previous"}
    early = {"dates": [0.5, 0.75, 1.0], "degree": 2, "paths": 8192}
    option = {"value": "maximum(K - S, 0)", "early_exercise": early}
    result = simkit.run(
        DIVIDEND
        | {"curves": {"K": strike}, "observe": {"put": option}, "ensemble": {"paths": 8192, "devices": 1}}
        | {"time": {"t1": 1.0, "steps": 4}, "events": {}}
    )
    difference = float(result["put_mean"] - result["put_in_sample"])
    error = float(np.hypot(result["put_stderr"], result["put_in_sample_stderr"]))
    assert abs(difference) < 5 * error
    assert 1 < float(result["put_mean"]) < 6
    np.testing.assert_allclose(result["put_date"], [0.5, 0.75, 1.0])


def test_what_does_not_go_together_is_refused():
    sloped = {"curves": {"rate": STEADY | {"interpolation": "linear"}}, "solver": "ExactSampling"}
    curved = MERTON | {"model": MERTON["model"] | {"mu": "rate"}}
    with pytest.raises(InputError, match=r"ExactSampling needs constant parameters over a step"):
        load(curved | sloped)
    inside = {"curves": {"rate": STEADY | {"times": [0.0, 0.3, 1.0]}}}
    wanted = r"curves.rate: jumps inside a step: the time 0.3 is inside one of the 8 steps; use steps: 10$"
    with pytest.raises(InputError, match=wanted):
        load(curved | inside)
    with pytest.raises(InputError, match=r"observe.alive: no_touch needs a path without jumps"):
        load(MERTON | {"observe": {"alive": "no_touch(S - 1, 20)"}})


HALVED = {
    "model": {"type": "GBM", "mu": 0.0, "sigma": 0.2},
    "initial": {"S": 100.0},
    "solver": "ExactSampling",
    "time": {"t1": 1.0, "steps": 2},
    "ensemble": {"paths": 8192, "devices": 1},
}


@pytest.mark.parametrize(
    ("at", "dates"), [pytest.param(0.5, [[0.5, 1]], marks=pytest.mark.slow), (1.0, [[1], [0.5, 1]])], ids=str
)
def test_an_option_is_exercised_before_an_event_at_its_date(at, dates):
    """A stock that splits: who may, takes it before; the rows have the half."""
    options = {
        f"option{i}": {"value": "S", "early_exercise": {"dates": each, "degree": 2, "paths": 4096}}
        for i, each in enumerate(dates)
    }
    result = simkit.run(HALVED | {"events": {"split": {"at": at, "set": {"S": "S/2"}}}, "observe": options})
    for name in options:
        for kind in ("mean", "in_sample"):
            error = float(result[f"{name}_stderr" if kind == "mean" else f"{name}_in_sample_stderr"])
            assert abs(float(result[f"{name}_{kind}"]) - 100) < 5 * error
        assert abs(float(result[f"{name}_upper_bound"]) - 100) < 0.01
    assert float(result["S_mean"][-1]) == pytest.approx(50, abs=1)


PAYMENTS = {"x": 1, "max(x)": 1, "mean(x)": 1, "integral(x)": 0.5, "c*x": 10, "max(c*x)": 10, "t*x": 0.5}


@pytest.mark.parametrize("value", slow_but(("max(c*x)",), PAYMENTS))
def test_what_a_decision_sees_at_an_event(value):
    """The state and the path so far before it, and curves as they are from then on."""
    curve = {"times": [0.0, 0.5], "values": [2.0, 10.0], "interpolation": "previous", "outside": "hold"}
    result = simkit.run(
        {
            "curves": {"c": curve},
            "model": {"ode": {"x": "0*c"}},
            "initial": {"x": 1.0},
            "time": {"t1": 1.0, "steps": 4},
            "events": {"more": {"at": 0.5, "set": {"x": "x + 30"}}},
            "observe": {"option": {"value": value, "early_exercise": {"dates": [0.5], "degree": 1}}},
        }
    )
    assert float(result["option_mean"]) == float(result["option_in_sample"]) == PAYMENTS[value]
    assert float(result["x_mean"][-1]) == 31


def test_dates_of_exercise_are_times_wherever_a_run_begins():
    result = simkit.run(
        {
            "model": {"ode": {"x": 0}},
            "initial": {"x": 1.0},
            "time": {"t0": 2.0, "t1": 3.0, "steps": 4},
            "observe": {"option": {"value": "t*x", "early_exercise": {"dates": [2.25], "degree": 1}}},
        }
    )
    assert float(result["option_mean"]) == float(result["option_in_sample"]) == 2.25


@pytest.mark.slow
def test_an_american_call_is_exercised_just_before_dividends():
    """Two cash dividends; the exact value is of exercise on those days and at the end."""
    days = ["91/365", "274/365"]
    value = "exp(-0.05*t) * maximum(S - 100, 0)"
    early = {"dates": [*days, 1], "degree": 5, "paths": 32768}
    result = simkit.run(
        HALVED
        | {"model": {"type": "GBM", "mu": 0.05, "sigma": 0.3}, "time": {"t1": 1.0, "steps": 365}}
        | {"events": {"dividend": {"at": days, "set": {"S": "maximum(S - 4, 0)"}}}}
        | {"observe": {"call": {"value": value, "early_exercise": early}}}
        | {"ensemble": {"paths": 65536, "seed": 5, "devices": 1}}
    )
    mean, error = float(result["call_mean"]), float(result["call_stderr"])
    assert abs(mean - 10.79496) < 4 * error
    assert 0 < float(result["call_upper_bound"]) - 10.79496 < 0.012 * 10.79496
