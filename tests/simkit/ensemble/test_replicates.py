"""Antithetic paths and control variates: means without a bias, whose errors are as wide as they say."""

import re

import numpy as np
import pytest
from spread_of_errors import assert_errors_are_as_wide_as_the_spread

import simkit
from simkit import InputError
from simkit.results.reduction_notes import reduction_notes

MARKET = {
    "constants": {"r": 0.05, "K": 100.0},
    "model": {"type": "GBM", "mu": "r", "sigma": 0.2},
    "initial": {"S": 100.0},
    "solver": "EulerMaruyama",
    "time": {"t1": 1.0, "steps": 4},
    "ensemble": {"paths": 512},
    "observe": {
        "call": "exp(-r*t) * maximum(S - K, 0)",
        "digital": "S > K",
        "asian": "exp(-r*t) * maximum(mean(S) - K, 0)",
        "stock": {"value": "exp(-r*t) * S", "exact": 100.0},
    },
    "derived": {"ratio": "call / asian"},
}
GEOMETRIC = "geometric_asian_call(S=100, K=K, r=r, sigma=0.2, T=1, n={dates})"
BOTH = {"antithetic": True, "control": ["stock"]}


def reduced(how, experiment=MARKET, **ensemble):
    return experiment | {"ensemble": experiment["ensemble"] | {"variance_reduction": how} | ensemble}


def last(dataset, name):
    return float(np.atleast_1d(dataset[name])[-1])


@pytest.mark.more
@pytest.mark.parametrize(
    "how",
    [
        BOTH,
        pytest.param("antithetic", marks=pytest.mark.slow),
        pytest.param({"control": ["stock"]}, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_errors_are_as_wide_as_the_spread_of_repetitions(how):
    """Of means, of a quantity derived from them, of their step bias, and of differences between variants.

    The variance of 100 repetitions is known to 14 %; a factor of two, of pairs taken for paths, would show.
    """
    variants = {"variants": {"low": {"model.sigma": 0.2}, "high": {"model.sigma": 0.25}}}
    keys = ("call_mean", "digital_mean", "asian_mean", "ratio_value", "asian_bias", "call_difference")

    def run(seed):
        return simkit.run(reduced(how, MARKET | variants, seed=seed))

    assert_errors_are_as_wide_as_the_spread(run, keys)


def test_paths_come_in_pairs_around_their_mean():
    walk = {
        "model": {"sde": {"x": {"drift": 0.5, "noise": {"V": 1.0, "W": 0.3}}}},
        "initial": {"x": 1.0},
        "solver": "EulerMaruyama",
        "time": {"t1": 1.0, "steps": 8},
        "ensemble": {"paths": 64},
        "save": {"paths": "all", "points": 4},
        "observe": {"size": "abs(x - 1 - 0.5*t)"},
    }
    dataset = simkit.run(reduced("antithetic", walk))
    x = dataset["x_path"].values
    np.testing.assert_allclose(
        (x[::2] + x[1::2]) / 2, np.broadcast_to(1 + 0.5 * dataset["time"], x[::2].shape)
    )
    assert len({*x[::2, -1]}) == 32
    assert last(dataset, "x_mean") == pytest.approx(1.5, abs=1e-13)
    assert last(dataset, "x_stderr") < 1e-13
    # The size of a path and its mirror image are the same: pairs are half as many values, and no more.
    plain = np.sqrt(last(dataset, "size_variance") / 64)
    assert last(dataset, "size_stderr") == pytest.approx(np.sqrt(2) * plain, rel=0.02)
    assert last(dataset, "size_variance_reduction") == pytest.approx(0.5, rel=0.02)


@pytest.mark.more
def test_a_controlled_mean_is_that_of_the_runs_own_paths():
    """With coefficients from others: the variance is the least that any have, but for the pilot's error."""
    plain = simkit.run(MARKET | {"save": {"paths": "all"}, "ensemble": {"paths": 4096, "seed": 5}})
    dataset = simkit.run(reduced({"control": ["stock"]}, paths=4096, seed=5))
    call, stock = (plain[f"{name}_path"].values for name in ("call", "stock"))
    gain = (last(plain, "call_mean") - last(dataset, "call_mean")) / (stock.mean() - 100)
    own = np.cov(call, stock)[0, 1] / stock.var(ddof=1)
    assert gain == pytest.approx(own, rel=0.05)
    assert gain != pytest.approx(own, rel=1e-6)
    explained = call - gain * (stock - 100)
    assert last(dataset, "call_mean") == pytest.approx(explained.mean())
    assert last(dataset, "call_stderr") == pytest.approx(explained.std(ddof=1) / 64)
    for name in ("call_variance", "call_quantile", "S_max"):  # of single paths
        assert (plain[name] == dataset[name]).all()
    assert last(dataset, "call_variance_reduction") == pytest.approx(call.var() / explained.var())


@pytest.mark.parametrize("dates", [12, 64])
def test_the_geometric_mean_controls_the_arithmetic_one(dates):
    experiment = MARKET | {
        "solver": "ExactSampling",
        "time": {"t1": 1.0, "steps": dates},
        "ensemble": {"paths": 20_000},
        "derived": {},
        "observe": {
            "asian": MARKET["observe"]["asian"],
            "geometric": {
                "value": "exp(-r*t) * maximum(exp(mean(log(S))) - K, 0)",
                "exact": GEOMETRIC.format(dates=dates),
            },
        },
    }
    dataset = simkit.run(reduced({"control": ["geometric"]}, experiment))
    assert last(dataset, "asian_variance_reduction") > 1000
    assert abs(last(dataset, "asian_mean") - {12: 6.0, 64: 5.8}[dates]) < 0.3


@pytest.mark.more
@pytest.mark.user_code
def test_bits_do_not_depend_on_chunks_threads_and_devices():
    one = simkit.run(reduced(BOTH, paths=10_000, chunk=2048, threads=1))
    for how in ({"chunk": 8192}, {"threads": 2, "chunk": 4096}, {"devices": 2}):
        assert simkit.run(reduced(BOTH, paths=10_000, **how)).drop_attrs().identical(one.drop_attrs())


@pytest.mark.more
def test_a_target_takes_as_many_fewer_paths():
    plain, less = (
        simkit.run(MARKET | {"ensemble": {"target": {"stderr": 0.1, "of": ["call"]}, **more}})
        for more in ({}, {"variance_reduction": BOTH})
    )
    factor = last(less, "call_variance_reduction")
    assert factor > 8
    assert plain.attrs["paths"] / less.attrs["paths"] == pytest.approx(factor, rel=0.3)
    assert less.attrs["paths"] % 2 == 0
    assert 0.09 < last(less, "call_stderr") < 0.105


def test_a_control_explains_a_multiple_of_itself_but_not_itself():
    """Its own mean would be the known one, whatever the paths. Steps move the mean of both by as much."""
    experiment = MARKET | {"observe": {"stock": MARKET["observe"]["stock"], "twice": "2 * exp(-r*t) * S"}}
    dataset = simkit.run(reduced({"control": ["stock"]}, experiment | {"derived": {}}))
    assert last(dataset, "stock_variance_reduction") == pytest.approx(1)
    assert last(dataset, "twice_mean") == pytest.approx(200, rel=1e-12)
    assert last(dataset, "twice_stderr") < 1e-10
    assert abs(last(dataset, "stock_bias")) > 0.01
    assert abs(last(dataset, "twice_bias")) < 1e-10


def test_known_means_are_found_where_none_are_named():
    dataset = simkit.run(reduced("control", MARKET | {"solver": "ExactSampling"}))
    assert dataset.attrs["variance_reduction"] == "control variates S"
    assert last(dataset, "asian_variance_reduction") > 2


def test_a_control_whose_known_mean_is_wrong_is_named():
    """Also where two of them are wrong alike: each would explain the other."""
    wrong = {"value": "exp(-r*t) * S", "exact": 105.0}
    observe = MARKET["observe"] | {"stock": wrong, "again": wrong}
    experiment = MARKET | {"observe": observe, "ensemble": {"paths": 4096}}
    dataset = simkit.run(reduced({"control": ["stock", "again"]}, experiment))
    assert last(dataset, "stock_mean") == pytest.approx(100, abs=2)
    assert abs(last(dataset, "stock_z")) > 5
    notes = reduction_notes(dataset)
    assert [note.split(":")[0] for note in notes[1:]] == ["! stock", "! again"]
    assert "correct exact:, or leave it out of control" in notes[1]
    assert len(reduction_notes(simkit.run(reduced(BOTH)))) == 1


def test_a_mean_that_pairs_make_exact_has_no_factor():
    """Of odd functions of the noise, down to rounding; a constant has no variance to reduce."""
    motion = {"model": {"sde": {"x": {"drift": 1.0, "noise": {"W": 1.0}}}}, "initial": {"x": 0.0}}
    motion |= {"time": {"t1": 1.0, "steps": 8}, "observe": {"square": "x**2", "one": "1.0 + 0*x"}}
    dataset = simkit.run(reduced("antithetic", motion | {"ensemble": {"paths": 512}}))
    assert last(dataset, "x_variance_reduction") == np.inf
    assert np.isnan(last(dataset, "one_variance_reduction"))
    (note,) = reduction_notes(dataset)
    assert re.fullmatch(
        r"antithetic paths: variances smaller by factors of square [\d.]+; no sampling error but rounding: x",
        note,
    )


ADAPTIVE = MARKET | {"solver": "Milstein", "time": {"t1": 1.0, "rtol": 1e-2, "atol": 1e-2}}
ADAPTIVE |= {"observe": {}, "derived": {}}
JUMPS = {
    "model": {"type": "Merton", "mu": 0.05, "sigma": 0.2, "lam": 1.0, "m": -0.1, "delta": 0.1},
    "initial": {"S": 100.0},
    "time": {"t1": 1.0, "steps": 4},
    "ensemble": {},
}
NETWORK = {"model": {"reactions": {"birth": {"equation": "0 -> A", "rate": 2.0}}}, "initial": {"A": 0}}
NETWORK |= {"time": {"t1": 1.0}}


@pytest.mark.parametrize(
    ("experiment", "message"),
    [
        (reduced("antithetic", paths=511), "ensemble.paths: antithetic paths come in pairs; use 512"),
        (reduced("antithetic", paths=1), "ensemble.paths: one pair of antithetic paths .*; use 4 or more"),
        (reduced("antithetic", paths=2), "ensemble.paths: one pair of antithetic paths .*; use 4 or more"),
        (reduced("antithetic", NETWORK | {"ensemble": {"paths": 64}}), "antithetic: .*Brownian noise"),
        (
            reduced("antithetic", ADAPTIVE),
            "needs steps of one length",
        ),
        (reduced("antithetic", JUMPS), "the jumps of Merton have no mirror image"),
        (
            reduced("antithetic", MARKET | {"ensemble": {"couple": "steps"}}),
            "strong errors are those of plain paths",
        ),
        (reduced({"control": ["call"]}), "the mean of call is not known; give observe.call.exact"),
        (reduced({"control": ["stok"]}), r"control\[0\]: there is no stok; did you mean 'stock'"),
        (reduced({"antithetik": True}), "antithetik"),
        (reduced("sobol"), "must be antithetic, control, importance or stratified, got 'sobol'"),
        (
            reduced({"control": ["S"]}, MARKET | {"initial": {"S": {"normal": [100, 1]}}}),
            "the mean of S is not known from these initial values",
        ),
        (
            reduced("control", NETWORK | {"ensemble": {"paths": 64}}),
            "no mean is known here",
        ),
    ],
)
def test_what_cannot_be_reduced_is_refused_by_name(experiment, message):
    with pytest.raises(InputError, match=message):
        simkit.run(experiment)


def test_other_commands_say_that_it_is_for_means():
    with pytest.raises(InputError, match="variance_reduction: is for means"):
        simkit.sensitivity(reduced("antithetic"), "r")


SAMPLED = {
    "model": {"type": "OrnsteinUhlenbeck", "theta": 2.0, "mu": 1.0, "sigma": 0.5},
    "initial": {"X": 1.0},
    "solver": "ExactSampling",
    "time": {"t1": 1.0, "steps": 20},
    "ensemble": {"paths": 2048},
    "observe": {"twice": {"value": "2*X", "exact": 2}, "hit": "hitting_time(X > 1.2)", "area": "integral(X)"},
}


@pytest.mark.parametrize("how", ["control", pytest.param({"control": ["twice"]}, marks=pytest.mark.more)])
def test_controls_that_are_exact_leave_step_biases_as_they_are(how):
    """All grids have the same states, so that the differences between them are not controlled."""
    plain, controlled = (simkit.run(x) for x in (SAMPLED, reduced(how, SAMPLED)))
    assert last(controlled, "area_stderr") < 0.9 * last(plain, "area_stderr")
    for name in ("hit", "area"):
        assert float(controlled[f"{name}_bias"]) == pytest.approx(float(plain[f"{name}_bias"]), rel=1e-6)
        assert float(controlled[f"{name}_bias_stderr"]) == pytest.approx(float(plain[f"{name}_bias_stderr"]))


@pytest.mark.parametrize(
    "ensemble",
    [
        {"driver": "sobol"},
        pytest.param({"variance_reduction": "stratified"}, marks=pytest.mark.more),
        pytest.param({"variance_reduction": "antithetic"}, marks=pytest.mark.more),
    ],
    ids=str,
)
def test_how_many_paths_wait_has_the_error_of_independent_paths(ensemble):
    """Which is the most that scrambled points can have, and of pairs half as many."""
    result = simkit.run(SAMPLED | {"ensemble": SAMPLED["ensemble"] | ensemble})
    part, count = float(result["hit_censored"]), 2048 / (1 + ("antithetic" in ensemble.values()))
    assert float(result["hit_censored_stderr"]) == pytest.approx((part * (1 - part) / count) ** 0.5)
