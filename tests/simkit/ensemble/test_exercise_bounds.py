"""Upper bounds of the value of an option, and the error that fitting its policy leaves in derivatives."""

import dataclasses
import math

import numpy as np
import pytest

import simkit
from simkit import load, sensitivity
from simkit.derivatives.moments import Averages, pooled
from simkit.ensemble.early_exercise.exercise_sample import Sample, option_groups
from simkit.ensemble.early_exercise.longstaff_schwartz import (
    fit_policy,
    independent_policies,
    with_policies,
    with_upper_bounds,
)
from simkit.ensemble.early_exercise.martingale import Martingale, Shape, fit_martingale, gains_of, shape_of
from simkit.ensemble.jump_distribution import functions_of_marks
from simkit.expressions import compile_expression
from simkit.observe.exercise import Exercise

PUT = {
    "constants": {"K": 100.0, "r": 0.05},
    "model": {"type": "GBM", "mu": 0.0, "sigma": 0.25},
    "initial": {"S": 100.0},
    "solver": "ExactSampling",
    "time": {"t1": 1.0, "steps": 10},
    "ensemble": {"paths": 40_000, "seed": 7, "devices": 1},
    "observe": {
        "put": {"value": "exp(-r*t) * maximum(K - S, 0)", "early_exercise": {"dates": 10, "paths": 16384}}
    },
}
TEN, FIFTY = 9.5556159821, 9.5668093554  # of a put with these dates


def interval_holds(result, exact, tight):
    """The exact value is between mean and bound, and these are close."""
    low, high = float(result["put_mean"]), float(result["put_upper_bound"])
    low_error, high_error = float(result["put_stderr"]), float(result["put_upper_bound_stderr"])
    assert high_error < low_error / 4
    assert low - 3 * low_error < exact < high + 3 * high_error
    assert 0 < high - exact < tight * exact + 3 * high_error


@pytest.mark.more
def test_the_value_is_in_a_tight_interval():
    interval_holds(simkit.run(PUT), TEN, 0.005)


@pytest.mark.slow
def test_the_error_of_the_bound_is_the_spread_over_seeds():
    """Most of it is that of the paths; that of the policy, found anew for each seed, raises the bound."""
    option = {**PUT["observe"]["put"], "early_exercise": {"dates": 10, "paths": 2048}}
    results = [
        simkit.run(
            PUT | {"observe": {"put": option}, "ensemble": {"paths": 2048, "devices": 1, "seed": seed}}
        )
        for seed in range(20)
    ]
    bounds = np.array([float(each["put_upper_bound"]) for each in results])
    errors = np.array([float(each["put_upper_bound_stderr"]) for each in results])
    assert 0.6 < bounds.std(ddof=1) / errors.mean() < 1.6
    assert np.all(bounds + 4 * errors > TEN)


@pytest.mark.slow
def test_the_value_with_fifty_dates_is_in_a_tight_interval():
    option = {**PUT["observe"]["put"], "early_exercise": {"dates": 50, "paths": 32768}}
    result = simkit.run(PUT | {"time": {"t1": 1.0, "steps": 200}, "observe": {"put": option}})
    interval_holds(result, FIFTY, 0.005)


@pytest.mark.slow
def test_the_bound_of_a_heston_put_is_tight():
    """Of two variables and two noises, with a policy that loses little: mean and bound are close."""
    value = "exp(-0.05*t) * maximum(100 - S, 0)"
    option = {"value": value, "early_exercise": {"dates": 12, "degree": 4, "paths": 32768}}
    model = {"type": "Heston", "mu": 0.05, "kappa": 2.0, "theta": 0.06, "xi": 0.5, "rho": -0.6}
    result = simkit.run(
        {
            "model": model,
            "initial": {"S": 100.0, "v": 0.06},
            "time": {"t1": 1.0, "steps": 96},
            "ensemble": {"paths": 200_000, "seed": 3, "devices": 1},
            "observe": {"put": option},
        }
    )
    low, high = float(result["put_mean"]), float(result["put_upper_bound"])
    error = math.hypot(float(result["put_stderr"]), float(result["put_upper_bound_stderr"]))
    assert -3 * error < high - low < 0.015 * low + 3 * error


@pytest.mark.slow
def test_where_no_noise_drives_the_model_there_is_no_bound():
    early = {"dates": 4, "degree": 2, "paths": 2048}
    result = simkit.run(
        {
            "model": {"ode": {"x": "-x"}},
            "initial": {"x": {"normal": [1.0, 0.3]}},
            "time": {"t1": 1.0, "steps": 4},
            "ensemble": {"paths": 2048, "devices": 1},
            "observe": {"option": {"value": "x", "early_exercise": early}},
        }
    )
    assert "option_upper_bound" not in result
    assert abs(float(result["option_mean"]) - math.exp(-0.25)) < 0.05


def random_martingale(exercise, components, rng):
    shape = shape_of(exercise, components, 1)
    polynomials = math.comb(components + shape.order, shape.order) - 1
    functions = len(exercise.basis)
    count = 1 + functions * shape.ramps + (3 if functions == 2 else math.comb(functions, 2))
    knots = np.sort(rng.normal(size=(exercise.dates, functions, shape.ramps + 1)), axis=-1)
    return Martingale(knots, rng.normal(size=(exercise.dates, polynomials, count)), shape.order)


@pytest.mark.parametrize(("functions", "components"), [(1, 1), (2, 2), (3, 1)])
def test_whatever_the_coefficients_nothing_is_gained_on_average(functions, components):
    """Given the past as well: gains of a period are not correlated with what its start says."""
    rng = np.random.default_rng(functions)
    names = [f"x{i}" for i in range(functions)]
    exercise = Exercise((2, 3, 6), 6, tuple(compile_expression(name, names) for name in names), 2, 100)
    martingale = random_martingale(exercise, components, rng)
    paths = 20_000
    sample = Sample(
        np.zeros((3, paths)),
        np.zeros((functions, 3, paths)),
        rng.normal(size=(functions, 6, paths)),
        rng.normal(size=(components, 6, paths)),
        np.zeros((0, 6, paths)),
    )
    gains = gains_of(martingale, sample, exercise.when)
    assert gains.shape == (3, paths)
    for weight in (np.ones((3, paths)), sample.starts[0, [0, 2, 3]]):
        terms = gains * weight
        z = terms.mean(axis=1) / terms.std(axis=1) * math.sqrt(paths)
        assert np.abs(z).max() < 5
    assert np.all(gains.std(axis=1) > 0.1)


@pytest.mark.more
def test_a_martingale_that_is_one_of_its_functions_is_found():
    """Of one date, where all that is paid is a product of a ramp and a polynomial of the normal."""
    rng = np.random.default_rng(0)
    paths = 4096
    start, normal = rng.normal(size=(1, 1, paths)), rng.normal(size=(1, 1, paths))
    exercise = Exercise((1,), 1, (compile_expression("x", ["x"]),), 2, paths)
    paid = 20 + 3 * normal[0, 0] + (normal[0, 0] ** 2 - 1)
    sample = Sample(paid[None], start, start, normal, np.zeros((0, 1, paths)))
    martingale = fit_martingale(exercise, Shape(12, 4), sample, (1,))
    np.testing.assert_allclose(gains_of(martingale, sample, (1,))[0], paid - 20, atol=1e-8)


MARKET = {"mu": 0.05, "sigma": 0.2, "lam": 1.0}
JUMPING = {
    "Merton": {**MARKET, "m": -0.1, "delta": 0.2},
    "Kou": {**MARKET, "p": 0.4, "eta1": 8.0, "eta2": 5.0},
}


def bermudan_put(dates, m, delta, sigma, lam, mu, strike=100.0, end=1.0):
    """By the density of the logarithm over one period, a mixture of normals, on a grid of logarithms."""
    x = np.linspace(-4, 4, 2001)
    h, dx = end / dates, x[1] - x[0]
    drift = mu - lam * math.expm1(m + delta**2 / 2) - sigma**2 / 2
    away = x[:, None] - x
    density = np.zeros_like(away)
    for n in range(12):
        sd = math.sqrt(sigma**2 * h + n * delta**2)
        chance = math.exp(-lam * h) * (lam * h) ** n / math.factorial(n)
        z = (away - drift * h - n * m) / sd
        density += chance * np.exp(-z * z / 2) / (sd * math.sqrt(2 * math.pi))
    paid = np.maximum(strike - strike * np.exp(x), 0)
    value = paid
    for j in reversed(range(dates)):
        value = math.exp(-mu * h) * (value @ density) * dx
        value = np.maximum(value, paid) if j else value
    return float(np.interp(0.0, x, value))


@pytest.mark.more
@pytest.mark.parametrize("rate", [1.0, pytest.param(6.0, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ["Merton", pytest.param("Kou", marks=pytest.mark.slow)])
def test_what_is_taken_for_the_mean_of_jumps_is(name, rate):
    """The surprises of jumps have mean 0: else no martingale, and no bound."""
    early = {"dates": 6, "degree": 2, "paths": 2048}
    experiment = {
        "model": {"type": name, **JUMPING[name], "lam": rate},
        "initial": {"S": 100.0},
        "solver": "ExactSampling",
        "time": {"t1": 1.0, "steps": 6},
        "ensemble": {"paths": 16, "devices": 1},
        "observe": {"put": {"value": "maximum(100 - S, 0)", "early_exercise": early}},
    }
    (group,) = option_groups(load(experiment))
    chunks = []
    group.sample(0, 8192, chunks.append)
    (chunk,) = chunks
    distribution, marks = group.jumps, chunk["put"].marks[0].ravel()
    result = np.array(functions_of_marks(marks, distribution.knots, np))
    z = (result.mean(1) - distribution.means(distribution.knots)) / result.std(1) * math.sqrt(marks.size)
    assert np.abs(z).max() < 4.5
    assert result[0].mean() == pytest.approx(-math.expm1(-rate / 6), abs=0.01)


@pytest.mark.slow
def test_the_bound_knows_jumps():
    """Without them a martingale leaves a fifth of the price: 11.4 where 9.4 is right."""
    early = {"dates": 12, "degree": 4, "paths": 16384}
    result = simkit.run(
        {
            "model": {"type": "Merton", **JUMPING["Merton"]},
            "initial": {"S": 100.0},
            "solver": "ExactSampling",
            "time": {"t1": 1.0, "steps": 12},
            "ensemble": {"paths": 2**15, "seed": 1, "devices": 1},
            "observe": {"put": {"value": "exp(-0.05*t) * maximum(100 - S, 0)", "early_exercise": early}},
        }
    )
    exact = bermudan_put(12, **JUMPING["Merton"])
    high, error = float(result.put_upper_bound), float(result.put_upper_bound_stderr)
    assert -4 * error < high - exact < 0.015 * exact + 4 * error
    assert float(result.put_mean) - exact < 4 * float(result.put_stderr)


@pytest.mark.more
def test_every_martingale_gives_a_bound_and_the_fitted_one_the_least():
    """Of nothing at all it is the mean of the best moment in hindsight."""
    with_one = load(PUT)
    simulation, fits, _ = with_policies(with_one)
    fitted = fits["put"].martingale
    bounds = {}
    for name, scale in (("none", 0.0), ("half", 0.5), ("fitted", 1.0), ("too much", 1.5)):
        changed = dataclasses.replace(fitted, coefficients=scale * fitted.coefficients)
        given = {"put": dataclasses.replace(fits["put"], martingale=changed)}
        result = with_upper_bounds(simulation, given)[0]["put"]
        bounds[name] = result.upper
        assert result.upper + 3 * result.upper_stderr > TEN
    assert bounds["none"] > bounds["half"] > bounds["fitted"] < bounds["too much"]


def test_a_policy_is_fitted_to_what_a_martingale_leaves():
    """Where its gains are all the noise, the value of going on is found exactly."""
    rng = np.random.default_rng(0)
    x, gains = rng.uniform(2, 5, 3000), rng.normal(size=3000)
    exercise = Exercise((1, 2), 2, (compile_expression("x", ["x"]),), 2, len(x))
    values = np.stack([np.full_like(x, 1e-9), 9 + x**2 + gains])
    fit = fit_policy("put", exercise, values, np.stack([x, x])[None], np.stack([np.zeros_like(x), gains]))
    at = np.array([2.1, 3.3, 4.9])
    np.testing.assert_allclose(fit.policy.continuation(0, [at]), 9 + at**2, rtol=1e-9)


@pytest.mark.slow
def test_a_martingale_takes_the_noise_off_the_policy():
    """What going on is worth near the boundary, from independent policies: it spreads far less."""
    simulation = load(PUT, {"observe.put.early_exercise.paths": 4096})
    fits = [result["put"] for _, result in independent_policies(simulation, 6)[0]]
    assert len({fit.mean for fit in fits}) == 6
    (group,) = option_groups(simulation)
    plain = []
    for number in range(6):
        samples = []
        group.sample(10**6 + 4096 * number, 4096, samples.append)
        put = samples[0]["put"]
        plain.append(fit_policy("put", group.shared, put.values, put.basis))
    spreads = [
        np.std([np.asarray(fit.policy.continuation(6, [np.array([80.0])])) for fit in each])
        for each in (fits, plain)
    ]
    assert spreads[0] < spreads[1] / 3


def independent(option, seed, wrt, paths):
    result = sensitivity(
        {
            "constants": {"K": 105.0, "r": 0.05},
            "model": {"type": "GBM", "mu": "r", "sigma": 0.25},
            "initial": {"S": 100.0},
            "solver": "ExactSampling",
            "time": {"t1": 1.0, "steps": 12},
            "ensemble": {"paths": paths, "seed": seed, "devices": 1},
            "observe": {"put": {"value": "exp(-r*t) * maximum(K - S, 0)", "early_exercise": option}},
            "sensitivity": {"wrt": wrt},
        }
    )
    figures = [result[f"put_derivative{kind}"].values for kind in ("", "_stderr")]
    return *figures, float(result["put_mean"]), float(result["put_mean_stderr"])


@pytest.mark.slow
def test_errors_of_derivatives_cover_what_the_policy_leaves():
    """Over seeds, in a number that moves no path, of a value whose exact derivative is known.

    The exact numbers are those of a grid of 3201 prices, by convolution with the distribution of a period.
    """
    seeds, exact, value = 20, 0.574279, 10.579191
    runs = [independent({"dates": 12, "degree": 5, "paths": 4096}, s, ["K"], 65536) for s in range(seeds)]
    estimates, errors, values, value_errors = (np.ravel(x) for x in zip(*runs, strict=True))
    spread = estimates.std(ddof=1) / np.sqrt(np.mean(errors**2))
    assert 0.6 < spread < 1.4
    z = (estimates - exact) / errors
    assert np.mean(np.abs(z) < 2) >= 0.85
    assert abs(z.mean()) * math.sqrt(seeds) < 4
    assert np.mean(np.abs((values - value) / value_errors) < 2) >= 0.85


@pytest.mark.slow
def test_the_error_is_at_least_that_of_the_spread_between_policies():
    """Of two dates and few paths for a policy, which then is a poor one, differently each time."""
    poor = {"dates": 12, "degree": 5, "paths": 512}
    estimate, error, _, _ = independent(poor, 1, ["K"], 4096)
    assert 0.4 < float(estimate[0]) < 0.75
    assert float(error[0]) > 0.4 / math.sqrt(4096)


@pytest.mark.parametrize(("within", "error"), [(0.1, 2 / 5**0.5), (10.0, 10 / 5**0.5)])
def test_the_error_over_policies_is_that_of_their_means_where_it_is_the_larger(within, error):
    """Five policies whose means deviate by 2 from each other, of standard errors that say less, or more."""
    parts = []
    for mean in 2.0 * np.array([-1.0, -1.0, 0.0, 1.0, 1.0]):
        single = {"mean": np.array([mean]), "stderr": np.array([within]), "variance": np.array([1.0])}
        statistics = {
            f"0_{key}": x for key, x in (single | {"min": single["mean"], "max": single["mean"]}).items()
        }
        lists = ([single[key]] for key in ("mean", "stderr", "variance"))
        parts.append(Averages(*lists, np.zeros(0, int), [], statistics | {"n": np.asarray(100)}))
    result = pooled(parts, [100] * 5)
    assert result.mean[0] == pytest.approx(0.0, abs=1e-15)
    assert result.stderr[0] == pytest.approx(error)


@pytest.mark.slow
def test_a_number_that_moves_no_path_is_differentiated_along_paths():
    option = {"dates": 12, "degree": 3, "paths": 4096}
    settings = {
        "constants": {"K": 105.0, "r": 0.05},
        "model": {"type": "GBM", "mu": "r", "sigma": 0.25},
        "initial": {"S": 100.0},
        "time": {"t1": 1.0, "steps": 12},
        "ensemble": {"paths": 16384, "devices": 1},
        "observe": {"put": {"value": "exp(-r*t) * maximum(K - S, 0)", "early_exercise": option}},
        "sensitivity": {"wrt": ["K", "r"], "check": True},
    }
    result = sensitivity(settings)
    assert list(result["put_derivative_estimator"].values) == ["pathwise", "finite differences"]
    assert abs(float(result["put_derivative_z"][0])) < 1
    observe = {"hit": {"value": "exp(-r*t) * (S < K)", "early_exercise": option}}
    jumps = sensitivity(settings | {"observe": observe, "sensitivity": {"wrt": ["K"]}})
    assert jumps["hit_derivative_estimator"].values.item() == "finite differences"
