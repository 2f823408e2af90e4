"""Where no derivative along the path is right: values, equations and decisions that jump or have a kink."""

import jax
import numpy as np
import pytest
from derivative_examples import EXACT, STEPS

import simkit
from simkit import InputError, load
from simkit.derivatives import find_target
from simkit.derivatives.differentiated_run import DifferentiatedRun
from simkit.derivatives.offers import first_offer
from simkit.derivatives.smoothness import name_in_condition, why_discontinuous
from simkit.derivatives.validity import release_interval, smooth


@pytest.mark.more
def test_nothing_is_silently_zero():
    with pytest.raises(InputError, match="pathwise derivative of digital in S would be wrong"):
        simkit.sensitivity(STEPS, overrides={"sensitivity.method": "pathwise"})
    with pytest.raises(InputError, match="no score for digital in K: K is in the condition itself"):
        simkit.sensitivity(STEPS, ["K"], overrides={"sensitivity.method": "score"})
    with pytest.raises(InputError, match="Milstein is not one to one"):
        simkit.sensitivity(STEPS, overrides={"sensitivity.method": "score", "solver": "Milstein"})
    changes = {"observe.fixed": "3 + 0*S", "sensitivity.of": "[S, fixed]", "sensitivity.second": "null"}
    idle = simkit.sensitivity(EXACT, ["K"], overrides=changes | {"ensemble.paths": 64})
    for name, mean in (("S", None), ("fixed", 3.0)):
        assert np.all(idle[f"{name}_derivative"].values == 0)
        assert list(idle[f"{name}_derivative_reason"].values) == ["no path changes with it"]
        assert mean is None or float(idle[f"{name}_mean"]) == mean


GROWTH = {
    "constants": {"q": 0.3},
    "model": {"sde": {"N": {"drift": "0.4*N*(1 - N/100)", "noise": {"E": "0.3*N"}}}},
    "initial": {"N": 60},
    "time": {"t1": 2, "steps": 8},
    "ensemble": {"paths": 64, "seed": 2},
}
COUNTS = GROWTH | {
    "model": {"reactions": {"birth": {"equation": "N -> 2 N", "rate": 1.0}}},
    "time": {"t1": 2},
}
HARVESTS = {
    "a whole number": {"every": 1, "set": {"N": "floor(N*(1 - q))"}},
    "a threshold": {"every": 1, "set": {"N": "where(N > 200*q, floor(0.7*N), N)"}},
    "a date's condition": {"every": 1, "when": "N > 200*q", "set": {"N": "floor(0.7*N)"}},
}


@pytest.mark.parametrize("harvest", HARVESTS.values(), ids=HARVESTS)
@pytest.mark.parametrize("experiment", [GROWTH, COUNTS], ids=["noise", "counts"])
def test_what_a_target_moves_in_a_condition_of_an_event_takes_differences(experiment, harvest):
    """No score and no path sees it: the derivative by either would be 0. Its name is behind that of N."""
    run = run_of(experiment | {"events": {"harvest": harvest}}, "q")
    assert name_in_condition(run, 0) == "q"
    (choice,) = first_offer(run, "N", 0).rivals
    assert choice.method == "finite differences"
    assert "q is in a condition of the equations" in choice.reason


def test_what_a_target_moves_in_a_condition_of_a_drift_or_a_rate_takes_differences():
    drift = GROWTH | {"model": {"sde": {"N": {"drift": "where(N > 200*q, -1, 1)", "noise": {"E": 1.0}}}}}
    (choice,) = first_offer(run_of(drift, "q"), "N", 0).rivals
    assert choice.method == "finite differences"
    birth = {"equation": "N -> 2 N", "propensity": "where(N > 200*q, 0, N)"}
    rate = COUNTS | {"model": {"reactions": {"birth": birth}}}
    (choice,) = first_offer(run_of(rate, "q"), "N", 0).rivals
    assert choice.method == "coupled differences"


def test_a_score_goes_past_conditions_that_are_checked_at_dates():
    """How often an event happens is counted along with the rows, and has no derivative."""
    birth = {"equation": "N -> 2 N", "rate": "b"}
    culls = COUNTS | {
        "constants": {"b": 1.0},
        "model": {"reactions": {"birth": birth}},
        "events": {"cull": {"at": 1.0, "when": "N > 90", "set": {"N": "N - 30"}}},
        "ensemble": {"paths": 4096, "seed": 2},
        "save": {"points": 4},
    }
    dataset = simkit.sensitivity(culls, "b")
    assert list(dataset["N_derivative_estimator"].values) == ["score"]
    before = dataset.sel(time=0.5).isel(parameter=0)  # the mean there is 60 exp(b t)
    error = float(before["N_derivative"]) - 0.5 * 60 * np.exp(0.5)
    assert abs(error) < 4 * float(before["N_derivative_stderr"])


def test_steps_that_switch_from_one_distribution_to_another_have_no_derivative_along_them():
    by_moments = {
        "model": {"type": "Heston", "mu": 0.05, "kappa": 1, "theta": 0.04, "xi": 0.4, "rho": -0.5},
        "initial": {"S": 100, "v": 0.04},
        "solver": "AndersenQE",
        "time": {"t1": 1, "steps": 4},
        "sensitivity": {"wrt": ["xi"], "of": ["S"], "method": "pathwise"},
    }
    with pytest.raises(InputError, match="S in xi would be wrong: AndersenQE switches from one distribution"):
        simkit.sensitivity(by_moments)


@pytest.mark.slow
def test_the_root_of_a_square_has_a_kink():
    """The second derivative of E|x - K| in K is twice the density at K, and not 0."""
    rooted = {
        "constants": {"K": 1.0},
        "model": {"sde": {"x": {"drift": 1.0, "noise": {"W": 1.0}}}},
        "initial": {"x": 0.0},
        "time": {"t1": 1.0, "steps": 1},
        "ensemble": {"paths": 2**14, "seed": 4, "devices": 1},
        "observe": {"far": "sqrt((x - K)**2)"},
        "sensitivity": {"wrt": ["K", "x"], "second": ["K", "x"]},
    }
    result = simkit.sensitivity(rooted)
    away = result["far_second"].values - 2 / np.sqrt(2 * np.pi)
    assert np.all(abs(away) < 4.9 * result["far_second_stderr"].values)
    assert np.all(result["far_second_stderr"].values < [0.1, 0.01])
    assert list(result["far_second_estimator"].values) == ["finite differences", "mixed"]
    changes = {"observe.far": "sqrt((integral(x) - K)**2)", "ensemble.paths": 8}
    held = simkit.sensitivity(rooted, overrides=changes)["far_second_reason"].values
    assert held[1] == "the slope jumps, and x moves the integral along the path at once, before any noise"
    model = {"sde": {"x": {"drift": "sqrt((x - K)**2)", "noise": {"W": 1.0}}}}
    result = simkit.sensitivity(rooted | {"model": model}, overrides={"observe": None, "ensemble.paths": 8})
    assert list(result["x_second_estimator"].values) == ["finite differences"] * 2


@pytest.mark.slow
def test_an_extreme_that_may_be_the_initial_value_is_not_released():
    """Of the largest of ten values, and of the first: two second derivatives of its mean."""
    experiment = {
        "model": {"type": "OrnsteinUhlenbeck", "theta": 2.0, "mu": 1.0, "sigma": 0.5},
        "initial": {"X": 1.2},
        "time": {"t1": 1.0, "steps": 10},
        "ensemble": {"paths": 2**17, "seed": 1},
        "observe": {"high": "max(X)"},
        "sensitivity": {"wrt": ["X", "sigma"], "second": ["X", ["X", "sigma"]], "check": True},
    }
    result = simkit.sensitivity(experiment)
    assert list(result["high_second_estimator"].values) == ["finite differences", "mixed"]
    assert abs(float(result["high_second_z"][1])) < 4
    assert abs(float(result["high_second"][0]) - 0.83) < 0.06


@pytest.mark.slow
def test_equations_that_jump_have_no_pathwise_derivative():
    """Along a path a switch changes sides with no derivative: what it does to the mean would be missing."""
    switched = {
        "constants": {"a": 1.5, "c": 0.1},
        "model": {"sde": {"x": {"drift": "where(x > c, -a, a)", "noise": {"W": 1.0}}}},
        "initial": {"x": 0.5},
        "solver": "EulerMaruyama",
        "time": {"t1": 1.0, "steps": 8},
        "ensemble": {"paths": 2**15, "seed": 4, "devices": 1},
        "sensitivity": {"wrt": ["a", "c"]},
    }
    given, checked = (
        simkit.sensitivity(switched, overrides={"sensitivity.method": method})
        for method in ("auto", "finite_differences")
    )
    assert list(given["x_derivative_estimator"].values) == ["score", "finite differences"]
    slopes, errors = (
        [d[f"x_derivative{kind}"].values[:, -1] for d in (given, checked)] for kind in ("", "_stderr")
    )
    assert abs(slopes[0][0] - slopes[1][0]) < 4 * np.hypot(errors[0][0], errors[1][0])
    assert abs(slopes[0][0]) > 10 * errors[0][0]
    assert slopes[0][1] > 0.5


def test_early_exercise_of_a_value_that_jumps_is_not_pathwise():
    early = {
        "constants": {"r": 0.05},
        "model": {"type": "GBM", "mu": "r", "sigma": 0.2},
        "initial": {"S": 100.0},
        "time": {"t1": 1.0, "steps": 4},
        "observe": {"hit": {"value": "exp(-r*t) * (S < 95)", "early_exercise": {"dates": 4, "basis": ["S"]}}},
        "sensitivity": {"wrt": ["S"]},
    }
    simulation = load(early)
    with jax.enable_x64(True):
        run = DifferentiatedRun.of(simulation, [find_target(simulation, "S")])
        assert first_offer(run, "hit", 0).rivals[0].method == "finite differences"


def run_of(experiment, label) -> DifferentiatedRun:
    """The run of an experiment with one target."""
    simulation = load(experiment)
    return DifferentiatedRun.of(simulation, [find_target(simulation, label)])


def test_no_score_where_the_end_of_time_moves_the_condition():
    """What moves the level, or the times of what is compared with it, is in no weight of the path."""
    wanted = {
        "S > 100*exp(0.05*t)": "t1 is in the condition itself",
        "mean(S) > 100": "t1 moves the times at which the path is observed",
        "max(S) < 120": "t1 moves the times at which the path is observed",
    }
    names = {f"value{i}": text for i, text in enumerate(wanted)}
    with jax.enable_x64(True):
        run = run_of({**STEPS, "observe": names, "sensitivity": {"wrt": ["t1"]}}, "t1")
        results = {text: release_interval(run, name, 0, kinks=False) for name, text in names.items()}
    assert results == wanted


def test_an_event_that_jumps_makes_paths_jump():
    """A path does not show how many more are cut as the level of the cut moves."""
    given = {**STEPS, "observe": {"digital": "S**2"}}
    results = []
    for after in ("where(S > K, 0.9*S, S)", "S*K/101"):
        cut = {"cut": {"at": 0.5, "set": {"S": after}}}
        with jax.enable_x64(True):
            run = run_of({**given, "events": cut}, "K")
            results.append((name_in_condition(run, 0), why_discontinuous(run, "digital", 0) is not None))
    assert results == [("K", True), (None, False)]


@pytest.mark.parametrize(
    "changed",
    [
        {"observe": {"digital": "max(S) < 110 + 10*t"}},
        {"observe": {"digital": "max(S) < 110"}, "events": {"fee": {"at": 0.5, "set": {"S": "0.9*S"}}}},
    ],
)
def test_an_extreme_is_not_smoothed_against_what_changes_with_time(changed):
    """Each value would be compared with the level of its own time, or lost to an event before the last."""
    with jax.enable_x64(True):
        reason = smooth(run_of({**STEPS, **changed}, "S"), "digital", (0,))
    assert reason == "an extreme is compared with what changes with time"
