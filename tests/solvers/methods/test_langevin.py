"""Langevin solvers: stationary averages, the exact covariances of linear problems, the limits of friction."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from scipy.linalg import expm, solve_continuous_lyapunov, solve_discrete_lyapunov
from simkit_physics import DoubleWell, DoubleWellLangevin
from simkit_solvers import (
    BAOAB,
    AbstractHamiltonian,
    AbstractOverdampedLangevin,
    AbstractUnderdampedLangevin,
    CounterNoise,
    Draw,
    Grid,
    Scalar,
    States,
    integrate,
    make_solver,
    seed_key,
    stepper_for,
)
from simkit_solvers.problems.terms import brownian_increment, langevin_terms
from solver_problems import PairNoise, PairState, QuadState, Wells
from user_code import user_jit

PATHS, STEPS = 2048, 4000
STIFF, SOFT = 1.7, 0.6  # of two springs


class Springs(AbstractUnderdampedLangevin):
    """Two particles on springs of unlike strength."""

    State = QuadState
    Noise = PairNoise

    gamma: Scalar = 0.7
    u: Scalar = 1.2

    def grad_f(self, q):
        return STIFF * q[0], SOFT * q[1]


class BrownianSprings(AbstractOverdampedLangevin):
    State = PairState
    Noise = PairNoise

    gamma: Scalar = 0.7
    u: Scalar = 1.2

    def grad_f(self, q):
        return STIFF * q[0], SOFT * q[1]


@functools.cache
def linear_step(name, problem_class, h):
    """A and B of a step z -> A z + B R of a linear problem; z is the state and what the solver carries."""
    stepper, problem = stepper_for(make_solver(name)), problem_class()
    zero, dt = jnp.asarray(0.0), jnp.asarray(h)
    y0 = problem.State(*(zero for _ in problem.State._fields))
    flat, unravel = ravel_pytree((y0, stepper.init(problem, zero, dt, y0)))

    def step(z, normals):
        y, state = unravel(z)
        return ravel_pytree(stepper.step(problem, zero, dt, y, Draw(tuple(normals)), state))[0]

    return [np.asarray(J) for J in jax.jit(jax.jacfwd(step, (0, 1)))(flat, jnp.zeros(2))]


def after(name, problem_class, h, steps):
    """The covariance of the state after some steps from a fixed point."""
    A, B = linear_step(name, problem_class, h)
    covariance = np.zeros_like(A)
    for _ in range(steps):
        covariance = A @ covariance @ A.T + B @ B.T
    size = len(problem_class.State._fields)
    return covariance[:size, :size]


@pytest.mark.parametrize(
    ("name", "problem_class", "h"),
    [("BAOAB", Springs, 0.05), ("BAOAB", Springs, 1.0), ("LeimkuhlerMatthews", BrownianSprings, 0.3)],
)
def test_positions_on_springs_are_exact_at_any_step(name, problem_class, h):
    """exp(-f) makes the variance of a position the inverse of the spring's strength."""
    A, B = linear_step(name, problem_class, h)
    covariance = solve_discrete_lyapunov(A, B @ B.T)[:2, :2]
    np.testing.assert_allclose(covariance, np.diag([1 / STIFF, 1 / SOFT]), rtol=0, atol=1e-12)


def test_euler_maruyama_on_springs_is_not():
    """It makes the variance larger by h k u / 2 gamma to first order: what the others are better than."""
    h = 1e-3
    A, B = linear_step("EulerMaruyama", BrownianSprings, h)
    variance = np.diag(solve_discrete_lyapunov(A, B @ B.T))
    expected = [1 / (k * (1 - 0.5 * h * k * 1.2 / 0.7)) for k in (STIFF, SOFT)]
    np.testing.assert_allclose(variance, expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("name", "problem_class", "order"),
    [("BAOAB", Springs, 2), ("EulerMaruyama", Springs, 1), ("LeimkuhlerMatthews", BrownianSprings, 1)],
)
def test_weak_order_of_the_covariance(name, problem_class, order):
    """At a finite time, against the exact solution of the linear problem."""
    problem = problem_class()
    y0 = problem.State(*(jnp.asarray(0.0) for _ in problem.State._fields))
    drift = np.array(jax.jacfwd(lambda y: jnp.stack(problem.drift(0.0, problem.State(*y))))(jnp.stack(y0)))
    columns = np.array([problem.noise(0.0, y0, PairNoise(*unit)) for unit in np.eye(2)]).T
    stationary = solve_continuous_lyapunov(drift, -columns @ columns.T)
    decay = expm(1.5 * drift)
    exact = stationary - decay @ stationary @ decay.T
    counts = np.array([64, 128])
    errors = [np.abs(after(name, problem_class, 1.5 / n, n) - exact).max() for n in counts]
    assert -np.diff(np.log(errors)) / np.log(2) == pytest.approx(order, abs=0.1)


def test_friction_and_heat_of_a_free_step_are_exact():
    """Without a force the velocity is an Ornstein–Uhlenbeck process, whatever the step."""
    h = jnp.asarray(2.3)

    class Free(Springs):
        def grad_f(self, q):
            return 0.0 * q[0], 0.0 * q[1]

    problem, solver = Free(), BAOAB()
    increment = brownian_increment(problem, h, Draw((jnp.asarray(0.8), jnp.asarray(-1.1))))
    terms, y0 = (
        langevin_terms(problem, increment),
        ((jnp.zeros(()),) * 2, (jnp.asarray(1.5), jnp.asarray(-0.4))),
    )
    zero = jnp.asarray(0.0)
    _, p = solver.step(terms, zero, h, y0, None, solver.init(terms, zero, h, y0, None), False)[0]
    decay, heat = np.exp(-0.7 * 2.3), np.sqrt(1.2 * (1 - np.exp(-2 * 0.7 * 2.3)))
    np.testing.assert_allclose(p, decay * np.array([1.5, -0.4]) + heat * np.array([0.8, -1.1]), rtol=1e-13)


@pytest.mark.more
@pytest.mark.parametrize(
    ("name", "fractions"),
    [
        ("BAOAB", (1, 1, 1)),
        ("ALIGN", (0.999, 0.951, 0.584)),
        ("ShOULD", (1.000, 0.997, 0.854)),
        ("QUICSORT", (1.002, 1.108, 2.507)),
    ],
)
def test_the_heat_of_a_free_step_against_friction(name, fractions):
    """The guide's numbers: exact by BAOAB, by the others only where a step resolves the friction."""
    stepper, h, zero = stepper_for(make_solver(name)), jnp.asarray(0.5), jnp.asarray(0.0)

    class Free(Springs):
        def grad_f(self, q):
            return 0.0 * q[0], 0.0 * q[1]

    @jax.jit
    @jax.vmap
    def variance(friction):
        problem, rest = Free(gamma=friction / h), QuadState(zero, zero, zero, zero)

        def velocity(normals):
            draw = Draw(*((z, zero) for z in normals[: stepper.areas + 1]))
            return stepper.step(problem, zero, h, rest, draw, stepper.init(problem, zero, h, rest))[0].p1

        return jnp.sum(jax.grad(velocity)(jnp.zeros(3)) ** 2)

    frictions = np.array([1.0, 3.0, 10.0])
    result = variance(jnp.asarray(frictions)) / (1.2 * (1 - np.exp(-2 * frictions)))
    np.testing.assert_allclose(result, fractions, rtol=0, atol=6e-4)


class Conservative(AbstractHamiltonian):
    """`Wells` without friction, by its energy: dq = p, dp = -u grad f."""

    State = QuadState

    u: Scalar = 1.2

    def kinetic(self, p):
        return 0.5 * (p[0] ** 2 + p[1] ** 2)

    def potential(self, q):
        a, b = q
        return self.u * (a**4 / 4 - a**2 / 2 + b**4 / 4 - b**2 / 2 + 0.25 * (a - b) ** 2)


def test_without_friction_it_is_the_leapfrog():
    y0 = QuadState(*map(jnp.asarray, (0.4, -0.9, 0.3, 0.1)))
    grid, noise = Grid(0.0, 0.1, 100, 100), CounterNoise.of(seed_key(1), 0)
    damped = integrate(Wells(gamma=1e-30), make_solver("BAOAB"), y0, grid, noise, States())
    free = integrate(Conservative(), make_solver("Leapfrog"), y0, grid, None, States())
    for name in y0._fields:
        np.testing.assert_allclose(damped[name], free[name], rtol=0, atol=1e-11)


def test_gradient_is_taken_afresh_after_a_jump():
    problem, solver, zero, h = Wells(), BAOAB(), jnp.asarray(0.0), jnp.asarray(0.1)
    terms = langevin_terms(problem, brownian_increment(problem, h, Draw((zero, zero))))
    y0 = tuple(map(jnp.asarray, (0.4, -0.9))), tuple(map(jnp.asarray, (0.3, 0.1)))
    fresh, stale = solver.init(terms, zero, h, y0, None), (jnp.asarray(7.0), jnp.asarray(7.0))

    @user_jit
    def end(state, made_jump):
        return jnp.stack(jax.tree.leaves(solver.step(terms, zero, h, y0, None, state, made_jump)[0]))

    np.testing.assert_array_equal(end(stale, True), end(fresh, False))
    assert np.abs(end(stale, False) - end(fresh, False)).max() > 0.1


EDGES = np.array([-1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5])


def exact_averages(b):
    """Those of `seen` under the density exp(-b (x^2 - 1)^2), by the trapezoidal rule on all that matters."""
    x = np.linspace(-5, 5, 20001)
    weight = np.exp(-b * (x * x - 1) ** 2)
    return np.asarray(seen(x) @ weight) / np.sum(weight)


def seen(x):
    """x^2, and whether x is below each of the edges."""
    return jnp.stack([x * x, *((x < edge).astype(x.dtype) for edge in EDGES)])


@functools.cache
def excesses(name, model, h):
    """By how much the averages are too large in a long run, and their standard errors over the paths."""
    problem, grid = model(gamma=1.0, u=1.0, b=0.5, a=1.0), Grid(0.0, h, STEPS, 4)
    start = problem.State(*map(jnp.asarray, model.example_initial.values()))

    def average(path):
        noise = CounterNoise.of(seed_key(0), path)
        x = integrate(problem, make_solver(name), start, grid, noise, States())["x"]
        return jnp.mean(seen(x[grid.rows // 8 :]), axis=1)

    averages = np.asarray(user_jit(jax.vmap(average))(jnp.arange(PATHS, dtype=jnp.uint32)))
    return averages.mean(0) - exact_averages(0.5), averages.std(0, ddof=1) / np.sqrt(PATHS)


def excess(name, model, h):
    """That of x^2."""
    estimates, errors = excesses(name, model, h)
    return estimates[0], errors[0]


@pytest.mark.more
@pytest.mark.parametrize(
    ("name", "model", "h", "bias"),
    [
        ("BAOAB", DoubleWellLangevin, 0.2, 0.08 * 0.2**2),
        pytest.param("BAOAB", DoubleWellLangevin, 0.3, 0.08 * 0.3**2, marks=pytest.mark.slow),
        pytest.param("LeimkuhlerMatthews", DoubleWell, 0.08, 0.5 * 0.08**2, marks=pytest.mark.slow),
        pytest.param("EulerMaruyama", DoubleWell, 0.04, 0.55 * 0.04, marks=pytest.mark.slow),
        pytest.param("EulerMaruyama", DoubleWellLangevin, 0.05, 0.25 * 0.05, marks=pytest.mark.slow),
    ],
)
def test_average_over_a_double_well(name, model, h, bias):
    """Boltzmann's, up to the bias of the step: of order 2 for BAOAB and its limit, 1 for Euler–Maruyama."""
    estimate, error = excess(name, model, h)
    assert error < 2e-3
    assert abs(estimate) < bias + 5 * error


@pytest.mark.more
@pytest.mark.parametrize(
    ("name", "model", "h"), [("BAOAB", DoubleWellLangevin, 0.2), ("LeimkuhlerMatthews", DoubleWell, 0.08)]
)
def test_the_distribution_in_a_double_well(name, model, h):
    """Boltzmann's: the fraction of time below each of some places, the top of the barrier among them."""
    estimates, errors = excesses(name, model, h)
    assert (errors[1:] < 4e-3).all()
    assert (np.abs(estimates[1:]) < 2e-3 + 5 * errors[1:]).all()


@pytest.mark.slow
def test_order_of_the_averages():
    """Euler–Maruyama's bias goes as the step; BAOAB's as its square; the limit's is far below Euler's."""
    euler = [excess("EulerMaruyama", DoubleWell, h) for h in (0.08, 0.04)]
    assert abs(euler[1][0]) > 10 * euler[1][1]
    assert euler[0][0] / euler[1][0] == pytest.approx(2, abs=0.5)
    baoab = [excess("BAOAB", DoubleWellLangevin, h)[0] for h in (0.3, 0.2)]
    assert baoab[0] / baoab[1] == pytest.approx(1.5**2, abs=0.7)
    assert abs(excess("LeimkuhlerMatthews", DoubleWell, 0.08)[0]) < abs(euler[0][0]) / 8
