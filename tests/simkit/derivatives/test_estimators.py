"""Estimators as a table: names that users may ask for, and that each refuses where it would be wrong."""

import pytest

from simkit import InputError, sensitivity
from simkit.config.settings.sensitivity import SENSITIVITY_METHODS
from simkit.derivatives.estimators import ESTIMATORS, MIXED

DIGITAL = {
    "model": {"type": "GBM", "mu": 0.05, "sigma": 0.2},
    "initial": {"S": 100.0},
    "time": {"t1": 1.0, "steps": 4},
    "ensemble": {"paths": 64, "devices": 1},
    "observe": {"up": "S > 100"},
}


def test_users_may_ask_for_every_estimator_of_first_derivatives():
    requested = {each.key for each in ESTIMATORS if each is not MIXED}
    assert requested == {*SENSITIVITY_METHODS} - {"auto"}
    assert len({each.name for each in ESTIMATORS}) == len(ESTIMATORS)


@pytest.mark.parametrize(
    ("method", "message"),
    [
        ("pathwise", "the pathwise derivative of up in .*sigma would be wrong: the value jumps with S"),
        ("reverse", "the reverse derivative of up in .*sigma would be wrong: the value jumps with S"),
        ("weak_derivative", "no weak derivative for up in .*sigma: .* moves no rate of jumps"),
        (
            "coupled_differences",
            "no coupled differences for up in .*sigma: only copies of a reaction network",
        ),
    ],
)
def test_an_estimator_that_would_be_wrong_says_why_and_what_is_right(method, message):
    with pytest.raises(InputError, match=f"sensitivity.method: {message}.*leave method out for smoothing"):
        sensitivity({**DIGITAL, "sensitivity": {"wrt": ["sigma"], "of": ["up"], "method": method}})
