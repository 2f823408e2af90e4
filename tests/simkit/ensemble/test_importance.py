"""Importance sampling: means of paths with a drift are those without it, with errors as wide as they say."""

import re

import numpy as np
import pytest
from scipy.stats import norm
from spread_of_errors import assert_errors_are_as_wide_as_the_spread

import simkit
from simkit import InputError, NumericalError
from simkit.results.reduction_notes import reduction_notes

WALK = {
    "model": {"sde": {"x": {"drift": 0.0, "noise": {"W": 1.0}}}},
    "initial": {"x": 0.0},
    "solver": "EulerMaruyama",
    "time": {"t1": 1.0, "steps": 8},
    "ensemble": {"paths": 4096},
    "observe": {"far": "x > 4"},
}
TWO = WALK | {
    "model": {"sde": {"x": {"drift": 0.0, "noise": {"V": 0.6, "W": 0.8}}}},
    "observe": {"far": "x > 4"},
}
CALL = {
    "constants": {"r": 0.05, "K": 200.0},
    "model": {"type": "GBM", "mu": "r", "sigma": 0.2},
    "initial": {"S": 100.0},
    "solver": "ExactSampling",
    "time": {"t1": 1.0, "steps": 4},
    "ensemble": {"paths": 4096},
    "observe": {
        "call": {
            "value": "exp(-r*t) * maximum(S - K, 0)",
            "exact": "black_scholes_call(S=100, K=K, r=r, sigma=0.2, T=1)",
        }
    },
}
BASKET = CALL | {
    "model": {
        "sde": {
            "S": {"drift": "r*S", "noise": {"V": "0.2*S"}},
            "R": {"drift": "r*R", "noise": {"V": "0.1*R", "W": "0.2*R"}},
        }
    },
    "initial": {"S": 100.0, "R": 100.0},
    "solver": "EulerMaruyama",
    "observe": {"basket": "exp(-r*t) * maximum((S + R) / 2 - 130, 0)"},
}
MERTON = {
    "model": {"type": "Merton", "mu": 0.05, "sigma": 0.2, "lam": 1.0, "m": -0.1, "delta": 0.1},
    "initial": {"S": 100.0},
    "solver": "ExactSampling",
    "time": {"t1": 1.0, "steps": 4},
    "ensemble": {"paths": 4096},
    "observe": {"put": "exp(-0.05*t) * maximum(60 - S, 0)"},
}


def drifted(how, experiment=WALK, **ensemble):
    reduction = {"variance_reduction": {"importance": how}}
    return experiment | {"ensemble": experiment["ensemble"] | reduction | ensemble}


def last(dataset, name):
    return float(np.atleast_1d(dataset[name])[-1])


def figures(dataset, name):
    return last(dataset, f"{name}_mean"), last(dataset, f"{name}_stderr")


@pytest.mark.parametrize("experiment", [WALK, TWO], ids=["one noise", "two noises"])
def test_the_probability_of_four_deviations(experiment):
    """The far tail of a normal distribution, of which plain paths would have to be 30 million."""
    dataset = simkit.run(drifted(True, experiment))
    mean, stderr = figures(dataset, "far")
    assert abs(mean - norm.sf(4)) < 4 * stderr
    assert stderr < 0.05 * mean
    assert last(dataset, "far_variance_reduction") == pytest.approx(7000, rel=0.3)
    drift = [float(each.split()[1]) for each in dataset.attrs["importance_drift"].split(", ")]
    assert np.linalg.norm(drift) == pytest.approx(4.12, rel=0.05)  # where the second moment is least
    if len(drift) > 1:
        assert drift[0] / drift[1] == pytest.approx(0.75, rel=0.1)


def test_other_steps_may_bring_a_path_across_though_they_did_not():
    falling = WALK | {"model": {"sde": {"x": {"drift": "-0.1*x", "noise": {"W": 1.0}}}}}
    assert last(simkit.run(drifted({"drift": 4.1}, falling)), "far_bias_stderr") > 1e-9


def test_a_call_far_out_of_the_money():
    dataset = simkit.run(drifted(True, CALL))
    assert abs(last(dataset, "call_z")) < 4
    assert last(dataset, "call_variance_reduction") > 1000
    assert last(dataset, "call_stderr") < 0.03 * last(dataset, "call_mean")


@pytest.mark.parametrize("steps", [1, 8])
def test_an_exponential_of_the_noise_has_no_variance_at_its_own_drift(steps):
    """Then every path has the same weighted value: the mean of exp(1.5 W) at each time that is saved."""
    experiment = WALK | {"time": {"t1": 2.0, "steps": steps}, "save": {"points": 1}}
    experiment = experiment | {"observe": {"power": {"value": "exp(1.5*x)", "at": "each"}}}
    dataset = simkit.run(drifted({"drift": 1.5}, experiment))
    np.testing.assert_allclose(dataset["power_mean"], np.exp(1.125 * dataset["time"]), rtol=1e-12)
    assert last(dataset, "power_stderr") < 1e-10
    found = simkit.run(drifted({"of": "power"}, experiment))
    assert float(found.attrs["importance_drift"].split()[1]) == pytest.approx(1.5, rel=0.02)


def test_a_drift_of_nought_changes_no_bits():
    experiment = CALL | {"observe": {"call": "maximum(S - 100, 0)"}, "save": {"points": 2}}
    plain, dataset = simkit.run(experiment), simkit.run(drifted({"drift": 0.0}, experiment))
    for name in ("call_mean", "call_stderr", "S_mean", "S_stderr"):
        assert (plain[name] == dataset[name]).all()
    assert last(dataset, "call_variance_reduction") == pytest.approx(1, rel=1e-3)


@pytest.mark.parametrize("drift", [-0.7, {"W": 0.8}, [0.5, -0.4]], ids=str)
def test_any_drift_gives_the_same_means(drift):
    """Of functions of the whole path, on steps of any method, with jumps that no drift moves."""
    experiment = MERTON | {"ensemble": {"paths": 20_000}} if drift == -0.7 else BASKET
    observe = {"barrier": "(S - 90) * (min(S) > 90)", "average": "maximum(mean(S) - 105, 0)"}
    experiment = experiment | {"observe": observe, "ensemble": {"paths": 20_000}}
    plain, dataset = simkit.run(experiment), simkit.run(drifted({"drift": drift}, experiment, seed=9))
    for name in (*observe, "S"):
        (a, b), (x, y) = figures(plain, name), figures(dataset, name)
        assert abs(a - x) < 4 * np.hypot(b, y), name
        assert y < 8 * b


@pytest.mark.more
@pytest.mark.parametrize("solver", ["SRIW1", "SPaRK", "SlowRK"])
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_areas_do_not_move_with_the_drift(solver, precision):
    """Levy areas are of the path less its chord, so solvers that read them need no other weights."""
    model = {"sde": {"x": {"drift": "-x", "noise": {"W": "1 + 0.5*sin(3*x)"}}}, "calculus": "stratonovich"}
    experiment = WALK | {
        "model": model,
        "solver": {"type": solver, "convert": True},
        "precision": precision,
        "time": {"t1": 1.0, "steps": 4},
    }
    experiment = experiment | {"observe": {"square": "x**2", "far": "x > 1"}, "ensemble": {"paths": 100_000}}
    plain, dataset = simkit.run(experiment), simkit.run(drifted({"drift": 0.7}, experiment, seed=9))
    for name in ("x", "square", "far"):
        (a, b), (x, y) = figures(plain, name), figures(dataset, name)
        assert abs(a - x) < 4 * np.hypot(b, y), name


@pytest.mark.more
@pytest.mark.parametrize(
    ("experiment", "least"),
    [(BASKET, 5), (MERTON, 2)],  # jumps, which no drift moves, make most of a put's variance
    ids=["basket", "put on jumps"],
)
def test_options_against_long_runs_of_plain_paths(experiment, least):
    (name,) = experiment["observe"]
    dataset = simkit.run(drifted(True, experiment, paths=100_000))
    plain = simkit.run(experiment | {"ensemble": {"paths": 2_000_000, "seed": 1}})
    (a, b), (x, y) = figures(plain, name), figures(dataset, name)
    assert abs(a - x) < 4 * np.hypot(b, y)
    factor = (b / y) ** 2 * 20
    assert factor > least
    assert last(dataset, f"{name}_variance_reduction") == pytest.approx(factor, rel=0.2)


@pytest.mark.more
def test_errors_are_as_wide_as_the_spread_of_many_repetitions():
    """Of means, quantities derived from them, step biases, and differences between variants."""
    experiment = CALL | {
        "solver": "EulerMaruyama",
        "observe": {
            "call": "maximum(S - 140, 0)",
            "asian": "maximum(mean(S) - 120, 0)",
        },
        "derived": {"ratio": "call / asian"},
        "variants": {"low": {"model.sigma": 0.2}, "high": {"model.sigma": 0.25}},
    }
    keys = ("call_mean", "asian_mean", "ratio_value", "asian_bias", "call_difference")

    def run(seed):
        return simkit.run(drifted({"drift": 1.5}, experiment, seed=seed, paths=1024))

    assert_errors_are_as_wide_as_the_spread(run, keys)


def test_a_mean_whose_weights_degenerate_is_no_result():
    """The drift that shows x > 4 hides the mean of x, whatever the run's own paths look like."""
    walk = WALK | {"time": {"t1": 1.0, "steps": 32}, "save": {"points": 32}}
    dataset = simkit.run(drifted({"drift": 4.0}, walk))
    assert np.isnan(last(dataset, "x_mean"))
    assert np.isnan(last(dataset, "x_stderr"))
    assert "x_bias" not in dataset
    assert np.isfinite(last(dataset, "far_mean"))
    known = dataset["x_mean"].values[:2]  # as long as the drift has not gone far
    assert np.isfinite(known).all()
    notes = reduction_notes(dataset)
    assert re.fullmatch(
        r"importance sampling: drift W 4; variances smaller by factors of far [\d,]+", notes[0]
    )
    assert notes[1].startswith("! x: no result with this drift, as the weights degenerate: it would take")


@pytest.mark.parametrize("paths", [1000, 100_000])
def test_whether_weights_degenerate_is_known_before_the_paths_run(paths):
    """Of as many as it takes: the spread of weights of a mean of 1 lies 2 sqrt(T) drift away."""
    experiment = WALK | {"observe": {"one": "1 + 0*x"}}
    reach = np.sqrt(2 * np.log(paths))
    edge = (reach - norm.ppf(0.9)) / 2
    dataset = simkit.run(drifted({"drift": 0.9 * edge}, experiment, paths=paths))
    mean, stderr = figures(dataset, "one")
    assert abs(mean - 1) < 5 * stderr
    with pytest.raises(NumericalError, match=r"the weights of one degenerate: .* or take [\d.e+]+ paths"):
        simkit.run(drifted({"drift": 1.1 * edge}, experiment, paths=paths))


def test_no_result_where_no_path_has_a_value():
    with pytest.raises(NumericalError, match="degenerate"):
        simkit.run(drifted({"drift": -4.0}, WALK | {"observe": {"far": "x > 9"}}))
    with pytest.raises(
        InputError, match=r"all that a pilot sees of far is none of 524,288 paths, so no drift"
    ):
        simkit.run(drifted(True, WALK | {"observe": {"far": "x > 90"}}))


def test_a_dataset_has_only_what_is_of_the_process_itself(tmp_path):
    dataset = simkit.run(drifted({"drift": 2.0}, CALL | {"save": {"points": 4}}))
    kinds = {str(name).partition("_")[2] for name in dataset.data_vars}
    assert kinds <= {
        "mean",
        "stderr",
        "exact",
        "z",
        "variance_reduction",
        "bias",
        "bias_stderr",
        "bias_order",
    }
    assert not any(name.endswith("_bin") for name in dataset.coords)
    simkit.save_picture(dataset, tmp_path / "picture.png")
    with pytest.raises(InputError, match="paths are weighted, so there is no quantiles, only means"):
        simkit.plot_dataset(dataset, "S", kind="quantiles")
    both = simkit.run(drifted({"drift": 2.0}, CALL | {"variants": {"a": {}, "b": {"model.sigma": 0.3}}}))
    simkit.save_picture(both, tmp_path / "variants.png")


@pytest.mark.more
@pytest.mark.user_code
def test_bits_do_not_depend_on_chunks_threads_and_devices():
    one = simkit.run(drifted(True, CALL, paths=10_000, chunk=2048, threads=1))
    for how in ({"chunk": 8192}, {"threads": 2, "chunk": 4096}, {"devices": 2}):
        assert simkit.run(drifted(True, CALL, paths=10_000, **how)).drop_attrs().identical(one.drop_attrs())


@pytest.mark.more
def test_a_target_takes_as_many_fewer_paths():
    target = {"target": {"stderr": 0.02, "relative": True}}
    dataset = simkit.run(drifted(True, WALK | {"ensemble": target}))
    mean, stderr = figures(dataset, "far")
    assert stderr < 0.0202 * mean
    assert dataset.attrs["paths"] < 20_000
    assert abs(mean - norm.sf(4)) < 4 * stderr


ADAPTIVE = WALK | {"solver": "Milstein", "time": {"t1": 1.0, "rtol": 1e-2, "atol": 1e-2}}
CIR = {
    "model": {"type": "CIR", "kappa": 0.5, "theta": 0.02, "sigma": 0.3},
    "initial": {"r": 0.02},
    "solver": "ExactSampling",
    "time": {"t1": 1.0, "steps": 4},
    "ensemble": {"paths": 64},
    "observe": {"high": "r > 0.5"},
}
NETWORK = {"model": {"reactions": {"birth": {"equation": "0 -> A", "rate": 2.0}}}, "initial": {"A": 0}}
NETWORK |= {"time": {"t1": 1.0}, "ensemble": {"paths": 64}, "observe": {"many": "A > 9"}}
SEVERAL = {"near": "x > 1", "far": "x > 4"}


@pytest.mark.parametrize(
    ("experiment", "message"),
    [
        (drifted(True, NETWORK), "importance: gives Brownian noise a drift, and this model has none"),
        (drifted(True, ADAPTIVE), "importance: needs steps of one length; give time.steps"),
        (
            drifted(True, CIR),
            "ExactSampling draws the CIR process here without its Brownian noise, so no drift",
        ),
        (
            drifted({"drift": [1.0, 2.0]}),
            r"importance.drift: there is 1 noise, W, and 2 numbers; give one for",
        ),
        (drifted({"drift": 1.0}, TWO), "importance.drift: there are 2 noises, V, W, and 1 numbers"),
        (drifted({"drift": {"U": 1.0}}, TWO), "importance.drift.U: there is no noise U"),
        (drifted({"drift": float("nan")}), "importance.drift: must be finite"),
        (drifted({"drift": "high"}), "importance.drift: must be a number, a list of numbers, or numbers by"),
        (drifted({"drift": 1.0, "of": "far"}), "importance.of: a drift that is given needs none"),
        (drifted({"of": "fa"}), r"importance.of: there is no fa; "),
        (
            drifted(True, WALK | {"observe": SEVERAL}),
            r"there are 2 observables: say .* \{of: near\}, or give",
        ),
        (drifted(True, WALK | {"observe": {}}), r"there is no observable: say .* \{of: x\}, or give a drift"),
        (
            WALK | {"ensemble": {"variance_reduction": {"importance": True, "antithetic": True}}},
            "antithetic and control are for paths without weights; leave them out",
        ),
        (drifted(True, WALK | {"save": {"paths": 3}}), "stored paths would be those with the drift; leave"),
        (drifted(True, WALK | {"save": {"quantiles": [0.1]}}), "quantiles would be those of paths with the"),
        (
            drifted(True, WALK | {"observe": {"far": "first(t, x > 1)"}}),
            "far: first times are counted on paths",
        ),
        (drifted(True, WALK | {"ensemble": {"couple": "steps"}}), "strong errors are those of plain paths"),
        (drifted(True, WALK | {"ensemble": {"driver": "sobol"}}), "variance_reduction is for independent"),
    ],
)
def test_what_a_drift_cannot_serve_is_refused_by_name(experiment, message):
    with pytest.raises(InputError, match=message):
        simkit.run(experiment)


def test_other_commands_refuse_weighted_paths():
    with pytest.raises(InputError, match="variance_reduction: is for means"):
        simkit.sensitivity(drifted({"drift": 1.0}, CALL), "r")
