"""Derivatives of counts and in what moves the number of jumps: by copies, weak derivatives and scores."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from derivative_examples import EXACT
from scipy.special import gammaln

import simkit
from simkit import InputError, load
from simkit.closed_forms.jump_diffusions import merton_call
from simkit.derivatives import find_target
from simkit.derivatives.derivative_program import Contribution
from simkit.derivatives.differences import COUPLED, step_of
from simkit.derivatives.differentiated_run import DifferentiatedRun
from simkit.derivatives.offers import first_offer
from simkit.derivatives.targets import Target


@pytest.mark.more
@pytest.mark.parametrize(
    ("method", "estimators"),
    [
        ("auto", ("coupled differences", "score")),
        ("score", ("score", "score")),
        ("weak_derivative", ("weak derivative", "weak derivative")),
        ("coupled_differences", ("coupled differences", "coupled differences")),
    ],
)
def test_counts_by_copies_and_by_likelihood(method, estimators):
    """X is Poisson with the mean m = (alpha/mu) (1 - e^(-mu t)): dP(X > n)/dm is its probability of n."""
    alpha, mu, t, n = 10.0, 0.5, 5.0, 18
    network = {
        "model": {"type": "ImmigrationDeath", "alpha": alpha, "mu": mu},
        "initial": {"X": 0},
        "time": {"t1": t},
        "ensemble": {"paths": 8192, "seed": 1, "devices": 1},
        "observe": {"square": "X**2", "many": f"X > {n}"},
        "sensitivity": {"wrt": ["alpha", "mu"], "of": ["square", "many"], "method": method},
    }
    left = np.exp(-mu * t)
    m = alpha / mu * (1 - left)
    slopes = np.array([m / alpha, -m / mu + alpha / mu * t * left])
    exact = {"square": (1 + 2 * m) * slopes, "many": np.exp(n * np.log(m) - m - gammaln(n + 1)) * slopes}
    result = simkit.sensitivity(network)
    for (name, values), estimator in zip(exact.items(), estimators, strict=True):
        assert set(result[f"{name}_derivative_estimator"].values) == {estimator}
        z = (result[f"{name}_derivative"].values - values) / result[f"{name}_derivative_stderr"].values
        assert np.all(abs(z) < 4), name


def test_copies_are_refused_where_there_are_none():
    network = {
        "model": {"type": "ImmigrationDeath", "alpha": 1.0, "mu": 0.0},
        "initial": {"X": 0},
        "time": {"t1": 1.0},
        "ensemble": {"paths": 8, "devices": 1},
        "sensitivity": {"wrt": ["mu"]},
    }
    diffusion = {**EXACT, "sensitivity": {"wrt": ["sigma"]}}
    for experiment, method, settings, reason in (
        (network, "coupled_differences", {}, "mu = 0 may be the end of its range"),
        (network, "weak_derivative", {"solver": "TauLeaping"}, "TauLeaping takes many events at once"),
        (network, "weak_derivative", {"sensitivity.wrt": ["t1"]}, "t1 moves the times of the rows"),
        (diffusion, "coupled_differences", {}, "only copies of a reaction network fire together"),
        (diffusion, "weak_derivative", {}, "sigma moves no rate of jumps"),
    ):
        with pytest.raises(
            InputError, match=rf"sensitivity.method: no {method.replace('_', ' ')} .*: {reason}"
        ):
            simkit.sensitivity(experiment, overrides={"sensitivity.method": method, **settings})


@pytest.mark.more
def test_the_number_of_jumps_of_a_jump_diffusion():
    """By the rate of Merton's jumps, of which a path alone knows nothing: against his formula."""
    jumps = {
        "constants": {"r": 0.05, "rate": 0.8},
        "model": {"type": "Merton", "mu": "r", "sigma": 0.2, "lam": "rate", "m": -0.1, "delta": 0.15},
        "initial": {"S": 100.0},
        "solver": "ExactSampling",
        "time": {"t1": 1.0, "steps": 2},
        "ensemble": {"paths": 2**15, "seed": 2, "devices": 1},
        "observe": {"put": "exp(-r*t) * maximum(100 - S, 0)"},
        "sensitivity": {"wrt": ["rate", "r"]},
    }
    result = simkit.sensitivity(jumps)
    assert list(result["put_derivative_estimator"].values) == ["weak derivative", "pathwise"]

    def put(rate, r):
        call = merton_call(S=100, K=100, r=r, sigma=0.2, T=1, lam=rate, m=-0.1, delta=0.15)
        return call - 100 + 100 * np.exp(-r)

    h = 1e-4
    exact = [
        (put(0.8 + h, 0.05) - put(0.8 - h, 0.05)) / (2 * h),
        (put(0.8, 0.05 + h) - put(0.8, 0.05 - h)) / (2 * h),
    ]
    z = (result["put_derivative"].values - exact) / result["put_derivative_stderr"].values
    assert np.all(abs(z) < 4)
    assert np.all(result["put_derivative_stderr"].values < 0.03 * np.abs(exact))


@pytest.mark.parametrize(
    ("model", "rates"),
    [
        ({"type": "Merton", "lam": "c", "m": -0.1, "delta": 0.15}, True),
        ({"type": "Merton", "lam": 0.8, "m": -0.1, "delta": "c"}, False),
        ({"type": "Kou", "lam": 2.0, "p": "c", "eta1": 10.0, "eta2": 5.0}, True),
    ],
)
def test_what_moves_the_number_of_jumps_is_neither_pathwise_nor_a_score(model, rates):
    """A path holds its jumps fixed, and a weight is of normals: both miss the rate and the kinds of jumps."""
    given = {
        "constants": {"c": 0.4},
        "model": {**model, "mu": 0.05, "sigma": 0.2},
        "initial": {"S": 100.0},
        "time": {"t1": 1.0, "steps": 4},
        "observe": {"price": "S", "above": "S > 100"},
        "sensitivity": {"wrt": ["c"]},
    }
    simulation = load(given)
    with jax.enable_x64(True):
        run = DifferentiatedRun.of(simulation, [find_target(simulation, "c")])
        chosen = [first_offer(run, name, 0).rivals[0].method for name in ("price", "above")]
    assert chosen == (["weak derivative", "finite differences"] if rates else ["pathwise", "smoothing"])


def test_the_score_of_few_counts_leaves_each_out_of_its_own_mean():
    """In a leaf of three lanes: (f_i - the mean of the others) Z_i, and what changes with it."""
    value, change, score = np.random.default_rng(0).standard_normal((3, 2, 3))
    change_of_path, weight = (jnp.asarray(x) for x in (change, score))
    (derivative,) = Contribution(jnp.asarray(value), (change_of_path,), (weight,)).derivatives
    others = (value.sum(-1, keepdims=True) - value) / 2
    assert np.asarray(derivative) == pytest.approx(change + (value - others) * score, abs=1e-12)


def test_coupled_copies_are_so_close_that_their_bias_is_small():
    """Of a mean that grows by e^5, (m(c + h) - m(c - h)) / 2h is off by less than a thousandth."""
    for rate in (0.1, 5.0):
        h, t = step_of(Target("rate", "model.rate", rate, "", rate), COUPLED), 5.0 / rate
        bias = np.sinh(h * t) / (h * t) - 1
        assert 1e-5 < bias < 1e-3
