"""A pilot picks the estimator: one with a finite variance, and the least of it for its cost."""

import numpy as np
import pytest
from scipy.linalg import expm
from scipy.stats import norm

import simkit
from simkit.closed_forms.barrier import up_and_out_call
from simkit.closed_forms.heston import heston_call
from simkit.derivatives.estimators import ESTIMATORS, Score

# Feller's condition fails: 2 kappa theta is a third of xi².
WILD = {
    "model": {"type": "Heston", "mu": 0.03, "kappa": 1.5, "theta": 0.04, "xi": 0.6, "rho": -0.7},
    "initial": {"S": 100.0, "v": 0.04},
    "solver": "EulerMaruyama",
    "time": {"t1": 1.0, "steps": 252},
    "ensemble": {"paths": 2**14, "seed": 1, "devices": 1},
    "observe": {"call": "exp(-0.03*t)*maximum(S-105,0)"},
    "sensitivity": {"wrt": ["v", "xi", "rho"]},
}
BARRIER = {
    "constants": {"r": 0.05, "K": 100.0, "B": 125.0},
    "model": {"type": "GBM", "mu": "r", "sigma": 0.2},
    "initial": {"S": 100.0},
    "solver": "ExactSampling",
    "time": {"t1": 1.0, "steps": 4},
    "ensemble": {"paths": 2**15, "seed": 81, "devices": 1},
    "observe": {
        "watched": "exp(-r*t) * maximum(S-K, 0) * (max(S) < B)",
        "continuous": "exp(-r*t) * maximum(S-K, 0) * no_touch(log(B/S), sigma)",
    },
}
NETWORK = {
    "model": {
        "reactions": {
            "join": {"equation": "2 X -> Y", "rate": "c1"},
            "part": {"equation": "Y -> 2 X", "rate": "c2"},
        },
        "parameters": {"c1": 0.02, "c2": 0.3},
    },
    "initial": {"X": 30, "Y": 0},
    "solver": "DirectMethod",
    "time": {"t1": 2},
    "ensemble": {"paths": 2**14, "seed": 5, "devices": 1},
    "observe": {"avg": "X", "tail": "X < 12"},
    "sensitivity": {"wrt": ["c1", "c2"]},
}

COSTS = {each.name: each.cost for each in ESTIMATORS}


def of(dataset, name: str, kind: str = "derivative") -> list[tuple]:
    """The derivatives of a quantity: estimate, standard error, sd of a path, estimator and reason."""
    figures = ("", "_stderr", "_sd", "_estimator", "_reason")
    return list(zip(*(dataset[f"{name}_{kind}{figure}"].values for figure in figures), strict=True))


def heston_slopes() -> dict[str, float]:
    """The derivatives of the call in closed form."""
    given = {"v0": 0.04, "xi": 0.6, "rho": -0.7}

    def price(**moved):
        return heston_call(S=100.0, K=105.0, r=0.03, T=1.0, kappa=1.5, theta=0.04, **(given | moved))

    def slope(name, h=1e-4):
        return (price(**{name: given[name] + h}) - price(**{name: given[name] - h})) / (2 * h)

    return {"v": slope("v0"), "xi": slope("xi"), "rho": slope("rho")}


@pytest.mark.more
@pytest.mark.user_code
def test_a_variance_that_may_touch_zero_leaves_derivatives_with_small_errors():
    """Along the path the standard error of the first is larger than the derivative, and no error either."""
    dataset = simkit.sensitivity(WILD)
    exact = heston_slopes()
    for label, (mean, error, _, estimator, reason) in zip(exact, of(dataset, "call"), strict=True):
        assert estimator == "finite differences"
        assert "pathwise: a few paths make the variance" in reason
        assert abs(mean - exact[label]) < 4.5 * error
    assert of(dataset, "call")[0][1] < 0.025 * exact["v"]
    assert of(dataset, "call")[1][1] < 0.06 * abs(exact["xi"])
    # One seed more, so that the error itself is seen to be right.
    other = simkit.sensitivity(WILD, overrides={"ensemble.seed": 2})
    difference = dataset["call_derivative"] - other["call_derivative"]
    assert np.all(
        abs(difference) < 4.5 * np.hypot(dataset["call_derivative_stderr"], other["call_derivative_stderr"])
    )


def test_a_variance_that_stays_away_from_zero_keeps_the_pathwise_derivative():
    calm = {"model.xi": 0.2, "model.kappa": 2.0, "time.steps": 32, "ensemble.paths": 4096}
    dataset = simkit.sensitivity(WILD, overrides=calm)
    assert [each[3:] for each in of(dataset, "call")] == [("pathwise", "continuous in the path")] * 3


@pytest.mark.slow
def test_what_grows_as_steps_become_shorter_is_refused():
    """Sixteen steps, and a sample whose tail alone says nothing: it is the same paths on eight that do."""
    coarse = {"time.steps": 16, "ensemble.paths": 4096, "ensemble.seed": 17}
    ((_, _, _, estimator, reason),) = of(simkit.sensitivity(WILD, "v", overrides=coarse), "call")
    assert estimator == "finite differences"
    assert "it grows as steps become shorter" in reason


@pytest.mark.slow
def test_requested_differences_use_the_steps_that_have_a_variance():
    dataset = simkit.sensitivity(WILD, "v", overrides={"sensitivity.method": "finite_differences"})
    (mean, error, _, _, reason), exact = of(dataset, "call")[0], heston_slopes()["v"]
    assert "with short steps a few paths make the variance" in reason
    assert abs(mean - exact) < 4.5 * error < 0.2 * exact


@pytest.mark.more
def test_the_requested_method_is_used():
    dataset = simkit.sensitivity(WILD, "v", overrides={"sensitivity.method": "pathwise", "time.steps": 32})
    assert of(dataset, "call")[0][3] == "pathwise"


@pytest.mark.slow
def test_where_a_score_is_infinite_the_value_is_smoothed():
    """The drift of a digital under Heston's model, whose noise vanishes: no path of the pilot may be lost.

    Against the derivative of the digital in closed form, by its strike.
    """
    digital = {
        **WILD,
        "constants": {"r": 0.03},
        "model": {"type": "Heston", "mu": "r", "kappa": 2.0, "theta": 0.06, "xi": 0.4, "rho": -0.6},
        "initial": {"S": 100.0, "v": 0.05},
        "time": {"t1": 1.0, "steps": 100},
        "observe": {"digital": "exp(-r*t) * (S > 105)"},
        "sensitivity": {"wrt": ["r"]},
    }

    def price(r, h=0.01):
        calls = [
            heston_call(S=100.0, K=105 + x, r=r, T=1.0, v0=0.05, kappa=2.0, theta=0.06, xi=0.4, rho=-0.6)
            for x in (-h, h)
        ]
        return (calls[0] - calls[1]) / (2 * h)

    exact = (price(0.0305) - price(0.0295)) / 0.001
    ((mean, error, sd, estimator, reason),) = of(simkit.sensitivity(digital), "digital")
    assert (estimator, reason) == ("smoothing", "score: not finite on some paths")
    assert abs(mean - exact) < 4.5 * error
    assert sd < 4.0  # differences over 2 % of r vary 44


def watched_barrier(S: float, dates: int) -> float:
    """The call of `BARRIER` with its barrier watched at some dates, by quadrature from date to date."""
    r, sigma, K, B, dt = 0.05, 0.2, 100.0, 125.0, 1.0 / dates
    pieces = [(np.log(40.0), np.log(K)), (np.log(K), np.log(B))]
    x, w = np.polynomial.legendre.leggauss(160)
    y = np.concatenate([(b - a) / 2 * x + (a + b) / 2 for a, b in pieces])
    weights = np.concatenate([(b - a) / 2 * w for a, b in pieces])
    value = np.maximum(np.exp(y) - K, 0)

    def before(at, value):
        density = norm.pdf(y[None], at[:, None] + (r - sigma**2 / 2) * dt, sigma * dt**0.5)
        return np.exp(-r * dt) * density @ (weights * value)

    for _ in range(dates - 1):
        value = before(y, value)
    return float(before(np.log([S]), value)[0])


@pytest.mark.slow
def test_second_derivatives_at_barriers_are_smoothed_twice():
    """A barrier watched at dates, and one at all times: against quadrature and the closed form."""
    h = 0.5
    places = (100 - h, 100.0, 100 + h)
    form = {"K": 100.0, "B": 125.0, "r": 0.05, "sigma": 0.2, "T": 1.0}
    exact = {
        "watched": [watched_barrier(S, 4) for S in places],
        "continuous": [up_and_out_call(S=S, **form) for S in places],
    }
    dataset = simkit.sensitivity({**BARRIER, "sensitivity": {"wrt": ["S"], "second": ["S"]}})
    spread = {"watched": 0.08, "continuous": 0.03}  # differences over 2 % vary 1.5, scores 0.24
    for name, (down, here, up) in exact.items():
        assert abs(float(dataset[f"{name}_mean"]) - here) < 4.5 * float(dataset[f"{name}_mean_stderr"])
        for kind, value in (("derivative", (up - down) / (2 * h)), ("second", (up - 2 * here + down) / h**2)):
            ((mean, error, sd, estimator, _),) = of(dataset, name, kind)
            assert estimator == "smoothing"
            assert abs(mean - value) < 4.5 * error, (name, kind)
            assert kind == "derivative" or sd < spread[name]


@pytest.mark.slow
def test_a_continuous_barrier_is_smoothed_where_it_may_be_touched():
    """Along the path the delta varies five times as much, and more with shorter steps."""
    given = {**BARRIER, "time": {"t1": 1.0, "steps": 50}, "sensitivity": {"wrt": ["S", "r", "K"]}}
    given["sensitivity"]["of"] = ["continuous"]
    result = of(simkit.sensitivity(given), "continuous")
    assert [each[3] for each in result] == ["smoothing", "score", "pathwise"]
    along = of(simkit.sensitivity(given, overrides={"sensitivity.method": "pathwise"}), "continuous")
    assert [each[3] for each in along] == ["pathwise"] * 3
    assert result[0][2] < 0.35 * along[0][2]
    assert result[1][2] < 0.2 * along[1][2]
    for (a, error_a, *_), (b, error_b, *_) in zip(result, along, strict=True):
        assert abs(a - b) <= 4.5 * np.hypot(error_a, error_b)


def master_equation(c1: float, c2: float) -> tuple[float, float]:
    """The mean of X and the chance that it is less than 12, of `NETWORK`."""
    X = np.arange(30, -1, -2)
    association, dissociation = c1 * X * (X - 1) / 2, c2 * (30 - X) / 2
    A = np.diag(-association - dissociation) + np.diag(association[:-1], -1) + np.diag(dissociation[1:], 1)
    p = expm(2 * A)[:, 0]
    return float(p @ X), float(p[X < 12].sum())


@pytest.mark.slow
def test_a_network_takes_the_estimator_with_the_least_variance_for_its_cost():
    """And the numbers are those of the master equation."""
    auto = simkit.sensitivity(NETWORK)
    methods = ("coupled_differences", "weak_derivative", "score")
    others = [simkit.sensitivity(NETWORK, overrides={"sensitivity.method": each}) for each in methods]
    at, h = np.array([0.02, 0.3]), 1e-5
    slopes = [
        (np.array(master_equation(*(at + h * e))) - np.array(master_equation(*(at - h * e)))) / (2 * h)
        for e in np.eye(2)
    ]
    for q, name in enumerate(("avg", "tail")):
        for i, (mean, error, sd, estimator, reason) in enumerate(of(auto, name)):
            assert abs(mean - slopes[i][q]) < 4.5 * error, (name, i)
            products = [of(each, name)[i][2] ** 2 * COSTS[of(each, name)[i][3]] for each in others]
            assert COSTS[estimator] * sd**2 <= 2 * min(products), (name, i)
            assert estimator != "coupled differences"
            assert name == "tail" or "variance × cost 0." in reason


@pytest.mark.slow
def test_an_estimator_that_costs_more_is_not_taken(monkeypatch):
    few = {"ensemble.paths": 1024, "sensitivity.of": ["avg"], "sensitivity.wrt": ["c1"]}
    assert {each[3] for each in of(simkit.sensitivity(NETWORK, overrides=few), "avg")} == {"score"}
    monkeypatch.setattr(Score, "cost", 100.0)
    assert {each[3] for each in of(simkit.sensitivity(NETWORK, overrides=few), "avg")} == {"weak derivative"}


@pytest.mark.user_code
@pytest.mark.slow
def test_the_choice_and_its_bits_are_the_same_on_two_devices():
    few = {"time.steps": 63, "ensemble.paths": 5000}
    one, two = (simkit.sensitivity(WILD, overrides={**few, "ensemble.devices": n}) for n in (1, 2))
    for name in ("derivative", "derivative_stderr", "derivative_estimator", "derivative_reason"):
        np.testing.assert_array_equal(one[f"call_{name}"].values, two[f"call_{name}"].values)
    assert set(one["call_derivative_estimator"].values) == {"finite differences"}
