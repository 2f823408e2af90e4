"""Exact means and variances of models against drift, noise and the moment equations."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from model_examples import build, columns, state, time
from scipy.integrate import solve_ivp
from simkit_physics import CIR, MODELS, Heston, OrnsteinUhlenbeck
from simkit_solvers import (
    AbstractExactMoments,
    AbstractJumpDiffusion,
    AbstractReactionNetwork,
    ChemicalLangevin,
    parameters_of,
)

every_exact = pytest.mark.parametrize(
    "model", [m for m in MODELS.values() if issubclass(m, AbstractExactMoments)], ids=lambda m: m.__name__
)
pytestmark = pytest.mark.more
both_dtypes = pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])


@pytest.fixture(autouse=True)
def strict():
    with jax.enable_x64(True), jax.numpy_dtype_promotion("strict"):
        yield


def known(moments):
    """The fields for which there is a closed form."""
    return [x for x in moments if x is not None]


@every_exact
@both_dtypes
def test_exact_moments_are_traceable_and_keep_dtype(model, dtype):
    problem, y0 = build(model), state(model, dtype)
    for moment in (problem.exact_mean, problem.exact_variance):
        out = jax.jit(moment)(time(dtype), y0)
        assert type(out) is model.State
        assert all(x is None or x.dtype == dtype for x in out)
        for x, y in zip(known(out), known(moment(0.7, model.State(**model.example_initial))), strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-5 if dtype == jnp.float32 else 1e-13)


def jump_rates(problem, y):
    """How fast jumps change the mean of each variable and its variance: the price alone, by e^z - 1."""
    none = np.zeros(len(y))
    if not isinstance(problem, AbstractJumpDiffusion):
        return none, none
    first, second = RETURNS[type(problem).__name__]({f: float(x) for f, x in vars(problem).items()})
    price = np.eye(len(y))[0]
    return problem.lam * first * y.S * price, problem.lam * second * y.S**2 * price


def normal_returns(p):
    """The mean of e^z - 1 and of its square for normal z, by quadrature."""
    z, weights = np.polynomial.hermite_e.hermegauss(40)
    jumps = np.expm1(p["m"] + p["delta"] * z)
    return weights @ jumps / weights.sum(), weights @ jumps**2 / weights.sum()


def double_exponential_returns(p):
    """The same for exponential variates up with rate eta1 and down with eta2, by quadrature."""
    nodes, weights = np.polynomial.laguerre.laggauss(40)
    sides = (p["p"], 1 / p["eta1"]), (1 - p["p"], -1 / p["eta2"])
    return tuple(
        sum(weight * weights @ np.expm1(size * nodes) ** k for weight, size in sides) for k in (1, 2)
    )


RETURNS = {"Merton": normal_returns, "Bates": normal_returns, "Kou": double_exponential_returns}


@every_exact
def test_exact_moments_start_as_drift_and_noise_say(model):
    r"""At t = 0 the mean grows at the drift and the variance at $\sum_k g_k^2$: ties them to the equation."""
    problem, y0, zero = build(model), state(model), jnp.asarray(0.0)
    np.testing.assert_array_equal(problem.exact_mean(zero, y0), y0)
    assert all(x == 0 for x in known(problem.exact_variance(zero, y0)))
    growth = jax.jit(jax.jacfwd(problem.exact_mean))(zero, y0)
    jumping, jumps = jump_rates(problem, y0)
    np.testing.assert_allclose(growth, np.array(problem.drift(zero, y0)) + jumping, rtol=1e-13, atol=1e-15)
    spread = jax.jit(jax.jacfwd(problem.exact_variance))(zero, y0)
    noisy = ChemicalLangevin(problem) if isinstance(problem, AbstractReactionNetwork) else problem
    for x, wanted in zip(spread, (columns(noisy, y0) ** 2).sum(axis=1) + jumps, strict=True):
        assert x is None or x == pytest.approx(float(wanted), rel=1e-13)


@every_exact
def test_exact_moments_have_finite_limits(model):
    """With parameters at the end of their range, values and derivatives are finite and continuous."""
    ranges = [(spec.at_least, model.example[name]) for name, spec in parameters_of(model).items()]
    corners = [(value,) if end is None else (value, end) for end, value in ranges]
    ends = jnp.asarray(list(itertools.product(*corners)), dtype=float)
    inside = jnp.where(ends == jnp.asarray(list(model.example.values())), ends, ends + 1e-9)
    y0 = state(model)

    def moments(values):
        problem = model(*values)
        return problem.exact_mean(time(), y0), problem.exact_variance(time(), y0)

    at_end, near = (jax.jit(jax.vmap(moments))(values) for values in (ends, inside))
    for a, b in zip(jax.tree.leaves(at_end), jax.tree.leaves(near), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=5e-9 * max(1.0, *y0))
    for slopes in jax.tree.leaves(jax.jit(jax.vmap(jax.jacrev(moments)))(ends)):
        assert jnp.isfinite(slopes).all()


def gbm_equations(p, m, _):
    return [p["mu"] * m[0], (2 * p["mu"] + p["sigma"] ** 2) * m[1]]


def ou_equations(p, m, _):
    return [p["theta"] * (p["mu"] - m[0]), 2 * p["theta"] * (p["mu"] * m[0] - m[1]) + p["sigma"] ** 2]


def cir_equations(p, m, _):
    return [
        p["kappa"] * (p["theta"] - m[0]),
        2 * p["kappa"] * (p["theta"] * m[0] - m[1]) + p["sigma"] ** 2 * m[0],
    ]


def heston_equations(p, m, y0):
    """E[S], E[v] and their squares; E[S^2] = m[2] by its affine exponent, whose slope B is m[4]."""
    slope = p["xi"] ** 2 * m[4] ** 2 / 2 + (2 * p["rho"] * p["xi"] - p["kappa"]) * m[4] + 1
    v = cir_equations({"kappa": p["kappa"], "theta": p["theta"], "sigma": p["xi"]}, [m[1], m[3]], y0)
    growth = 2 * p["mu"] + p["kappa"] * p["theta"] * m[4] + y0[1] * slope
    return [p["mu"] * m[0], v[0], growth * m[2], v[1], slope]


def vasicek_equations(p, m, y0):
    return ou_equations({"theta": p["kappa"], "mu": p["theta"], "sigma": p["sigma"]}, m, y0)


def cev_equations(p, m, _):
    """Of E[S^2] there is no equation but for some elasticities; the model claims none."""
    return [p["mu"] * m[0], 0.0]


def sabr_equations(p, m, _):
    return [0.0, 0.0, 0.0, p["nu"] ** 2 * m[3]]


def hull_white_equations(p, m, _):
    first = p["theta"] - p["a"] * m[0]
    return [first, 2 * (p["theta"] * m[0] - p["a"] * m[1]) + p["sigma"] ** 2]


def jumping(name):
    """A price with volatility sigma that jumps."""

    def equations(p, m, _):
        _, second = RETURNS[name](p)
        return [p["mu"] * m[0], (2 * p["mu"] + p["sigma"] ** 2 + p["lam"] * second) * m[1]]

    return equations


def bates_equations(p, m, y0):
    _, second = normal_returns(p)
    result = heston_equations(p, m, y0)
    result[2] += p["lam"] * second * m[2]
    return result


def multi_asset_equations(p, m, _):
    first = [p[f"mu{i}"] * m[i - 1] for i in (1, 2, 3)]
    return first + [(2 * p[f"mu{i}"] + p[f"sigma{i}"] ** 2) * m[i + 2] for i in (1, 2, 3)]


def oscillator_equations(p, m, _):
    first = [m[1] / p["m"], -p["k"] * m[0]]
    return [*first, 2 * m[0] * first[0], 2 * m[1] * first[1]]


def birth_death_equations(p, m, _):
    growth, turnover = p["birth_rate"] - p["death_rate"], p["birth_rate"] + p["death_rate"]
    return [growth * m[0], 2 * growth * m[1] + turnover * m[0]]


def immigration_death_equations(p, m, _):
    alpha, mu = p["alpha"], p["mu"]
    return [alpha - mu * m[0], 2 * (alpha * m[0] - mu * m[1]) + alpha + mu * m[0]]


MOMENT_EQUATIONS = {
    "BirthDeath": birth_death_equations,
    "ImmigrationDeath": immigration_death_equations,
    "GBM": gbm_equations,
    "Vasicek": vasicek_equations,
    "CEV": cev_equations,
    "SABR": sabr_equations,
    "HullWhite": hull_white_equations,
    "Merton": jumping("Merton"),
    "Kou": jumping("Kou"),
    "Bates": bates_equations,
    "MultiAssetGBM": multi_asset_equations,
    "HarmonicOscillator": oscillator_equations,
    "OrnsteinUhlenbeck": ou_equations,
    "CIR": cir_equations,
    "Heston": heston_equations,
}


def integrated_moments(name, parameters, y0, t):
    """Mean and variance of each variable by DOP853 on the equations above; infinite where they blow up."""
    n = len(y0)
    start = np.concatenate([y0, np.square(y0), [0.0] * (name in ("Heston", "Bates"))])
    run = solve_ivp(
        lambda _, m: MOMENT_EQUATIONS[name](parameters, m, y0),
        (0, t),
        start,
        "DOP853",
        rtol=1e-13,
        atol=1e-18,
    )
    mean, square = run.y[:n, -1], run.y[n : 2 * n, -1]
    return (mean, square - mean**2) if run.success else (None, None)


@every_exact
@pytest.mark.parametrize("t", [0.05, 1.0, 6.0])
def test_exact_moments_solve_the_moment_equations(model, t):
    y0 = np.array(list(model.example_initial.values()))
    mean, variance = integrated_moments(model.__name__, model.example, y0, t)
    problem, start = build(model), state(model)
    for x, wanted in zip(problem.exact_mean(jnp.asarray(t), start), mean, strict=True):
        np.testing.assert_allclose(x, wanted, rtol=1e-11)
    for x, wanted, size in zip(problem.exact_variance(jnp.asarray(t), start), variance, mean**2, strict=True):
        if x is not None:
            np.testing.assert_allclose(x, wanted, rtol=1e-9, atol=1e-11 * size)


@pytest.mark.parametrize(
    ("kappa", "theta", "xi", "rho", "t"),
    [
        (4.0, 0.25, 1.0, -0.5, 1.0),  # hyperbolic
        (2.0, 0.04, 1e-6, 0.7, 1.0),  # nearly deterministic variance
        (0.0, 0.04, 0.3, 0.7, 1.0),  # no reversion, trigonometric
        (1e-3, 0.04, 1e-3, 0.7, 1.0),  # both small
        (3.0, 0.04, 1.5, 0.5, 3.0),  # trigonometric, past the first pole of the tangent
        (0.1, 0.04, 0.4, 0.95, 1.0),  # b < 0, hyperbolic, before the explosion
        (2.0, 0.04, 2**0.5, 0.0, 2.5),  # d = 0 to rounding
        (3.0, 0.04, 0.5, -0.5, 100.0),  # long: cosh would be large
    ],
)
def test_heston_variance_of_the_price_in_every_regime(kappa, theta, xi, rho, t):
    parameters = {"mu": 0.0, "kappa": kappa, "theta": theta, "xi": xi, "rho": rho}
    _, variance = integrated_moments("Heston", parameters, np.array([1.0, 0.04]), t)
    exact = Heston(**parameters).exact_variance(
        jnp.asarray(t), Heston.State(jnp.asarray(1.0), jnp.asarray(0.04))
    )
    np.testing.assert_allclose(exact.S, variance[0], rtol=1e-9)


@pytest.mark.parametrize(("xi", "rho", "explosion"), [(1.0, 0.5, "trigonometric"), (0.4, 0.95, "hyperbolic")])
def test_heston_variance_becomes_infinite_when_the_second_moment_does(xi, rho, explosion):
    problem = Heston(mu=0.0, kappa=0.1, theta=0.04, xi=xi, rho=rho)
    b = 0.1 - 2 * rho * xi
    d = abs(b * b - 2 * xi * xi) ** 0.5
    when = 2 / d * (np.arctan2(d, -b) if explosion == "trigonometric" else np.arctanh(-d / b))
    y0 = Heston.State(jnp.asarray(1.0), jnp.asarray(0.04))
    before, after, long_after = (
        problem.exact_variance(jnp.asarray(when * f), y0).S for f in (0.95, 1.001, 6.0)
    )
    assert jnp.isfinite(before)
    assert jnp.isposinf(after)
    assert jnp.isposinf(long_after)


def test_reference_numbers():
    t, one = jnp.asarray(0.7), jnp.asarray(1.0)
    ou = OrnsteinUhlenbeck(theta=2.0, mu=1.0, sigma=0.5)
    start = OrnsteinUhlenbeck.State(X=jnp.asarray(3.0))
    np.testing.assert_allclose(ou.exact_mean(t, start).X, 1.493193927883, atol=5e-13)
    np.testing.assert_allclose(ou.exact_variance(t, start).X, 0.058699371086, atol=5e-13)
    cir = CIR(kappa=1.5, theta=0.04, sigma=0.3)
    start = CIR.State(r=jnp.asarray(0.09))
    np.testing.assert_allclose(cir.exact_mean(t, start).r, 0.057496887456, atol=5e-13)
    np.testing.assert_allclose(cir.exact_variance(t, start).r, 0.001735496249, atol=5e-13)
    heston = Heston(mu=-0.01, kappa=4.0, theta=0.25, xi=1.0, rho=-0.5)
    start = Heston.State(S=jnp.asarray(100.0), v=jnp.asarray(0.04))
    np.testing.assert_allclose(heston.exact_mean(one, start).v, 0.246153715833, atol=5e-13)
    np.testing.assert_allclose(heston.exact_variance(one, start).v, 0.0302955575, atol=5e-11)
