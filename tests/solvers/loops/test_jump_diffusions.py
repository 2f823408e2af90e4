"""Jump diffusions: the coupling of their jumps on longer steps, moments, prices, derivatives."""

import functools
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from grids import factors
from jump_examples import Shots
from simkit_physics import MODELS, Kou, Merton
from simkit_solvers import (
    CoarsenedNoise,
    CounterNoise,
    EulerMaruyama,
    Grid,
    HalvedNoise,
    States,
    in_calculus,
    integrate,
    make_solver,
    seed_key,
    weak_order,
)
from simkit_solvers.methods.registry import samples_exactly
from simkit_solvers.methods.solver_check import check_adaptive_sde
from simkit_solvers.random.noise import Purpose

import simkit
from simkit import InputError, load
from simkit.closed_forms.jump_diffusions import bates_call, kou_call

LIMIT = 5  # in standard errors: once in a million
JUMPY = {"sigma": 0.0, "lam": 6.0, "m": -0.1, "delta": 0.3}
STILL = JUMPY | {"mu": 6.0 * np.expm1(-0.1 + 0.3**2 / 2)}  # no drift between jumps


@functools.cache
def merton_program(factor, every):
    """Parameters, path ids -> prices of paths of 6 steps, their noise joined to longer steps."""
    steps = 6 // factor
    grid = Grid(0.0, 1 / steps, steps, every)

    def one(model, path):
        noise = CounterNoise.of(seed_key(3), path)
        noise = noise if factor == 1 else CoarsenedNoise(noise, factor)
        start = Merton.State(S=jnp.asarray(1.0))
        return integrate(model, EulerMaruyama(), start, grid, noise, States())["S"]

    return jax.jit(jax.vmap(one, in_axes=(None, 0)))


def merton_ends(values, factor=1, every=None, first=0):
    ids = jnp.arange(first, first + 64, dtype=jnp.uint32)
    model = Merton(**{name: jnp.asarray(x) for name, x in values.items()})
    return np.asarray(merton_program(factor, every or 6 // factor)(model, ids))


@pytest.fixture(scope="module")
def fine():
    return merton_ends(STILL)


@pytest.mark.parametrize("factor", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_a_longer_step_has_the_jumps_of_those_it_is_made_of(factor, fine):
    assert np.ptp(fine[:, -1]) > 0.5
    np.testing.assert_allclose(merton_ends(STILL, factor)[:, -1], fine[:, -1], rtol=1e-13)


def test_a_path_does_not_depend_on_what_is_saved_nor_on_its_neighbours(fine):
    every = merton_ends(STILL, every=1)
    np.testing.assert_array_equal(every[:, -1], fine[:, -1])
    np.testing.assert_array_equal(merton_ends(STILL, first=32)[:32], fine[32:])
    steps = np.diff(np.log(every), axis=1)
    assert abs(np.corrcoef(steps.T)[np.triu_indices(6, 1)]).max() < 0.55  # each has jumps of its own
    assert (steps != steps[:, :1]).any(axis=1).all()


def test_jumps_have_their_own_words():
    noise = CounterNoise.of(seed_key(3), 7)
    words = [noise.words(purpose, jnp.uint32(4), 3) for purpose in Purpose]
    blocks = {
        tuple(map(int, part.block(n)))
        for steps in words
        for parts in steps
        for part in parts
        for n in range(2)
    }
    assert len(blocks) == 12
    coarse = CoarsenedNoise(noise, 3).words(Purpose.JUMPS, jnp.uint32(2), 1)[0]
    assert coarse == tuple(part for step in noise.words(Purpose.JUMPS, jnp.uint32(6), 3) for part in step)
    with pytest.raises(ValueError, match="not split between its halves; use CoarsenedNoise"):
        HalvedNoise.of(seed_key(3), 7).words(Purpose.JUMPS, jnp.uint32(0), 2)
    with pytest.raises(ValueError, match=r"no key for variates; make it by CounterNoise.of\(key, path\)"):
        CounterNoise(seed_key(1), seed_key(2)).words(Purpose.JUMPS, jnp.uint32(0), 2)


@pytest.mark.more
@pytest.mark.parametrize("mode", [jax.grad, pytest.param(jax.jacfwd, marks=pytest.mark.slow)])
def test_derivatives_along_the_path_are_those_of_the_same_jumps(mode):
    """They are central differences in all parameters but the intensity."""
    values = {"mu": 0.05, "sigma": 0.2, "lam": 2.0, "m": -0.1, "delta": 0.3}
    ids = jnp.arange(64, dtype=jnp.uint32)

    def mean_price(model):
        return jnp.mean(merton_program(1, 6)(model, ids)[:, -1])

    result = jax.jit(mode(mean_price))(Merton(**{name: jnp.asarray(x) for name, x in values.items()}))
    h = 1e-6
    for name in ("mu", "sigma", "m", "delta"):
        there, here = (merton_ends(values | {name: values[name] + d})[:, -1].mean() for d in (h, -h))
        assert float(getattr(result, name)) == pytest.approx((there - here) / (2 * h), rel=1e-6), name
    assert jnp.isfinite(result.lam)


@pytest.mark.more
def test_the_step_bias_of_an_intensity_that_depends_on_the_state():
    """The mean obeys a linear equation, and that of the scheme a linear recursion: the bias is known."""
    a, base, rise = Shots.example.values()
    steps, start = 10, 5.0
    with mock.patch.dict(MODELS, {"Shots": Shots}):
        experiment = {"model": {"type": "Shots", **Shots.example}, "initial": {"x": start}}
        experiment |= {"time": {"t1": 1.0, "steps": steps}, "ensemble": {"paths": 8192, "seed": 2}}
        result = simkit.run(experiment)
    rate = 0.5 * rise - a
    level = -0.5 * base / rate
    exact = level + (start - level) * np.exp(rate)
    mean, h = start, 1 / steps
    for _ in range(steps):
        mean = mean * (1 - a * h)
        mean += 0.5 * h * (base + rise * mean)
    assert abs(float(result["x_mean"][-1]) - mean) < LIMIT * float(result["x_stderr"][-1])
    coarse_mean = start
    for _ in range(steps // 2):
        coarse_mean = coarse_mean * (1 - 2 * a * h)
        coarse_mean += h * (base + rise * coarse_mean)
    bias, error = float(result["x_bias"]), float(result["x_bias_stderr"])
    assert error < 0.25 * abs(mean - exact)
    assert abs(bias - (coarse_mean - mean)) < LIMIT * error
    assert abs(bias - (mean - exact)) < 2 * error  # what one longer step leaves out counts as well


def test_what_jumps_do_to_the_order():
    merton, shots = Merton(**Merton.example), Shots(**Shots.example)
    assert weak_order(make_solver("PlatenWeak2"), merton) == 2
    assert weak_order(make_solver("PlatenWeak2"), shots) == 1
    assert samples_exactly(make_solver("ExactSampling"), merton)
    with pytest.raises(ValueError, match="solver ExactSampling samples Merton exactly and has no order"):
        weak_order(make_solver("ExactSampling"), merton)


def experiment(model, initial, time, **more):
    return {"model": {"type": model, **MODELS[model].example}, "initial": initial, "time": time} | more


REFUSED = [
    (
        {"time": {"t1": 1.0, "rtol": 1e-3, "atol": 1e-3}},
        "Merton jumps, and adaptive steps cannot assign a jump",
    ),
    (
        {"solver": {"type": "SPaRK", "convert": True}},
        "Merton cannot be converted to the other calculus: it jumps",
    ),
    ({"solver": "AndersenQE"}, "solver AndersenQE is for variances .*Merton has none .*; use SRIW1"),
]


@pytest.mark.parametrize(("change", "message"), REFUSED)
def test_what_is_refused(change, message):
    with pytest.raises(InputError, match=message):
        load(experiment("Merton", {"S": 100.0}, {"t1": 1.0, "steps": 4}) | change)


def test_refusals_from_python():
    merton = Merton(**Merton.example)
    with pytest.raises(ValueError, match="Merton jumps, and adaptive steps"):
        check_adaptive_sde(make_solver("Milstein"), merton)
    with pytest.raises(ValueError, match="Merton cannot be converted"):
        in_calculus(merton, "stratonovich")


def test_no_bias_is_shown_where_only_halves_would_do():
    whole = load(experiment("Merton", {"S": 100.0}, {"t1": 1.0, "steps": 4}))
    assert factors(whole) == (2,)
    assert factors(load(experiment("Merton", {"S": 100.0}, {"t1": 1.0, "steps": 8}))) == (2, 4)
    assert factors(load(experiment("Merton", {"S": 100.0}, {"t1": 1.0, "steps": 5}))) == ()
    assert factors(load(experiment("GBM", {"S": 100.0}, {"t1": 1.0, "steps": 5}))) == (0.5, 0.25)


KOU = {
    "S": 100.0,
    "K": 98.0,
    "r": 0.05,
    "T": 0.5,
    "sigma": 0.16,
    "lam": 1.0,
    "p": 0.4,
    "eta1": 10.0,
    "eta2": 5.0,
}
BATES = {"kappa": 2.0, "theta": 0.06, "xi": 0.5, "rho": -0.6, "lam": 1.0, "m": -0.1, "delta": 0.15}


def priced(model, parameters, initial, exact, at, **more):
    call = {"value": f"exp(-{at['r']}*{at['T']})*maximum(S - {at['K']}, 0)", "exact": exact}
    return simkit.run(
        {"model": {"type": model, "mu": at["r"], **parameters}, "initial": initial, "observe": {"call": call}}
        | more
    )


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["ExactSampling", "EulerMaruyama"])
def test_merton_has_the_price_that_quantlib_gives(solver):
    """Where a quarter of the variance 0.25^2 is that of jumps: Merton76 of QuantLib, and a series besides."""
    at = {"r": 0.08, "T": 0.25, "K": 100}
    parameters = {"sigma": 0.25 * 0.75**0.5, "lam": 1.0, "m": -(0.125**2) / 2, "delta": 0.125}
    result = priced(
        "Merton", parameters, {"S": 100.0}, 5.8753140278, at,
        solver=solver, time={"t1": 0.25, "steps": 8}, ensemble={"paths": 400_000, "seed": 3},
    )  # fmt: skip
    assert float(result["call_stderr"]) < 0.015
    assert abs(float(result["call_z"])) < 3


@pytest.mark.slow
def test_kou_by_one_exact_step():
    parameters = {name: KOU[name] for name in list(Kou.example) if name != "mu"}
    result = priced(
        "Kou", parameters, {"S": 100.0}, kou_call(**KOU), KOU,
        solver="ExactSampling", time={"t1": 0.5, "steps": 1}, ensemble={"paths": 100_000, "seed": 3},
    )  # fmt: skip
    assert abs(float(result["call_z"])) < LIMIT
    assert abs(float(result["S_z"])) < LIMIT
    assert "call_bias" not in result
    variance, exact = float(result["S_variance"][-1]), float(result["S_exact_variance"][-1])
    assert variance == pytest.approx(exact, rel=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["AndersenQE", "EulerMaruyama"])
def test_bates(solver):
    at = {"S": 100.0, "K": 105.0, "r": 0.03, "T": 1.0}
    exact = bates_call(**at, **BATES, v0=0.04)
    result = priced(
        "Bates", BATES, {"S": 100.0, "v": 0.04}, exact, at,
        solver=solver, time={"t1": 1.0, "steps": 64}, ensemble={"paths": 400_000, "seed": 3},
    )  # fmt: skip
    for name in ("call", "S", "v"):
        assert abs(float(result[f"{name}_z"])) < LIMIT, name


@pytest.mark.slow
def test_kou_by_euler_s_steps_on_one_device_and_two_in_any_chunk():
    parameters = {name: KOU[name] for name in list(Kou.example) if name != "mu"}
    runs = [
        priced(
            "Kou", parameters, {"S": 100.0}, kou_call(**KOU), KOU,
            time={"t1": 0.5, "steps": 20}, ensemble={"paths": 20_000, "seed": 3, **how},
        )
        for how in ({"devices": 1, "chunk": 4096}, {"devices": 2})
    ]  # fmt: skip
    assert abs(float(runs[0]["call_z"])) < LIMIT
    assert abs(float(runs[0]["call_bias"])) < 0.2
    for name in ("call_mean", "S_mean", "S_variance", "call_bias"):
        assert float(runs[0][name].values.reshape(-1)[-1]) == float(runs[1][name].values.reshape(-1)[-1])
