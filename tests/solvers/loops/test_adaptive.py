"""Adaptive steps: errors follow the tolerances, derivatives are right, failures stay on their path."""

from typing import NamedTuple

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import optimistix as optx
import pytest
from scipy.integrate import solve_ivp
from simkit_physics import GBM
from simkit_solvers import (
    SOLVERS,
    AbstractODE,
    AdaptiveGrid,
    Scalar,
    States,
    Tolerances,
    integrate_adaptive,
    make_solver,
    solution,
)
from simkit_solvers.methods.solver_check import check_adaptive
from slow_cases import slow_but
from solver_problems import Driven, Level, PairState, Relaxing

ESTIMATING = [
    name
    for name, info in SOLVERS.items()
    if "ode" in info.problem and issubclass(info.cls, diffrax.AbstractAdaptiveSolver)
]
QUICK = ("Tsit5", "Kvaerno5")
START = PairState(0.5, 0.1)
T0, T1, POINTS = 0.3, 3.3, 6


def as_state(dtype, *numbers):
    return PairState(*(jnp.asarray(x, dtype) for x in numbers))


def driven(solver, rtol, atol, dtype=jnp.float64, t0=T0):
    grid = AdaptiveGrid(t0, t0 + T1 - T0, Tolerances(rtol, atol), points=POINTS)
    return integrate_adaptive(Driven(), solver, as_state(dtype, *START), grid, States())


def slope(t, y):
    """The pendulum's for SciPy."""
    return np.array(Driven().drift(t, PairState(*y)), float)


@pytest.fixture(scope="module")
def exact():
    """By SciPy's DOP853."""
    times = np.linspace(T0, T1, POINTS + 1)
    return solve_ivp(slope, (T0, T1), START, "DOP853", t_eval=times, rtol=3e-14, atol=1e-15).y


@pytest.mark.more
@pytest.mark.parametrize(
    "name",
    [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in ESTIMATING],
)
def test_every_saved_row_is_as_accurate_as_the_tolerances_ask(name, exact):
    """Rows between the ends too, which a cubic through two steps of a method of order five would spoil."""
    order = SOLVERS[name].order
    rtol = 10.0 ** -min(3 + order, 9)
    run = jax.jit(lambda rtol: driven(make_solver(name), rtol, rtol))
    for factor in (1.0, 0.1):
        result = run(rtol * factor)
        errors = np.abs([result.rows["x"] - exact[0], result.rows["v"] - exact[1]])
        # The implicit Euler method estimates the error of the very value it gives, which adds up.
        limit = 300 * rtol * factor if order > 1 else 3 * (rtol * factor) ** 0.5
        assert errors.max() < limit
        assert result.rows["x"][0] == START.x
        assert result.reached == T1
        assert result.accepted >= POINTS / 2


@pytest.mark.more
def test_a_solver_without_dense_output_of_its_order_steps_to_the_only_time_between_the_ends():
    """There it is where a run that ends there is; a line between two steps would be off by 7e-6."""

    def rows(t1, points):
        grid = AdaptiveGrid(T0, t1, Tolerances(1e-4, 1e-4), first_step=0.01, points=points)
        return integrate_adaptive(
            Driven(), diffrax.ReversibleHeun(), as_state(jnp.float64, *START), grid, States()
        ).rows

    middle = (T0 + T1) / 2
    np.testing.assert_allclose(rows(T1, 2)["x"][1], rows(middle, 1)["x"][1], rtol=1e-12)


class Jolted(AbstractODE):
    """A slope that jumps."""

    State = Level

    size: Scalar

    def drift(self, t, y):
        return Level(x=jnp.where(t > 0.7, self.size, jnp.zeros_like(self.size)))


@pytest.mark.more
def test_a_step_that_fails_and_cannot_be_shortened_ends_the_run():
    """In float32 a step across the jump has one bit of the clock, and a controller would try it for ever."""
    grid = AdaptiveGrid(0.0, 1.0, Tolerances(1e-6, 1e-6), max_steps=400)

    @jax.jit
    @jax.vmap
    def jolted(size):
        result = integrate_adaptive(
            Jolted(size), diffrax.Tsit5(), Level(jnp.zeros_like(size)), grid, States()
        )
        return result.accepted + result.rejected, result.rows["x"][-1]

    sizes = jnp.geomspace(10, 1e6, 24, dtype=jnp.float32)
    steps, ends = jolted(sizes)
    passed = np.isfinite(ends)
    assert passed[0]
    assert not passed[-1]
    np.testing.assert_allclose(ends[passed], 0.3 * sizes[passed], rtol=1e-4)
    assert steps.max() < 150


def test_times_tolerances_and_parameters_compile_nothing():
    traced = []

    class Counted(Driven):
        def drift(self, t, y):
            traced.append(t)
            return super().drift(t, y)

    @jax.jit
    def run(problem, grid):
        return integrate_adaptive(problem, diffrax.Tsit5(), as_state(jnp.float64, *START), grid, States())

    first = run(Counted(1.3), AdaptiveGrid(0.0, 2.0, Tolerances(1e-4, 1e-6), 0.1))
    before = len(traced)
    other = run(Counted(1.1), AdaptiveGrid(1.0, 4.0, Tolerances(1e-7, 1e-9), 0.01))
    assert len(traced) == before
    assert int(other.accepted) > int(first.accepted)


@pytest.mark.parametrize("name", ["Tsit5", *slow_but((), ("Kvaerno3", "KenCarp3"))])
def test_float32_keeps_its_type_and_a_late_start_its_steps(name):
    """At t = 2e6 float32 times differ by an eighth at least; the steps need less."""
    late = 2.0**21
    # The dense output of KenCarp3 is in float64, whatever the state is.
    with jax.numpy_dtype_promotion("standard" if name == "KenCarp3" else "strict"):
        result = jax.jit(lambda t0: driven(make_solver(name), 1e-5, 1e-7, jnp.float32, t0))(late)
    assert result.rows["x"].dtype == jnp.float32
    assert np.isfinite(result.rows["x"]).all()
    assert result.reached == np.float32(late + T1 - T0)


class StiffTracking(AbstractODE):
    """Towards a moving place, at a rate of 10⁵: an explicit method needs 5·10⁴ steps."""

    State = PairState

    def drift(self, t, y):
        return PairState(x=-1e5 * (y.x - jnp.cos(t)), v=-y.v)


@pytest.mark.more
def test_implicit_explicit_methods_treat_the_drift_implicitly():
    y0 = PairState(jnp.asarray(0.0), jnp.asarray(1.0))
    grid = AdaptiveGrid(0.0, 1.0, Tolerances(1e-5, 1e-7), max_steps=2000)
    result = integrate_adaptive(StiffTracking(), make_solver("KenCarp3"), y0, grid, States())
    np.testing.assert_allclose(result.rows["x"][-1], np.cos(1.0), rtol=1e-4)
    np.testing.assert_allclose(result.rows["v"][-1], np.exp(-1), rtol=1e-4)


def test_a_late_float32_run_has_the_requested_length():
    """0.4 after t = 738000.3, where float32 times are a sixteenth apart."""
    y0 = PairState(*(jnp.asarray(x, jnp.float32) for x in (0.4, -0.9)))
    grid = AdaptiveGrid(738000.3, 738000.7, Tolerances(1e-5, 1e-7))
    result = integrate_adaptive(Turning(), make_solver("Tsit5"), y0, grid, States())
    np.testing.assert_allclose(
        [result.rows["x"][-1], result.rows["v"][-1]],
        [0.4 * np.cos(0.4) - 0.9 * np.sin(0.4), -0.4 * np.sin(0.4) - 0.9 * np.cos(0.4)],
        rtol=1e-5,
    )


class Turning(AbstractODE):
    """A rotation, whatever the time."""

    State = PairState

    def drift(self, t, y):
        return PairState(x=y.v, v=-y.x)


class Exploding(AbstractODE):
    """$x' = x^2$ is infinite at $t = 1/x_0$; v has no slope unless it is positive."""

    State = PairState
    power: Scalar = 2.0

    def drift(self, t, y):
        return PairState(x=y.x**self.power, v=jnp.sqrt(y.v) - jnp.sqrt(y.v))


@pytest.mark.more
def test_a_failed_path_is_nan_from_the_first_time_it_did_not_reach():
    """One towards infinity, one without a slope, one that is well, one out of steps; each by itself."""
    grid = AdaptiveGrid(0.0, 1.0, Tolerances(1e-8, 1e-8), points=4)

    @jax.jit
    def run(x, v):
        problem, solver = Exploding(), diffrax.Tsit5()
        return jax.vmap(lambda *y: integrate_adaptive(problem, solver, PairState(*y), grid, States()))(x, v)

    result = run(jnp.array([1.6, 0.1, 0.1]), jnp.array([1.0, -1.0, 1.0]))
    finite = np.isfinite(result.rows["x"])
    np.testing.assert_array_equal(finite, [[1, 1, 1, 0, 0], [1, 0, 0, 0, 0], [1, 1, 1, 1, 1]])
    np.testing.assert_allclose(result.rows["x"][2], 1 / (10 - np.arange(5) / 4), rtol=1e-7)
    np.testing.assert_allclose(result.reached, [1 / 1.6, 0.0, 1.0], rtol=1e-6)
    assert int((result.accepted + result.rejected).max()) < 2000
    few = AdaptiveGrid(0.0, 1.0, Tolerances(1e-8, 1e-8), points=4, max_steps=3)
    short = integrate_adaptive(Exploding(), diffrax.Tsit5(), as_state(jnp.float64, 0.9, 1.0), few, States())
    assert int(short.accepted + short.rejected) == 3
    assert 0 < short.reached < 1
    assert np.isnan(short.rows["x"][-1])


@pytest.mark.more
@pytest.mark.parametrize("name", ["Tsit5", pytest.param("Kvaerno3", marks=pytest.mark.slow)])
def test_derivatives_agree_in_both_modes_and_with_differences(name):
    tolerance, max_steps = (1e-10, 256) if name == "Tsit5" else (1e-9, 4096)

    def end(a, tolerance):
        y0 = as_state(jnp.float64, *START)
        grid = AdaptiveGrid(0.0, 1.5, Tolerances(tolerance, tolerance), points=2, max_steps=max_steps)
        return integrate_adaptive(Driven(a), make_solver(name), y0, grid, States()).rows["x"][-1]

    h, run = 1e-3, jax.jit(lambda a: end(a, tolerance))
    difference = (8 * (run(1.3 + h) - run(1.3 - h)) - (run(1.3 + 2 * h) - run(1.3 - 2 * h))) / (12 * h)
    forward = jax.jit(lambda a, tolerance: jax.jvp(lambda a: end(a, tolerance), (a,), (1.0,))[1])
    reverse = jax.jit(jax.grad(end))
    assert float(forward(1.3, tolerance)) == pytest.approx(float(difference), rel=1e-5)
    # At a tolerance that leaves rounding no part in the error estimate, which sets the steps of both.
    assert float(reverse(1.3, 1e-6)) == pytest.approx(float(forward(1.3, 1e-6)), rel=1e-12)


@pytest.mark.slow
def test_dense_output_and_events_are_diffrax_own():
    """The pendulum's first passage of zero, on the clock that counts from t0."""
    grid = AdaptiveGrid(T0, T1, Tolerances(1e-10, 1e-10), max_steps=512)
    event = diffrax.Event(lambda t, y, args, **rest: y.x, optx.Newton(1e-10, 1e-10))
    dense = diffrax.SaveAt(t1=True, dense=True)
    y0 = as_state(jnp.float64, *START)
    result = jax.jit(lambda: solution(Driven(), diffrax.Tsit5(), y0, grid, saveat=dense, event=event))()
    passed = result.ts[-1]
    crossed = solve_ivp(slope, (T0, T1), START, "DOP853", events=lambda t, y: y[0], rtol=1e-11, atol=1e-12)
    assert float(passed) == pytest.approx(crossed.t_events[0][0] - T0, abs=1e-7)
    assert abs(result.ys.x[-1]) < 1e-8
    whole = driven(diffrax.Tsit5(), 1e-10, 1e-10)
    np.testing.assert_allclose(result.evaluate(0.5).x, whole.rows["x"][1], rtol=1e-8)


@pytest.mark.parametrize("name", ["Euler", "SemiImplicitEuler"])
def test_a_solver_without_error_estimate_is_refused(name):
    message = f"solver {name} has no error estimate to choose steps by; use Tsit5, or Rodas5P"
    with pytest.raises(ValueError, match=message):
        check_adaptive(make_solver(name), Driven())
    check_adaptive(diffrax.HalfSolver(diffrax.Euler()), Driven())


def test_a_stochastic_problem_is_refused():
    with pytest.raises(ValueError, match="GBM is stochastic, and these steps are for ordinary equations"):
        check_adaptive(diffrax.Tsit5(), GBM(mu=0.1, sigma=0.2))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Kvaerno3", pytest.param("KenCarp4", marks=pytest.mark.slow)])
def test_an_implicit_solver_takes_as_many_steps_in_any_unit_of_time(name):
    @jax.jit
    def run(unit):
        grid = AdaptiveGrid(0.0, 20 * unit, Tolerances(1e-5, 1e-8))
        return integrate_adaptive(
            Relaxing(unit), make_solver(name), as_state(float, 2.0, 0.0), grid, States()
        )

    usual = run(1.0)
    for unit in (1e-9, 1e9):
        other = run(unit)
        assert int(other.accepted + other.rejected) < 1.1 * int(usual.accepted + usual.rejected)
        np.testing.assert_allclose(other.rows["x"][-1], usual.rows["x"][-1], rtol=1e-3)


class GrowingState(NamedTuple):
    x: jax.Array
    rest: jax.Array


class Growing(AbstractODE):
    """$dx_i/dt = x_i^2$, infinite at $1/x_i(0)$, together with numbers that rest."""

    State = GrowingState

    def drift(self, t, y):
        return GrowingState(y.x**2, jnp.zeros_like(y.rest))


GROWING_GRID = AdaptiveGrid(0.0, 1.0, Tolerances(1e-8, 1e-8), points=2)


@jax.jit
def growing(y0):
    return integrate_adaptive(Growing(), make_solver("Tsit5"), y0, GROWING_GRID, States()).rows


@pytest.mark.parametrize("start", [(0.1, 0.2, 0.4), (0.1, 0.2, 1.6)])
def test_variables_may_be_arrays(start):
    """Of unlike shapes, one as long as there are rows; rows that were not reached are NaN as a whole."""
    grid, rows = GROWING_GRID, growing(GrowingState(jnp.asarray(start), jnp.ones((2, 2))))
    with np.errstate(divide="ignore"):
        exact = 1 / (1 / np.asarray(start) - np.asarray(grid.times)[:, None])
    exact[np.cumsum((exact < 0).any(1)) > 0] = np.nan
    np.testing.assert_allclose(rows["x"], exact, rtol=1e-6)
    np.testing.assert_array_equal(
        np.isnan(rows["rest"]), np.isnan(exact[:, :1, None]) & np.ones((2, 2), bool)
    )
