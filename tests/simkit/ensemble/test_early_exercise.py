"""Early exercise: the prices of American options, and what is done by a policy."""

import math

import jax.numpy as jnp
import numpy as np
import pytest
from ensemble_examples import rows_of
from exercise_examples import PUT, experiment

import simkit
from simkit import load
from simkit.ensemble.early_exercise.longstaff_schwartz import with_policies

pytestmark = pytest.mark.more


EUROPEAN, BERMUDAN_10, BERMUDAN_50 = 9.4624925962, 9.5556159821, 9.5668093554


def bermudan(dates, paths, steps):
    """A European put and one with these dates on the same paths, and what its policy was fitted to."""
    settings = experiment(
        None,
        time={"t1": 1.0, "steps": steps},
        save={"points": 10},
        observe={
            "european": PUT,
            "put": {"value": PUT, "early_exercise": {"dates": dates, "basis": ["exp(x)"], "paths": paths}},
        },
    )
    simulation, fits, _ = with_policies(load(settings))
    return rows_of(simulation, 2**17, ("european", "put", "x")), fits["put"]


@pytest.fixture(scope="module")
def ten():
    return bermudan(10, 65536, 80)


def priced(result, value, lost):
    """Between the value of the option and what the policy, which is not the best, may lose of it."""
    american, european = result["put"][-1], result["european"][-1]
    premium, error = mean_and_error(american - european)
    assert error < 0.03
    assert value - EUROPEAN - lost - 3 * error < premium < value - EUROPEAN + 3 * error
    mean, error = mean_and_error(american)
    assert abs(mean - value) < 3 * error + lost


def mean_and_error(x):
    return x.mean(), x.std(ddof=1) / math.sqrt(len(x))


def test_price_with_ten_dates(ten):
    priced(ten[0], BERMUDAN_10, 0.001)
    fit = ten[1]
    assert abs(fit.mean - BERMUDAN_10) < 3 * fit.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "dates",
    [pytest.param([0.2, 0.45, 0.8, 1.0], marks=pytest.mark.slow), [0.15, 0.45, 0.6]],
    ids=["to the end", "lapses before"],
)
def test_price_with_listed_dates(dates):
    result, fit = bermudan(dates, 65536, steps=40)
    value, boundary = tree(dates)
    priced(result, value, 0.001)
    np.testing.assert_allclose(fit.dates, dates, rtol=1e-12)
    assert (fit.fraction[1:] > 0.01).all()
    assert np.abs(fit.high - boundary)[1:].max() < 3


@pytest.mark.slow
def test_price_with_fifty_dates():
    priced(bermudan(50, 65536, 400)[0], BERMUDAN_50, 0.03)


def tree(dates, levels=4000):
    """The price of the put, and the highest price of the asset at which it is exercised at each date, by a
    binomial tree (Cox, Ross & Rubinstein 1979, doi:10.1016/0304-405X(79)90015-1)."""
    up = math.exp(0.25 * math.sqrt(1 / levels))
    rise = (1 - 1 / up) / (up - 1 / up)
    value = np.zeros(levels + 1)
    boundary = {}
    for n in reversed(range(levels + 1)):
        if n < levels:
            value = math.exp(-0.05 / levels) * (rise * value[1:] + (1 - rise) * value[:-1])
        if n / levels in dates:
            price = 100 * up ** (2 * np.arange(n + 1) - n)
            boundary[n] = price[np.maximum(100 - price, 0) > value].max()
            value = np.maximum(value, 100 - price)
    assert len(boundary) == len(dates)
    return value[0], np.array([boundary[n] for n in sorted(boundary)])


def test_exercise_is_below_the_boundary(ten):
    """The highest price at which a put is exercised, against that of a tree with the same dates."""
    price, boundary = tree([i / 10 for i in range(1, 11)])
    assert price == pytest.approx(BERMUDAN_10, abs=2e-3)
    fit = ten[1]
    late = slice(5, None)  # before, few paths reach the boundary, and little is lost with those
    assert np.abs(fit.high - boundary)[late].max() < 3
    assert np.all(fit.fraction >= 0)
    assert fit.fraction.sum() < 1


def test_a_path_takes_what_its_policy_says(ten):
    """The accumulator against the definition, date by date."""
    rows, fit = ten
    t, S = np.arange(1, 11)[:, None] / 10, np.exp(rows["x"][1:, :2048])
    value = np.exp(-0.05 * t) * np.maximum(100 - S, 0)
    going_on = np.stack([np.asarray(fit.policy.continuation(j, [jnp.asarray(S[j])])) for j in range(10)])
    now = (value > 0) & (value >= going_on)
    first = np.argmax(now, axis=0)
    wanted = np.where(now.any(axis=0), value[first, np.arange(2048)], 0.0)
    np.testing.assert_allclose(rows["put"][-1, :2048], wanted, rtol=1e-10)
    assert 0.1 < np.mean(first[now.any(axis=0)] < 9) < 0.9


@pytest.mark.slow
def test_heston_put():
    """Worth more on a basis of price and variance than on the price alone, and than the European put."""
    option = {"dates": 50, "degree": 3, "paths": 32768}
    put = "exp(-r*t) * maximum(100 - S, 0)"
    result = simkit.run(
        {
            "constants": {"r": 0.1},
            "model": {"type": "Heston", "mu": "r", "kappa": 4.0, "theta": 0.25, "xi": 1.0, "rho": -0.5},
            "initial": {"S": 100.0, "v": 0.04},
            "time": {"t1": 1.0, "steps": 200},
            "ensemble": {"paths": 200_000, "seed": 2},
            "observe": {
                "european": put,
                "price_only": {"value": put, "early_exercise": {**option, "basis": ["S"]}},
                "both": {"value": put, "early_exercise": option},
            },
        }
    )
    c = result["covariance"]

    def premium(one, other):
        """What one is worth beyond another on the same paths, in standard errors."""
        quantities = [c.sel(quantity=a, quantity_2=b) for a in (one, other) for b in (one, other)]
        variance = float(quantities[0] + quantities[3] - 2 * quantities[1])
        return float(result[f"{one}_mean"] - result[f"{other}_mean"]) / math.sqrt(variance / 200_000)

    assert premium("price_only", "european") > 5
    assert premium("both", "price_only") > 2
    for name in ("price_only", "both"):
        ahead = result[f"{name}_in_sample"] - result[f"{name}_mean"]
        assert abs(ahead) < 5 * result[f"{name}_in_sample_stderr"]
        assert result[f"{name}_exercise_fraction"].sum() < 1
