"""What studies of uncertain experiments find: exact values, the noise of paths, and the same bits."""

import io
import math

import numpy as np
import pytest
from study_examples import GROWTH, NOISY

from simkit import InputError, uncertainty
from simkit.ensemble import chunks
from simkit.studies.experiments import UNUSED
from simkit.studies.methods import NEVER_CHANGES, NO_INFLUENCE, ONLY_NOISE
from simkit.studies.plan import load_uncertain
from simkit.studies.plot import plot_study
from simkit.studies.simulations import simulated_design
from simkit.studies.table import closing_lines, print_table, summary

pytestmark = pytest.mark.more


EULER = """\
constants: {x0: {uniform: [1, 3]}, k: {uniform: [0.5, 1.5]}}
model: {ode: {x: -k*x}}
initial: {x: x0}
solver: Euler
time: {t1: 1, steps: 4}
uncertainty: {method: propagate, points: 64}
"""


def test_the_step_bias_at_the_centre_of_the_parameters_is_next_to_the_measures():
    """With x0 = 2 and k = 1 four Euler steps give 2 (3/4)^4 instead of 2/e, which no interval covers."""
    dataset, file = uncertainty(EULER), io.StringIO()
    bias, error = (float(dataset[key].sel(observable="x")) for key in ("step_bias", "step_bias_stderr"))
    assert abs(bias - (2 * 0.75**4 - 2 / math.e)) < error < abs(bias)
    print_table(dataset, file)
    assert file.getvalue().splitlines()[0].endswith("; ± is half of an interval of 95 %")
    assert "x: step bias -0.1088 ± 0.0272 (one standard error), at the centre of" in file.getvalue()
    assert summary(dataset)["observables"]["x"]["step_bias"]["value"] == bias


@pytest.mark.parametrize(
    "change",
    [
        {"model": {"type": "GBM", "mu": "k", "sigma": 0.2}, "initial": {"S": 1}, "solver": "ExactSampling"},
        {
            "model": {"reactions": {"decay": {"equation": "A -> 0", "rate": "k"}}},
            "initial": {"A": 20},
            "solver": "DirectMethod",
        },
    ],
)
def test_exact_methods_have_no_step_bias(change):
    settings = {"uncertainty": {"method": "propagate", "points": 16, "paths": 4}, "ensemble": {"paths": 64}}
    times = {"t1": 1} if "reactions" in change["model"] else {"t1": 1, "steps": 4}
    dataset = uncertainty({"constants": {"k": {"uniform": [0.5, 1.5]}}, "time": times} | settings | change)
    assert "step_bias" not in dataset


@pytest.fixture(scope="module")
def sobol():
    return uncertainty(NOISY)


def within(dataset, name, observable, exact, times=3.0, **place):
    value, half = (
        float(dataset[key].sel(observable=observable, **place)) for key in (name, f"{name}_halfwidth")
    )
    return abs(value - exact) <= times * half


@pytest.mark.user_code
def test_indices_and_the_split_of_the_variance_are_exact(sobol):
    """y = k x with x = theta + 0.5 W: E[y|k, theta] = k theta, Var[y|k, theta] = k² / 4."""
    first_k, first_theta, both = 1 / 3, 4 * 0.25, 0.25 / 3
    total = first_k + first_theta + both
    assert within(sobol, "parameter_variance", "y", total)
    assert within(sobol, "noise_variance", "y", (4 + 1 / 3) * 0.25)
    assert within(sobol, "first", "y", first_k / total, parameter="k")
    assert within(sobol, "first", "y", first_theta / total, parameter="theta")
    assert within(sobol, "total", "y", (first_k + both) / total, parameter="k")
    assert within(sobol, "total", "y", (first_theta + both) / total, parameter="theta")
    assert within(sobol, "mean", "y", 2.0)
    assert float(sobol["total_halfwidth"].sel(observable="y", parameter="k")) < 0.1
    assert within(sobol, "parameter_variance", "z", 0.25)
    assert within(sobol, "noise_variance", "z", 0.25)


@pytest.mark.user_code
def test_what_has_no_influence_is_exactly_zero_and_says_why(sobol):
    for name in ("first", "total"):
        assert np.all(sobol[name].sel(parameter="spare") == 0)
        assert float(sobol[name].sel(observable="z", parameter="k")) == 0
        assert np.all(sobol[name].sel(observable="fixed") == 0)
    assert sobol["note"].sel(observable="y", parameter="spare") == UNUSED
    assert sobol["note"].sel(observable="z", parameter="k") == NO_INFLUENCE
    assert sobol["note"].sel(observable="fixed", parameter="k") == NEVER_CHANGES
    assert float(sobol["mean"].sel(observable="fixed")) == 2.0
    half = sobol["total_halfwidth"]
    assert float(half.sel(observable="y", parameter="spare")) == 0
    assert np.isnan(half.sel(observable="z", parameter="k"))  # rarer paths might differ
    file = io.StringIO()
    print_table(sobol, file)
    assert "0 ± ?" in file.getvalue()


@pytest.mark.user_code
@pytest.mark.parametrize("changes", [{"ensemble.devices": 2}, {"ensemble.chunk": 2048}])
def test_neither_devices_nor_chunks_change_a_bit(sobol, changes):
    other = uncertainty(NOISY, overrides=changes)
    for name in sobol.data_vars:
        np.testing.assert_array_equal(sobol[name].values, other[name].values, err_msg=str(name))


def test_derivatives_along_paths_are_exact():
    """dy/dk = x and dy/dtheta = k; E[E[x|theta]²] = 1.25 without the noise in x."""
    study = uncertainty(NOISY, overrides={"uncertainty.method": "derivatives", "uncertainty.of": "[y, z]"})
    assert within(study, "nu", "y", 1.25, parameter="k")
    assert within(study, "nu", "y", 4 + 1 / 3, parameter="theta")
    assert within(study, "derivative", "y", 2.0, parameter="theta")
    assert float(study["nu"].sel(observable="z", parameter="theta")) == pytest.approx(1, abs=1e-12)
    assert float(study["nu"].sel(observable="z", parameter="k")) == 0
    assert np.all(study["bound"].sel(observable="y") >= 0)


def test_propagation_through_an_ordinary_equation_is_exact():
    study = uncertainty(GROWTH)
    variance = math.exp(0.6 + 0.04) * math.expm1(0.04)
    assert within(study, "mean", "x", math.exp(0.3 + 0.02))
    assert within(study, "sd", "x", math.sqrt(variance))
    assert study["quantiles"].values[0, 2] == pytest.approx(math.exp(0.3), rel=1e-3)
    assert "noise_fraction" not in study
    assert study.attrs["runs"] == 8 * 1024


@pytest.mark.user_code
def test_every_point_of_a_row_meets_the_same_paths(monkeypatch):
    """Those of one stream; others, and other rows, meet their own."""
    loaded = load_uncertain(NOISY)
    from simkit.studies.designs import saltelli_design

    simulated = simulated_design(loaded.simulation, ("theta", "k", "spare"), ("z",), 2, 4, keep=True)
    design = saltelli_design([[0], [1], [2]], 3, False)
    values = simulated(design, np.ones((4, 16, 6)), 0)["z"].each
    assert simulated.bindings.unused == ("spare",)
    assert np.all(values[:, :, 2:] == values[:, :, :1])
    assert len(np.unique(values)) == 4 * 16 * 2 * 2
    later = simulated(design, np.ones((4, 8, 6)), 8)["z"].each
    assert np.array_equal(later, values[:, 8:])
    monkeypatch.setattr(chunks, "MOST_BYTES", 4 * 8 * 4 * 5 * 8)  # of eight rows
    assert np.array_equal(simulated(design, np.ones((4, 16, 6)), 0)["z"].each, values)


def test_a_jump_process_can_be_studied():
    reactions = """\
constants: {birth: {uniform: [10, 30]}, start: {discrete: [5, 15]}}
model: {reactions: {born: {equation: 0 -> X, rate: birth}, dies: {equation: X -> 0, rate: 1}}}
initial: {X: start}
time: {t1: 1}
uncertainty: {points: 64, replicates: 4, paths: 4}
"""
    study = uncertainty(reactions)
    gone = math.exp(-1)
    assert within(study, "mean", "X", 20 * (1 - gone) + 10 * gone, times=4)
    assert within(study, "parameter_variance", "X", (1 - gone) ** 2 * 400 / 12 + gone**2 * 25, times=4)
    mean_variance = 20 * (1 - gone) + 10 * gone * (1 - gone)
    assert within(study, "noise_variance", "X", mean_variance, times=4)


@pytest.mark.slow
def test_an_adaptive_equation_can_be_studied():
    adaptive = uncertainty(
        GROWTH, overrides={"time": "{t1: 1, rtol: 1e-8, atol: 1e-8}", "uncertainty.points": 64}
    )
    assert float(adaptive["mean"][0]) == pytest.approx(math.exp(0.32), rel=1e-2)


PRICED = """\
model: {type: GBM, mu: {uniform: [0, 0.1]}, sigma: {uniform: [0.1, 0.3]}}
initial: {S: 100}
solver: ExactSampling
time: {t1: 1, steps: 1}
observe: {stock: S}
uncertainty: {method: rank, points: 256, paths: 64}
"""


def test_noise_does_not_lower_rank_correlations():
    """E[S] grows with mu and does not depend on sigma: 1 and 0, where ranks of noisy means give 0.75."""
    study = uncertainty(PRICED).sel(observable="stock")
    value, half = study["spearman"].values, study["spearman_halfwidth"].values
    assert np.all(np.abs(value - [1, 0]) <= half)
    assert np.all(half < 0.2)
    assert abs(float(study["partial"][0]) - 1) <= float(study["partial_halfwidth"][0]) < 0.1
    with pytest.raises(
        InputError, match=r"paths: must be at least 4 where paths differ, whose quarters .* 3"
    ):
        uncertainty(PRICED, overrides={"uncertainty.paths": 3})


def test_effects_that_may_be_noise_say_so():
    """sigma does not change the mean of S; mu does."""
    study = uncertainty(PRICED, overrides={"uncertainty": "{method: morris, points: 16, paths: 64}"})
    assert list(study["note"].values[0]) == ["", ONLY_NOISE]
    with io.StringIO() as file:
        print_table(study, file)
        text = file.getvalue()
    noise = float(study["effect_noise"].sel(observable="stock", parameter="sigma"))
    assert "noise of effects" in text
    assert f"{noise:.4f}"[:4] in text


@pytest.mark.parametrize(
    ("first", "named"),
    [
        ([1.2, 0.5], "first theta"),
        ([0.5, -0.3], "first k"),
        ([0.5, -0.1], ""),
        ([1.2, -0.3], "first theta, first k"),
    ],
)
def test_indices_that_no_true_one_can_be_are_named_with_the_remedy(sobol, first, named):
    """Above 1, or below 0 by more than half of their interval, here 0.2."""
    observable = {"observable": sobol["observable"].values[0]}
    changed = sobol.sel(observable=[observable["observable"]]).copy(deep=True)
    for parameter, value in zip(("theta", "k"), first, strict=True):
        changed["first"].loc[observable | {"parameter": parameter}] = value
        changed["first_halfwidth"].loc[observable | {"parameter": parameter}] = 0.2
    lines = [line for line in closing_lines(changed) if "not between 0 and 1" in line]
    assert len(lines) == bool(named)
    assert all(f"({named}): points are too few; use more of them" in line for line in lines)


@pytest.mark.parametrize("method", ["propagate", "sobol"])
def test_how_many_paths_never_met_the_condition_of_a_first_time_is_said(method):
    """x(t) = exp(-k t) falls below 1/2 by t = 1 where k > log 2, of k from 0 to 1 in 30.7 %."""
    dataset = uncertainty(
        {
            "constants": {"k": {"uniform": [0, 1]}},
            "model": {"ode": {"x": "-k*x"}},
            "initial": {"x": 1},
            "solver": "Tsit5",
            "time": {"t1": 1, "steps": 50},
            "observe": {"half": "hitting_time(x < 0.5)", "gain": "first(x, x < 0.5)", "last": "x"},
            "uncertainty": {"method": method, "points": 256},
        }
    )
    count = dataset["censored"].sel(observable="half")
    assert abs(float(count) / dataset.attrs["runs"] - math.log(2)) < 0.02
    assert dataset["censored"].sel(observable="gain") == count
    assert np.isnan(dataset["censored"].sel(observable="last"))
    text = "\n".join(closing_lines(dataset))
    said = f"{int(count):,} of the {dataset.attrs['runs']:,} paths of all runs had not met the condition"
    assert f"half: {said} before the end, and count with the time of the end" in text
    assert f"gain: {said} before the end, and count with 0" in text
    assert text.count("had not met") == 2


def test_each_path_that_never_met_a_condition_counts():
    """Brownian motion stays below 1 until t = 1 with the probability 2 Φ(1) - 1, seen at steps more often."""
    dataset = uncertainty(
        {
            "constants": {"scale": {"uniform": [0.999, 1.001]}},
            "model": {"sde": {"x": {"drift": "0*x", "noise": {"W": "scale"}}}},
            "initial": {"x": 0},
            "time": {"t1": 1, "steps": 50},
            "observe": {"up": "hitting_time(x >= 1)"},
            "uncertainty": {"method": "propagate", "points": 64, "paths": 8},
        }
    )
    part = float(dataset["censored"].sel(observable="up")) / dataset.attrs["runs"]
    shift = 0.5826 * math.sqrt(1 / 50)  # Broadie, Glasserman & Kou (1997)
    assert abs(part - math.erf((1 + shift) / math.sqrt(2))) < 5 * 0.5 / math.sqrt(dataset.attrs["runs"])
    (axes,) = (axes for axes in plot_study(dataset).axes if axes.get_xlabel().startswith("up"))
    assert axes.get_title(loc="right") == f"{100 * part:.0f} % had not met it by the end"
