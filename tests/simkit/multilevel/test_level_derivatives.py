"""Derivatives of means from levels: exact Greeks, levels that add up, honest errors, and what is refused."""

import dataclasses
import json
import math

import jax
import numpy as np
import pytest
import xarray as xr
import yaml
from command import simkit_command

import simkit
from simkit import InputError, NumericalError
from simkit.derivatives.targets import find_target
from simkit.multilevel.allocation import balanced
from simkit.multilevel.derivative_levels import DerivativeLevels
from simkit.multilevel.level_paths import LevelPaths
from simkit.multilevel.level_rates import QuantityLevels

CALL = "exp(-r*t) * maximum(S - K, 0)"
GBM = {
    "constants": {"r": 0.05, "K": 100.0},
    "model": {"type": "GBM", "mu": "r", "sigma": 0.2},
    "initial": {"S": 100.0},
    "solver": "Milstein",
    "time": {"t1": 1.0, "steps": 4},
    "ensemble": {"method": "multilevel", "target": {"total_error": 0.1}, "seed": 1},
    "observe": {"call": CALL},
}
HESTON = {
    **GBM,
    "model": {"type": "Heston", "mu": "r", "kappa": 2.0, "theta": 0.04, "xi": 0.3, "rho": -0.7},
    "initial": {"S": 100.0, "v": 0.04},
}
MERTON = {
    **GBM,
    "model": {"type": "Merton", "mu": "r", "sigma": 0.2, "lam": 1.0, "m": -0.1, "delta": 0.1},
    "solver": "EulerMaruyama",
}
# Black & Scholes (1973): by sigma, by S, by r and by K, of S = K = 100, r = 0.05, sigma = 0.2 in a year.
GREEKS = {"sigma": 37.5240346917, "S": 0.6368306512, "r": 53.2324815454, "K": -0.5323248155}
BOTH = ["sigma", "S"]


def with_ensemble(experiment=GBM, **changes):
    ensemble = {**experiment["ensemble"], **changes}
    return {**experiment, "ensemble": {key: x for key, x in ensemble.items() if x is not None}}


def errors_of(dataset, name, place):
    """A derivative without its step bias, and its error."""
    value, stderr, bias, doubt = (
        float(dataset[f"{name}_derivative{end}"][place]) for end in ("", "_stderr", "_bias", "_bias_stderr")
    )
    return value - bias, math.hypot(stderr, doubt)


def ladder_of(experiment, wrt):
    simulation = simkit.load(experiment)
    quantities = *simulation.observables, "S"
    return DerivativeLevels(simulation, quantities, tuple(find_target(simulation, x) for x in wrt), ())


def figures(paths):
    """Of each figure the mean and its error."""
    with jax.enable_x64(True):
        averages = paths.averages()
    return {
        name: np.array([float(averages.mean[i][-1]), float(averages.stderr[i][-1])])
        for i, name in enumerate(paths.levels.orders)
    }


@pytest.mark.more
@pytest.mark.parametrize("solver", ["EulerMaruyama", "Milstein"])
def test_greeks_are_those_of_black_and_scholes(solver):
    dataset = simkit.sensitivity({**GBM, "solver": solver}, wrt=[*GREEKS])
    for place, exact in enumerate(GREEKS.values()):
        value, error = errors_of(dataset, "call", place)
        assert abs(value - exact) < 4.5 * error
        assert error < 0.02 * abs(exact)


@pytest.mark.more
@pytest.mark.parametrize("solver", ["EulerMaruyama", "Milstein"])
def test_derivatives_are_those_of_plain_paths_on_the_finest_grid(solver):
    """And of Euler-Maruyama and Milstein the derivative of the mean of S on n steps is known."""
    of = {"sensitivity.of": ["call", "S"]}
    levels = simkit.sensitivity({**GBM, "solver": solver}, wrt=["sigma", "S", "r"], overrides=of)
    n = int(levels["steps"][-1])
    plain = with_ensemble(GBM, method=None, target=None, paths=200_000)
    plain = simkit.sensitivity(
        {**plain, "solver": solver, "time": {"t1": 1.0, "steps": n}}, wrt=["sigma", "S", "r"]
    )
    for place in range(3):
        one, other = (float(each["call_derivative"][place]) for each in (levels, plain))
        error = math.hypot(*(float(each["call_derivative_stderr"][place]) for each in (levels, plain)))
        assert abs(one - other) < 4.5 * error
    for place, exact in enumerate((0.0, (1 + 0.05 / n) ** n, 100 * (1 + 0.05 / n) ** (n - 1))):
        value, error = (float(levels[f"S_derivative{end}"][place]) for end in ("", "_stderr"))
        assert abs(value - exact) < 4.5 * error


CASES = {
    "GBM": ({**GBM, "observe": {"call": CALL, "asian": "maximum(integral(S) - K, 0)"}}, [*BOTH, "t1", "K"]),
    "Euler": ({**GBM, "solver": "EulerMaruyama", "observe": {"call": CALL, "low": "min(S)"}}, BOTH),
    "barrier": ({**GBM, "observe": {"call": f"{CALL} * no_touch(log(S/90), 0.2)"}}, [*BOTH, "t1"]),
    "Heston": (HESTON, ["xi", "S", "v"]),
    "Heston barrier": (
        {**HESTON, "observe": {"x": f"{CALL} * no_touch(S - 90, S*sqrt(maximum(v, 0)))"}},
        ["S", "theta"],
    ),
    "Merton": (MERTON, ["sigma", "m"]),
    "dose": ({**GBM, "events": {"dose": {"at": 0.5, "set": {"S": "S + K/10"}}}}, ["K", "sigma"]),
}


@pytest.mark.more
@pytest.mark.parametrize(("experiment", "wrt"), CASES.values(), ids=CASES)
def test_the_finer_derivatives_of_a_level_are_the_coarser_ones_of_the_next(experiment, wrt):
    ladder = ladder_of(experiment, wrt)
    for level in (1, 2):
        sides = []
        for each, coarse in ((level, False), (level + 1, True)):
            both = LevelPaths.of(ladder, each, 65536)
            grids = tuple(x for x in both.grids if (x.draws_per_step > 1) == coarse)
            sides.append(figures(dataclasses.replace(both, grids=grids)))
        for name in sides[0]:
            (one, error), (other, doubt) = (each[name] for each in sides)
            assert abs(abs(one) - abs(other)) <= 5 * math.hypot(error, doubt), name


@pytest.mark.more
def test_variances_of_derivatives_fall_as_strong_errors_and_jumps_say():
    """A delta jumps where paths end on either side of the strike: beta is 1 of Milstein, 2 where none do."""
    ladder = ladder_of({**GBM, "observe": {"call": CALL, "smooth": "S**2/100"}}, ["S"])
    with jax.enable_x64(True):
        averages = [LevelPaths.of(ladder, level, 65536).averages() for level in range(6)]
    betas = {name: QuantityLevels.of(averages, i, 1.0).beta for i, name in enumerate(ladder.orders)}
    for name, expected in (("smooth by S", 2.0), ("call", 2.0), ("call by S", 1.0)):
        assert abs(betas[name].rate - expected) < 0.2 + 3 * betas[name].stderr
        assert betas[name].stderr < 0.2


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["EulerMaruyama", "Milstein"])
def test_errors_are_honest(solver):
    """Of 60 seeds; of a delta they are cautious, since one path of a level may differ unseen."""
    z = {name: [] for name in BOTH}
    for seed in range(60):
        dataset = simkit.sensitivity({**with_ensemble(seed=seed), "solver": solver}, wrt=BOTH)
        for place, name in enumerate(BOTH):
            value, error = errors_of(dataset, "call", place)
            z[name].append((value - GREEKS[name]) / error)
    for each in z.values():
        assert 0.65 < np.std(each) < 1.25
        assert abs(np.mean(each)) < 3.3 * np.std(each) / 60**0.5


def test_of_a_derivative_that_jumps_one_path_of_each_level_may_differ_unseen():
    count, none = np.array([10000, 400, 100]), np.zeros(3)
    seen = {"order": 1.0, "mean": np.array([0.6, 0.0, 0.0]), "variance": np.array([0.25, 0.0, 0.0])}
    smooth, jumping = (
        QuantityLevels(**seen, variance_stderr=none, count=count, jumps=jumps) for jumps in (False, True)
    )
    assert smooth.stderr == pytest.approx(0.5 / 100)
    assert jumping.stderr == pytest.approx(0.5 * math.hypot(1 / 100, 1 / 400, 1 / 100))
    assert smooth.bias(2) == (0.0, 0.0)
    assert jumping.bias(2)[1] > 0.5 / 1000


def test_levels_have_as_many_paths_as_derivatives_take():
    """Where the variance of a derivative falls less, by Giles' ratios; never fewer than the mean takes."""
    figures = {"mean": np.zeros(3), "variance_stderr": np.zeros(3), "count": np.full(3, 2048)}
    slow, fast = (
        QuantityLevels(1.0, variance=np.array([1.0, fall, fall**2]), **figures) for fall in (0.5, 0.01)
    )
    growing = QuantityLevels(1.0, variance=np.array([1.0, 1e6, 1e12]), **figures)
    costs = [4, 12, 24]
    assert balanced([1000, 100, 30], [], costs) == (1000, 100, 30)
    assert balanced([1000, 100, 30], [fast], costs) == (1000, 100, 30)
    assert balanced([1000, 100, 30], [fast, slow], costs) == (
        1000,
        math.ceil(1000 * (0.5 / 3) ** 0.5),
        math.ceil(1000 * (0.25 / 6) ** 0.5),
    )
    work = 1000 * 4 + 100 * 12 + 30 * 24
    assert balanced([1000, 100, 30], [growing], costs) == (1000, math.ceil(work / 12), math.ceil(work / 24))


@pytest.mark.more
@pytest.mark.parametrize("how", [{"chunk": 3000}, {"threads": 1}, {"devices": 2}], ids=str)
def test_bits_of_derivatives_do_not_depend_on_chunks_threads_and_devices(how):
    first, second = (simkit.sensitivity(with_ensemble(**each), wrt=BOTH) for each in ({}, how))
    assert first.drop_attrs().identical(second.drop_attrs())


@pytest.mark.more
def test_the_dataset_has_what_derivatives_are_made_of():
    plain = simkit.sensitivity(with_ensemble(method=None, target=None, paths=2000), wrt=BOTH)
    dataset = simkit.sensitivity(GBM, wrt=BOTH)
    assert {*plain.variables} <= {*dataset.variables}
    parts, errors = (dataset[f"call_derivative_level_{key}"] for key in ("mean", "stderr"))
    assert parts.dims == ("parameter", "level")
    assert np.allclose(parts.sum("level"), dataset["call_derivative"])
    assert np.all(np.sqrt((errors**2).sum("level")) <= dataset["call_derivative_stderr"] * (1 + 1e-12))
    assert float(dataset["call_level_mean"].sum()) == pytest.approx(float(dataset["call_mean"]))
    assert list(dataset["steps"].values) == [4 * 2**level for level in range(dataset.sizes["level"])]
    assert dataset.attrs["paths"] == int(dataset["paths"].sum())
    total = math.hypot(float(dataset["call_mean_stderr"]), float(dataset["call_bias"]))
    assert total < 1.05 * 0.1


@pytest.mark.more
def test_the_table_json_and_files_have_levels_and_derivatives(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.yaml").write_text(yaml.safe_dump({**GBM, "sensitivity": {"wrt": BOTH}}))
    text = " ".join(simkit_command("sensitivity", "a.yaml", "--out", "a.nc").stdout.split())
    assert "total error: 0.1 was the target, reached: call 0.0" in text
    assert "× 4 steps" in text
    assert "plain paths would take" in text
    assert (tmp_path / "a.png").exists()
    told = json.loads(simkit_command("sensitivity", "a.yaml", "--json").stdout)
    sigma = told["quantities"]["call"]["derivatives"]["sigma"]
    assert sigma["estimator"] == "pathwise"
    assert abs(sigma["derivative"] - sigma["bias"] - GREEKS["sigma"]) < 5 * sigma["stderr"]
    assert [each["steps"] for each in told["levels"]][:2] == [4, 8]
    assert xr.open_dataset(tmp_path / "a.nc").attrs["method"] == "multilevel"
    simkit_command("sensitivity", "a.yaml", "--out", "b.csv")
    assert "sigma" in (tmp_path / "b.csv").read_text()


@pytest.mark.more
def test_a_number_that_nothing_uses_has_a_derivative_of_0():
    experiment = {**GBM, "constants": GBM["constants"] | {"idle": 1.0}}
    dataset = simkit.sensitivity(experiment, wrt=["idle"])
    assert float(dataset["call_derivative"][0]) == float(dataset["call_derivative_stderr"][0]) == 0.0
    assert dataset["call_derivative_reason"].values[0] == "no path changes with it"


NETWORK = {
    "model": {
        "reactions": {
            "birth": {"equation": "0 -> X", "rate": 400},
            "death": {"equation": "X -> 0", "rate": 1},
        }
    },
    "constants": {"k": 1.0},
    "initial": {"X": 2000},
    "solver": "TauLeaping",
    "time": {"t1": 2.0},
    "ensemble": {"method": "multilevel", "target": {"total_error": 2.0}, "seed": 1},
}
LEAPS = {
    **NETWORK,
    "model": {
        "reactions": {
            "birth": {"equation": "0 -> X", "rate": 400},
            "death": {"equation": "X -> 0", "rate": "k"},
        }
    },
}


@pytest.mark.parametrize(
    ("experiment", "wrt", "section", "message"),
    [
        ({**GBM, "observe": {"x": "S > K"}}, "sigma", {}, r"x by sigma takes smoothing \(the value jumps"),
        ({**GBM, "observe": {"x": "S > K"}}, "sigma", {"method": "pathwise"}, "the value jumps with S"),
        (
            {**GBM, "observe": {"x": f"{CALL} * (min(S) > 90)"}},
            "sigma",
            {},
            "x by sigma takes .*the value jumps with S",
        ),
        (
            {**GBM, "observe": {"x": f"{CALL} * no_touch(log(S/90), 0.2)"}},
            "sigma",
            {},
            "the chance not to touch a barrier is steep",
        ),
        (MERTON, "lam", {}, r"call by lam takes weak derivative \(the rate decides how many jumps"),
        (LEAPS, "k", {}, r"X by k takes .*counts jump with the rates"),
        ({**GBM, "solver": "EulerMaruyama"}, "sigma", {"method": "score"}, "call by sigma takes score"),
        (GBM, "sigma", {"second": ["sigma"]}, "sensitivity.second: ensemble.method: multilevel has first"),
        (GBM, "sigma", {"check": True}, "sensitivity.check: ensemble.method: multilevel has first"),
        (GBM, "volatility", {}, "unknown name"),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_what_has_no_derivative_along_paths_is_refused_by_name(experiment, wrt, section, message):
    experiment = {**experiment, "sensitivity": {"wrt": [wrt], **section}}
    with pytest.raises(InputError, match=message) as refusal:
        simkit.sensitivity(experiment)
    if "multilevel" in str(refusal.value):
        assert "--set ensemble.method=null --set ensemble.target=null" in str(refusal.value)


@pytest.mark.more
def test_a_derivative_whose_variance_does_not_fall_is_refused():
    """Slopes of the ripple differ as much on all of these steps, and its values by little."""
    observe = {"x": "S + 0.01 * sin(1000 * S)"}
    with pytest.raises(
        InputError, match=r"variance of x by sigma falls .* of the step only; leave method out"
    ):
        simkit.sensitivity({**GBM, "solver": "EulerMaruyama", "observe": observe}, wrt="sigma")


@pytest.mark.more
def test_a_derivative_that_a_few_paths_make_is_no_result():
    """Of Heston's model where the variance is often 0: the slope of its root has no bound."""
    often = {"type": "Heston", "mu": 0.0, "kappa": 0.5, "theta": 0.04, "xi": 1.0, "rho": -0.9}
    experiment = {**HESTON, "model": often, "solver": "EulerMaruyama", "time": {"t1": 1.0, "steps": 16}}
    dataset = simkit.sensitivity(with_ensemble(experiment, target={"total_error": 0.2}), wrt=["xi", "S"])
    assert list(dataset["call_derivative_flag"].values) == ["no result", ""]
    assert "use plain paths, without ensemble.method" in str(dataset["call_derivative_reason"].values[0])


@pytest.mark.more
def test_a_derivative_that_is_not_finite_is_told_from_a_value_that_is_not():
    experiment = {**GBM, "observe": {"x": "S + (S - S)**0.5"}}
    with pytest.raises(NumericalError, match=r"path \d+ of level 0: the values are finite and a derivative"):
        simkit.sensitivity(experiment, wrt="sigma")
