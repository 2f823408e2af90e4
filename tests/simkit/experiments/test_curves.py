"""Parameters that change with time: curves, expressions of t, and the files that curves come from."""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import yaml
from grids import factors
from scipy.interpolate import PchipInterpolator
from simkit_solvers import (
    AbstractODE,
    AdaptiveGrid,
    Curve,
    Grid,
    Scalar,
    States,
    Tolerances,
    integrate,
    integrate_adaptive,
    make_solver,
    parameter,
    scheduled,
)

import simkit
from simkit import InputError, load
from simkit.ensemble import programs


class DecayState(NamedTuple):
    A: Scalar


class CurveDecay(AbstractODE):
    """$dA/dt = -k A$."""

    State = DecayState

    k: Scalar = parameter("1/time", "rate")

    def drift(self, t, y):
        return DecayState(-self.k * y.A)


NODES, RATES = np.array([0.0, 0.3, 0.7, 1.0]), np.array([1.0, 3.0, 0.5, 2.0])
LENGTHS = np.diff(NODES)
AREAS = {"previous": RATES[:-1] @ LENGTHS, "linear": (RATES[:-1] + RATES[1:]) / 2 @ LENGTHS}
AREAS["cubic"] = float(PchipInterpolator(NODES, RATES).integrate(0, 1))


def decayed(rates, interpolation, solver, steps, t0=0.0):
    model = scheduled(CurveDecay(1.0), {"k": Curve(NODES + t0, rates, interpolation)})
    grid = Grid(t0, 1 / steps, steps, steps)
    return integrate(model, make_solver(solver), DecayState(jnp.ones(())), grid, None, States())["A"][-1]


@pytest.mark.parametrize(
    ("interpolation", "t0"),
    [("previous", 0.0), ("previous", 2020.3), pytest.param("cubic", 2020.3, marks=pytest.mark.more)],
)
def test_the_order_is_kept_where_points_are_ends_of_steps(interpolation, t0):
    """Also where the clock's rounding puts the end of a step before the point, or behind it."""
    exact = math.exp(-AREAS[interpolation])
    errors = [abs(float(decayed(RATES, interpolation, "Tsit5", n, t0)) - exact) for n in (10, 20)]
    assert math.log2(errors[0] / errors[1]) > 4.6
    assert errors[1] < 1e-6


@pytest.mark.more
def test_a_solver_with_a_memory_starts_afresh_after_a_jump():
    exact = math.exp(-AREAS["previous"])
    errors = [abs(float(decayed(RATES, "previous", "Kvaerno3", n)) - exact) for n in (10, 20)]
    assert 2.7 < math.log2(errors[0] / errors[1]) < 3.4


@pytest.mark.slow
def test_adaptive_steps_end_at_the_points():
    tolerances = Tolerances(1e-8, 1e-8)
    model = scheduled(CurveDecay(1.0), {"k": Curve(NODES + 2020.3, RATES, "previous")})
    grid = AdaptiveGrid(2020.3, 2021.3, tolerances, points=2)
    run = integrate_adaptive(model, make_solver("Tsit5"), DecayState(jnp.ones(())), grid, States())
    assert abs(float(run.rows["A"][-1]) - math.exp(-AREAS["previous"])) < 1e-7
    assert int(run.accepted) < 40
    assert int(run.rejected) <= 2


@pytest.mark.more
def test_derivatives_by_the_values_of_a_curve():
    """Forward and reverse mode, against $-h_i A$ for the values $r_i$ of a step function."""
    exact = -np.append(LENGTHS, 0.0) * math.exp(-AREAS["previous"])

    def end(rates):
        return decayed(rates, "previous", "Tsit5", 20)

    for derivative in (jax.jacfwd, jax.grad):
        np.testing.assert_allclose(jax.jit(derivative(end))(jnp.asarray(RATES)), exact, atol=1e-8)


GBM = {
    "curves": {"r": {"times": [0, 0.25, 0.5, 1], "values": [0.5, -0.2, 0.4, 0], "interpolation": "previous"}},
    "model": {"type": "GBM", "mu": "r - q", "sigma": "0.1 + 0.2*t"},
    "constants": {"q": 0.1},
    "initial": {"S": 100.0},
    "time": {"t1": 1.0, "steps": 20},
    "save": {"points": 4},
    "ensemble": {"paths": 4000, "seed": 3, "devices": 1},
    "observe": {
        "discounted": "exp(-integral(r - q))*S",
        "rate": {"value": "r", "at": "each"},
        "most": "max(r + sigma)",
    },
}


@pytest.fixture(scope="module")
def gbm():
    return simkit.run(GBM)


@pytest.mark.more
def test_a_forward_price_by_a_curve_of_rates(gbm):
    """Euler–Maruyama's mean is the product of its steps' growth, with the rate of each step."""
    growth = np.prod(1 + (np.repeat([0.5, -0.2, 0.4, 0.4], 5) - 0.1) / 20)
    assert abs(float(gbm["S_mean"][-1]) - 100 * growth) < 5 * float(gbm["S_stderr"][-1])
    area = 0.25 * 0.5 - 0.25 * 0.2 + 0.5 * 0.4 - 0.1
    ratio = float(gbm["discounted_mean"] / gbm["S_mean"][-1])
    assert ratio == pytest.approx(math.exp(-area), rel=1e-12)


@pytest.mark.more
def test_a_row_has_the_values_of_its_time_after_a_jump(gbm):
    np.testing.assert_allclose(gbm["rate_mean"], [0.5, -0.2, 0.4, 0.4, 0.0])
    assert float(gbm["most_mean"]) == pytest.approx(0.4 + 0.3)  # just before r falls to 0, at t1


@pytest.mark.more
@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_a_row_at_a_point_has_the_value_from_there_whatever_the_rounding(precision):
    """Three steps of 0.7/7 end before 0.3."""
    result = simkit.run(
        {
            "curves": {
                "r": {"times": [k / 10 for k in range(8)], "values": [*range(8)], "interpolation": "previous"}
            },
            "model": {"ode": {"x": "r"}},
            "initial": {"x": 0.0},
            "solver": "Euler",
            "time": {"t1": 0.7, "steps": 7},
            "save": {"points": 7},
            "precision": precision,
            "observe": {"rate": {"value": "r", "at": "each"}},
        }
    )
    np.testing.assert_array_equal(result["rate_mean"], range(8))
    np.testing.assert_allclose(result["x_mean"], np.cumsum([0, *range(7)]) / 10, rtol=1e-6)


@pytest.mark.more
def test_what_changes_with_time_has_no_exact_moments(gbm):
    assert "S_exact" not in gbm
    only_watched = GBM | {"model": {"type": "GBM", "mu": 0.1, "sigma": 0.2}, "observe": {"rate": "r"}}
    from simkit.results.dataset import exact_moments

    assert "S" in exact_moments(load(only_watched), np.array([0.0, 1.0]))


def test_other_values_compile_nothing():
    simkit.run(GBM)
    kept = set(programs._cache)
    values = [0.1, 0.2, 0.3, 0]
    again = simkit.run(GBM, overrides={"curves.r.values": values, "constants.q": 0.05})
    assert set(programs._cache) == kept  # also if the cache was full before the first run
    assert float(again["rate_mean"][2]) == pytest.approx(0.3)


def test_derivative_by_a_constant_in_a_curve():
    """A curve's values may be expressions of constants; a derivative reaches them."""
    experiment = {
        "constants": {"high": 3.0},
        "curves": {"k": {"times": [0, 0.3, 0.7], "values": [1, "high", "high/6"], "outside": "hold"}},
        "model": {"ode": {"A": "-k*A"}},
        "initial": {"A": 1.0},
        "solver": "Bosh3",
        "time": {"t1": 1.0, "steps": 20},
    }
    simulation = load(experiment)

    def end(high):
        bound = simulation.bind({"high": high})
        start = bound.problem.State(A=jnp.ones(()))
        return integrate(bound.problem, simulation.solver, start, bound.grid, None, States())["A"][-1]

    value, slope = jax.jit(jax.value_and_grad(end))(3.0)
    area = 0.3 * (1 + 3) / 2 + 0.4 * (3 + 0.5) / 2 + 0.3 * 0.5
    by_high = 0.3 / 2 + 0.4 * (1 + 1 / 6) / 2 + 0.3 / 6
    assert float(value) == pytest.approx(math.exp(-area), rel=1e-4)
    assert float(slope) == pytest.approx(-by_high * math.exp(-area), rel=1e-3)


def test_the_step_bias_keeps_the_points_of_curves():
    """Twice the step would miss a jump at the end of an odd step, and the difference would be no bias."""
    plain = GBM | {"observe": {}}
    simulation = load(plain)
    assert factors(simulation) == (0.5, 0.25)  # 0.25 is the end of step 5
    assert factors(load(plain, "time.steps=40")) == (0.5, 2)  # and here of step 10
    assert factors(load(plain, "time.steps=80")) == (2, 4)
    odd = simulation.with_run(grid=Grid(0.0, 1 / 6, 6, 6))  # no jump at the end of a step but 0.5
    assert factors(odd) == (0.5, 3)


RAIN = "# gauge 7\nday;mm\n0;2.5\n\n1;.5\n2.5;1e1\n"


def test_a_curve_from_a_file_is_in_the_result(tmp_path):
    (tmp_path / "rain.csv").write_text(RAIN, encoding="utf-8-sig")
    text = """
curves:
  rain: {file: rain.csv, time: day, value: mm, interpolation: previous}
model: {ode: {W: rain - 0.5*W}}
initial: {W: 1.0}
time: {t1: 2.5, steps: 10}
"""
    (tmp_path / "wet.yaml").write_text(text, encoding="utf-8")
    experiment = load(tmp_path / "wet.yaml").experiment
    (tmp_path / "rain.csv").unlink()
    resolved = experiment.resolved()
    assert resolved["curves"]["rain"]["times"] == [0.0, 1.0, 2.5]
    assert resolved["curves"]["rain"]["values"] == [2.5, 0.5, 10.0]
    assert "file" not in resolved["curves"]["rain"]
    again = load(yaml.safe_dump(resolved))
    assert again.experiment.resolved() == resolved
    curve = again.problem.schedule.parameters["rain"]
    np.testing.assert_array_equal(curve.values, [2.5, 0.5, 10.0])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("day;mm\n0;1\n1;two\n", "rain.csv:3: column mm: must be a finite number, got 'two'"),
        ("day;mm\n0;1\n1;\n", "rain.csv:3: column mm: must be a finite number, got nothing"),
        ("day;mm\n0;1\n1;nan\n", "rain.csv:3: column mm: must be a finite number, got 'nan'"),
        ("day;mm\n0;1\n1;1_0\n", "rain.csv:3: column mm: must be a finite number, got '1_0'"),
        ("day;mm\n0;1;2\n", "rain.csv:2: must have 2 values separated by semicolons, got 3"),
        ("day;inch\n0;1\n", "rain.csv has no column 'mm'; known: day, inch"),
        ("day;mm;mm\n0;1;2\n", "rain.csv:1: two columns are called 'mm'"),
        ("day;mm\n", "rain.csv: has no row below the names of its columns"),
        ("\n# nothing\n", "rain.csv: is empty; its first line names the columns"),
        ("day;mm\n1;1\n0;1\n", "curves.rain.times[1]: must increase, got 0 after 1"),
        (None, "rain.csv: no such file"),
        ("day;mm\n" + "0;1\n" * 9001, "has more than 9000 rows"),
    ],
)
def test_what_is_wrong_with_a_file(tmp_path, content, message):
    if content is not None:
        (tmp_path / "rain.csv").write_text(content, encoding="utf-8")
    text = """
curves: {rain: {file: rain.csv, time: day, value: mm, outside: hold}}
model: {ode: {W: rain - 0.5*W}}
initial: {W: 1.0}
time: {t1: 2.5, steps: 10}
"""
    (tmp_path / "wet.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        load(tmp_path / "wet.yaml")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"curves": {"r": {"times": [0, 0.9], "values": [1, 2]}}},
            "curves.r: goes from t = 0 to 0.9, and the",
        ),
        (
            {"curves": {"r": {"times": [0, 1], "values": [1]}}},
            "curves.r.values: must be as many as the 2 times",
        ),
        ({"curves": {"r": {"times": [0, 0], "values": [1, 2]}}}, "curves.r.times[1]: must increase, got 0"),
        ({"curves": {"r": {"values": [1, 2]}}}, "curves.r.times: is missing"),
        ({"curves": {"r": {"times": [0], "values": [1]}}}, "needs at least 2 for linear, got 1"),
        ({"curves": {"r": {"times": [0, 1], "values": ["x", 2]}}}, "curves.r.values[0]: unknown name 'x'"),
        ({"curves": {"r": {"file": "r.csv", "times": [0, 1]}}}, "give file, or times and values"),
        ({"curves": {"r": {"file": "r.csv", "time": "t"}}}, "curves.r.value: is missing"),
        ({"curves": {"r": {"times": [0, 1], "values": [1, 2], "time": "t"}}}, "has no effect without file"),
        ({"curves": {"q": {"times": [0, 1], "values": [1, 2]}}}, "curves.q: q is a constant"),
        ({"curves": {"S": {"times": [0, 1], "values": [1, 2]}}}, "S is a state variable of the model"),
        ({"curves": {"exp": {"times": [0, 1], "values": [1, 2]}}}, "'exp' is a function"),
        (
            {"curves": {"r": {"times": [0, 1], "values": [1, 2], "interpolation": "next"}}},
            "curves.r.interpolation: must be linear or previous or cubic",
        ),
        (
            {"curves": {"r": {"times": [0, 1], "values": [1, 2], "interpolation": "spline"}}},
            "must be linear or previous or cubic, got 'spline'; did you mean 'cubic'?",
        ),
        (
            {"model": {"type": "GBM", "mu": 0, "sigma": "r"}},
            "model.sigma: must be >= 0, got -0.2 at t = 0.25",
        ),
        (
            {"model": {"type": "GBM", "mu": "sqrt(r)", "sigma": 1}},
            "model.mu: must be finite, but sqrt(r) is nan",
        ),
        ({"initial": {"S": "r"}}, "initial.S: unknown name 'r'"),
        ({"observe": {"x": {"value": "S", "exact": "exp(mu)"}}}, "mu changes with time; write the exact"),
    ],
)
def test_what_is_wrong_with_a_curve(change, message):
    with pytest.raises(InputError) as caught:
        load(GBM | change)
    assert message in str(caught.value)


def test_what_solvers_do_not_take():
    network = {
        "curves": {"a": {"times": [0, 3], "values": [50, 10]}},
        "model": {"type": "ImmigrationDeath", "alpha": "a", "mu": 1.0},
        "initial": {"X": 5},
        "time": {"t1": 3.0},
    }
    load(network)
    leaping = network | {"solver": "TauLeaping"}
    with pytest.raises(InputError, match=r"a rate changes continuously.*interpolation: previous"):
        load(leaping)
    load(leaping | {"curves": {"a": network["curves"]["a"] | {"interpolation": "previous"}}})
    particle = {
        "curves": {"hot": {"times": [0, 1], "values": [1, 2]}},
        "model": {"type": "DoubleWellLangevin", "gamma": 1, "u": "hot", "a": 1, "b": 1},
        "initial": {"x": 0, "v": 0},
        "time": {"t1": 1.0, "steps": 10},
    }
    with pytest.raises(InputError, match=r"BAOAB.*continuously"):
        load(particle)
    correlated = {
        "curves": {"c": {"times": [0, 1], "values": [0, 0.5]}},
        "model": {
            "sde": {"x": {"drift": 0, "noise": {"V": 1}}, "y": {"drift": 0, "noise": {"W": 1}}},
            "correlation": {"V-W": "c"},
        },
        "initial": {"x": 0, "y": 0},
        "time": {"t1": 1.0, "steps": 10},
    }
    with pytest.raises(InputError, match="c changes with time, and a correlation may not"):
        load(correlated)


def test_curves_from_python_are_checked():
    for arguments, message in (
        (([0.0, 1.0], [1.0], "linear"), "as many times as values"),
        (([0.0, 0.0], [1.0, 1.0], "linear"), "must increase"),
        (([0.0, 1.0], [1.0, 1.0], "spline"), "must be linear or previous or cubic"),
    ):
        times, values, kind = arguments
        with pytest.raises(ValueError, match=message):
            Curve(np.array(times), np.array(values), kind)
    with pytest.raises(ValueError, match="has no parameter 'q'; it has k"):
        scheduled(CurveDecay(1.0), {"q": Curve(NODES, RATES)})
