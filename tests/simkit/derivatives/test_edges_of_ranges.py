"""Derivatives where an estimator could be wrong without a sign.

At the end of a parameter's range, in the distribution of an initial value, where a model's noise jumps, in
the time of a process that jumps, and with coupled copies.
"""

import math

import numpy as np
import pytest
from scipy.stats import norm, truncnorm

import simkit
from simkit import InputError, sensitivity, uncertainty
from simkit.closed_forms.jump_diffusions import merton_call

LIMIT = 4.0
OU = {
    "constants": {"m": 0.7, "s": 0.1},
    "model": {"type": "OrnsteinUhlenbeck", "theta": 1.0, "mu": 0.0, "sigma": 0.2},
    "initial": {"X": {"normal": ["m", "s"]}},
    "time": {"t1": 2.0, "steps": 40},
    "ensemble": {"paths": 4000, "seed": 1, "devices": 1},
    "observe": {"end": "X", "above": "X > 0.1"},
}
DECAY = (1 - 2.0 / 40) ** 40


def derivative(experiment, wrt, of, **section):
    """Mean, standard error and estimator of one derivative."""
    result = sensitivity({**experiment, "sensitivity": {"wrt": [wrt], "of": [of], **section}})
    return tuple(result[f"{of}_derivative{part}"].values.item() for part in ("", "_stderr", "_estimator"))


@pytest.mark.more
@pytest.mark.parametrize("method", ["auto", pytest.param("finite_differences", marks=pytest.mark.slow)])
def test_a_constant_in_the_distribution_of_an_initial_value_has_its_derivative(method):
    estimate, _, _ = derivative(OU, "m", "end", method=method)
    assert estimate == pytest.approx(DECAY, rel=1e-9)


@pytest.mark.more
@pytest.mark.parametrize("method", [pytest.param("auto", marks=pytest.mark.slow), "score"])
@pytest.mark.parametrize("name", ["m", pytest.param("s", marks=pytest.mark.more)])
def test_a_digital_depends_on_the_distribution_of_the_initial_value(method, name):
    """After so few steps that its spread still matters."""
    h, steps, level = 0.05, 5, 0.6
    decay = (1 - h) ** steps
    variance = 0.1**2 * decay**2 + 0.2**2 * h * (1 - decay**2) / (1 - (1 - h) ** 2)
    d = (0.7 * decay - level) / variance**0.5
    wanted = norm.pdf(d) * (decay if name == "m" else -d * 0.1 * decay**2 / variance**0.5) / variance**0.5
    soon = {"time": {"t1": steps * h, "steps": steps}, "observe": {"above": f"X > {level}"}}
    estimate, error, _ = derivative(OU | soon, name, "above", method=method)
    assert abs(estimate - wanted) < LIMIT * error < 0.5 * abs(wanted)


@pytest.mark.slow
def test_second_derivatives_see_how_a_distribution_bends():
    experiment = {
        **OU,
        "initial": {"X": {"lognormal": ["m", "s"]}},
        "observe": {"end": "X", "above": "X > 0.27"},
        "ensemble": {"paths": 40_000, "seed": 1},
    }
    section = {"wrt": ["m"], "second": ["m"]}
    result = sensitivity({**experiment, "sensitivity": section})
    start = math.exp(0.7 + 0.1**2 / 2) * DECAY
    for kind in ("derivative", "second"):
        assert abs(result[f"end_{kind}"].item() - start) < LIMIT * result[f"end_{kind}_stderr"].item()
    # P(X > c) by quadrature over the initial value.
    z, weights = np.polynomial.hermite_e.hermegauss(60)
    spread = 0.2 * ((2.0 / 40) * (1 - DECAY**2) / (1 - (1 - 2.0 / 40) ** 2)) ** 0.5

    def above(m):
        return np.sum(weights * norm.cdf((np.exp(m + 0.1 * z) * DECAY - 0.27) / spread)) / weights.sum()

    wanted = (above(0.71) - 2 * above(0.7) + above(0.69)) / 1e-4
    assert abs(result["above_second"].item() - wanted) < LIMIT * result["above_second_stderr"].item()


@pytest.mark.slow
def test_the_mean_of_a_truncated_start_has_first_and_second_derivatives():
    numbers = {"m": 0.3, "s": 0.5, "low": 0.1, "high": 1.0}
    experiment = {
        **OU,
        "constants": numbers,
        "initial": {"X": {"truncated_normal": [*numbers]}},
        "ensemble": {"paths": 40_000, "seed": 1},
        "sensitivity": {"wrt": [*numbers], "second": [*numbers], "of": ["end"]},
    }
    result = sensitivity(experiment)

    def end(**changes):
        mean, sd, low, high = (numbers | changes).values()
        return DECAY * truncnorm.mean((low - mean) / sd, (high - mean) / sd, mean, sd)

    for i, (name, value) in enumerate(numbers.items()):
        up, middle, down = (end(**{name: value + step}) for step in (1e-3, 0.0, -1e-3))
        wanted = {"derivative": (up - down) / 2e-3, "second": (up - 2 * middle + down) / 1e-6}
        for kind, exact in wanted.items():
            found, error = (float(result[f"end_{kind}{part}"][i]) for part in ("", "_stderr"))
            assert abs(found - exact) < LIMIT * error < 0.2 * max(abs(exact), 0.01)


DISTRIBUTION = """\
constants: {m: {uniform: [0.5, 1.5]}}
model: {ode: {x: -x}}
initial: {x: {uniform: [m - 0.01, m + 0.01]}}
time: {t1: 1, steps: 8}
uncertainty: {method: propagate, points: 256, paths: 4}
"""


@pytest.mark.slow
def test_uncertainty_sees_the_distribution_of_an_initial_value():
    study = uncertainty(DISTRIBUTION)
    sd = float(study["sd"].sel(observable="x"))
    assert sd == pytest.approx(math.exp(-1) / 12**0.5, rel=0.03)


@pytest.mark.parametrize(
    ("start", "message"),
    [
        (
            "triangular: [0, m, 1.2]",
            r"initial.x: triangular: mode must lie between low and high, got 1\.",
        ),
        ("uniform: [m, 1.2]", r"initial.x: uniform: low must be below high"),
        ("normal: [0, m - 1]", r"initial.x: normal: sd must be >= 0, got -0"),
    ],
)
def test_uncertainty_refuses_numbers_that_make_no_distribution_of_initial_values(start, message):
    """Though those at the centre do."""
    text = DISTRIBUTION.replace("uniform: [m - 0.01, m + 0.01]", start)
    with pytest.raises(InputError, match=message):
        uncertainty(text)


def test_uncertainty_refuses_initial_values_out_of_their_range():
    text = """\
constants: {r0: {uniform: [-0.01, 0.1]}}
model: {type: CIR, kappa: 1.5, theta: 0.04, sigma: 0.3}
initial: {r: r0}
time: {t1: 1, steps: 8}
uncertainty: {method: propagate, points: 64, paths: 4}
"""
    with pytest.raises(InputError, match=r"initial.r: must be >= 0, and the distributions give it -0.009"):
        uncertainty(text)


def test_a_constant_in_an_initial_number_is_refused():
    experiment = {
        "constants": {"a": 20.0},
        "model": {"type": "ImmigrationDeath", "alpha": "a", "mu": 1.0},
        "initial": {"X": "a"},
        "time": {"t1": 1.0},
        "ensemble": {"paths": 100, "seed": 1},
    }
    for method in ("auto", "score", "finite_differences"):
        with pytest.raises(InputError, match="a is in the initial number of X, which is whole"):
            sensitivity({**experiment, "sensitivity": {"wrt": ["a"], "method": method}})


MERTON = {
    "model": {"type": "Merton", "mu": 0.05, "sigma": 0.2, "lam": 1.0, "m": -0.1, "delta": 0.3},
    "initial": {"S": 100.0},
    "time": {"t1": 1.0, "steps": 16},
    "ensemble": {"paths": 2**16, "seed": 3},
    "observe": {"call": "exp(-0.05*t) * maximum(S - 100, 0)", "digital": "S > 120"},
}


@pytest.mark.slow
@pytest.mark.parametrize("of", ["call", pytest.param("digital", marks=pytest.mark.slow)])
def test_the_number_of_jumps_grows_with_the_time(of):
    def exact(T):
        price = {"S": 100.0, "r": 0.05, "sigma": 0.2, "lam": 1.0, "m": -0.1, "delta": 0.3, "T": T}
        if of == "call":
            return merton_call(K=100.0, **price)
        return math.exp(0.05 * T) * (merton_call(K=119.99, **price) - merton_call(K=120.01, **price)) / 0.02

    estimate, error, estimator = derivative(MERTON, "time.t1", of)
    assert estimator == {"call": "weak derivative", "digital": "finite differences"}[of]
    wanted = (exact(1.001) - exact(0.999)) / 0.002
    assert abs(estimate - wanted) < LIMIT * error < 0.5 * abs(wanted)


@pytest.mark.slow
def test_differences_stay_in_the_range_of_an_initial_value():
    experiment = {
        "model": {"type": "CIR", "kappa": 1.5, "theta": 0.04, "sigma": 0.3},
        "initial": {"r": 0.0},
        "solver": "ExactSampling",
        "time": {"t1": 1.0, "steps": 1},
        "ensemble": {"paths": 2**16, "seed": 3},
    }
    result = sensitivity({**experiment, "sensitivity": {"wrt": ["initial.r"]}})
    assert result["r_derivative_estimator"].item() == "finite differences"
    slope, error = (result[f"r_derivative{part}"].values[0, -1] for part in ("", "_stderr"))
    assert abs(slope - math.exp(-1.5)) < LIMIT * error < 0.1


@pytest.mark.parametrize("side", [1, -1])
def test_one_sided_differences_are_exact_for_cubics(side):
    from simkit.derivatives.differences import first_difference, mixed_difference, second_difference

    def applied(stencil, fn, steps):
        points = np.array(stencil.points) * steps
        return sum(w * fn(*x) for w, x in zip(stencil.weights, points, strict=True))

    h = np.array([0.1])
    assert applied(first_difference(0.1, side), lambda x: x**3 + 2 * x, h) == pytest.approx(2)
    assert applied(second_difference(0.1, side), lambda x: x**3 + 5 * x**2, h) == pytest.approx(10)
    both = mixed_difference([0.1, 0.2], (side, 1))
    assert applied(both, lambda x, y: 3 * x * y + x**2 + y**2, np.array([0.1, 0.2])) == pytest.approx(3)


@pytest.mark.slow
@pytest.mark.parametrize("wrt", ["S", pytest.param("model.sigma", marks=pytest.mark.slow)])
def test_a_price_that_stops_at_zero_with_full_noise_is_no_smooth_path(wrt):
    """At beta = 0 the price is a Brownian motion absorbed at zero: Bachelier's price less the image's."""
    experiment = {
        "model": {"type": "CEV", "mu": 0.0, "sigma": 1.0, "beta": 0.0},
        "initial": {"S": 1.0},
        "time": {"t1": 1.0, "steps": 1000},
        "ensemble": {"paths": 2**15, "seed": 3},
        "observe": {"call": "maximum(S - 0.5, 0)"},
    }

    def exact(S, sigma):
        def bachelier(S):
            d = (S - 0.5) / sigma
            return (S - 0.5) * norm.cdf(d) + sigma * norm.pdf(d)

        return bachelier(S) - bachelier(-S)

    h = 1e-4
    wanted = ((exact(1 + h, 1) - exact(1 - h, 1)) if wrt == "S" else (exact(1, 1 + h) - exact(1, 1 - h))) / (
        2 * h
    )
    estimate, error, estimator = derivative(experiment, wrt, "call")
    assert estimator != "pathwise"
    assert abs(estimate - wanted) < LIMIT * error + 0.01  # Euler's steps see zero late


@pytest.mark.slow
def test_the_mean_with_coupled_copies_is_that_of_the_run():
    experiment = {
        "model": {"type": "BirthDeath", "birth_rate": 1.0, "death_rate": 0.9},
        "initial": {"X": 10},
        "time": {"t1": 5.0},
        "ensemble": {"paths": 500, "seed": 1},
    }
    result = sensitivity({**experiment, "sensitivity": {"wrt": ["model.birth_rate"]}})
    assert result["X_derivative_estimator"].values.item() == "coupled differences"
    assert float(result["X_mean"][-1]) == pytest.approx(
        float(simkit.run(experiment)["X_mean"][-1]), rel=1e-12
    )


@pytest.mark.slow
def test_a_mean_at_the_date_of_exercise_is_no_smooth_path():
    experiment = {
        "constants": {"K": 100.0},
        "model": {"type": "GBM", "mu": 0.06, "sigma": 0.2},
        "initial": {"S": 100.0},
        "solver": "ExactSampling",
        "time": {"t1": 1.0, "steps": 4},
        "ensemble": {"paths": 4096, "seed": 3},
        "observe": {"put": {"value": "exp(-0.06*t) * maximum(K - S, 0)", "early_exercise": {"dates": 4}}},
    }
    estimate, _, estimator = derivative(experiment, "S", "put")
    assert estimator == "finite differences"
    assert -1 < estimate < 0
    with pytest.raises(InputError, match="would be wrong: the date of exercise jumps"):
        derivative(experiment, "S", "put", method="pathwise")


BERMUDAN = {
    "constants": {"K": 100.0, "r": 0.05},
    "model": {"type": "GBM", "mu": "r", "sigma": 0.25},
    "initial": {"S": 100.0},
    "time": {"t1": 1.0, "steps": 10},
    "ensemble": {"paths": 16384, "seed": 4},
    "observe": {"put": {"value": "exp(-r*t) * maximum(K - S, 0)", "early_exercise": {"dates": 10}}},
}


@pytest.mark.slow
@pytest.mark.user_code
def test_a_strike_moves_no_date_of_exercise():
    """The price is homogeneous in S and K, and the dates of paths are those of the policy that is held."""
    ways = {
        "put": ("maximum(K - S, 0)", "S"),
        "scaled": ("maximum(K - S, 0)", "S/K"),
        "bare": ("K - S", "S"),
    }
    observe = {
        name: {
            "value": f"exp(-r*t) * ({value})",
            "early_exercise": {"dates": 10, "basis": [basis], "paths": 4000},
        }
        for name, (value, basis) in ways.items()
    }
    result = sensitivity({**BERMUDAN, "observe": observe, "sensitivity": {"wrt": ["S", "K"]}})
    for name in ("scaled", "bare"):
        assert result[f"{name}_derivative"].values == pytest.approx(result["put_derivative"].values, rel=1e-9)
    price = float(result["put_mean"])
    (delta, in_strike), errors = (result[f"put_derivative{x}"].values.ravel() for x in ("", "_stderr"))
    assert abs(in_strike - (price / 100 - delta)) < 4 * np.hypot(*errors)
    assert errors[1] < 0.005  # it is that of what is paid, between 0 and 1 on each path
    assert list(result["put_derivative_estimator"].values) == ["finite differences", "pathwise"]
    of_time = abs(float(result["put_derivative_bias"][1]))
    assert float(result["put_derivative_step_error"][1]) == of_time  # there is no other step


@pytest.mark.slow
@pytest.mark.parametrize(
    ("second", "moved"), [(["K"], "K"), ([["sigma", "r"]], "sigma and r"), (["t1"], "t1")]
)
def test_second_derivatives_in_what_moves_the_best_policy_are_refused(second, moved):
    put = BERMUDAN["observe"]["put"] | {"early_exercise": {"dates": 10, "paths": 1000}}
    wanted = {"wrt": ["K", "sigma", "r", "t1"], "second": second}
    few = {"ensemble": {"paths": 512, "seed": 4}, "observe": {"put": put}, "sensitivity": wanted}
    with pytest.raises(
        InputError, match=f"best policy moves with {moved}, where that of the run is kept fixed"
    ):
        sensitivity({**BERMUDAN, **few})


@pytest.mark.slow
def test_second_derivatives_in_where_paths_begin_need_no_other_policy():
    section = {"wrt": ["S", "K"], "second": ["S", ["S", "K"]]}
    result = sensitivity({**BERMUDAN, "ensemble": {"paths": 2**18, "seed": 4}, "sensitivity": section})
    gamma, mixed = result["put_second"].values.ravel()
    error = np.hypot(*result["put_second_stderr"].values.ravel())
    assert abs(gamma + mixed) < 4 * error < 0.8 * gamma


CURVE = {
    "constants": {"tau": 0.5},
    "curves": {
        "c": {"times": [0.0, "tau"], "values": [0.0, 1.0], "interpolation": "previous", "outside": "hold"}
    },
    "model": {"ode": {"x": "c"}},
    "initial": {"x": 0.0},
    "time": {"t1": 1.0, "steps": 10},
}


@pytest.mark.more
@pytest.mark.parametrize("wrt", [pytest.param("tau", marks=pytest.mark.slow), "time.t1"])
def test_jumps_of_a_curve_do_not_move_against_steps(wrt):
    with pytest.raises(InputError, match="shifts the jumps of a curve relative to the step grid"):
        sensitivity({**CURVE, "sensitivity": {"wrt": [wrt]}})
    adaptive = {**CURVE, "time": {"t1": 1.0, "rtol": 1e-8, "atol": 1e-8}, "sensitivity": {"wrt": [wrt]}}
    result = sensitivity(adaptive)["x_derivative"].values[0, -1]
    assert result == pytest.approx({"tau": -1.0, "time.t1": 1.0}[wrt], abs=1e-6)


@pytest.mark.parametrize("wrt", ["when", "time.t1"])
def test_events_do_not_move_against_steps(wrt):
    experiment = {
        "constants": {"when": 0.5},
        "model": {"ode": {"x": "-x"}},
        "initial": {"x": 1.0},
        "events": {"dose": {"at": ["when"], "set": {"x": "x + 1"}}},
        "time": {"t1": 1.0, "steps": 10},
        "sensitivity": {"wrt": ["initial.x", wrt]},
    }
    with pytest.raises(InputError, match=f"wrt: {wrt} shifts event times relative to the step grid"):
        sensitivity(experiment)


def test_uncertain_numbers_of_molecules_are_whole():
    text = """\
constants: {n: {uniform: [10, 12]}}
model: {type: ImmigrationDeath, alpha: 1, mu: 1}
initial: {X: n}
time: {t1: 1}
uncertainty: {method: propagate, points: 16, paths: 4}
"""
    with pytest.raises(InputError, match=r"initial.X: must be a whole number of molecules"):
        uncertainty(text)
