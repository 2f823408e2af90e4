"""Sensitivities of means: the right estimator, the right number, and an honest error.

Published values: Black and Scholes' Greeks for S = K = 100, r = 5 %, sigma = 0.2, T = 1, and the standard
deviations per path of the pathwise and the likelihood-ratio estimators on the exact distribution (Glasserman
2003, Monte Carlo Methods in Financial Engineering, chapter 7).
"""

import io

import numpy as np
import pytest
from derivative_examples import EXACT, STEPS
from scipy.stats import multivariate_normal

import simkit
from simkit import NumericalError
from simkit.closed_forms.black_scholes import black_scholes_gamma, black_scholes_vanna
from simkit.derivatives.table import print_table
from simkit.results.step_notes import step_notes

GREEKS = [
    ("call", "S", 0.636830651175619, 0.576381, "pathwise"),
    ("call", "sigma", 37.5240346916938, 75.69235, "pathwise"),
    ("call", "r", 53.2324815453763, None, "pathwise"),
    ("call", "S, S", 0.0187620173458469, 0.0279292, "mixed"),
    ("call", "S, sigma", -0.281430260187703, None, "mixed"),
    ("digital", "S", 0.0187620173458469, None, "smoothing"),
    ("digital", "sigma", -0.656670607104641, None, "smoothing"),
    ("digital", "S, S", -0.000328335303552, None, "smoothing"),
    ("digital", "S, sigma", -0.0888870, None, "smoothing"),
]


def derivatives(dataset, name):
    """(mean, standard error, standard deviation, estimator) by what the derivative is with respect to."""
    results = {}
    for kind, along in (("derivative", "parameter"), ("second", "pair")):
        if f"{name}_{kind}" not in dataset:
            continue
        for i, label in enumerate(dataset[along].values):
            figures = [
                np.atleast_1d(dataset[f"{name}_{kind}{s}"][i].values)[-1] for s in ("", "_stderr", "_sd")
            ]
            results[str(label)] = (*map(float, figures), str(dataset[f"{name}_{kind}_estimator"].values[i]))
    return results


SCORED = {"sensitivity.method": "score", "sensitivity.of": "[digital]", "sensitivity.second": "null"}


@pytest.fixture(scope="module")
def greeks():
    return simkit.sensitivity(EXACT)


@pytest.mark.more
@pytest.mark.parametrize(("name", "label", "value", "sd", "estimator"), GREEKS)
def test_greeks_and_deviations_per_path_are_the_published_ones(greeks, name, label, value, sd, estimator):
    mean, stderr, deviation, used = derivatives(greeks, name)[label]
    assert used == estimator
    assert abs(mean - value) < 4 * stderr
    assert stderr == pytest.approx(deviation / 2**8.5, rel=1e-9)
    if sd is not None:
        assert deviation == pytest.approx(sd, rel=0.03)


@pytest.mark.more
def test_the_score_has_its_published_deviation_and_smoothing_less(greeks):
    result = derivatives(simkit.sensitivity(EXACT, ["S", "sigma"], overrides=SCORED), "digital")
    smoothed = derivatives(greeks, "digital")
    for label, value, sd in (("S", 0.0187620173458469, 0.0279292), ("sigma", -0.656670607104641, 4.507927)):
        mean, stderr, deviation, used = result[label]
        assert used == "score"
        assert abs(mean - value) < 4 * stderr
        assert deviation == pytest.approx(sd, rel=0.03)
        assert smoothed[label][2] < 0.6 * sd


@pytest.mark.more
def test_greeks_away_from_the_money():
    """Where gamma and the digital's delta are not equal; no program is compiled anew for it."""
    result = simkit.sensitivity(EXACT, overrides={"initial.S": 112.0})
    numbers = {"S": 112.0, "K": 100.0, "r": 0.05, "sigma": 0.2, "T": 1.0}
    d2 = (np.log(1.12) + 0.05 - 0.02) / 0.2
    exact = {
        ("call", "S, S"): black_scholes_gamma(**numbers),
        ("call", "S, sigma"): black_scholes_vanna(**numbers),
        ("digital", "S"): np.exp(-0.05 - d2**2 / 2) / (112 * 0.2 * np.sqrt(2 * np.pi)),
    }
    for (name, label), value in exact.items():
        mean, stderr, *_ = derivatives(result, name)[label]
        assert abs(mean - value) < 4 * stderr, (name, label)


@pytest.mark.slow
def test_gradual_release_keeps_the_variance_of_one_step():
    """The score of the scheme's own steps would have √50 times the deviation in S and more in sigma."""
    result = derivatives(simkit.sensitivity(STEPS, overrides=SCORED), "digital")
    for label, value, one_step in (("S", 0.0187620173, 0.0279292), ("sigma", -0.656670607, 4.507927)):
        mean, stderr, sd, estimator = result[label]
        assert estimator == "score"
        assert abs(mean - value) < 4 * stderr
        assert sd < 2.2 * one_step


BARRIER = {
    "constants": {"r": 0.05, "K": 100.0, "B": 115.0},
    "model": {"type": "Heston", "mu": "r", "kappa": 2.0, "theta": 0.04, "xi": 0.9, "rho": -0.6},
    "initial": {"S": 100.0, "v": 0.01},
    "solver": "EulerMaruyama",
    "time": {"t1": 0.5, "steps": 6},
    "ensemble": {"paths": 2**14, "seed": 4, "devices": 1},
    "observe": {"out": "exp(-r*t) * (max(S) < B) * S * (S > K)"},
    "sensitivity": {"wrt": ["S", "K", "B"], "check": True},
}


@pytest.mark.slow
def test_smoothing_at_a_barrier_and_in_strikes():
    """The value is homogeneous of degree one in all amounts of money (Euler).

    On many paths the variance is cut off at zero, where a score of both variables would be infinite.
    """
    dataset = simkit.sensitivity(BARRIER)
    result = derivatives(dataset, "out")
    assert {estimator for *_, estimator in result.values()} == {"smoothing"}
    amounts = {"S": 100.0, "K": 100.0, "B": 115.0}
    total = sum(amounts[label] * mean for label, (mean, *_) in result.items())
    error = np.sqrt(sum((amounts[label] * stderr) ** 2 for label, (_, stderr, *_) in result.items()))
    assert abs(total - float(dataset["out_mean"])) < 4 * error
    assert abs(result["K"][0]) > 10 * result["K"][1]
    assert abs(result["B"][0]) > 10 * result["B"][1]
    assert np.all(abs(dataset["out_derivative_z"]) < 4)


@pytest.mark.slow
def test_a_score_needs_noise_where_the_parameter_acts():
    """x has no noise, so where a condition looks at it only differences are right."""
    hidden = {
        "constants": {"c": 0.3, "s": 0.5},
        "model": {
            "sde": {"x": "c * v", "v": {"drift": "-v + c", "noise": {"W": "s"}}},
            "parameters": {"c": "c", "s": "s"},
        },
        "initial": {"x": 0.0, "v": 1.0},
        "time": {"t1": 1.0, "steps": 10},
        "ensemble": {"paths": 256},
        "observe": {"far": "x > 0.3"},
        "sensitivity": {"wrt": ["c", "s"]},
    }
    dataset = simkit.sensitivity(hidden)
    assert list(dataset["far_derivative_estimator"].values) == ["finite differences", "score"]
    assert "x moves with c, and no noise drives x" in str(dataset["far_derivative_reason"].values[0])
    hidden["model"]["sde"]["v"]["drift"] = "-v + c + where(v > 1, 1, 0)"
    hidden["observe"] = {"both": "x * v"}
    assert simkit.sensitivity(hidden)["both_derivative_reason"].values[0] == (
        "the equations jump; no score: x moves with c, and no noise drives x; no smoothing: the equations "
        "jump with v"
    )


@pytest.mark.slow
def test_where_a_weight_would_be_infinite_there_is_an_error():
    noiseless = {
        "constants": {"c": 0.3},
        "model": {"sde": {"x": {"drift": "c", "noise": {"W": "maximum(x, 0)"}}}, "parameters": {"c": "c"}},
        "initial": {"x": -1.0},
        "time": {"t1": 1.0, "steps": 4},
        "ensemble": {"paths": 64},
        "observe": {"up": "x > -0.5"},
        "sensitivity": {"wrt": ["c"]},
    }
    with pytest.raises(NumericalError, match="the noise vanishes"):
        simkit.sensitivity(noiseless, overrides={"sensitivity.method": "score"})
    noiseless["model"]["sde"]["x"]["drift"] = "where(x > 5, -c, c)"
    dataset = simkit.sensitivity(noiseless)
    assert list(dataset["up_derivative_estimator"].values) == ["finite differences"]


@pytest.mark.slow
@pytest.mark.parametrize("noises", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_scores_distribute_noises_that_drive_all_variables(noises):
    """The shift of two or three normals that moves one normal variable and not the other."""
    matrix = np.array([[1.0, 0.5, 0.3], [0.4, -0.8, 0.6]])[:, :noises]
    lines = [{f"W{k}": float(x) for k, x in enumerate(row)} for row in matrix]
    experiment = {
        "constants": {"a": 0.1},
        "model": {"sde": {"x": {"drift": "a", "noise": lines[0]}, "y": {"drift": "-2*a", "noise": lines[1]}}},
        "initial": {"x": 0.0, "y": 0.0},
        "time": {"t1": 1.0, "steps": 4},
        "ensemble": {"paths": 2**14, "seed": 3, "devices": 1},
        "observe": {"both": "(x < 0.3)*(y < 0.2)"},
        "sensitivity": {"wrt": ["a", "x"], "method": "score"},
    }
    result = simkit.sensitivity(experiment)
    distribution = multivariate_normal(cov=matrix @ matrix.T)
    first, last = (
        (distribution.cdf([0.2 + h, 0.4 + g]) - distribution.cdf([0.2 - h, 0.4 - g])) / 2e-3
        for h, g in ((1e-3, 0), (0, 1e-3))
    )
    wanted = np.array([2 * last - first, -first])
    assert list(result["both_derivative_estimator"].values) == ["score", "score"]
    errors = result["both_derivative_stderr"].values
    assert (abs(result["both_derivative"].values - wanted) < 4 * errors).all()
    assert (errors < 0.05 * abs(wanted)).all()


WASHOUT = {
    "model": {
        "sde": {"biomass": {"drift": "r*biomass", "noise": {"W": "0.2*biomass"}}},
        "parameters": {"r": 0.05},
    },
    "initial": {"biomass": 1.0},
    "time": {"t1": 1.0, "steps": 8},
    "ensemble": {"paths": 500, "seed": 1},
    "observe": {
        "washout": "hitting_time(biomass < 0.75)",
        "left": "first(biomass, biomass < 0.75)",
        "last": "biomass",
    },
    "sensitivity": {"wrt": ["r"]},
}


@pytest.mark.more
def test_the_table_says_how_many_paths_wait_at_the_end():
    """As that of the run does, of the same paths; and of no quantity that is not asked for.

    The heading names the variables of the equations, not what is observed.
    """
    run, file = simkit.run(WASHOUT), io.StringIO()
    assert 0.5 < float(run["washout_censored"]) < 1
    lines = [note for note in step_notes(run) if "had not met" in note]
    assert [line.partition(":")[0] for line in lines] == ["washout", "left"]
    print_table(simkit.sensitivity(WASHOUT), file)
    assert all(line in " ".join(file.getvalue().split()) for line in lines)
    assert file.getvalue().startswith("Stochastic equations of biomass, EulerMaruyama: derivatives of means")
    other = simkit.sensitivity(WASHOUT | {"sensitivity": {"wrt": ["r"], "of": ["last"]}})
    assert "washout_censored" not in other


@pytest.mark.more
def test_derivatives_of_one_path_are_none_of_means():
    decay = {
        "model": {"ode": {"x": "-a*x"}, "parameters": {"a": 1.0}},
        "initial": {"x": 1.0},
        "time": {"t1": 1.0, "rtol": 1e-4, "atol": 1e-6},
        "sensitivity": {"wrt": ["a"]},
    }
    file = io.StringIO()
    print_table(simkit.sensitivity(decay), file)
    heading = file.getvalue().splitlines()[0]
    assert heading == "Ordinary equations of x, Tsit5: derivatives at t = 1; ± is the estimated error"


def test_a_constant_may_be_named_as_in_overrides():
    """`constants.r` is `r`, also where a parameter of another name has its value."""
    experiment = WASHOUT | {"constants": {"r": 0.05}, "sensitivity": {"of": ["last"]}}
    experiment["model"] = {"sde": WASHOUT["model"]["sde"]}
    dotted, bare = (simkit.sensitivity(experiment, wrt=name) for name in ("constants.r", "r"))
    assert dotted["last_derivative"].values == bare["last_derivative"].values
    assert dotted["parameter"].values.tolist() == ["constants.r"]
    with pytest.raises(simkit.InputError, match=r"r is constants\.r, which is there already"):
        simkit.sensitivity(experiment, wrt=["constants.r", "r"])
    with pytest.raises(simkit.InputError, match=r"unknown name 'constants\.time\.t1'"):
        simkit.sensitivity(experiment, wrt=["constants.time.t1"])
