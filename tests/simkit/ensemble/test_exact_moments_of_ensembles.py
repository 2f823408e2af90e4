"""The moments and the step biases of ensembles are the exact ones."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from ensemble_examples import gbm
from simkit_physics import CIR, GBM, Heston, OrnsteinUhlenbeck
from simkit_solvers import AbstractODE, Stream, block, make_solver, seed_key, stream_key
from simkit_solvers.random.normal import standard_normal_float64
from solver_problems import Level

from simkit.distributions import Normal
from simkit.ensemble import run_ensemble


class Decay(AbstractODE):
    """dx/dt = -x."""

    State = Level

    def drift(self, t, y):
        return Level(-y.x)


@pytest.mark.parametrize(("mu", "sigma", "steps"), [(0.4, 0.1, 12), (-0.5, 0.6, 12), (0.1, 0.3, 1)])
def test_euler_maruyama_s_own_moments_are_exact(mu, sigma, steps):
    """Discrete GBM has E = S0 (1 + mu h)^n and E² likewise, whatever the step: no bias to hide behind."""
    h = 1 / steps
    simulation = gbm(20_000, steps)
    problem = dataclasses.replace(simulation.problem, mu=mu, sigma=sigma)
    moments = run_ensemble(simulation.with_run(problem=problem)).statistics["moments"]
    mean = 100 * (1 + mu * h) ** steps
    growth, variance = 1 + mu * h, sigma**2 * h  # of a step
    factors = growth, growth**2 + variance, growth**3 + 3 * growth * variance
    powers = [100 ** (i + 1) * x**steps for i, x in enumerate(factors)]
    powers += [100**4 * (growth**4 + 6 * growth**2 * variance + 3 * variance**2) ** steps]
    spread = powers[1] - mean**2
    fourth = powers[3] - 4 * mean * powers[2] + 6 * mean**2 * powers[1] - 3 * mean**4
    assert abs(moments["S_mean"][-1] - mean) < 5.2 * moments["S_stderr"][-1]
    assert abs(moments["S_variance"][-1] - spread) < 5.2 * math.sqrt((fourth - spread**2) / 20_000)


EXACT = [
    (
        OrnsteinUhlenbeck(theta=2.0, mu=1.0, sigma=0.5),
        {"X": 3.0},
        0.7,
        {"X": (1.493193927883, 0.058699371086)},
    ),
    (CIR(kappa=1.5, theta=0.04, sigma=0.3), {"r": 0.09}, 0.7, {"r": (0.057496887456, 0.001735496249)}),
    (
        Heston(mu=-0.01, kappa=4.0, theta=0.25, xi=1.0, rho=-0.5),
        {"S": 100.0, "v": 0.04},
        1.0,
        {"S": (100 * math.exp(-0.01), None), "v": (0.246153715833, 0.0302955575)},
    ),
]


@pytest.mark.parametrize(("model", "initial", "t1", "exact"), EXACT, ids=lambda x: type(x).__name__)
def test_means_meet_the_exact_ones_once_the_step_bias_is_allowed_for(model, initial, t1, exact):
    simulation = gbm(60_000, 128, t1=t1, problem=model, initial=initial)
    result = run_ensemble(simulation)
    moments = result.statistics["moments"]
    for name, (mean, variance) in exact.items():
        step = result.bias[name]
        z = (moments[f"{name}_mean"][-1] - mean - step.bias) / math.hypot(
            moments[f"{name}_stderr"][-1], step.stderr
        )
        assert abs(z) < 5
        if variance is not None:
            assert moments[f"{name}_variance"][-1] == pytest.approx(variance, rel=0.05)


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param(64, id="twice as long", marks=pytest.mark.slow),
        pytest.param(63, id="three times"),
        pytest.param(61, id="halves"),
    ],
)
def test_the_step_bias_is_the_one_of_euler_s_method(steps):
    """(1 + mu h)^n against exp(mu): the coupled estimate must find it but for its own next order, mu h."""
    model = GBM(mu=0.5, sigma=0.02)
    step = run_ensemble(gbm(4000, steps, problem=model)).bias["S"]
    exact_bias = 100 * ((1 + 0.5 / steps) ** steps - math.exp(0.5))
    assert abs(step.bias - exact_bias) < 5 * step.noise + step.stderr
    assert 0 < step.noise < 0.01 * abs(exact_bias)
    assert step.stderr < 0.05 * abs(exact_bias)


@pytest.mark.slow
def test_solvers_that_read_areas_have_a_step_bias_by_halves_too():
    """On a linear drift its mean is that of Heun's method; wrong areas would leave more noise in it."""
    model, start = OrnsteinUhlenbeck(2.0, 1.0, 0.5), {"X": 3.0}
    simulation = gbm(4000, 7, problem=model, initial=start, solver=make_solver("SRIW1"))
    step = run_ensemble(simulation).bias["X"]
    z = 2.0 / 7
    assert step.bias == pytest.approx(2 * ((1 - z + z * z / 2) ** 7 - math.exp(-2)), rel=0.06)
    assert step.noise < 1.6e-4


@pytest.mark.slow
def test_normals_in_float64_on_request():
    """The paths of Euler's method written out, from normals with 64 random bits each."""
    result = run_ensemble(gbm(64, 6, every=1, stored_paths=64, normals="float64")).stored["S"]

    @jax.vmap
    def normals(path):
        key = stream_key(seed_key(42), path, Stream.INCREMENTS)
        return jnp.stack([standard_normal_float64(block(key, jnp.uint32(k), 0)) for k in range(6)])

    S, h = np.full(64, 100.0), 1 / 6
    with jax.enable_x64(True):
        z = np.asarray(normals(jnp.arange(64, dtype=jnp.uint32)))
    assert z.dtype == np.float64
    for k in range(6):
        S = S + 0.05 * S * h + 0.2 * S * math.sqrt(h) * z[:, k]
        np.testing.assert_allclose(result[:, k + 1], S, rtol=1e-13)


def test_an_ordinary_problem_needs_one_path_and_has_no_error():
    simulation = gbm(1, 64, problem=Decay(), initial={"x": 1.0})
    result = run_ensemble(simulation)
    euler = (1 - 1 / 64) ** 64
    assert result.statistics["moments"]["x_mean"][-1] == pytest.approx(euler, rel=1e-14)
    step = result.bias["x"]
    assert step.noise < 1e-14
    assert euler - step.bias == pytest.approx(math.exp(-1), abs=2 * step.stderr)
    assert step.stderr < 1e-4


def test_random_initial_values_have_their_distribution():
    simulation = gbm(40_000, 1, initial={"S": Normal(100.0, 2.0)})
    moments = run_ensemble(simulation).statistics["moments"]
    assert abs(moments["S_mean"][0] - 100) < 5 * 2 / math.sqrt(40_000)
    assert moments["S_variance"][0] == pytest.approx(4.0, rel=0.04)
