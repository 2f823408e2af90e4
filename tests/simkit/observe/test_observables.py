"""Observables: what the path functionals are, in every precision and under derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from functional_examples import STEPS, rows, simulation
from simkit_solvers import Grid, integrate

from simkit.expressions import compile_expression
from simkit.observe import Observer
from simkit.observe.observable import Observable


def reference(kind, x, dt, every):
    """The functional at each step k = 0, …, from its definition."""
    results = []
    for k in range(len(x)):
        seen = x[: k + 1 : every]
        match kind:
            case "mean":
                results.append(np.mean(seen[1:]) if len(seen) > 1 else x[k])
            case "max":
                results.append(np.max(seen))
            case "min":
                results.append(np.min(seen))
            case "integral":
                results.append(np.sum((seen[1:] + seen[:-1]) / 2) * every * dt)
    return np.array(results)


@pytest.mark.parametrize("every", [1, 2, 3, 8])
def test_functionals_are_what_they_are_defined_to_be(every):
    kinds = ("mean", "max", "min", "integral")
    observe = {f"q_{kind}": {"value": f"{kind}(x*y - c*t)", "at": "each", "every": every} for kind in kinds}
    result = rows(simulation(observe))
    t = 0.5 + np.arange(STEPS + 1) * 2 / STEPS
    for kind in kinds:
        expected = reference(kind, result["x"] * result["y"] - 0.5 * t, 2 / STEPS, every)
        np.testing.assert_allclose(result[f"q_{kind}"], expected, rtol=1e-12, atol=1e-13, err_msg=kind)


def test_no_touch_is_the_product_of_bridges():
    """Each with the volatility at its beginning, and 0 from where x is not above 0."""
    near, far = "no_touch(x - 1, 1 + y**2 + t)", "no_touch(x + 9, 0*x)"
    result = rows(
        simulation(
            {
                "q": {"value": near, "at": "each", "every": 3},
                "p": {"value": "no_touch(x + 3, 2 + y**2)", "at": "each"},
                "still": {"value": far, "at": "each"},
            }
        )
    )
    t, dt = 0.5 + np.arange(STEPS + 1) * 2 / STEPS, 2 / STEPS
    for name, x, s, every in (
        ("q", result["x"] - 1, 1 + result["y"] ** 2 + t, 3),
        ("p", result["x"] + 3, 2 + result["y"] ** 2, 1),
    ):
        a, b, v = x[:-every:every], x[every::every], s[:-every:every] ** 2 * every * dt
        bridges = np.where((a > 0) & (b > 0), 1 - np.exp(-2 * a * b / v), 0)
        wanted = np.concatenate([[1.0], np.cumprod(bridges)])[np.arange(STEPS + 1) // every]
        np.testing.assert_allclose(result[name], wanted, rtol=1e-9, atol=1e-14)
    assert np.all(result["still"] == 1)
    assert 1e-3 < result["p"][-1] < 0.999
    assert result["q"][-1] == 0 < result["q"][3]
    observer = simulation({"q": near}).observer
    assert observer.coarsened(2).observables[0].every is None


def test_no_touch_goes_up_to_what_is_there_before_an_event_and_on_from_what_is_after():
    """An event lowers x by 1 and halves y at step 12; below the barrier afterwards means touched at once."""
    event = {"fall": {"at": 1.5, "set": {"x": "x - 1", "y": "y/2"}}}
    levels = {"p": 1.2, "q": 0.5}
    observe = {name: {"value": f"no_touch(x + {c}, 1 + abs(y))", "at": "each"} for name, c in levels.items()}
    result = rows(simulation(observe, events=event))
    before = result["x"] + np.where(np.arange(STEPS + 1) == 12, 1, 0)
    for name, c in levels.items():
        a, b, v = result["x"][:-1] + c, before[1:] + c, (1 + abs(result["y"][:-1])) ** 2 * 2 / STEPS
        bridges = np.where((a > 0) & (b > 0), 1 - np.exp(-2 * a * b / v), 0)
        bridges[11] *= result["x"][12] + c > 0
        np.testing.assert_allclose(result[name], [1.0, *np.cumprod(bridges)], rtol=1e-9, atol=1e-14)
    assert result["p"][-1] > 1e-6
    assert result["x"][12] + 0.5 < 0 < before[12] + 0.5
    assert result["q"][11] > 0


def test_rows_do_not_depend_on_how_many_are_saved():
    observe = {"q": "mean(x) + max(y) - c*integral(x)*t", "p": {"value": "min(x)", "every": 5}}
    few, many = rows(simulation(observe, {"points": 3})), rows(simulation(observe))
    for name in few:
        np.testing.assert_array_equal(few[name], many[name][:: STEPS // 3])


def test_t0_counts_for_extremes_and_not_for_the_mean():
    result = rows(simulation({"top": "max(10 - t)", "average": "mean(where(t < 0.55, 1000, 1))"}))
    assert result["top"][-1] == 9.5
    assert result["average"][-1] == 1.0


def test_rows_hold_the_state_and_the_observables():
    result = rows(simulation({"b": "x + y", "a": {"value": "x > 0", "at": "each"}}))
    assert set(result) == {"x", "y", "b", "a"}
    np.testing.assert_array_equal(result["a"], np.where(result["x"] > 0, 1.0, 0.0))


def test_equal_functionals_share_an_accumulator():
    observer = simulation(
        {"a": "mean(x) + max(x)", "b": "mean( x )*2", "c": {"value": "mean(x)", "every": 2}}
    ).observer
    assert [(m.functional.name, m.every) for m in observer.monitors] == [("mean", 1), ("max", 1), ("mean", 2)]


def test_float32_throughout():
    observe = {"q": "mean(x)/c + max(x)**2 + integral(where(x > a, 1, 0))", "p": 1}
    result = rows(simulation(observe), jnp.float32)
    assert {array.dtype for array in result.values()} == {np.dtype("float32")}


@pytest.mark.parametrize("kind", ["mean", "integral"])
def test_float32_sums_hold_over_a_million_steps(kind):
    expression = compile_expression(f"{kind}(x)", ["x"], functionals=True)
    observer = Observer({}, (Observable("q", expression),))
    problem = simulation({}).problem
    steps, dt = 1_000_000, jnp.float32(1e-6)

    def step(acc, k):
        y = problem.State(x=jnp.float32(0.1), y=jnp.float32(0))
        return observer.update(problem, acc, k, jnp.float32(0), y, dt), None

    start = problem.State(x=jnp.float32(0.1), y=jnp.float32(0))
    acc = observer.init(problem, jnp.float32(0), start)
    acc, _ = jax.jit(lambda acc: jax.lax.scan(step, acc, jnp.arange(1, steps + 1, dtype=jnp.uint32)))(acc)
    value = observer.row(problem, acc, jnp.float32(1), start)["q"]
    np.testing.assert_allclose(value, 0.1, rtol=3e-7)


@pytest.mark.slow
def test_a_derivative_in_a_parameter_reaches_dynamics_and_observable():
    built = simulation({"q": "a*mean(x)"})

    def end(a, grid=built.grid):
        problem = type(built.problem)(a=a)
        y0 = problem.State(x=jnp.asarray(3.0), y=jnp.asarray(0.0))
        return integrate(problem, built.solver, y0, grid, None, built.observer)["q"][-1]

    h = 1e-5
    ahead, behind, forward, reverse = jax.jit(
        lambda a: (end(a + h), end(a - h), jax.jacfwd(end)(a), jax.grad(end)(a))
    )(1.0)
    np.testing.assert_allclose(forward, (ahead - behind) / (2 * h), rtol=1e-6)
    np.testing.assert_allclose(reverse, forward, rtol=1e-12)


@pytest.mark.more
def test_a_derivative_in_a_constant_reaches_everything_that_uses_it():
    built = simulation(
        {"q": "c*mean(x) + d"},
        constants={"d": "c**2"},
        model={"ode": {"x": "-r*x", "y": "c"}, "parameters": {"r": "2*c"}},
        initial={"x": "3*c", "y": 0.0},
        time={"t1": "4*c", "steps": STEPS},
    )

    def end(c):
        bound = built.bind({"c": c})
        y0 = bound.problem.State(**{k: jnp.asarray(v, jnp.float64) for k, v in bound.initial.items()})
        return integrate(bound.problem, built.solver, y0, bound.grid, None, bound.observer)["q"][-1]

    h = 1e-5
    slope = (end(0.5 + h) - end(0.5 - h)) / (2 * h)
    np.testing.assert_allclose(jax.grad(end)(0.5), slope, rtol=1e-8)
    # x = 3c exp(-2ct) to T = 4c, and c x's mean over time, plus c^2: the exact slope at c = 1/2 is near.
    exact = jax.grad(lambda c: c * 3 * c * (1 - jnp.exp(-8 * c**2)) / (8 * c**2) + c**2)(0.5)
    np.testing.assert_allclose(slope, exact, rtol=0.1)


def test_binding_a_constant_that_follows_others_cuts_it_loose():
    built = simulation({"q": "d"}, constants={"d": "2*c"})
    assert built.constants == {"c": 0.5, "d": 1.0}
    assert built.bind({"c": 3.0}).observer.constants == {"d": 6.0}
    assert built.bind({"d": 7.0}).observer.constants == {"d": 7.0}
    with pytest.raises(KeyError, match="no constant 'z'; there are: c, d"):
        built.bind({"z": 1.0})


def test_the_same_experiment_compiles_once():
    traces = []

    @jax.jit
    def run(problem, observer, y0, grid_t0):
        traces.append(1)
        return observer.row(problem, observer.init(problem, grid_t0, y0), grid_t0, y0)

    for c in (0.5, 0.75):
        built = simulation({"q": "c*mean(x)"}, constants={"c": c})
        y0 = built.problem.State(x=1.0, y=2.0)
        numbers = jax.tree.map(jnp.asarray, (built.problem, built.observer))
        assert run(*numbers, y0, 0.0)["q"] == c
    assert len(traces) == 1


def test_coarsened_and_refined_observers_keep_their_dates():
    observe = {
        "a": {"value": "mean(x)", "every": 4},
        "b": "integral(x)",
        "c": {"value": "max(x) + integral(x)", "every": 2},
        "d": "x",
    }
    observer = simulation(observe).observer
    assert [o.every for o in observer.coarsened(2).observables] == [2, None, 1, None]
    assert [o.every for o in observer.refined(3).observables] == [12, None, 6, None]
    assert simulation({"a": "mean(x)"}).observer.coarsened(2) is None
    assert simulation({"a": "mean(x)"}).observer.refined(2).observables[0].every == 2


def test_a_refined_observer_sees_the_same_points():
    built = simulation({"q": "mean(t**2) + max(t)", "i": {"value": "integral(t)", "every": 2}})
    grid = built.grid
    fine = Grid(grid.t0, grid.dt / 2, grid.steps * 2, grid.every * 2)
    y0 = built.problem.State(x=jnp.asarray(3.0), y=jnp.asarray(0.0))
    for name in ("q", "i"):
        coarse, again = (
            integrate(built.problem, built.solver, y0, g, None, o)[name]
            for g, o in ((grid, built.observer), (fine, built.observer.refined(2)))
        )
        np.testing.assert_allclose(coarse, again, rtol=1e-13)
