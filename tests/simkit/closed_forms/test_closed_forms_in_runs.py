"""Closed forms in constants and in the values of observables, and the volatility that a price implies."""

import itertools
import math
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from derivative_examples import LIMIT, derivative

import simkit
from simkit import CLOSED_FORMS, InputError, load
from simkit.closed_forms import OF_NUMBERS, closed_form

MARKET = {"S": 100.0, "r": 0.03, "q": 0.01}
ARGUMENTS = {
    "S": 103.0, "K": 98.0, "B": 90.0, "r": 0.03, "sigma": 0.25, "T": 0.7, "q": 0.01, "n": 12, "S1": 101.0,
    "S2": 97.0, "S3": 104.0, "sigma1": 0.2, "sigma2": 0.3, "sigma3": 0.15, "rho": 0.4, "rho12": 0.3,
    "rho13": 0.2, "rho23": -0.1, "q1": 0.0, "q2": 0.02, "q3": 0.01, "kappa": 1.5, "theta": 0.04, "a": 0.8,
    "mu": 0.05, "X": 1.2, "price": 12.0,
}  # fmt: skip


def arguments_of(name):
    import inspect

    given = {key: ARGUMENTS[key] for key in inspect.signature(CLOSED_FORMS[name]).parameters}
    return given | ({"r": 0.03} if name.startswith("cir") else {})


@pytest.mark.more
@pytest.mark.parametrize("name", sorted(CLOSED_FORMS.keys() - OF_NUMBERS))
def test_a_closed_form_is_the_same_of_arrays_and_its_derivatives_are_its_differences(name):
    form, given = CLOSED_FORMS[name], arguments_of(name)
    with jax.enable_x64(True):
        moved = {key: jnp.asarray(x) for key, x in given.items() if key != "n"}
        rest = {key: x for key, x in given.items() if key not in moved}
        value, slopes = jax.value_and_grad(lambda moved: form(**moved, **rest))(moved)
    assert float(value) == pytest.approx(form(**given), rel=1e-11)
    for key, x in moved.items():
        h = 1e-5 * max(abs(float(x)), 0.1)
        sides = [form(**{**given, key: given[key] + side}) for side in (h, -h)]
        assert float(slopes[key]) == pytest.approx((sides[0] - sides[1]) / (2 * h), rel=2e-6, abs=1e-7), key


@pytest.mark.parametrize(
    "name", ["black_scholes_call", "digital_put", "exchange_option", "implied_volatility"]
)
def test_what_is_out_of_range_on_a_path_is_not_a_number(name):
    given = {key: jnp.float32(x) for key, x in arguments_of(name).items()}
    wrong = "S1" if "S1" in given else "S"
    assert np.isnan(CLOSED_FORMS[name](**{**given, wrong: jnp.float32(-1)}))


@pytest.mark.slow
def test_the_volatility_that_a_price_implies():
    """Of options out of the money, whose prices keep their figures, to 1e-12 at all strikes."""
    worst = {"plain": 0.0, "traced": 0.0}
    with jax.enable_x64(True):
        solve = jax.jit(
            lambda call, price, K, T: jnp.where(
                call,
                CLOSED_FORMS["implied_volatility"](price=price, K=K, T=T, **MARKET),
                CLOSED_FORMS["implied_volatility_put"](price=price, K=K, T=T, **MARKET),
            )
        )
        grid = itertools.product([20.0, 60, 90, 99, 100.001, 115, 180, 500], [0.03, 0.2, 1.0], [0.02, 1.0, 9])
        for K, sigma, T in grid:
            call = K * math.exp(-0.03 * T) > 100 * math.exp(-0.01 * T)
            kind = "call" if call else "put"
            price = CLOSED_FORMS[f"black_scholes_{kind}"](K=K, T=T, sigma=sigma, **MARKET)
            if price < 1e-15:
                continue
            form = CLOSED_FORMS["implied_volatility" + "_put" * (not call)]
            results = {
                "plain": form(price=price, K=K, T=T, **MARKET),
                "traced": float(solve(call, price, K, T)),
            }
            for way, x in results.items():
                worst[way] = max(worst[way], abs(x / sigma - 1))
    assert worst["plain"] < 1e-12
    assert worst["traced"] < 3e-12


@pytest.mark.more
def test_derivatives_of_an_implied_volatility_are_those_of_the_implicit_function():
    at = {"S": 100.0, "K": 110.0, "r": 0.03, "T": 1.0, "sigma": 0.2}
    vega, volga = (CLOSED_FORMS[f"black_scholes_{greek}"](**at) for greek in ("vega", "volga"))
    price = CLOSED_FORMS["black_scholes_call"](**at)
    del at["sigma"]
    with jax.enable_x64(True):
        first = jax.grad(lambda p: CLOSED_FORMS["implied_volatility"](price=p, **at))
        assert float(first(price)) == pytest.approx(1 / vega, rel=1e-12)
        assert float(jax.grad(first)(price)) == pytest.approx(-volga / vega**3, rel=1e-12)


@pytest.mark.parametrize(("price", "least"), [(101.0, "0"), (-1.0, "0"), (9.0, "10")])
def test_a_price_with_arbitrage_is_refused(price, least):
    with pytest.raises(
        ValueError, match=f"no volatility gives {price:g}; it must be at least {least} and below"
    ):
        CLOSED_FORMS["implied_volatility"](
            price=price, S=100.0, K=90.0 if price == 9 else 110.0, r=0.0, T=1.0
        )


RUN = {
    "constants": {
        "r": 0.05,
        "vol": 0.2,
        "P": "black_scholes_call(S=100, K=110, r=r, sigma=vol, T=1)",
        "quoted": "implied_volatility(price=P, S=100, K=110, r=r, T=1)",
        "heston": "heston_call(S=100, K=100, r=0.05, T=1, v0=0.04, kappa=2, theta=0.04, xi=0.3, rho=-0.7)",
    },
    "model": {"type": "GBM", "mu": "r", "sigma": "quoted"},
    "initial": {"S": 100.0},
    "solver": "ExactSampling",
    "time": {"t1": 0.5, "steps": 2},
    "ensemble": {"paths": 2**13, "seed": 4, "devices": 1},
    "observe": {
        "later": "exp(-r*t) * black_scholes_call(S=S, K=100, r=r, sigma=vol, T=1 - t)",
        "error": "exp(-r*t) * black_scholes_call(S=S, K=100, r=r, sigma=vol, T=0.5) - heston",
        "again": "implied_volatility(price=black_scholes_call(S=S, K=100, r=r, sigma=vol, T=1), S=S, K=100, "
        "r=r, T=1)",
        "expired": "exp(-r*t) * digital_call(S=S, K=100, r=r, sigma=vol, T=0.5 - t)",
        "level": "P",
    },
}  # fmt: skip
NOW = {"S": 100.0, "K": 100.0, "r": 0.05}


@pytest.mark.slow
def test_closed_forms_in_constants_and_values():
    """The price of tomorrow, discounted, is on average that of today."""
    result = simkit.run(RUN)
    price = CLOSED_FORMS["black_scholes_call"](**NOW, sigma=0.2, T=1)
    assert abs(float(result.later_mean) - price) < LIMIT * float(result.later_stderr)
    heston = CLOSED_FORMS["heston_call"](**NOW, T=1, v0=0.04, kappa=2, theta=0.04, xi=0.3, rho=-0.7)
    assert abs(float(result.error_mean) - (price - heston)) < LIMIT * float(result.error_stderr)
    assert float(result.again_mean) == pytest.approx(0.2, rel=1e-9)
    assert float(result.level_mean) == CLOSED_FORMS["black_scholes_call"](
        S=100, K=110, r=0.05, sigma=0.2, T=1
    )


@pytest.mark.more
def test_derivatives_reach_through_closed_forms():
    estimate, error, estimator, _ = derivative(RUN, "vol", "later")
    vega = CLOSED_FORMS["black_scholes_vega"](**NOW, sigma=0.2, T=1)
    assert estimator == "pathwise"
    assert abs(estimate - vega) < LIMIT * error
    assert error < 0.05 * vega
    estimate, error, *_ = derivative(RUN, "vol", "level")
    assert estimate == pytest.approx(CLOSED_FORMS["black_scholes_vega"](S=100, K=110, r=0.05, sigma=0.2, T=1))


@pytest.mark.more
def test_a_closed_form_at_its_expiry_jumps():
    estimate, error, estimator, _ = derivative(RUN, "initial.S", "expired")
    wanted = CLOSED_FORMS["digital_delta"](**NOW, sigma=0.2, T=0.5)
    assert estimator == "score"
    assert abs(estimate - wanted) < LIMIT * error
    assert error < 0.2 * wanted


def test_closed_forms_of_numbers_say_so():
    value = "S - heston_call(S=S, K=100, r=0.05, T=1, v0=0.04, kappa=2, theta=0.04, xi=0.3, rho=-0.7)"
    with pytest.raises(
        InputError, match="heston_call is computed from numbers before the run, and S is a name"
    ):
        load({**RUN, "observe": {"q": value}})
    constants = {**RUN["constants"], "heston": RUN["constants"]["heston"].replace("r=0.05", "r=r")}
    with pytest.raises(InputError, match=r"heston_call is computed from plain numbers .* has no derivative"):
        derivative({**RUN, "constants": constants}, "r", "error")


def test_arbitrage_in_constants_is_an_error_of_the_file():
    with pytest.raises(
        InputError, match=r"constants\.quoted: implied_volatility: price: no volatility gives 200"
    ):
        load({**RUN, "constants": {**RUN["constants"], "P": 200}})


def raising(*, x):
    return {}["missing"]


@pytest.mark.parametrize(
    ("form", "reason"),
    [
        (lambda *, x: complex(0, x), "own: must return a real number, got 2j"),
        (lambda *, x: np.complex128(x), "own: must return a real number, got "),
        (lambda *, x: None, "own: must return a real number, got nothing"),
        (lambda *, x: np.ones(2), "own: must return a real number, got array([1., 1.])"),
        (raising, "own: KeyError: 'missing'"),
    ],
)
@pytest.mark.filterwarnings("error")
def test_a_closed_form_of_ones_own_that_fails_is_named_with_its_key(form, reason):
    form.__name__ = "own"
    model = {"ode": {"x": "-a*x"}, "parameters": {"a": "c"}}
    content = {"constants": {"c": "own(x=2)"}, "model": model, "initial": {"x": 1.0}}
    with mock.patch.dict(CLOSED_FORMS):
        closed_form()(form)
        with pytest.raises(InputError) as raised:
            load(content | {"time": {"t1": 1.0, "steps": 2}})
    assert str(raised.value).startswith(f"constants.c: {reason}")


def test_numbers_that_are_not_finite_are_refused_without_a_word_in_the_closed_form():
    with mock.patch.dict(CLOSED_FORMS):

        @closed_form()
        def own(*, x):
            return 0 * x

        with pytest.raises(ValueError, match=r"^x: must be a finite number, got inf$"):
            own(x=math.inf)
