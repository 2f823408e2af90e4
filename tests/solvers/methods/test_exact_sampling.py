"""Exact sampling against the exact distributions, and Andersen's step against the moments it matches."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from grids import factors
from jump_examples import random_words, some_words
from scipy import stats
from simkit_physics import CIR, MODELS, Heston, MultiAssetGBM, OrnsteinUhlenbeck
from simkit_solvers import (
    AbstractExactTransition,
    AbstractJumpDiffusion,
    AndersenQE,
    CounterNoise,
    Draw,
    EulerMaruyama,
    ExactSampling,
    Grid,
    States,
    SwitchedSolver,
    integrate,
    mean_decay,
    seed_key,
    stepper_for,
)
from simkit_solvers.methods.sde.andersen_qe import PSI_C
from user_code import user_jit

import simkit
from simkit import InputError, load
from simkit.closed_forms.bonds import vasicek_bond
from simkit.derivatives.table import summary
from simkit.ensemble import run_ensemble

LIMIT = 5  # in standard errors: once in a million
GAUSSIAN = [
    name
    for name, model in MODELS.items()
    if issubclass(model, AbstractExactTransition)
    and not issubclass(model, AbstractJumpDiffusion)
    and name != "CIR"
]


@pytest.mark.parametrize("name", GAUSSIAN)
def test_one_step_has_the_exact_moments_and_a_normal_distribution(name):
    """Of prices the logarithm is normal."""
    problem, y, h = MODELS[name](**MODELS[name].example), MODELS[name].example_initial, 1.7
    z = np.random.default_rng(1).standard_normal((len(problem.Noise._fields), 20_000))
    y0 = problem.State(**y)
    result = problem.transition(0.0, h, y0, problem.Noise(*(jnp.asarray(np.sqrt(h) * z))), random_words(1))
    mean, variance = problem.exact_mean(h, y0), problem.exact_variance(h, y0)
    prices = "GBM" in name
    for x, m, v in zip(map(np.asarray, result), map(float, mean), map(float, variance), strict=True):
        width = np.sqrt(np.log1p(v / m**2)) if prices else np.sqrt(v)
        score = (np.log(x / m) + width**2 / 2) / width if prices else (x - m) / width
        assert stats.kstest(score, "norm").pvalue > 1e-6
        assert abs(score.var() - 1) < LIMIT * np.sqrt(2 / x.size)
        assert abs(x.mean() - m) < LIMIT * np.sqrt(v / x.size)


def test_several_assets_keep_their_correlations():
    model = MultiAssetGBM(**MultiAssetGBM.example)
    dW = MultiAssetGBM.Noise(*jnp.asarray(np.random.default_rng(2).standard_normal((3, 50_000))))
    ends = model.transition(0.0, 1.0, MultiAssetGBM.State(1.0, 1.0, 1.0), dW, random_words(1))
    result = np.corrcoef(np.log(np.asarray(ends)))[np.triu_indices(3, 1)]
    np.testing.assert_allclose(result, [model.rho12, model.rho13, model.rho23], atol=LIMIT / np.sqrt(50_000))


# kappa, theta, sigma, r0, h, by the degrees of freedom.
SQUARE_ROOTS = {
    "2.7": (1.5, 0.04, 0.3, 0.09, 0.7),
    "a hundred": (1.5, 0.04, 0.05, 0.09, 0.01),
    "0.67": (1.5, 0.04, 0.6, 0.09, 0.7),
    "0.67 from zero": (1.5, 0.04, 0.6, 0.0, 0.7),
    "0.67 close to zero": (1.5, 0.04, 0.6, 1e-6, 0.7),
    "0.67 far from zero": (1.5, 0.04, 0.6, 500.0, 0.7),
    "0.1 and a large mean": (0.5, 0.05, 1.0, 2.0, 0.01),
    "2.7 from zero": (1.5, 0.04, 0.3, 0.0, 3.0),
    "no reversion": (0.0, 0.04, 0.3, 0.09, 0.7),
}
DRAWS = 4000


@functools.cache
def cir_draws(dtype="float64"):
    """Draws of one step for each of the cases, and of two steps half as long."""
    cases = jnp.asarray(list(SQUARE_ROOTS.values()), dtype)
    z = jnp.asarray(np.random.default_rng(3).standard_normal((3, DRAWS)), dtype)
    words = jax.tree.map(lambda x: x.reshape(3, DRAWS), random_words(3 * DRAWS, 4))

    def step(model, h, r, z, words):
        return model.transition(0.0, h, CIR.State(r), CIR.Noise(jnp.sqrt(h) * z), words).r

    @user_jit
    def draws(cases):
        def one(case, z, words):
            kappa, theta, sigma, r0, h = case
            model = CIR(kappa, theta, sigma)

            # One compiled step for all three: the loop's iterations are the whole step, and the two halves.
            def body(r, x):
                i, z, words = x
                r = jnp.where(i < 2, r0, r)
                return (out := step(model, jnp.where(i == 0, h, h / 2), r, z, words)), out

            return jax.lax.scan(body, r0, (jnp.arange(3), z, words))[1]

        return jax.vmap(lambda case: jax.vmap(lambda z, w: one(case, z, w), in_axes=(1, 1))(z, words))(cases)

    result = np.asarray(draws(cases))
    assert result.dtype == dtype
    return {name: result[i].T for i, name in enumerate(SQUARE_ROOTS)}


def noncentral(case, h):
    kappa, theta, sigma, r0, _ = case
    span = h * float(mean_decay(kappa * h))
    c = sigma**2 * span / 4
    return c, kappa * theta * span / c, r0 * np.exp(-kappa * h) / c


@pytest.mark.more
@pytest.mark.parametrize("name", [name for name in SQUARE_ROOTS if name != "no reversion"])
@pytest.mark.parametrize("steps", [1, 2])
def test_cir_has_its_noncentral_chi_square_distribution(name, steps):
    """In one step and in two, at any number of degrees of freedom."""
    case = SQUARE_ROOTS[name]
    c, d, l = noncentral(case, case[4])
    x = cir_draws()[name][0 if steps == 1 else 2]
    assert (x >= 0).all()
    distribution = stats.ncx2(d, l, scale=c) if l else stats.chi2(d, scale=c)
    # Where the distribution is concentrated at zero scipy's own function loses digits: compare from 1e-12 on.
    assert stats.kstest(x, lambda v: distribution.cdf(np.maximum(v, 1e-300))).pvalue > 1e-6


@pytest.mark.more
def test_cir_without_reversion_is_absorbed_at_zero():
    case = SQUARE_ROOTS["no reversion"]
    _, _, l = noncentral(case, case[4])
    zeros, chance = np.sum(cir_draws()["no reversion"][0] == 0), np.exp(-l / 2)
    assert abs(zeros - DRAWS * chance) < LIMIT * np.sqrt(DRAWS * chance * (1 - chance))


@pytest.mark.slow
def test_cir_in_float32():
    for name, x in cir_draws("float32").items():
        for fine, coarse in zip(cir_draws()[name], x, strict=True):
            assert stats.ks_2samp(fine, coarse, method="asymp").pvalue > 1e-6, name


@pytest.mark.slow
@pytest.mark.parametrize(("sigma", "known"), [(0.3, True), (0.6, False)])
def test_derivatives_of_cir_are_right_or_nan(sigma, known):
    """Their means are the derivatives of the mean where d > 1; below, a Poisson number has none."""
    z, words = jnp.asarray(np.random.default_rng(3).standard_normal(2000)), random_words(2000)

    def slopes(z, words):
        def end(values):
            dW = CIR.Noise(z * 0.7**0.5)
            return CIR(*values[:3]).transition(0.0, 0.7, CIR.State(values[3]), dW, words).r

        return jax.grad(end)(jnp.asarray([1.5, 0.04, sigma, 0.09]))

    result = np.asarray(jax.jit(jax.vmap(slopes))(z, words))
    if not known:
        assert np.isnan(result).all()
        return
    wanted = jax.grad(lambda x: CIR(*x[:3]).exact_mean(0.7, CIR.State(x[3])).r)(
        jnp.asarray([1.5, 0.04, sigma, 0.09])
    )
    assert (np.abs(result.mean(axis=0) - wanted) < LIMIT * result.std(axis=0) / np.sqrt(2000)).all()


def test_one_step_or_many_have_one_distribution():
    """In the loop: the moments after one step and after five, and a gradient that is finite."""
    model = OrnsteinUhlenbeck(**OrnsteinUhlenbeck.example)
    start = OrnsteinUhlenbeck.State(X=jnp.asarray(3.0))

    def ends(model, steps):
        def one(path):
            noise = CounterNoise.of(seed_key(1), path)
            return integrate(
                model, ExactSampling(), start, Grid(0.0, 0.8 / steps, steps, steps), noise, States()
            )

        return jax.vmap(one)(jnp.arange(8192, dtype=jnp.uint32))["X"][:, -1]

    mean, variance = float(model.exact_mean(0.8, start).X), float(model.exact_variance(0.8, start).X)
    for steps in (1, 5):
        x = np.asarray(user_jit(ends, static_argnums=1)(model, steps))
        assert stats.kstest((x - mean) / np.sqrt(variance), "norm").pvalue > 1e-6
    numbers = jax.tree.map(jnp.asarray, model)
    slopes = jax.jit(jax.grad(lambda model: ends(model, 1).mean()))(numbers)
    assert float(slopes.mu) == pytest.approx(1 - np.exp(-2.0 * 0.8), rel=1e-9)


def test_a_choice_of_solvers_hands_on_the_words():
    problem = OrnsteinUhlenbeck(**OrnsteinUhlenbeck.example)
    stepper = stepper_for(SwitchedSolver((EulerMaruyama(), ExactSampling()), 1))
    assert stepper.variates
    draw = Draw((jnp.asarray(0.3),), words=(some_words(),))
    y, h = OrnsteinUhlenbeck.State(jnp.asarray(3.0)), jnp.asarray(0.1)
    end, _ = stepper.step(problem, 0.0, h, y, draw, stepper.init(problem, 0.0, h, y))
    alone = stepper.steppers[1].step(problem, 0.0, h, y, draw, None)[0]
    assert float(end.X) == pytest.approx(float(alone.X), rel=1e-14)


def experiment(model, initial, solver, steps, **more):
    described = {"type": model, **MODELS[model].example}
    return {
        "model": described,
        "initial": initial,
        "solver": solver,
        "time": {"t1": 1.0, "steps": steps},
    } | more


def test_exact_samples_have_no_step_bias():
    assert factors(load(experiment("CIR", {"r": 0.1}, "ExactSampling", 4))) == ()
    assert factors(load(experiment("CIR", {"r": 0.1}, "AndersenQE", 16))) == (2, 4)


def trapezoid(steps, f):
    return float(np.trapezoid(f(np.linspace(0.0, 1.0, steps + 1)), dx=1 / steps))


@pytest.mark.more
@pytest.mark.parametrize("steps", [16, pytest.param(10, marks=pytest.mark.slow), 1])
def test_the_error_of_an_integral_over_exact_states_covers_a_known_one(steps):
    """By the run's own path, or where its steps cannot be joined by one with shorter steps; an end has none.

    A decision that is made at an extreme does not hide what the integral leaves.
    """
    observe = {"area": "integral(S)", "both": "max(S) - max(S) + integral(S)", "end": "S", "top": "max(S)"}
    observe["watched"] = {"value": "integral(S)", "every": 1}
    given = experiment("GBM", {"S": 1.0}, "ExactSampling", steps, observe=observe)
    given |= {"ensemble": {"paths": 500, "devices": 1}}
    given["model"] = {"type": "GBM", "mu": 2.0, "sigma": 0.1}
    simulation = load(given)
    exact_bias = trapezoid(steps, lambda t: np.exp(2 * t)) - (np.exp(2) - 1) / 2
    results = [run_ensemble(dataclasses.replace(simulation, seed=seed)).bias for seed in range(20)]
    for name in ("area", "both"):
        z = [(each[name].bias - exact_bias) / each[name].stderr for each in results]
        assert np.mean(np.abs(z) < 2) >= 0.9
        assert all(abs(each[name].bias) > 0.5 * exact_bias for each in results)
    assert set(results[0]) == {"area", "both"}


@pytest.mark.slow
def test_bridges_between_exact_states_have_a_step_error():
    """The volatility of a square root process changes between them."""
    observe = {"safe": "no_touch(r - 0.02, sigma*sqrt(r))"}
    given = experiment("CIR", {"r": 0.05}, "ExactSampling", 16, observe=observe)
    given["model"] = {"type": "CIR", "kappa": 1.0, "theta": 0.04, "sigma": 0.25}
    results = {}
    for steps, paths in ((16, 100_000), (256, 50_000)):
        there = {
            "time": {"t1": 1.0, "steps": steps},
            "ensemble": {"paths": paths, "seed": steps, "devices": 1},
        }
        results[steps] = simkit.run(given | there)
    coarse, fine = (
        (
            float(x["safe_mean"]),
            float(x["safe_stderr"]),
            float(x["safe_bias"]),
            float(x["safe_bias_stderr"]),
        )
        for x in results.values()
    )
    off = coarse[0] - coarse[2] - fine[0] + fine[2]
    assert abs(off) < LIMIT * np.linalg.norm([coarse[1], coarse[3], fine[1], fine[3]])


@pytest.mark.slow
def test_derivatives_of_an_integral_over_exact_states_have_a_step_error():
    """d/dmu of the trapezoid of exp(mu t); that of the end has none."""
    given = experiment("GBM", {"S": 1.0}, "ExactSampling", 16, observe={"area": "integral(S)", "end": "S"})
    given |= {"ensemble": {"paths": 2000, "devices": 1}, "sensitivity": {"wrt": ["mu"]}}
    given["model"] = {"type": "GBM", "mu": 2.0, "sigma": 0.1}
    result = summary(simkit.sensitivity(given))["quantities"]
    area, end = (result[name]["derivatives"]["mu"] for name in ("area", "end"))
    exact_bias = trapezoid(16, lambda t: t * np.exp(2 * t)) - (np.exp(2) + 1) / 4
    assert abs(area["bias"] - exact_bias) < 4 * area["bias_stderr"]
    assert area["bias"] > 0.5 * exact_bias
    assert "bias" not in end


@pytest.mark.more
@pytest.mark.parametrize("method", ["auto", pytest.param("finite_differences", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "steps", [pytest.param(2, marks=pytest.mark.slow), 3, pytest.param(5, marks=pytest.mark.slow)]
)
def test_derivatives_over_a_few_exact_steps_are_right_less_their_bias(steps, method):
    """No steps can be left out here, so that other paths of the same distribution show the error."""
    given = experiment("GBM", {"S": 1.0}, "ExactSampling", steps, observe={"area": "integral(S)", "end": "S"})
    given["model"] = {"type": "GBM", "mu": 1.0, "sigma": 0.2}
    given["sensitivity"] = {"wrt": ["mu"], "method": method}
    exact_bias = trapezoid(steps, lambda t: t * np.exp(t)) - 1.0
    z_of_bias, z = [], []
    for seed in range(6):
        ensemble = {"paths": 1000, "seed": seed, "devices": 1}
        result = summary(simkit.sensitivity(given | {"ensemble": ensemble}))["quantities"]
        area, end = (result[name]["derivatives"]["mu"] for name in ("area", "end"))
        assert "bias" not in end
        assert "not measured" not in area["reason"]
        z_of_bias.append((area["bias"] - exact_bias) / area["bias_stderr"])
        error = np.hypot(area["stderr"], area["bias_stderr"])
        z.append((area["derivative"] - area["bias"] - 1.0) / error)
    for each in (z_of_bias, z):
        assert np.sum(np.square(each)) < stats.chi2.ppf(1 - 1e-6, len(each)), each
    assert abs(area["bias"]) > 0.5 * exact_bias


@pytest.mark.parametrize("method", ["auto", pytest.param("finite_differences", marks=pytest.mark.slow)])
@pytest.mark.slow
def test_where_fewer_exact_states_say_little_a_derivative_is_compared_on_more(method):
    """d/dtheta of the trapezoid of exp(-theta t), where four steps at once are too long for any order."""
    given = experiment("OrnsteinUhlenbeck", {"X": 1.0}, "ExactSampling", 16, observe={"area": "integral(X)"})
    given["model"] = {"type": "OrnsteinUhlenbeck", "theta": 30.0, "mu": 0.0, "sigma": 0.1}
    given |= {"ensemble": {"paths": 500, "devices": 1, "unresolved": "keep"}}
    given["sensitivity"] = {"wrt": ["theta"], "of": ["area"], "method": method}
    row = summary(simkit.sensitivity(given))["quantities"]["area"]["derivatives"]["theta"]
    exact = -(1 - 31 * np.exp(-30.0)) / 900
    exact_bias = trapezoid(16, lambda t: -t * np.exp(-30 * t)) - exact
    assert abs(row["bias"] - exact_bias) < 2 * row["bias_stderr"] < exact_bias
    error = np.hypot(row["stderr"], row["bias_stderr"])
    assert abs(row["derivative"] - row["bias"] - exact) < 2 * error


REFUSED = [
    (("SABR", {"F": 100.0, "alpha": 0.2}), "ExactSampling", {}, "SABR gives none .*; use EulerMaruyama"),
    (("GBM", {"S": 100.0}), "AndersenQE", {}, "GBM has none .*; use SRIW1"),
    (
        ("Heston", {"S": 100.0, "v": 0.1}),
        "AndersenQE",
        {"xi": 0.0},
        "that of Heston is 0; use EulerMaruyama",
    ),
]


@pytest.mark.parametrize(("model", "solver", "change", "message"), REFUSED)
def test_what_is_refused(model, solver, change, message):
    name, _ = model
    initial = MODELS[name].example_initial
    given = experiment(name, initial, solver, 4)
    given["model"] |= change
    with pytest.raises(InputError, match=message):
        load(given)


def test_adaptive_steps_are_refused():
    given = experiment("GBM", {"S": 100.0}, "ExactSampling", 4) | {
        "time": {"t1": 1.0, "rtol": 0.1, "atol": 0.1}
    }
    with pytest.raises(
        InputError, match="solver ExactSampling has no error estimate for adaptive steps; give"
    ):
        load(given)


@pytest.mark.slow
def test_a_bond_by_exact_rates():
    """The integral of the rate is by the trapezoidal rule."""
    observe = {
        "bond": {
            "value": "exp(-integral(r))",
            "exact": vasicek_bond(r=0.01, kappa=0.5, theta=0.04, sigma=0.015, T=1.0),
        }
    }
    given = experiment(
        "Vasicek", {"r": 0.01}, "ExactSampling", 50, observe=observe, ensemble={"paths": 20_000}
    )
    assert abs(float(simkit.run(given)["bond_z"])) < LIMIT


# kappa, theta, xi, rho, v, h: variances inside, near zero and at it.
STEPS = {
    "quadratic": (4.0, 0.25, 1.0, -0.5, 0.2, 0.05),
    "quadratic, from zero": (4.0, 0.25, 1.0, -0.5, 0.0, 0.0625),
    "exponential": (0.5, 0.04, 1.0, -0.9, 0.01, 0.1),
    "exponential, long": (0.5, 0.04, 1.0, -0.9, 0.04, 1.0),
    "exponential, from zero": (0.5, 0.04, 1.0, 0.5, 0.0, 0.0625),
}


def quadrature(break_at):
    """Nodes and weights for a standard normal, Gauss–Legendre on either side of a kink."""
    nodes, weights = np.polynomial.legendre.leggauss(400)
    parts = [
        ((b - a) / 2 * nodes + (a + b) / 2, (b - a) / 2 * weights) for a, b in ((-9, break_at), (break_at, 9))
    ]
    z, w = (np.concatenate(x) for x in zip(*parts, strict=True))
    return z, w * stats.norm.pdf(z)


@functools.cache
def andersen_step():
    stepper = stepper_for(AndersenQE())

    @user_jit
    @functools.partial(jax.vmap, in_axes=(None, 0, 0))
    def step(case, along, independent):
        kappa, theta, xi, rho, v, h = case
        across = jnp.sqrt(1 - rho * rho)
        draw = Draw((rho * along + across * independent, across * along - rho * independent))
        model = Heston(0.07, kappa, theta, xi, rho)
        return stepper.step(model, 0.0, h, Heston.State(jnp.asarray(100.0), v), draw, None)[0]

    return step


@pytest.mark.parametrize("name", STEPS)
def test_andersen_s_step_matches_the_moments_and_is_a_martingale(name):
    case = kappa, theta, xi, rho, v, h = STEPS[name]
    model, y = Heston(0.07, kappa, theta, xi, rho), Heston.State(100.0, v)
    mean, variance = float(model.exact_mean(h, y).v), float(model.exact_variance(h, y).v)
    psi = variance / mean**2
    assert (psi <= PSI_C) == name.startswith("quadratic")
    z, w = quadrature(stats.norm.ppf((psi - 1) / (psi + 1)) if psi > PSI_C else 0.0)
    hermite, weight = np.polynomial.hermite_e.hermegauss(24)
    along, independent = (x.ravel() for x in np.meshgrid(z, hermite))
    weights = np.outer(weight / weight.sum(), w).ravel()
    ends = andersen_step()(tuple(map(jnp.asarray, case)), jnp.asarray(along), jnp.asarray(independent))
    S, variances = np.asarray(ends.S), np.asarray(ends.v)
    assert (variances >= 0).all()
    assert weights @ variances == pytest.approx(mean, rel=1e-9)
    assert weights @ (variances - mean) ** 2 == pytest.approx(variance, rel=1e-8)
    assert weights @ S == pytest.approx(100 * np.exp(0.07 * h), rel=1e-9)


CALLS = {
    80: 26.774758743998854,
    90: 20.933349000596710,
    100: 16.070154917028834,
    110: 12.132211516709845,
    120: 9.0249134834578356,
}


def call_errors(solver):
    """Means minus prices in units of their standard errors, with the price itself as control variate."""
    model = Heston(-0.01, 4.0, 0.25, 1.0, -0.5)
    start = Heston.State(jnp.float32(100), jnp.float32(0.04))

    def one(path):
        noise = CounterNoise.of(seed_key(1), path)
        return integrate(model, solver, start, Grid(0.0, 1 / 16, 16, 16), noise, States())["S"][-1]

    S = np.asarray(user_jit(jax.vmap(one))(jnp.arange(2**18, dtype=jnp.uint32)), float)
    results = []
    for K, exact in CALLS.items():
        payoff = np.exp(-0.01) * np.maximum(S - K, 0)
        slope = np.cov(payoff, S)[0, 1] / np.var(S)
        controlled = payoff - slope * (S - 100 * np.exp(-0.01))
        results.append((controlled.mean() - exact) / (controlled.std() / np.sqrt(S.size)))
    return np.array(results)


@pytest.mark.more
def test_andersen_s_sixteen_steps_price_calls_and_euler_s_do_not():
    assert np.abs(call_errors(AndersenQE())).max() < LIMIT
    assert np.abs(call_errors(EulerMaruyama())).max() > LIMIT
