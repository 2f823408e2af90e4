"""Ensembles: exact distributions, and the same bits however the work is cut."""

import dataclasses
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from accelerator import needs_processor
from ensemble_examples import gbm
from hypothesis import given
from hypothesis import strategies as st
from simkit_physics import CIR, GBM, Heston, OrnsteinUhlenbeck
from simkit_solvers import AbstractODE, Grid, Stream, block, make_solver, seed_key, stream_key
from simkit_solvers.random.normal import standard_normal_float64

import simkit
from simkit import NumericalError, load
from simkit.distributions import LogNormal, Normal, Uniform
from simkit.ensemble import LEAF, run_ensemble
from simkit.ensemble.chunks import plan_chunks


class X(NamedTuple):
    x: float


class Decay(AbstractODE):
    """dx/dt = -x."""

    State = X

    def drift(self, t, y):
        return X(-y.x)


class Explosion(AbstractODE):
    """dx/dt = 800 x: a hundredfold each step of 1/8."""

    State = X

    def drift(self, t, y):
        return X(792.0 * y.x)


class Threshold(AbstractODE):
    """dx/dt = log(1.5 - x): NaN from beyond 1.5."""

    State = X

    def drift(self, t, y):
        return X(0 * jax.numpy.log(1.5 - y.x))


def final_statistics(result) -> dict[str, bytes]:
    """The bits of every statistic of the last row."""
    bits = {}
    for reducer, statistics in result.statistics.items():
        for name, array in statistics.items():
            last = array[-1:] if name.startswith("S_") and "histogram" not in name else array
            bits[f"{reducer}.{name}"] = np.asarray(last).tobytes()
    errors = [(each.bias, each.stderr, each.noise, each.order) for each in result.bias.values()]
    bits["bias"] = np.asarray(errors).tobytes()
    return bits


REFERENCE = gbm(3 * LEAF + 77, 42)


@pytest.fixture(scope="module")
def reference():
    return run_ensemble(REFERENCE)


@pytest.mark.more
@pytest.mark.user_code
@pytest.mark.parametrize(
    "change",
    [
        {"devices": 2},
        pytest.param({"devices": 3}, marks=pytest.mark.slow),
        {"devices": 1, "chunk": 1},
        pytest.param({"devices": 1, "chunk": LEAF + 1}, marks=pytest.mark.slow),
        pytest.param({"devices": 2, "chunk": LEAF}, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_devices_and_chunks_leave_every_bit(reference, change):
    result = run_ensemble(dataclasses.replace(REFERENCE, **change))
    assert final_statistics(result) == final_statistics(reference)


@pytest.mark.slow
@pytest.mark.user_code
def test_two_devices_run_the_code_of_one():
    """Where a partitioner would compile stages of this solver into other kernels than those of one device."""
    given = {
        "model": {"sde": {"x": {"drift": "x - x**3", "noise": {"W": "0.4 + 0.1*x*x"}}}},
        "initial": {"x": {"normal": [0.4, 0.1]}},
        "solver": "SRIW1",
        "time": {"t1": 1.0, "steps": 60},
        "precision": "float32",
        "ensemble": {"paths": 2 * LEAF + 104, "seed": 5, "devices": 1},
        "save": {"points": 6, "paths": 50},
    }
    one, two = (simkit.run(given, overrides=[f"ensemble.devices={n}"]) for n in (1, 2))
    np.testing.assert_array_equal(one["x_path"], two["x_path"])
    np.testing.assert_array_equal(one["x_mean"], two["x_mean"])


@pytest.mark.more
@pytest.mark.user_code
@pytest.mark.parametrize(
    "every",
    [
        pytest.param(1, marks=pytest.mark.slow),
        pytest.param(7, marks=pytest.mark.more),
        *(pytest.param(n, marks=pytest.mark.slow) for n in (3, 14)),
    ],
)
def test_saved_times_leave_every_bit(reference, every):
    result = run_ensemble(REFERENCE.with_run(grid=Grid(0.0, 1.0 / 42, 42, every)))
    assert final_statistics(result) == final_statistics(reference)
    assert len(result.times) == 42 // every + 1


TWISTED = {
    "model": {
        "sde": {
            "x": {"drift": "a*x*(1 - x*y) - x**3*cos(t)", "noise": {"W1": "0.3*x*y", "W2": "0.1*cos(x)"}},
            "y": {"drift": "sin(x)*y - x*y*y", "noise": {"W2": "0.2*y*x"}},
        },
        "parameters": {"a": 1.3},
        "correlation": {"W1-W2": -0.5},
    },
    "initial": {"x": 0.5, "y": {"normal": [0.7, 0.1]}},
    "time": {"t1": 1.2, "steps": 30},
    "ensemble": {"paths": 3000, "seed": 5, "devices": 1},
    "observe": {
        "product": {"value": "maximum(mean(x*y) - 0.1, 0)*x", "at": "each"},
        "extremes": {"value": "exp(-t)*max(x*x) - integral(y*y)*x", "at": "each"},
        "barrier": "where(min(y) > 0.4, x*y - x, 0)",
    },
}


@pytest.fixture(scope="module", params=[pytest.param("float32", marks=pytest.mark.slow), "float64"])
def twisted(request):
    experiment = {**TWISTED, "precision": request.param}
    return experiment, simkit.run({**experiment, "save": {"points": 30}})


@pytest.mark.user_code
@pytest.mark.slow
@pytest.mark.parametrize("points", [pytest.param(1, marks=pytest.mark.slow), 6])
def test_every_statistic_at_a_time_is_the_same_whatever_else_is_saved(twisted, points):
    """On a model and observables whose products and sums a compiler may contract in many ways."""
    experiment, every_step = twisted
    some = simkit.run({**experiment, "save": {"points": points}})
    assert set(some.data_vars) == set(every_step.data_vars)
    for name, actual in some.data_vars.items():
        expected = every_step[name]
        if "time" in expected.dims:
            expected = expected.isel(time=slice(None, None, 30 // points))
        np.testing.assert_array_equal(actual.values, expected.values, name, strict=True)


@pytest.mark.slow
@pytest.mark.user_code
@pytest.mark.parametrize("paths", [1, pytest.param(700, marks=pytest.mark.slow)])
def test_a_path_is_the_same_whatever_the_ensemble_s_size(paths):
    many, few = (run_ensemble(gbm(n, 20, stored_paths=n)).stored["S"] for n in (2 * LEAF, paths))
    np.testing.assert_array_equal(few, many[:paths])


def test_another_seed_is_another_sample():
    a, b = (run_ensemble(gbm(64, 20, stored_paths=64, seed=seed)).stored["S"][:, -1] for seed in (0, 1))
    assert not np.any(a == b)


@needs_processor
@given(st.integers(1, 10**9), st.integers(1, 10**6), st.integers(1, 500), st.integers(1, 8), st.data())
def test_chunks_cover_every_path_once_and_workers_finish_together(paths, steps, values, workers, data):
    chunk = data.draw(st.none() | st.integers(1, 10**7))
    most = data.draw(st.integers(1, 64)) * LEAF
    simulation = dataclasses.replace(gbm(paths, steps), threads=workers, chunk=chunk)
    plan = plan_chunks(simulation, paths, values, most)
    assert chunk is not None or plan.paths <= most
    assert plan.count * plan.paths >= paths
    assert (plan.count - 1) * plan.paths < paths
    assert plan.lanes == LEAF or plan.count == plan.leaves == 1
    if chunk is None and paths > LEAF:
        # The busiest worker has at most a third more to do than its part, or one leaf.
        busiest = -(-plan.count // workers) * plan.leaves
        part = -(-paths // LEAF) / workers
        assert busiest < max(4 / 3 * part, part + 1)


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


def test_failures_stop_with_id_value_and_time():
    with pytest.raises(
        NumericalError, match=r"path 0: x = inf at t = 0\.5 \(step 4 of 8\).*simkit debug FILE"
    ):
        run_ensemble(gbm(3, 8, problem=Explosion(), initial={"x": 1e300}))


@pytest.mark.more
def test_excluded_failures_are_counted_and_leave_no_trace():
    distribution = Uniform(0.0, 2.0)
    simulation = gbm(4000, 8, problem=Threshold(), initial={"x": distribution}, stored_paths=4000)
    result = run_ensemble(dataclasses.replace(simulation, failures="exclude"))
    good = np.isfinite(result.stored["x"]).all(axis=1)
    moments = result.statistics["moments"]
    assert 0 < result.failed == (~good).sum()
    assert moments["n"] == good.sum()
    assert moments["x_mean"][-1] == pytest.approx(result.stored["x"][good, -1].mean(), rel=1e-12)
    early = (~good[:LEAF]).sum() - 3
    for chunk in (None, 4000, LEAF):  # which changes no word
        with pytest.raises(NumericalError, match=rf", and {early} more of the first 2,048 paths\."):
            run_ensemble(dataclasses.replace(simulation, chunk=chunk))


def test_a_failure_in_a_later_chunk_has_its_own_id_and_time():
    distribution = Uniform(0.0, 1.5003)  # with this seed no path of the first chunk fails
    simulation = gbm(3 * LEAF, 8, problem=Threshold(), initial={"x": distribution}, seed=5, chunk=LEAF)
    excluding = dataclasses.replace(simulation, failures="exclude", stored_paths=3 * LEAF)
    states = run_ensemble(excluding).stored["x"]
    bad = np.flatnonzero(~np.isfinite(states).all(axis=1))
    assert bad[0] >= LEAF
    with pytest.raises(NumericalError, match=rf"^path {bad[0]}: x = nan at t = 0.125 \(step 1 of 8\)\."):
        run_ensemble(simulation)


def test_progress_is_reported_for_every_chunk():
    seen = []
    run_ensemble(gbm(3 * LEAF, 4, chunk=LEAF), lambda done, total: seen.append((done, total)))
    assert seen == [(LEAF, 3 * LEAF), (2 * LEAF, 3 * LEAF), (3 * LEAF, 3 * LEAF)]


@needs_processor
def test_more_devices_than_there_are_is_refused():
    with pytest.raises(ValueError, match="devices: is 99, and this process has 4"):
        run_ensemble(gbm(10, 4, devices=99))


def test_running_leaves_jax_s_configuration_alone():
    with jax.enable_x64(False):
        result = run_ensemble(gbm(64, 4))
        assert result.statistics["moments"]["S_mean"].dtype == np.float64
        assert not jax.config.jax_enable_x64


@pytest.mark.parametrize(("wanted", "kept"), [({}, 20), ({"paths": 64}, 64), ({"paths": 0}, None)])
def test_as_many_paths_are_stored_as_requested(wanted, kept):
    experiment = {"model": {"type": "GBM", "mu": 0.05, "sigma": 0.2}, "initial": {"S": 100.0}}
    few = {"time": {"t1": 1.0, "steps": 4}, "ensemble": {"paths": 64, "devices": 1}, "save": wanted}
    result = simkit.run(experiment | few)
    assert ("S_path" in result) == (kept is not None)
    assert result.sizes.get("path") == kept


def test_wild_paths_leave_the_step_bias_without_a_warning():
    simulation = gbm(500, 8, problem=Explosion(), initial={"x": LogNormal(300.0, 200.0)})
    result = run_ensemble(dataclasses.replace(simulation, failures="exclude"))
    assert 0 < result.failed < 500
    assert "x" in result.bias


def with_observable(text: str, **ensemble):
    """GBM from YAML with one observable at the end."""
    return load(
        {
            "model": {"type": "GBM", "mu": 0.05, "sigma": 0.2},
            "initial": {"S": 100.0},
            "time": {"t1": 1.0, "steps": 20},
            "ensemble": {"paths": 100, "devices": 1, **ensemble},
            "observe": {"x": text},
        }
    )


def test_an_observable_at_the_end_need_not_be_defined_before():
    moments = run_ensemble(with_observable("integral(S)/t")).statistics["moments"]
    assert moments["x_mean"][-1] == pytest.approx(102.5, abs=5)


@pytest.mark.slow
def test_an_observable_without_a_value_is_no_failed_path():
    with pytest.raises(NumericalError, match=r"x = nan at t = 1 \(step 20 of 20\).*The state is finite"):
        run_ensemble(with_observable("log(S - 100)"))


@pytest.mark.slow
def test_a_power_of_a_state_that_blows_up_is_no_matter_of_the_observable():
    """Explicit steps of x' = -x^3 that are too long: x^4 overflows first."""
    experiment = {
        "model": {"sde": {"x": {"drift": "-x**3", "noise": {"W": 0.1}}}},
        "initial": {"x": 100},
        "time": {"t1": 1, "steps": 4},
        "ensemble": {"paths": 3},
        "observe": {"y": "x**4"},
    }
    with pytest.raises(
        NumericalError, match=r"y = inf at t = 1 \(step 4 of 4\).*Use more steps or another"
    ) as several:
        run_ensemble(load(experiment))
    with pytest.raises(NumericalError, match=r"Use more steps or another") as single:
        run_ensemble(load(experiment, {"ensemble.paths": 1}))
    assert "failures: exclude" in str(several.value)
    assert "failures: exclude" not in str(single.value)  # or nothing would be left


@pytest.mark.more
def test_excluded_paths_leave_the_step_bias_too_and_none_left_is_an_error():
    half = run_ensemble(with_observable("log(S - 100)", failures="exclude"))
    assert 0 < half.failed < 100
    assert all(math.isfinite(step.bias) for step in half.bias.values())
    with pytest.raises(NumericalError, match="none of the 100 paths has finite values"):
        run_ensemble(with_observable("log(S - 1e9)", failures="exclude"))
