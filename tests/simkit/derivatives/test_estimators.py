"""Estimators as a table: names that users may ask for, and that each refuses where it would be wrong."""

import jax
import pytest

from simkit import InputError, load, sensitivity
from simkit.config.settings.sensitivity import SENSITIVITY_METHODS
from simkit.derivatives.differentiated_run import DifferentiatedRun
from simkit.derivatives.estimators import DIFFERENCES, ESTIMATORS, MIXED, PATHWISE, SMOOTHING
from simkit.derivatives.offers import second_offer
from simkit.derivatives.targets import find_target

DIGITAL = {
    "model": {"type": "GBM", "mu": 0.05, "sigma": 0.2},
    "initial": {"S": 100.0},
    "time": {"t1": 1.0, "steps": 4},
    "ensemble": {"paths": 64, "devices": 1},
    "observe": {"up": "S > 100"},
}


def differentiated(experiment, *names) -> DifferentiatedRun:
    simulation = load({**experiment, "sensitivity": {"wrt": [*names]}})
    return DifferentiatedRun.of(simulation, [find_target(simulation, name) for name in names])


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


def test_a_weak_derivative_in_a_rate_is_refused_for_the_jump_of_the_value():
    jumps = {"model": {"type": "Merton", "mu": 0.05, "sigma": 0.2, "lam": 0.8, "m": -0.1, "delta": 0.15}}
    section = {"wrt": ["lam"], "of": ["up"], "method": "weak_derivative"}
    with pytest.raises(
        InputError, match=r"no weak derivative for up in .*lam: the value jumps with S; leave"
    ):
        sensitivity({**DIGITAL, **jumps, "sensitivity": section})


@pytest.mark.parametrize(
    ("value", "why", "answers"),
    [
        (
            "S > 100",
            "asked",
            {PATHWISE: "the value jumps", SMOOTHING: "asked: smoothed twice", MIXED: "the value jumps"},
        ),
        (
            "abs(S - 100)",
            "the slope jumps",
            {
                PATHWISE: "the slope jumps",
                SMOOTHING: "the slope jumps: smoothed, then pathwise",
                MIXED: "the slope jumps: score for S, then pathwise",
            },
        ),
        ("S**2", "asked", {PATHWISE: "asked", DIFFERENCES: "asked"}),
    ],
)
def test_estimators_answer_for_second_derivatives_themselves(value, why, answers):
    """With a choice and its reason, or with why it would be wrong."""
    with jax.enable_x64(True):
        run = differentiated({**DIGITAL, "observe": {"it": value}}, "S")
        given = {each: each.fits(run, "it", (0, 0), why) for each in answers}
    assert {each: it if isinstance(it, str) else it.reason for each, it in given.items()} == answers


def test_the_score_of_a_second_derivative_is_that_of_whichever_target_may_have_one():
    """Not of a strike, which is in the condition itself."""
    with jax.enable_x64(True):
        run = differentiated(
            {**DIGITAL, "constants": {"K": 100.0}, "observe": {"it": "abs(S - K)"}}, "K", "S"
        )
        chosen = [MIXED.fits(run, "it", pair, "the slope jumps") for pair in ((0, 1), (1, 0))]
    assert [each if isinstance(each, str) else each.targets for each in chosen] == [(1, 0), (1, 0)]


@pytest.mark.parametrize(
    ("model", "estimators"),
    [
        ({"type": "GBM", "mu": 0.03, "sigma": 0.2}, [SMOOTHING]),
        (
            {"type": "Heston", "mu": 0.03, "kappa": 2.0, "theta": 0.06, "xi": 0.4, "rho": -0.6},
            [SMOOTHING, DIFFERENCES],
        ),
    ],
)
def test_where_noise_may_vanish_differences_compete_with_weights(model, estimators):
    start = {"S": 100.0, "v": 0.05} if model["type"] == "Heston" else {"S": 100.0}
    with jax.enable_x64(True):
        run = differentiated({**DIGITAL, "model": model, "initial": start}, "S")
        offer = second_offer(run, "up", (0, 0))
    assert [each.estimator for each in offer.rivals] == estimators
