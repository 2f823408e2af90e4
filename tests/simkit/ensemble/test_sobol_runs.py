"""Runs on scrambled Sobol' points: small errors, which are those of whole scramblings, and the same bits."""

import jax
import numpy as np
import pytest
import yaml
from command import simkit_command
from simkit_solvers import CounterNoise, seed_key

import simkit
from simkit import InputError
from simkit.derivatives.table import notes
from simkit.ensemble.replicates import OnPoints
from simkit.results.reduction_notes import reduction_notes

CALL = "black_scholes_call(S=100, K=K, r=r, sigma=0.2, T=1)"
MARKET = {
    "constants": {"r": 0.05, "K": 100.0},
    "model": {"type": "GBM", "mu": "r", "sigma": 0.2},
    "initial": {"S": 100.0},
    "solver": "ExactSampling",
    "time": {"t1": 1.0, "steps": 4},
    "ensemble": {"driver": "sobol", "paths": 1024},
    "observe": {
        "call": {"value": "exp(-r*t) * maximum(S - K, 0)", "exact": CALL},
        "digital": {"value": "S > K", "exact": "normal_cdf(0.15)"},
        "asian": "exp(-r*t) * maximum(mean(S) - K, 0)",
    },
    "derived": {"ratio": "call / asian"},
}


def on_points(experiment=MARKET, **ensemble):
    return experiment | {"ensemble": experiment["ensemble"] | ensemble}


def last(dataset, name):
    return float(np.atleast_1d(dataset[name])[-1])


def test_paths_are_the_points_of_scramblings_in_turn():
    """Each point of each scrambling once; paths beyond the run have scramblings of their own."""
    driver = OnPoints(CounterNoise.of, 4, 16, 8, ends_only=False)
    paths = np.arange(256, dtype=np.uint32)
    noise = jax.vmap(lambda path: driver(seed_key(1), path, False))(paths)
    np.testing.assert_array_equal(noise.point, paths % 128 // 16)
    seeds = [tuple(words) for words in np.stack([*noise.seeds], 1).tolist()]
    assert len({*seeds}) == 32
    assert all(seeds[i] == seeds[i % 16 + i // 128 * 128] for i in paths.tolist())


@pytest.mark.parametrize(("paths", "scramblings"), [(512, 16), (2048, 32), (65536, 16)])
def test_means_and_errors_are_those_of_scramblings(paths, scramblings):
    """Of one leaf, and of many; of a difference between variants by the same points."""
    variants = {"variants": {"low": {"model.sigma": 0.2}, "high": {"model.sigma": 0.25}}}
    experiment = MARKET | {"save": {"paths": "all"}} | variants
    dataset = simkit.run(on_points(experiment, paths=paths, scramblings=scramblings))
    groups = {
        name: dataset[f"{name}_path"].values.reshape(2, -1, scramblings).mean(1) for name in ("call", "asian")
    }
    for name, means in groups.items():
        np.testing.assert_allclose(dataset[f"{name}_mean"], means.mean(1), rtol=1e-12)
        errors = means.std(1, ddof=1) / np.sqrt(scramblings)
        np.testing.assert_allclose(dataset[f"{name}_stderr"], errors, rtol=1e-8)
        error = (means[1] - means[0]).std(ddof=1) / np.sqrt(scramblings)
        np.testing.assert_allclose(dataset[f"{name}_difference_stderr"][1], error, rtol=1e-8)


def test_smooth_functions_have_far_smaller_errors():
    """With 64 steps and 4096 points more than a hundred times fewer paths, and means within their errors."""
    experiment = MARKET | {"time": {"t1": 1.0, "steps": 64}}
    dataset = simkit.run(on_points(experiment, paths=2**16))
    for name, factor in (("call", 1000), ("asian", 300), ("digital", 10)):
        assert last(dataset, f"{name}_variance_reduction") > factor
    assert abs(last(dataset, "call_z")) < 4
    assert abs(last(dataset, "digital_z")) < 4
    assert last(dataset, "ratio_stderr") < 1e-3
    assert dataset.attrs["scramblings"] == 16
    (note,) = reduction_notes(dataset)
    assert note.startswith("Sobol' points in 16 scramblings: variances smaller by factors of call ")
    assert note.endswith("; errors are known to 18 %, and a 95 % interval is ± 2.13 of them")


def test_stratified_ends_take_out_what_they_explain():
    """All of a call, and of a mean of Brownian motion its covariance with the end; 256 scramblings tell."""
    n = 8
    noise = {"observe": {"mean": {"value": "mean(log(S))", "exact": "log(100) + 0.03*(n + 1)/(2*n)"}}}
    experiment = MARKET | {"time": {"t1": 1.0, "steps": n}, "constants": {"r": 0.05, "K": 100.0, "n": n}}
    experiment |= {"observe": MARKET["observe"] | noise["observe"], "ensemble": {"paths": 2**16, "seed": 3}}
    stratified = {"variance_reduction": "stratified", "scramblings": 256}
    dataset = simkit.run(on_points(experiment, **stratified))
    dates = np.arange(1, n + 1) / n
    variance, covariance = np.minimum.outer(dates, dates).mean(), dates.mean()
    factor = variance / (variance - covariance**2)
    assert abs(last(dataset, "mean_variance_reduction") / factor - 1) < 4.5 * np.sqrt(2 / 255)
    assert last(dataset, "call_variance_reduction") > 200
    for name in ("call", "digital", "mean"):
        assert abs(last(dataset, f"{name}_z")) < 4.5
    assert "stratified ends in 256 scramblings: variances" in "\n".join(reduction_notes(dataset))
    assert last(simkit.run(on_points(experiment)), "mean_stderr") > 1.8 * last(dataset, "mean_stderr")


@pytest.mark.more
@pytest.mark.parametrize("how", [{}, {"driver": "random", "variance_reduction": "stratified"}])
def test_errors_are_as_wide_as_the_spread_of_repetitions(how):
    """The variance of 100 repetitions is known to 14 %; intervals of Student's t hold 95 of 100 truths."""
    keys = ("call", "digital", "asian", "ratio")
    seen = {key: [] for key in keys}
    spread = []
    for seed in range(100):
        dataset = simkit.run(on_points(paths=512, seed=seed, **how))
        for key in keys:
            value = f"{key}_mean" if f"{key}_mean" in dataset else f"{key}_value"
            seen[key].append((last(dataset, value), last(dataset, f"{key}_stderr")))
        spread.append((last(dataset, "call_variance"), last(dataset, "call_variance_stderr")))
    seen["variance"] = spread
    for key, pairs in seen.items():
        values, errors = np.array(pairs).T
        assert 1 / 1.6 < values.var(ddof=1) / np.mean(errors**2) < 1.6, key
    call = np.array(seen["call"])
    assert np.sum(np.abs(call[:, 0] - 10.4505835721856) < 2.1314 * call[:, 1]) >= 88


@pytest.mark.more
@pytest.mark.user_code
def test_bits_do_not_depend_on_chunks_threads_and_devices():
    experiment = on_points(paths=2**15, scramblings=64)
    one = simkit.run(on_points(experiment, chunk=2048, threads=1))
    for how in ({"chunk": 2**14}, {"threads": 2, "chunk": 6144}, {"devices": 2}):
        assert simkit.run(on_points(experiment, **how)).drop_attrs().identical(one.drop_attrs())


@pytest.mark.more
def test_parts_join_to_the_bits_of_one_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    experiment = on_points(paths=2**15) | {"output": "a.zarr"}
    (tmp_path / "a.yaml").write_text(yaml.safe_dump(experiment, sort_keys=False))
    for part in ("2/3", "1/3", "3/3"):
        assert simkit_command("run", "a.yaml", "--part", part).exit_code == 0
    merged = simkit_command("merge", "a.yaml", *(f"a.zarr.part-{i}-of-3" for i in (1, 2, 3)))
    assert merged.exit_code == 0, merged.output
    whole = simkit.run(experiment, out="whole.zarr")
    assert simkit.read_dataset("a.zarr").drop_attrs().identical(whole.drop_attrs())


@pytest.mark.more
def test_a_step_bias_is_that_of_independent_paths():
    """And better known, though other grids differ in what later coordinates say.

    100 (1 + r/16)^16 is 0.0082 less than 100 exp(r).
    """
    experiment = on_points(
        MARKET | {"solver": "EulerMaruyama", "time": {"t1": 1.0, "steps": 16}}, paths=2**15
    )
    sobol, plain = (simkit.run(on_points(experiment, driver=driver)) for driver in ("sobol", "random"))
    for dataset in (sobol, plain):
        assert abs(last(dataset, "S_bias") + 0.0082) < 4 * last(dataset, "S_bias_stderr")
    for name, factor in (("S_stderr", 0.1), ("S_bias_stderr", 0.8), ("call_bias_stderr", 0.8)):
        assert last(sobol, name) < factor * last(plain, name)


@pytest.mark.more
def test_derivatives_have_errors_as_small():
    """Delta and vega of a call, whose errors are the spread of repetitions, and the lines below the table."""
    d = 0.35  # (r + sigma^2 / 2) / sigma
    density = np.exp(-(d**2) / 2) / np.sqrt(2 * np.pi)
    truth = np.array([100 * density, 0.6368306511756191])
    experiment = MARKET | {"derived": {}, "observe": {"call": MARKET["observe"]["call"]}}
    seen = []
    for seed in range(12):
        dataset = simkit.sensitivity(
            on_points(experiment, paths=4096, seed=seed), ["model.sigma", "initial.S"]
        )
        seen.append((dataset["call_derivative"].values, dataset["call_derivative_stderr"].values))
    plain = simkit.sensitivity(
        on_points(experiment, driver="random", paths=4096), ["model.sigma", "initial.S"]
    )
    values, errors = np.moveaxis(seen, 0, 1)
    assert (np.abs((values - truth) / errors) < 4).all()
    ratio = values.var(0, ddof=1) / np.mean(errors**2, 0)
    assert ((ratio > 0.25) & (ratio < 2.5)).all()
    assert (errors.mean(0) < 0.2 * plain["call_derivative_stderr"].values).all()
    assert any("95 % interval" in line for line in notes(dataset))


def test_events_that_never_happen_are_as_rare_as_scramblings_tell():
    """Sixteen scramblings without one say as much as sixteen paths."""
    observe = {"observe": {"never": "S > 1000"}, "derived": {}}
    assert last(simkit.run(on_points(MARKET | observe)), "never_upper") == pytest.approx(3 / 16)


NETWORK = {"model": {"reactions": {"birth": {"equation": "0 -> A", "rate": 2.0}}}, "initial": {"A": 0}}
NETWORK |= {"time": {"t1": 1.0}, "ensemble": {"driver": "sobol"}}
STRATIFIED = {"variance_reduction": "stratified"}
ORDINARY = {"model": {"ode": {"x": "-x"}}, "initial": {"x": 1.0}, "time": {"t1": 1.0, "steps": 4}}


@pytest.mark.parametrize(
    ("experiment", "message"),
    [
        (on_points(paths=1000), "ensemble.paths: Sobol' points .* a power of two paths; use 512 or 1024"),
        (on_points(paths=10), "ensemble.paths: Sobol' points .* a power of two paths; use 16"),
        (
            MARKET | {"ensemble": {"driver": "sobol", "target": {"stderr": 1.0, "max_paths": 10}}},
            "ensemble.target.max_paths: 16 scramblings are as many paths at least; use 16 or more",
        ),
        (on_points(scramblings=20), "ensemble.scramblings: 20 is no power of two; use 32"),
        (on_points(scramblings=8), "ensemble.scramblings: must be .* 16.*, got 8"),
        (on_points(driver="random", scramblings=16), "ensemble.scramblings: is for Sobol' points"),
        (on_points(variance_reduction="antithetic"), "variance_reduction is for independent paths"),
        (NETWORK, "ensemble.driver: sobol: .*Brownian noise"),
        (ORDINARY | {"ensemble": {"driver": "sobol"}}, "ensemble.driver: sobol: .*Brownian noise"),
        (
            MARKET
            | {"solver": "Milstein", "time": {"t1": 1.0, "rtol": 1e-2, "atol": 1e-2}, "observe": {}}
            | {"derived": {}},
            "sobol: needs steps of one length; give time.steps",
        ),
        (
            MARKET | {"time": {"t1": 1.0, "steps": 30_000}},
            "time.steps: 30000 steps take 30000 dimensions, .* points have 21201; use 21200 or fewer",
        ),
        (on_points(driver="sobel"), "driver: must be random or sobol"),
        (
            ORDINARY | {"ensemble": STRATIFIED},
            "variance_reduction: stratified: .*; leave variance_reduction out",
        ),
        (
            on_points(driver="random", variance_reduction={"stratified": True, "antithetic": True}),
            "variance_reduction: stratified: antithetic, control and importance .*; use stratified alone",
        ),
        (MARKET | {"ensemble": STRATIFIED | {"paths": 1000}}, "a power of two paths; use 512 or 1024"),
    ],
)
def test_what_has_no_points_is_refused_by_name(experiment, message):
    with pytest.raises(InputError, match=message):
        simkit.run(experiment)


def test_a_study_says_that_it_takes_independent_paths():
    with pytest.raises(InputError, match="Sobol' points in 16 scramblings: a study takes independent paths"):
        simkit.uncertainty(MARKET | {"model": MARKET["model"] | {"sigma": {"uniform": [0.1, 0.3]}}})


@pytest.mark.more
def test_paths_that_fail_are_left_out_of_a_step_bias():
    """Of 4096 paths some hundred leave where the root is real, so that each scrambling has lost some."""
    experiment = {
        "model": {"sde": {"x": {"drift": "-x", "noise": {"W": "sqrt(1.1 - x)"}}}},
        "initial": {"x": 0.5},
        "time": {"t1": 1.0, "steps": 16},
        "ensemble": {"driver": "sobol", "paths": 4096, "failures": "exclude"},
    }
    sobol, plain = (simkit.run(on_points(experiment, driver=driver)) for driver in ("sobol", "random"))
    assert sobol.attrs["failed_paths"] > 16
    error = np.hypot(last(sobol, "x_bias_stderr"), last(plain, "x_bias_stderr"))
    assert abs(last(sobol, "x_bias") - last(plain, "x_bias")) < 4 * error
