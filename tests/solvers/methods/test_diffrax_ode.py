"""Ordinary solvers in the fixed-grid loop: the numbers of `diffeqsolve`, orders, implicit equations."""

import functools

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optimistix as optx
import pytest
from scipy.integrate import solve_ivp
from simkit_solvers import SOLVERS, AbstractODE, Grid, Scalar, States, integrate, make_solver
from simkit_solvers.problems.terms import takes_halves
from slow_cases import slow_but
from solver_problems import Driven, PairState, Relaxing

ODE_SOLVERS = [name for name, info in SOLVERS.items() if "ode" in info.problem]
IMPLICIT = [name for name in ODE_SOLVERS if "rtol" in SOLVERS[name].options]
KVAERNO3 = make_solver("Kvaerno3")
STEPS = 4
LENGTHS = 0.3 * 0.8 ** np.arange(14)  # of a step
STARTS = np.random.default_rng(1).uniform((0, -1, -1), (6, 1, 1), (24, 3))  # t, x, v
AGREE = 6  # the step length at which a solver is compared with diffeqsolve
T0, *START = STARTS[0]


@functools.cache
def runs(name):
    """The end of four steps of each length from each start, in one program."""
    solver = make_solver(name, {"rtol": 1e-12, "atol": 1e-12} if name in IMPLICIT else {})

    def end(dt, start):
        y0 = PairState(start[1], start[2])
        rows = integrate(Driven(), solver, y0, Grid(start[0], dt, STEPS, STEPS), None, States())
        return jnp.stack([rows["x"][-1], rows["v"][-1]])

    over_starts = jax.vmap(end, in_axes=(None, 0))
    return np.asarray(jax.jit(jax.vmap(over_starts, in_axes=(0, None)))(LENGTHS, STARTS))


@functools.cache
def exact():
    """The same by SciPy's DOP853."""

    def slope(t, y):
        return np.concatenate(Driven().drift(t + STARTS[:, 0], PairState(*np.split(y, 2))))

    ends = STEPS * LENGTHS[::-1]
    y0 = STARTS[:, 1:].T.ravel()
    result = solve_ivp(slope, (0.0, ends[-1]), y0, "DOP853", t_eval=ends, rtol=3e-14, atol=1e-15)
    return np.moveaxis(result.y[:, ::-1].reshape(2, len(STARTS), len(ends)), (0, 1, 2), (2, 1, 0))


def by_diffeqsolve(name):
    """The same four steps by diffrax itself, on a flat array, roots found by Newton's method."""
    problem, solver = Driven(), make_solver(name)
    if name in IMPLICIT:
        solver = eqx.tree_at(lambda s: s.root_finder, solver, optx.Newton(rtol=1e-11, atol=1e-11))
    terms = diffrax.ODETerm(lambda t, y, args: jnp.stack(problem.drift(t, PairState(*y))))
    y0 = jnp.asarray(START)
    if takes_halves(solver):
        terms = (
            diffrax.ODETerm(lambda t, v, args: problem.drift(t, PairState(0 * v, v)).x),
            diffrax.ODETerm(lambda t, x, args: problem.drift(t, PairState(x, 0 * x)).v),
        )
        y0 = y0[0], y0[1]
    elif name in ("KenCarp3", "KenCarp4", "KenCarp5", "Sil3"):
        terms = diffrax.MultiTerm(diffrax.ODETerm(lambda t, y, args: jnp.zeros_like(y)), terms)
    times = diffrax.StepTo(T0 + LENGTHS[AGREE] * jnp.arange(STEPS + 1.0))

    @jax.jit
    def ends(y0):
        solution = diffrax.diffeqsolve(
            terms,
            solver,
            times.ts[0],
            times.ts[-1],
            None,
            y0,
            stepsize_controller=times,
            max_steps=STEPS,
            adjoint=diffrax.ForwardMode(),
        )
        return jnp.stack(solution.ys)[..., -1] if takes_halves(solver) else solution.ys[-1]

    return np.asarray(ends(y0))


# Explicit, reversible, implicit, of two parts, semi-implicit, and one of our own.
FEW = ("Tsit5", "ReversibleHeun", "Kvaerno3", "KenCarp3", "SemiImplicitEuler", "Rodas5P")


@pytest.mark.more
@pytest.mark.parametrize("name", slow_but(FEW, ODE_SOLVERS))
def test_agrees_with_diffeqsolve(name):
    tolerance = 1e-10 if name in IMPLICIT else 1e-12
    np.testing.assert_allclose(runs(name)[AGREE, 0], by_diffeqsolve(name), rtol=0, atol=tolerance)


@pytest.mark.more
@pytest.mark.parametrize("name", ODE_SOLVERS)
def test_order(name):
    """The error of a fixed number of steps goes as the step length to the power of the order and one."""
    errors = np.sqrt(np.mean((runs(name) - exact()) ** 2, axis=(1, 2)))
    rounding = 1e-12 if name in IMPLICIT else 3e-14
    smallest = np.flatnonzero(errors > rounding)[-4:]
    slope = np.polyfit(np.log(LENGTHS[smallest]), np.log(errors[smallest]), 1)[0]
    assert slope - 1 == pytest.approx(SOLVERS[name].order, abs=0.1)


class Stiff(AbstractODE):
    """Attracted by a circular motion at a rate, in units of `size`."""

    State = PairState

    rate: Scalar
    size: Scalar = 1.0

    def drift(self, t, y):
        x, v = y.x / self.size, y.v / self.size
        return PairState(
            x=-self.size * (self.rate * (x - jnp.cos(t)) + jnp.sin(t)),
            v=-self.size * (self.rate * (v * v * v + v - x) - 1.0 + v),
        )


@functools.cache
def stiff_program(solver):
    grid = Grid(0.0, 0.05, 20, 20)
    return jax.jit(lambda problem, y0: integrate(problem, solver, y0, grid, None, States()))


def stiff_end(solver, dtype, size=1.0, rate=1e4):
    problem = Stiff(jnp.asarray(rate, dtype), jnp.asarray(size, dtype))
    y0 = PairState(jnp.asarray(1.5 * size, dtype), jnp.asarray(0.2 * size, dtype))
    rows = stiff_program(solver)(problem, y0)
    assert rows["x"].dtype == rows["v"].dtype == dtype
    return np.array([rows["x"][-1], rows["v"][-1]], np.float64) / size


@pytest.mark.parametrize("name", ["ImplicitEuler", pytest.param("Kvaerno5", marks=pytest.mark.slow)])
def test_implicit_float32_and_any_unit(name):
    """Steps 500 times longer than an explicit method could take, near zero or far from it."""
    slow = np.roots([1, 0, 1, -np.cos(1.0)])
    expected = np.array([np.cos(1.0), slow[np.isreal(slow)].real[0]])
    solver = make_solver(name)
    for dtype in (jnp.float32, jnp.float64):
        for size in (1e-12, 1.0, 1e12):
            np.testing.assert_allclose(stiff_end(solver, dtype, size), expected, atol=2e-3)


@pytest.mark.parametrize("name", ["ImplicitEuler", pytest.param("Kvaerno3", marks=pytest.mark.more)])
def test_implicit_equations_are_solved_in_any_unit_of_time(name):
    """Slopes are a billion times smaller or larger, and as precise."""

    @jax.jit
    def run(unit):
        y0 = PairState(jnp.asarray(2.0), jnp.asarray(0.1))
        return integrate(Relaxing(unit), make_solver(name), y0, Grid(0.0, 0.1 * unit, 8, 8), None, States())

    usual = run(1.0)
    for unit in (1e-9, 1e9):
        other = run(unit)
        for key, value in usual.items():
            np.testing.assert_allclose(other[key], value, rtol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ImplicitEuler", pytest.param("Kvaerno3", marks=pytest.mark.slow)])
def test_roots_are_found_to_what_the_precision_allows(name):
    """With tolerances left open: as those asked for."""

    def end(solver, dtype):
        y0 = PairState(jnp.asarray(2.0, dtype), jnp.asarray(0.1, dtype))
        grid = Grid(0.0, 0.1, 8, 8)
        return jax.jit(lambda y0: integrate(Relaxing(1.0), solver, y0, grid, None, States()))(y0)["x"]

    exact = end(make_solver(name, {"rtol": 1e-14, "atol": 1e-14}), jnp.float64)
    np.testing.assert_allclose(end(make_solver(name), jnp.float64), exact, rtol=1e-11)
    np.testing.assert_allclose(end(make_solver(name), jnp.float32), exact, rtol=1e-6)


def test_unconverged_step_is_nan():
    assert np.isfinite(stiff_end(KVAERNO3, jnp.float64)).all()
    assert np.isnan(stiff_end(make_solver("Kvaerno3", {"root_find_max_steps": 1}), jnp.float64)).all()


def test_tolerances_are_kept():
    """A loose root tolerance shows in the result, and a root finder of one's own keeps its other fields."""
    calls = []

    class Counted(diffrax.VeryChord):
        def step(self, *args, **kwargs):
            calls.append(self.kappa)
            return super().step(*args, **kwargs)

    tight = stiff_end(KVAERNO3, jnp.float64, rate=30.0)
    loose = stiff_end(make_solver("Kvaerno3", {"rtol": 0.3, "atol": 0.3}), jnp.float64, rate=30.0)
    assert 1e-7 < np.abs(tight - loose).max() < 1e-1
    finder = diffrax.with_stepsize_controller_tols(Counted)(kappa=0.5)
    stiff_end(diffrax.Kvaerno3(root_finder=finder), jnp.float64, rate=30.0)
    assert set(calls) == {0.5}
