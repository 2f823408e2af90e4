"""Exact sampling draws from the exact distributions, in one step or many."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jump_examples import random_words, some_words
from scipy import stats
from simkit_physics import CIR, MODELS, MultiAssetGBM, OrnsteinUhlenbeck
from simkit_solvers import (
    AbstractExactTransition,
    AbstractJumpDiffusion,
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
from user_code import user_jit

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
