"""Curves and events beside jumps, exact sampling, monitored barriers and early exercise."""

import numpy as np
import pytest

import simkit
from simkit.errors import InputError
from simkit.experiment import load

STEADY = {"times": [0.0, 0.5, 1.0], "values": [0.05, 0.05, 0.05], "interpolation": "previous"}
MERTON = {
    "model": {"type": "Merton", "mu": 0.05, "sigma": 0.2, "lam": 3.0, "m": -0.1, "delta": 0.1},
    "initial": {"S": 100.0},
    "time": {"t1": 1.0, "steps": 8},
    "ensemble": {"paths": 64, "seed": 3, "devices": 1},
    "save": {"points": 2, "paths": "all"},
}


@pytest.mark.parametrize("solver", ["EulerMaruyama", "ExactSampling"])
def test_a_curve_leaves_jumps_where_they_were(solver):
    plain = simkit.run(MERTON | {"solver": solver})
    curved = MERTON | {"curves": {"rate": STEADY}, "model": MERTON["model"] | {"mu": "rate"}}
    found = simkit.run(curved | {"solver": solver})
    np.testing.assert_allclose(found["S_path"], plain["S_path"], rtol=1e-12)
    assert ("S_bias" in found) == ("S_bias" in plain) == (solver == "EulerMaruyama")


def test_rates_of_jumps_may_change_with_time():
    """No jumps in the first half, none without their intensity in the second."""
    still = {"times": [0.0, 0.5, 1.0], "values": [0.0, 3.0, 3.0], "interpolation": "previous"}
    rates = {"curves": {"rate": still}, "model": MERTON["model"] | {"lam": "rate", "sigma": 0.0, "mu": 0.0}}
    paths = simkit.run(MERTON | rates)["S_path"].values
    np.testing.assert_allclose(paths[:, 1], 100.0, rtol=1e-12)
    drifted = 100.0 * (1 - 3.0 * 0.125 * np.expm1(-0.1 + 0.005)) ** 4  # compensated, where no jump came
    share = np.isclose(paths[:, 2], drifted, rtol=1e-12).mean()
    assert abs(share - np.exp(-1.5)) < 5 * np.sqrt(0.25 / 64)
    assert share < 1


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


def test_what_does_not_go_together_is_refused():
    put = {"put": {"value": "maximum(100 - S, 0)", "early_exercise": {"dates": 10}}}
    with pytest.raises(InputError, match=r"early_exercise.dates: one of them is the time of an event.*other"):
        simkit.run(DIVIDEND | {"observe": put})
    later = DIVIDEND | {"events": {"dividend": {"at": [0.55], "set": {"S": "S - 3"}}}}
    assert load(later | {"observe": put})
    sloped = {"curves": {"rate": STEADY | {"interpolation": "linear"}}, "solver": "ExactSampling"}
    with pytest.raises(InputError, match=r"ExactSampling takes parameters that are constant over a step"):
        load(MERTON | sloped | {"model": MERTON["model"] | {"mu": "rate"}})
