"""First times and other path functionals of jump processes: distributions, events, leaps, derivatives."""

import math

import numpy as np
import pytest
from derivative_examples import LIMIT, derivative
from scipy.integrate import quad
from scipy.stats import gamma

import simkit
from simkit import InputError, load

END = 3.0
EXACT = ("DirectMethod", "NextReaction")


def network(*reactions, **more):
    """An experiment of reactions of X, each an equation and a rate."""
    each = {f"r{i}": {"equation": text, "rate": rate} for i, (text, rate) in enumerate(reactions)}
    return {
        "model": {"reactions": each},
        "solver": "DirectMethod",
        "initial": {"X": 0},
        "time": {"t1": END},
        "ensemble": {"paths": 2**13, "seed": 5, "devices": 1},
        **more,
    }


POISSON = network(("0 -> X", "a"), constants={"a": 2.0, "r": 0.4})
STILL = network(("X -> 2 X", 0.0), initial={"X": 1})


def z(result, name, wanted):
    return (float(result[f"{name}_mean"].item()) - wanted) / float(result[f"{name}_stderr"].item())


def stopped(chance, power=1):
    """E[min(tau, END)^power] of a time that has come by t with this chance."""
    return quad(lambda t: power * t ** (power - 1) * (1 - chance(t)), 0, END)[0]


@pytest.mark.more
@pytest.mark.parametrize("solver", EXACT)
def test_the_hitting_time_of_a_poisson_process_is_erlang(solver):
    observe = {
        "tau": "hitting_time(X >= 4)",
        "square": "hitting_time(X >= 4)**2",
        "hit": "first(1, X >= 4)",
        "rebate": "first(exp(-r*t) * X, X >= 4)",
        "begun": "hitting_time(X >= 0)",
        "most": "max(X) - X",
        "area": "integral(X)",
    }
    result, distribution = simkit.run({**POISSON, "solver": solver, "observe": observe}), gamma(4, scale=0.5)
    wanted = {
        "tau": stopped(distribution.cdf),
        "square": stopped(distribution.cdf, 2),
        "hit": distribution.cdf(END),
        "rebate": 4 * quad(lambda t: math.exp(-0.4 * t) * distribution.pdf(t), 0, END)[0],
        "area": END**2,
    }
    assert {name: abs(z(result, name, value)) < LIMIT for name, value in wanted.items()} == dict.fromkeys(
        wanted, True
    )
    assert float(result.begun_max.item()) == float(result.most_max.item()) == 0


@pytest.mark.parametrize("solver", EXACT)
def test_extinction_of_births_and_deaths_has_its_closed_form(solver):
    b, d, n = 0.6, 1.0, 3

    def extinct(t):
        grown = math.exp((b - d) * t)
        return (d * (1 - grown) / (d - b * grown)) ** n

    births = network(("X -> 2 X", b), ("X -> 0", d), initial={"X": n}, solver=solver)
    result = simkit.run(
        {**births, "observe": {"tau": "hitting_time(X < 1)", "square": "hitting_time(X < 1)**2"}}
    )
    assert abs(z(result, "tau", stopped(extinct))) < LIMIT
    assert abs(z(result, "square", stopped(extinct, 2))) < LIMIT


def test_the_hitting_time_of_births_is_a_sum_of_exponentials():
    """Of rates b, 2b, …: X is geometric at any time."""
    births = network(("X -> 2 X", 0.7), initial={"X": 1}, observe={"tau": "hitting_time(X >= 5)"})
    assert abs(z(simkit.run(births), "tau", stopped(lambda t: (1 - math.exp(-0.7 * t)) ** 4))) < LIMIT


def test_the_count_at_a_time_has_its_covariance_with_a_later_one():
    """The time need not be saved. Of arrivals and deaths, what is left of X_s is what both have in common."""
    s, a, m = 0.7, 5.0, 0.5
    arrivals = network(
        ("0 -> X", a),
        ("X -> 0", m),
        constants={"s": s},
        save={"points": 2},
        observe={"both": "X * at(X, s)", "then": {"value": "at(t*X, s)", "at": "each"}, "t0": "at(X, 0)"},
    )
    result, mean = simkit.run(arrivals), [a / m * (1 - math.exp(-m * t)) for t in (s, END)]
    wanted = mean[0] * mean[1] + mean[0] * math.exp(-m * (END - s))
    assert abs(z(result, "both", wanted)) < LIMIT
    errors = (result.then_mean[1:] - s * mean[0]) / result.then_stderr[1:]
    assert abs(errors).max() < LIMIT
    assert float(result.then_mean[1]) == float(result.then_mean[2])
    assert float(result.t0_max.item()) == 0


@pytest.mark.more
def test_events_are_seen_before_and_after_and_rows_show_what_is_known_by_then():
    observe = {
        "tau": {"value": "hitting_time(X > 10)", "at": "each"},
        "down": "hitting_time(X < 1)",
        "at_event": "at(X, 2)",
        "before": "at(X, 1.999)",
        "most": "max(X)",
        "least": "min(X)",
        "area": "integral(X)",
        "begun": "hitting_time(X == 1)",
    }
    events = {"up": {"at": [0, 2], "set": {"X": "X + 10"}}, "down": {"at": 2.5, "set": {"X": 0}}}
    result = simkit.run({**STILL, "events": events, "observe": observe, "save": {"points": 3}})
    ends = {name: float(result[f"{name}_mean"].values.ravel()[-1]) for name in observe}
    area = 2 * 11 + 0.5 * 21
    assert ends == pytest.approx(
        {
            "tau": 0,
            "down": 2.5,
            "at_event": 21,
            "before": 11,
            "most": 21,
            "least": 0,
            "area": area,
            "begun": END,
        }
    )
    later = {"up": {"at": 1.5, "set": {"X": "X + 10"}}}
    result = simkit.run({**STILL, "events": later, "observe": {"tau": observe["tau"]}, "save": {"points": 3}})
    assert result.tau_mean.values.tolist() == [0, 1, 1.5, 1.5]


def test_a_step_of_a_curve_is_seen_when_it_happens():
    curves = {"level": {"times": [0, 1], "values": [5, 0.5], "interpolation": "previous", "outside": "hold"}}
    result = simkit.run({**STILL, "curves": curves, "observe": {"tau": "hitting_time(X > level)"}})
    assert float(result.tau_mean.item()) == 1


@pytest.mark.more
def test_what_is_watched_changes_no_path():
    experiment = {**POISSON, "ensemble": {"paths": 64, "devices": 1}}
    plain = simkit.run(experiment)
    watched = simkit.run({**experiment, "observe": {"tau": "hitting_time(X > 3)", "half": "at(X, 0.77)"}})
    assert plain.X_path.values.tolist() == watched.X_path.values.tolist()
    assert (watched.half_path.values <= watched.X_path.values[:, -1]).all()


@pytest.mark.user_code
@pytest.mark.more
@pytest.mark.parametrize("solver", ["NextReaction", pytest.param("TauLeaping", marks=pytest.mark.slow)])
def test_first_times_have_the_same_bits_however_they_are_cut(solver):
    observe = {"tau": "hitting_time(X >= 30)", "half": "at(X, 1.1)", "most": "max(X)", "area": "integral(X)"}
    births = network(("0 -> X", 20.0), ("X -> 0", 0.3), solver=solver, observe=observe)
    cuts = [{"devices": 1}, {"devices": 2, "chunk": 128}]
    one, other = (simkit.run({**births, "ensemble": {"paths": 700, "seed": 3, **cut}}) for cut in cuts)
    for name in observe:
        for key in ("mean", "variance", "min", "max"):
            assert float(one[f"{name}_{key}"]) == float(other[f"{name}_{key}"])


@pytest.mark.slow
def test_leaps_are_seen_at_their_ends_and_say_by_how_much_they_are_late():
    """A constant rate bounds no leap: without a limit of their length the first would be the last."""
    fast = network(
        ("0 -> X", 1000.0),
        solver="TauLeaping",
        ensemble={"paths": 2**12, "seed": 2, "devices": 1},
        observe={"tau": "hitting_time(X >= 1000)"},
    )
    result = simkit.run(fast)
    mean, error, bias, noise = (float(result[f"tau_{k}"]) for k in ("mean", "stderr", "bias", "bias_stderr"))
    assert 0.005 < mean - 1 < 0.03
    assert abs(mean - bias - 1) < LIMIT * math.hypot(error, noise)
    assert bias > 2 * noise


@pytest.mark.more
@pytest.mark.parametrize(("wrt", "estimator"), [("a", ("score", "coupled differences")), ("r", None)])
def test_derivatives_of_first_times_of_events(wrt, estimator):
    observe = {"rebate": "first(exp(-r*t), X >= 4)"}
    estimate, error, chosen, _ = derivative({**POISSON, "observe": observe}, wrt, "rebate")

    def rebate(a, r):
        return quad(lambda t: math.exp(-r * t) * gamma(4, scale=1 / a).pdf(t), 0, END)[0]

    step = 1e-4
    sides = [rebate(**{"a": 2.0, "r": 0.4, wrt: {"a": 2.0, "r": 0.4}[wrt] + h}) for h in (step, -step)]
    wanted = (sides[0] - sides[1]) / (2 * step)
    assert estimator is None or chosen in estimator
    assert chosen != "weak derivative"
    assert abs(estimate - wanted) < LIMIT * error
    assert error < 0.2 * abs(wanted)


@pytest.mark.parametrize(
    ("wrt", "method", "message"),
    [
        ("a", "weak_derivative", "no weak derivative for q in a: it depends on the path"),
        ("r", "score", "no score for q in r: r is in what is observed along the path"),
        ("time.t1", "auto", "moves the time of at.* which is held fixed; compare"),
    ],
)
def test_derivatives_that_would_be_wrong_are_refused(wrt, method, message):
    observe = {"q": "first(r, X > 3) + at(X, 1)"}
    with pytest.raises(InputError, match=message):
        derivative({**POISSON, "observe": observe}, wrt, "q", method=method)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mean(X)", r"mean\(…\) averages over the ends of steps, and events have no common times"),
        ("no_touch(X, 1)", r"no_touch\(…\) needs a path driven by continuous noise"),
        ("hitting_time(X > t)", r"t in X > t changes between events"),
        ("max(X - ramp)", r"ramp in X - ramp changes between events"),
        ("at(X, 4)", "the time must be from t0 = 0 to t1 = 3, got 4"),
    ],
)
def test_what_events_do_not_show_is_refused(text, message):
    curves = {"ramp": {"times": [0, 3], "values": [0, 1]}}
    with pytest.raises(InputError, match=message):
        load({**POISSON, "curves": curves, "observe": {"q": text}})


def test_events_have_no_steps_to_count():
    observe = {"q": {"value": "max(X)", "every": 2}}
    with pytest.raises(InputError, match="paths have no common steps to count"):
        load({**POISSON, "observe": observe})


@pytest.mark.slow
def test_a_path_functional_leaves_the_weak_derivative_of_another_observable_as_it_is():
    """E[X²] of births at b X and deaths at d X has closed moments."""
    case = {
        "model": {"type": "BirthDeath", "birth_rate": 0.9, "death_rate": 1.0},
        "initial": {"X": 5},
        "time": {"t1": 2},
        "ensemble": {"paths": 4096, "seed": 3, "devices": 1},
        "observe": {"square": "X**2"},
        "sensitivity": {"wrt": ["birth_rate"], "of": ["square"], "method": "weak_derivative"},
    }
    watching = {"highest": "max(X)", "late": "hitting_time(X >= 8)", "then": "at(X, 1)"}
    alone = simkit.sensitivity(case)
    result = simkit.sensitivity({**case, "observe": {**case["observe"], **watching}})
    for name in ("mean", "derivative", "derivative_stderr"):
        np.testing.assert_array_equal(result[f"square_{name}"], alone[f"square_{name}"])

    def square(b, d=1.0, m=5.0, t=2.0):
        growth = math.exp((b - d) * t)
        return m**2 * growth**2 + m * (b + d) / (b - d) * growth * (growth - 1)

    wanted = (square(0.9 + 1e-4) - square(0.9 - 1e-4)) / 2e-4
    assert (
        abs(result["square_derivative"] - wanted).item() < LIMIT * result["square_derivative_stderr"].item()
    )
