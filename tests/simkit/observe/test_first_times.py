"""First times and values at given times along a path, as observables and under derivatives."""

import io
import math

import numpy as np
import pytest
from derivative_examples import LIMIT, derivative, last
from functional_examples import STEPS, rows, simulation

import simkit
from simkit import CLOSED_FORMS, InputError, load, sensitivity
from simkit.results.number_text import with_error
from simkit.results.step_notes import step_notes
from simkit.results.table import print_table

DATES = 4
MARKET = {"r": 0.05, "vol": 0.3, "B": 0.15}
WATCHED = {
    "constants": MARKET,
    "model": {"sde": {"x": {"drift": "r - vol**2/2", "noise": {"W": "vol"}}}},
    "initial": {"x": 0.0},
    "time": {"t1": 1.0, "steps": DATES},
    "ensemble": {"paths": 2**16, "seed": 3, "devices": 1},
    "observe": {
        "hit": {"value": "first(1, x > B)", "every": 1},
        "when": {"value": "hitting_time(x > B)", "every": 1},
        "rebate": {"value": "first(exp(-r*t) * (1 + x), x > B)", "every": 1},
    },
}


def exact(r, vol, B, start=0.0):
    """The three means on the dates: the density of the paths below B, carried from one date to the next."""
    nodes, weights = np.polynomial.legendre.leggauss(400)
    low = start - 9 * vol
    x, w = low + (B - low) * (nodes + 1) / 2, weights * (B - low) / 2
    up, v = B + 9 * vol * (nodes + 1) / 2, weights * 9 * vol / 2
    dt = 1 / DATES

    def moved(to, source):
        z = (to[:, None] - source - (r - vol**2 / 2) * dt) / (vol * math.sqrt(dt))
        return np.exp(-z * z / 2) / (vol * math.sqrt(2 * math.pi * dt))

    from_start = np.array([start]), np.ones(1)
    (source, mass), chances, rebate = from_start, [], 0.0
    for k in range(1, DATES + 1):
        above = v * (moved(up, source) @ mass)
        chances.append(above.sum())
        rebate += math.exp(-r * k * dt) * np.sum(above * (1 + up))
        source, mass = x, w * (moved(x, source) @ mass)
    when = sum(p * (k + 1) * dt for k, p in enumerate(chances)) + (1 - sum(chances))
    return {"hit": sum(chances), "when": when, "rebate": rebate}


@pytest.mark.parametrize("every", [1, 3, 8])
def test_first_times_are_what_they_are_defined_to_be(every):
    given = {"at": "each", "every": every}
    result = rows(
        simulation(
            {
                "value": {"value": "first(x*y + 1, x < 2)", **given},
                "time": {"value": "hitting_time(x < 2)", **given},
                "never": {"value": "hitting_time(x > 50)", **given},
                "begun": {"value": "first(x, x > 0)", **given},
            }
        )
    )
    t = 0.5 + np.arange(STEPS + 1) * 2 / STEPS
    steps = np.arange(STEPS + 1)
    met = (result["x"] < 2) & (steps % every == 0)
    assert met.any()
    first = np.argmax(met)
    assert 0 < first < STEPS
    after = steps >= first
    np.testing.assert_allclose(result["time"], np.where(after, t[first], t), rtol=1e-15)
    np.testing.assert_allclose(result["value"], np.where(after, (result["x"] * result["y"])[first] + 1, 0))
    np.testing.assert_allclose(result["never"], t, rtol=1e-15)
    np.testing.assert_array_equal(result["begun"], 3.0)


def test_the_value_at_a_time_is_that_of_its_step():
    """The time may be an expression of constants, and t0 or t1; before it the value is the present one."""
    observe = {
        "half": {"value": "at(x*y, 2*c)", "at": "each"},
        "begun": {"value": "at(x, 0.5)", "at": "each"},
        "ended": {"value": "at(x, 2.5) - x", "at": "each"},
        "both": {"value": "max(x) - at(x, 1.5) + at(y, 2)", "at": "each", "every": 3},
    }
    result = rows(simulation(observe))
    x, y, k = result["x"], result["y"], np.arange(STEPS + 1)
    np.testing.assert_allclose(result["half"], (x * y)[np.minimum(k, 6)], rtol=1e-14)
    np.testing.assert_array_equal(result["begun"], x[0])
    np.testing.assert_array_equal(result["ended"], 0)
    most = np.array([x[: i + 1 : 3].max() for i in k])
    np.testing.assert_allclose(result["both"], most - x[np.minimum(k, 12)] + y[np.minimum(k, 18)], rtol=1e-14)


def test_grids_of_other_steps_keep_the_times():
    observer = simulation(
        {"late": "at(x, 1.5) + integral(x)", "hit": {"value": "first(1, x < 0)", "every": 4}}
    )
    coarse, fine = observer.observer.coarsened(2), observer.observer.refined(3)
    assert [step for o in coarse.observables for _, step in o.dates] == [6]
    assert [step for o in fine.observables for _, step in o.dates] == [36]
    assert [o.every for o in coarse.observables] == [None, 2]
    assert [o.every for o in fine.observables] == [None, 12]
    assert observer.observer.coarsened(8) is None
    assert simulation({"hit": {"value": "first(1, x < 0)", "every": 1}}).observer.coarsened(2) is None
    (each_step,) = simulation({"hit": "first(1, x < 0)"}).observer.coarsened(2).observables
    assert each_step.every is None


def test_events_are_seen_before_and_after_by_first_times_and_after_by_values_at_times():
    result = simkit.run(
        {
            "model": {"ode": {"x": 1}},
            "initial": {"x": 0.0},
            "solver": "Euler",
            "time": {"t1": 4.0, "steps": 4},
            "events": {"back": {"at": 2, "set": {"x": "x - 10"}}},
            "observe": {
                "high": "hitting_time(x >= 2)",
                "low": "hitting_time(x < -5)",
                "there": "at(x, 2)",
                "before": "at(x, 1)",
            },
        }
    )
    assert [float(result[f"{n}_mean"]) for n in ("high", "low", "there", "before")] == [2, 2, -8, 1]


@pytest.mark.more
def test_first_times_have_their_distribution_and_keep_their_dates_on_more_steps():
    result, wanted = simkit.run(WATCHED), exact(**MARKET)
    for name, value in wanted.items():
        z = (float(result[f"{name}_mean"]) - value) / float(result[f"{name}_stderr"])
        assert abs(z) < LIMIT, name
        assert float(result[f"{name}_bias"]) == pytest.approx(0, abs=1e-7)  # the same dates on more steps


@pytest.mark.more
@pytest.mark.parametrize(
    "wrt",
    [
        pytest.param("initial.x", marks=pytest.mark.slow),
        pytest.param("vol", marks=pytest.mark.slow),
        pytest.param("r", marks=pytest.mark.slow),
        "B",
    ],
)
def test_derivatives_of_first_times(wrt):
    """They jump with the path: never the derivative along it, which is 0 for two of them."""
    name = wrt.removeprefix("initial.").replace("x", "start")
    numbers, step = {"start": 0.0, **MARKET}, 1e-4
    up, down = (exact(**{**numbers, name: numbers[name] + h}) for h in (step, -step))
    result = sensitivity({**WATCHED, "sensitivity": {"wrt": [wrt], "of": list(up)}})
    for of in up:
        wanted = (up[of] - down[of]) / (2 * step)
        value, error = last(result, f"{of}_derivative"), last(result, f"{of}_derivative_stderr")
        assert result[f"{of}_derivative_estimator"].values.item() in ("smoothing", "score")
        assert abs(value - wanted) < LIMIT * error
        assert error < 0.15 * abs(wanted)


@pytest.mark.slow
def test_what_is_made_of_a_first_time_jumps_with_it_too():
    """A difference that compares it is no place to smooth at."""
    late = {**WATCHED, "observe": {"late": {"value": "hitting_time(x > B) > 0.6", "every": 1}}}
    estimate, error, estimator, _ = derivative(late, "B", "late")
    assert estimator in ("score", "finite differences")
    wanted = (survival(0.1501) - survival(0.1499)) / 2e-4
    assert abs(estimate - wanted) < LIMIT * error < 0.2 * wanted


@pytest.mark.more
def test_a_start_below_the_level_moves_a_first_time_by_the_noise_alone():
    """So its score is known: of no path does the first time move at once with where it begins."""
    late = {**WATCHED, "observe": {"late": {"value": "hitting_time(x > B) > 0.6", "every": 1}}}
    estimate, error, *_ = derivative(late, "initial.x", "late", method="score")
    wanted = (survival(0.1499) - survival(0.1501)) / 2e-4
    assert abs(estimate - wanted) < LIMIT * error
    assert error < 0.02 * abs(wanted)


def survival(B):
    """The probability of none above B on the first two dates."""
    from scipy.stats import multivariate_normal

    drift, v = MARKET["r"] - MARKET["vol"] ** 2 / 2, MARKET["vol"] ** 2
    distribution = multivariate_normal([drift / 4, drift / 2], [[v / 4, v / 4], [v / 4, v / 2]])
    return distribution.cdf([B, B])


FORWARD = {
    "constants": {"r": 0.05, "vol": 0.3, "T1": 0.5, "K": 100.0},
    "model": {"type": "GBM", "mu": "r", "sigma": "vol"},
    "initial": {"S": 100.0},
    "solver": "ExactSampling",
    "time": {"t1": 1.0, "steps": 4},
    "ensemble": {"paths": 2**14, "seed": 8, "devices": 1},
    "observe": {"forward": "exp(-r*t) * maximum(S - at(S, T1), 0)", "digital": "at(S, T1) > K"},
}


def forward_start(S=100.0, vol=0.3):
    return CLOSED_FORMS["black_scholes_call"](S=S, K=S, r=0.05, sigma=vol, T=0.5)


def test_a_forward_start_option():
    result = simkit.run(FORWARD)
    assert abs(float(result.forward_mean) - forward_start()) < LIMIT * float(result.forward_stderr)


@pytest.mark.parametrize("wrt", ["initial.S", "vol"])
def test_derivatives_go_through_the_value_at_a_time(wrt):
    estimate, error, estimator, _ = derivative(FORWARD, wrt, "forward")
    assert estimator == "pathwise"
    sides = [forward_start(**{wrt[-1:] if "." in wrt else wrt: x}) for x in POINTS[wrt]]
    wanted = (sides[1] - sides[0]) / (POINTS[wrt][1] - POINTS[wrt][0])
    assert abs(estimate - wanted) < LIMIT * error
    assert error < 0.05 * wanted


POINTS = {"initial.S": (99.9, 100.1), "vol": (0.2999, 0.3001)}


def test_a_digital_at_an_earlier_time_is_no_place_to_smooth_at():
    estimate, error, estimator, _ = derivative(FORWARD, "initial.S", "digital")
    wanted = CLOSED_FORMS["digital_delta"](S=100, K=100, r=0.05, sigma=0.3, T=0.5) * math.exp(0.025)
    assert estimator == "score"
    assert abs(estimate - wanted) < LIMIT * error
    assert error < 0.1 * wanted


@pytest.mark.parametrize("wrt", ["T1", "time.t1"])
def test_a_time_that_moves_is_refused(wrt):
    with pytest.raises(InputError, match=r"shifts the time of at\(S, T1\) relative to the step grid"):
        derivative(FORWARD, wrt, "forward")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("at(S, 0.3)", r"at\(S, 0.3\): the time 0.3 is inside one of the 4 steps; use steps: 10"),
        ("at(S, 2)", r"the time must be from t0 = 0 to t1 = 1, got 2"),
        ("at(S, S)", r"the time is an expression of constants, and S is none"),
        ("at(S)", "at takes 2 arguments, got 1"),
        ("first(S, S)", "'S' is a number where a condition is needed"),
        (
            "hitting_time(S)",
            "'S' is a number where a condition is needed",
        ),
        ("hitting_time(max(S) > 1)", "cannot be nested"),
    ],
)
def test_what_cannot_be_watched_is_refused(text, message):
    with pytest.raises(InputError, match=message):
        load({**FORWARD, "observe": {"q": text}})


def test_every_says_nothing_to_a_value_at_a_time():
    with pytest.raises(InputError, match="has no effect"):
        load({**FORWARD, "observe": {"q": {"value": "at(S, 0.5)", "every": 2}}})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("first(S, S > 1)", r"first\(…\) monitors the path step by step"),
        ("hitting_time(S > 1)", r"hitting_time\(…\) monitors the path step by step"),
        ("at(S, 0.3)", r"the time 0.3 is inside one of the 1 saved intervals; use points: 10"),
    ],
)
def test_adaptive_steps_of_stochastic_equations_have_no_first_times(text, message):
    adaptive = {"solver": "Milstein", "time": {"t1": 1.0, "rtol": 1e-3, "atol": 1e-3}}
    with pytest.raises(InputError, match=message):
        load({**FORWARD, **adaptive, "observe": {"q": text}})


@pytest.mark.more
def test_paths_that_still_wait_at_the_end_are_counted():
    """Only of a first time as such, however written: what else is made of it has a meaning of its own.

    A path that meets the condition at the very end has met it.
    """
    observe = {"when": "hitting_time( x > B )", "same": "(hitting_time((x > 1.5e-1)))", "met": "max(x) > B"}
    observe |= {"late": "hitting_time(x > B and t >= 1)", "above": "x > B"}
    observe |= {"later": "1 + hitting_time(x > B)", "begun": "hitting_time(x > -1)"}
    observe |= {"rebate": "first(t, x > B)", "double": "2*first(t, x > B)"}
    result = simkit.run(WATCHED | {"observe": observe})
    for name, condition in {"when": "met", "same": "met", "rebate": "met", "late": "above"}.items():
        part, error = float(result[f"{name}_censored"]), float(result[f"{name}_censored_stderr"])
        assert part == pytest.approx(1 - float(result[f"{condition}_mean"]), abs=1e-12), name
        assert error == pytest.approx(float(result[f"{condition}_stderr"]), rel=1e-3), name
    waiting = [str(name) for name in result if str(name).endswith("_censored")]
    assert sorted(waiting) == ["late_censored", "rebate_censored", "same_censored", "when_censored"]
    file = io.StringIO()
    print_table(result, file)
    part, error = float(result["when_censored"]), float(result["when_censored_stderr"])
    figure = with_error(100 * part, 100 * error)
    for name, value in {"when": "the time of the end", "rebate": "0"}.items():
        row = f"{name}: {figure} % of the paths had not met the condition at the end of any step"
        assert f"{row}, and count with {value}; between steps more may have" in " ".join(
            file.getvalue().split()
        )


@pytest.mark.slow
@pytest.mark.parametrize("devices", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_paths_that_fail_are_not_waiting(devices):
    """Nor do lanes beyond the last path count; of adaptive steps, with a condition that some meet."""
    failing = {
        "model": {"ode": {"x": "x**2"}},
        "initial": {"x": {"normal": [0.5, 0.5]}},
        "time": {"t1": 1.0, "rtol": 1e-4, "atol": 1e-6, "max_steps": 200},
        "ensemble": {"paths": 90, "seed": 2, "devices": devices, "failures": "exclude"},
        "observe": {"when": "hitting_time(x > 1)", "met": "first(1, x > 1)"},
    }
    result = simkit.run(failing)
    assert result.attrs["failed_paths"] > 5
    assert result["when_censored"].attrs["n"] == 90 - result.attrs["failed_paths"]
    assert float(result["when_censored"]) == pytest.approx(1 - float(result["met_mean"]), abs=1e-12)


@pytest.mark.slow
def test_that_all_paths_wait_has_an_error_where_others_could():
    first_times = {"when": "hitting_time(x > 9)", "rebate": "first(x, x > 9)"}
    never = {"observe": first_times, "ensemble": {"paths": 64, "devices": 1}}
    result = simkit.run(WATCHED | never)
    assert (float(result["when_censored"]), float(result["when_censored_stderr"])) == (1.0, 1 / 64)
    bound = " (below 4.7 % of all do, by the rule of three)"
    ends = {"when": "the time of the end", "rebate": "0"}
    lines = {
        f"{n}: no path met the condition before the end{bound}; the mean is {x}" for n, x in ends.items()
    }
    assert {line.replace("before the end", "at the end of any step") for line in lines} <= {
        *step_notes(result)
    }
    constant = {"model": {"ode": {"x": "0*x"}}, "time": {"t1": 1.0, "steps": 4}, "initial": {"x": 0.0}}
    result = simkit.run(constant | never | {"ensemble": {"paths": 1, "devices": 1}})
    assert (float(result["when_censored"]), float(result["when_censored_stderr"])) == (1.0, 0.0)
    assert {line.replace(bound, "") for line in lines} <= {*step_notes(result)}
