"""Early exercise: the policy, what is done by it, and the prices of American options."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from ensemble_examples import rows_of
from user_code import user_jit

import simkit
from simkit import InputError, NumericalError, experiment_schema, load
from simkit.config.settings import MAX_PATHS
from simkit.ensemble.early_exercise.longstaff_schwartz import fit_policy, with_policies
from simkit.expressions import compile_expression
from simkit.observe.exercise import Exercise, Policy, polynomials

pytestmark = pytest.mark.more

EUROPEAN, BERMUDAN_10, BERMUDAN_50 = 9.4624925962, 9.5556159821, 9.5668093554
PUT = "exp(-r*t) * maximum(K - exp(x), 0)"


def experiment(early_exercise, **changes):
    """A put on a geometric Brownian motion, whose logarithm is exact on any grid."""
    return {
        "constants": {"K": 100.0, "r": 0.05, "vol": 0.25},
        "model": {"sde": {"x": {"drift": "-vol**2/2", "noise": {"W": "vol"}}}},
        "initial": {"x": "log(100)"},
        "time": {"t1": 1.0, "steps": 10},
        "ensemble": {"paths": 4096, "seed": 3},
        "observe": {"put": {"value": PUT, "early_exercise": early_exercise}},
        **changes,
    }


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


def test_the_policy_knows_nothing_of_the_paths_it_is_priced_on():
    """Fitted on few paths it looks good on those, and is worth less than the option elsewhere."""
    rng = np.random.default_rng(1)
    dates, gains, losses = 20, [], []
    step = 0.25 / math.sqrt(dates)
    going_on = user_jit(lambda policy, j, x: policy.continuation(j, [x]))
    for _ in range(20):
        few, many = (
            100 * np.exp(np.cumsum(step * rng.standard_normal((dates, n)) - step**2 / 2, axis=0))
            for n in (400, 20_000)
        )
        exercise = Exercise(tuple(range(1, dates + 1)), dates, (compile_expression("S", ["S"]),), 4, 400)
        fit = fit_policy("put", exercise, np.maximum(100 - few, 0), few[None])
        payoff, held = np.zeros(many.shape[1]), np.ones(many.shape[1], bool)
        for j in range(dates):
            value = np.maximum(100 - many[j], 0)
            now = held & (value > 0) & (value >= np.asarray(going_on(fit.policy, j, many[j])))
            payoff[now], held[now] = value[now], False
        # Without interest waiting costs nothing, so that the option is worth the European put.
        best = np.maximum(100 - many[-1], 0).mean()
        gains.append(fit.mean - np.maximum(100 - few[-1], 0).mean())
        losses.append(payoff.mean() - best)
    assert np.mean(gains) > 3 * np.std(gains) / math.sqrt(20)
    assert np.mean(losses) < -3 * np.std(losses) / math.sqrt(20)


@pytest.mark.user_code
def test_policy_is_the_same_for_every_ensemble():
    """It depends on seed and experiment, not on how many paths are priced, nor on how many devices."""
    simulation = load(experiment({"dates": 2, "paths": 8192}, time={"t1": 1.0, "steps": 16}))
    larger = dataclasses.replace(simulation, paths=100_000)
    one = with_policies(simulation)[1]["put"]
    two = dataclasses.replace(simulation, devices=2)
    for other in (with_policies(s)[1]["put"] for s in (larger, two)):
        assert jax.tree.all(jax.tree.map(np.array_equal, one.policy, other.policy))
    reseeded = with_policies(dataclasses.replace(simulation, seed=4))[1]["put"]
    assert reseeded.mean != one.mean


@pytest.mark.parametrize("basis", [["x"], ["x", "2*x + 1"], ["x", "3"]], ids=str)
def test_regression_finds_a_polynomial(basis):
    """Also among functions that coincide; beyond the paths it is that of the outermost one."""
    x = np.random.default_rng(0).uniform(2, 5, 3000)
    future = 1 + 2 * x - x**2 / 2 + x**3 / 7
    functions = {"x": x, "2*x + 1": 2 * x + 1, "3": np.full_like(x, 3)}
    given = np.stack([np.stack([functions[text]] * 2) for text in basis])
    exercise = Exercise((1, 2), 2, tuple(compile_expression(text, ["x"]) for text in basis), 3, len(x))
    fit = fit_policy("put", exercise, np.stack([np.full_like(x, 1e-9), future]), given)
    at = np.array([2.1, 3.3, 4.9])
    values = {"x": at, "2*x + 1": 2 * at + 1, "3": np.full_like(at, 3)}
    result = fit.policy.continuation(0, [jnp.asarray(values[text]) for text in basis])
    np.testing.assert_allclose(result, 1 + 2 * at - at**2 / 2 + at**3 / 7, rtol=1e-9)
    assert fit.fraction.tolist() == [0, 1]
    assert fit.policy.continuation(1, [values[text] for text in basis]) == pytest.approx(0)
    if basis == ["x"]:
        edge, beyond = (fit.policy.continuation(0, [v]) for v in (x.max(), 1e3))
        assert edge == beyond


def test_polynomials_are_orthonormal_up_to_scale():
    """Under the normal distribution, in two variables, by Gauss's rule."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(12)
    u, v = (a.ravel() for a in np.meshgrid(nodes, nodes))
    w = np.outer(weights, weights).ravel() / (2 * math.pi)
    terms = np.stack([np.broadcast_to(p, u.shape) for p in polynomials([u, v], 4)])
    assert len(terms) == math.comb(6, 2)
    gram = (terms * w) @ terms.T
    np.testing.assert_allclose(gram, np.diag(np.diag(gram)), atol=1e-9)


@pytest.mark.slow
def test_derivatives_of_what_is_taken():
    """At a fixed policy it moves with the state at the date: forwards, in reverse, and in float32 too."""
    simulation = load(experiment({"dates": 2}, time={"t1": 1.0, "steps": 4}))
    never = np.array([[np.inf], [0.0]])
    blank, one = np.zeros((2, 1)), np.ones((2, 1))
    for numbers, step in ((never, 4), (blank, 2)):
        coefficients = np.concatenate([numbers, np.zeros((2, 4))], axis=1)
        policy = Policy(coefficients, blank, one, -9 * one, 9 * one, degree=4)
        observer = dataclasses.replace(simulation.observer, policies={"put": policy})
        problem = simulation.problem

        def payoff(x, observer=observer, problem=problem):
            x = jnp.asarray(x)
            y = [problem.State(x=x * (1 - k / 100)) for k in range(5)]
            acc = observer.init(problem, x * 0, y[0])
            for k in range(1, 5):
                acc = observer.update(problem, acc, jnp.uint32(k), x * 0 + k / 4, y[k], x * 0 + 0.25)
            return observer.row(problem, acc, x * 0 + 1, y[4])["put"]

        scale = 1 - step / 100
        value = math.exp(-0.05 * step / 4) * (100 - math.exp(4.5 * scale))
        slope = -math.exp(-0.05 * step / 4) * scale * math.exp(4.5 * scale)
        low = jax.tree.map(jnp.float32, (observer, problem))
        result = jax.jit(
            lambda x, payoff=payoff, low=low: (
                payoff(x),
                jax.jacfwd(payoff)(x),
                jax.grad(payoff)(x),
                payoff(jnp.float32(4.5), *low),
            )
        )(4.5)
        np.testing.assert_allclose(result[:3], [value, slope, slope], rtol=1e-14)
        np.testing.assert_allclose(result[3], value, rtol=3e-5)
        assert result[3].dtype == jnp.float32


def test_what_is_not_a_number_is_taken_rather_than_passed_over():
    simulation = load(experiment(None, observe={"put": {"value": "log(x)", "early_exercise": {"dates": 1}}}))
    blank, one = np.zeros((1, 1)), np.ones((1, 1))
    policy = Policy(np.zeros((1, 5)), blank, one, blank, one, degree=4)
    observer = dataclasses.replace(simulation.observer, policies={"put": policy})
    y, zero = simulation.problem.State(x=jnp.asarray(-1.0)), jnp.asarray(0.0)
    acc = observer.init(simulation.problem, zero, y)
    acc = observer.update(simulation.problem, acc, jnp.uint32(10), zero, y, zero)
    assert jnp.isnan(observer.row(simulation.problem, acc, zero, y)["put"])


def test_step_bias_keeps_the_dates():
    observer = load(experiment({"dates": 5, "paths": 4096}, time={"t1": 1.0, "steps": 20})).observer
    assert observer.exercised[0][1].when == (4, 8, 12, 16, 20)
    assert observer.coarsened(2).exercised[0][1].when == (2, 4, 6, 8, 10)
    assert observer.coarsened(3) is None
    assert observer.refined(2).exercised[0][1].when == (8, 16, 24, 32, 40)


def test_without_a_policy_there_is_no_value():
    simulation = load(experiment({"dates": 5}))
    problem, y = simulation.problem, simulation.problem.State(x=jnp.asarray(4.5))
    acc = simulation.observer.init(problem, 0.0, y)
    with pytest.raises(ValueError, match=r"^put: early exercise takes a policy; run the ensemble"):
        simulation.observer.update(problem, acc, jnp.uint32(1), jnp.asarray(0.1), y, jnp.asarray(0.1))


@pytest.mark.parametrize(
    ("early_exercise", "changes", "message"),
    [
        ({}, {}, r"early_exercise\.dates: is missing; the number of equally spaced"),
        ({"dates": 3}, {}, r"early_exercise\.dates: 3 does not divide the 10 steps; use dates: 2 or 5"),
        ({"dates": [0.1, 0.25]}, {}, r"early_exercise\.dates: the time 0\.25 is inside one of .* steps: 20$"),
        (
            {"dates": [0.0, 0.5]},
            {},
            r"dates\[0\]: must be after t0 = 0 and .*, got 0; compare with the value",
        ),
        ({"dates": [0.5, 1.5]}, {}, r"early_exercise\.dates\[1\]: must be .* at most t1 = 1, got 1\.5$"),
        ({"dates": [0.5, 0.2]}, {}, r"early_exercise\.dates\[1\]: must increase, got 0\.2 after 0\.5"),
        ({"dates": []}, {}, r"early_exercise\.dates: must be a number of dates, or a list of times, got an"),
        ({"dates": [0.5, "x"]}, {}, r"early_exercise\.dates\[1\]: unknown name 'x'"),
        ({"dates": ["vol", "2*vol +"]}, {}, r"early_exercise\.dates\[1\]: "),
        ({"dates": [0.5, "1"]}, {}, r"early_exercise\.dates: '1' is text, not a number"),
        ({"dates": 2.5}, {}, r"early_exercise\.dates: must be a whole number, got 2\.5"),
        ({"dates": 5, "basis": []}, {}, r"early_exercise\.basis: must be a list of expressions"),
        ({"dates": 5, "basis": ["y"]}, {}, r"early_exercise\.basis\[0\]: unknown name 'y'"),
        ({"dates": 5, "degree": 0}, {}, r"early_exercise\.degree: must be at least 1, got 0"),
        ({"dates": 5, "degree": 9, "paths": 64}, {}, r"degree: 9 makes 10 polynomials, which need 10 paths"),
        (
            {"dates": 5},
            {"ensemble": {"paths": 2**32 - 5}},
            r"early_exercise\.paths: 65536 reserve 540672 paths for policies, which with",
        ),
        (
            {"dates": 5},
            {
                "solver": "Milstein",
                "time": {"t1": 1.0, "rtol": 1e-3, "atol": 1e-3},
            },
            r"early_exercise: adaptive steps have no common dates; give time\.steps",
        ),
        (
            {"dates": 5},
            {
                "model": {"type": "BirthDeath", "birth_rate": 0.1, "death_rate": 0.11},
                "initial": {"X": 100},
                "time": {"t1": 1.0},
                "solver": "DirectMethod",
                "observe": {"put": {"value": "X", "early_exercise": {"dates": 5}}},
            },
            r"early_exercise: events have no common dates",
        ),
        (
            {"dates": 5},
            {"observe": {"put": {"value": PUT, "at": "each", "early_exercise": {"dates": 5}}}},
            r"observe\.put\.at: has no effect: an option with early exercise has one value",
        ),
        ({"dates": 5, "date": 5}, {}, r"early_exercise\.date: unknown key; "),
    ],
)
def test_bad_input(early_exercise, changes, message):
    with pytest.raises(InputError, match=message):
        load(experiment(early_exercise, **changes))


def test_too_few_paths_in_the_money():
    x = np.linspace(1, 2, 100)
    exercise = Exercise((1, 2, 3), 3, (compile_expression("x", ["x"]),), 4, 100)
    nothing, little = np.zeros((3, 100)), np.zeros((3, 100))
    little[:, :30] = 1.0
    for values, most in ((nothing, 0), (little, 30)):
        with pytest.raises(
            InputError, match=rf"^observe\.put\.early_exercise: of 100 paths at most {most} would"
        ):
            fit_policy("put", exercise, values, np.stack([x] * 3)[None])
    little[1, :60] = 0.5  # enough at one date, where going on is worth 1 to half of them
    fit = fit_policy("put", exercise, little, np.stack([x] * 3)[None])
    assert fit.fraction[0] == 0
    assert np.isinf(fit.policy.continuation(0, [1.5]))


def test_dates_are_expressions_of_constants():
    given = {"constants": {"K": 100.0, "r": 0.05, "vol": 0.25, "T": 1.0, "c": 0.4}}
    observer = load(experiment({"dates": ["c/2", "T - 3/10", 1], "paths": 4096}, **given)).observer
    assert observer.exercised[0][1].when == (2, 7, 10)
    with pytest.raises(InputError, match=r"early_exercise\.dates\[1\]: must be after t0 = 0 and at most"):
        load(experiment({"dates": ["c", "T + c"]}, **given))


@pytest.mark.slow
def test_a_constant_that_moves_a_date_is_no_target():
    given = {"constants": {"K": 100.0, "r": 0.05, "vol": 0.25, "T": 1.0, "c": 0.4}}
    time = {"t1": "T", "steps": 10}
    early = {"dates": ["c", "T"], "degree": 2, "paths": 2048}
    moved = experiment(early, **given, time=time, sensitivity={"wrt": ["c"]})
    with pytest.raises(InputError, match="c shifts the exercise dates of put relative to the step grid"):
        simkit.sensitivity(moved)
    whole = experiment(
        {**early, "dates": ["T/2", "T"]}, **given, time=time, sensitivity={"wrt": ["T"]}
    )  # all dates in proportion, as a number of dates
    assert float(simkit.sensitivity(whole)["put_derivative"][0]) > 1


@pytest.mark.slow
def test_values_that_are_not_finite_are_not_passed_over():
    option = {"dates": 1, "paths": 2048}
    settings = experiment(None, observe={"put": {"value": "log(x - 4.6)", "early_exercise": option}})
    settings["time"]["steps"] = 8
    with pytest.raises(NumericalError, match=r"path 42949\d+: put = nan at t = "):
        simkit.run(settings)


def test_a_path_that_fails_after_the_first_chunk_is_named():
    """Of the paths for the martingale, whose first 2048 are all finite; a replay knows the path by its id."""
    option = {"dates": 1, "paths": 2048}
    settings = experiment(None, observe={"put": {"value": "log(x - 3.75)", "early_exercise": option}})
    settings["ensemble"]["chunk"] = 2048
    with pytest.raises(NumericalError, match=r"^path 42949\d+: put = nan at t = ") as error:
        simkit.run(settings)
    first = MAX_PATHS - Exercise((1,), 1, (), 1, 2048).reserved
    assert int(str(error.value).split(":")[0].split()[1]) >= first + 2048


def test_schema_has_the_section():
    keys = experiment_schema()["$defs"]["EarlyExercise"]["properties"]
    assert list(keys) == ["dates", "basis", "degree", "paths"]


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
