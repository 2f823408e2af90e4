"""Derivatives of ordinary equations: forward, in reverse, of crossing times; and of stationary averages."""

import functools
import math
from typing import Any

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import signal, special
from simkit_physics import DoubleWell, ImmigrationDeath, OrnsteinUhlenbeck, Robertson
from simkit_solvers import (
    AbstractODE,
    AdaptiveGrid,
    CounterNoise,
    Crossing,
    Direction,
    EulerMaruyama,
    Grid,
    JumpGrid,
    JumpNoise,
    Scalar,
    States,
    Tolerances,
    WithScores,
    crossing,
    forward_sensitivities,
    girsanov,
    integrate,
    integrate_adaptive,
    make_solver,
    ode_gradient,
    parameter,
    scheduled,
    seed_key,
    stationary_derivative,
)
from simkit_solvers.derivatives.ode_gradient import RETURNS_WITHIN
from solver_problems import PairState
from user_code import user_jit

KEY = seed_key(2)


class Swing(AbstractODE):
    """A damped oscillator, under which a pendulum where it swings far."""

    State = PairState
    stiffness: Scalar = parameter("1/time^2", "of the spring")
    friction: Scalar = parameter("1/time", "of the damper")
    pendulum: Scalar = parameter("1", "fraction of the sine in the force", at_least=0)

    def drift(self, t, y):
        force = self.pendulum * jnp.sin(y.x) + (1 - self.pendulum) * y.x
        return PairState(x=y.v, v=-self.stiffness * force - self.friction * y.v)


class Energy(States):
    def row(self, problem, acc, t, y):
        return {"x": y.x, "energy": 0.5 * y.v**2 + 0.5 * problem.stiffness * y.x**2}


def swing(stiffness=2.0, friction=0.3, pendulum=0.0):
    return made(Swing, {"stiffness": stiffness, "friction": friction, "pendulum": pendulum})


def grid(end, rtol=1e-8, points=2, max_steps=1024):
    return AdaptiveGrid(0.0, end, Tolerances(rtol, 1e-2 * rtol), points=points, max_steps=max_steps)


def damped(stiffness, friction, x, v, t):
    """The solution of the linear oscillator, and its energy."""
    a, w = friction / 2, np.sqrt(stiffness - friction**2 / 4)
    b = (v + a * x) / w
    place = np.exp(-a * t) * (x * np.cos(w * t) + b * np.sin(w * t))
    speed = np.exp(-a * t) * ((b * w - a * x) * np.cos(w * t) - (x * w + a * b) * np.sin(w * t))
    return place, speed**2 / 2 + stiffness * place**2 / 2


def test_forward_sensitivities_of_an_oscillator_are_exact():
    """By a parameter that the observable reads too, by another one, and by the initial state."""
    directions = (
        Direction(swing(1.0, 0.0)),
        Direction(swing(0.0, 1.0)),
        Direction(y0=PairState(jnp.asarray(1.0), jnp.asarray(0.0))),
    )

    @user_jit
    def run(rtol):
        start = PairState(jnp.asarray(1.0), jnp.asarray(0.5))
        return forward_sensitivities(swing(), diffrax.Tsit5(), start, grid(4.0, rtol), Energy(), directions)

    given, t, h = [2.0, 0.3, 1.0, 0.5], np.array([0.0, 2.0, 4.0]), 1e-5
    steps = []
    for rtol in (1e-6, 1e-9):
        result = run(rtol)
        steps.append(int(result.accepted))
        for i, slopes in enumerate(result.derivatives):
            up, down = ([x + s * h * (j == i) for j, x in enumerate(given)] for s in (1, -1))
            pairs = zip(("x", "energy"), damped(*up, t), damped(*down, t), strict=True)
            for name, high, low in pairs:
                np.testing.assert_allclose(slopes[name], (high - low) / (2 * h), atol=20 * rtol + 1e-9)
    assert steps[1] > 2 * steps[0]


@functools.cache
def backwards():
    """Gradient of an energy by `backsolve`, of (friction, tolerance, end)."""

    @user_jit
    def run(friction, end):
        start = PairState(jnp.asarray(1.0), jnp.asarray(0.5))
        whole = AdaptiveGrid(0.0, end, Tolerances(1e-7, 1e-9), points=1, max_steps=1024)
        return ode_gradient(
            swing(friction=friction), diffrax.Tsit5(), start, whole, lambda y: y.x[-1], "backsolve"
        )

    return run


@pytest.mark.slow
def test_backsolve_is_right_or_refused():
    """Back along a weak friction the state returns, along a strong one rounding errors grow."""
    result, h = backwards()(0.3, 4.0), 1e-5
    assert 0 < result.returned < RETURNS_WITHIN
    for i, slope in enumerate((result.problem.stiffness, result.problem.friction, result.y0.x, result.y0.v)):
        up, down = ([x + s * h * (j == i) for j, x in enumerate([2.0, 0.3, 1.0, 0.5])] for s in (1, -1))
        wanted = (damped(*up, 4.0)[0] - damped(*down, 4.0)[0]) / (2 * h)
        assert float(slope) == pytest.approx(wanted, abs=1e-5)
    lost = backwards()(8.0, 40.0)
    assert lost.returned > RETURNS_WITHIN
    assert np.isnan(np.stack(jax.tree.leaves((lost.problem, lost.y0)))).all()


@pytest.mark.slow
def test_gradients_in_reverse_are_those_forward():
    start = PairState(jnp.asarray(1.0), jnp.asarray(0.5))
    whole = grid(4.0)
    back = ode_gradient(swing(), diffrax.Tsit5(), start, whole, lambda y: y.x[-1])
    direction = Direction(swing(1.0, 0.0))
    forward = forward_sensitivities(swing(), diffrax.Tsit5(), start, whole, States(), (direction,))
    assert float(back.problem.stiffness) == pytest.approx(float(forward.derivatives[0]["x"][-1]), abs=1e-7)
    with pytest.raises(ValueError, match="checkpointed"):
        ode_gradient(swing(friction=8.0), diffrax.Tsit5(), start, grid(40.0), lambda y: y.x[-1], "backsolve")
    with pytest.raises(ValueError, match="failed"):
        ode_gradient(swing(), diffrax.Tsit5(), start, grid(1e4, max_steps=64), lambda y: y.x[-1])


def quarter(amplitude):
    """A quarter of a pendulum's period, and its derivative by the amplitude."""
    m = np.sin(amplitude / 2) ** 2
    slope = (special.ellipe(m) - (1 - m) * special.ellipk(m)) / (2 * m * (1 - m))
    return special.ellipk(m), slope * np.sin(amplitude / 2) * np.cos(amplitude / 2)


def passes_below(problem, t, y):
    return y.x


def quarter_period(amplitude, stiffness, rtol, end) -> Crossing:
    start = PairState(amplitude, jnp.zeros_like(amplitude))
    whole = AdaptiveGrid(0.0, end, Tolerances(rtol, rtol), max_steps=1024)
    return crossing(swing(stiffness, 0.0, 1.0), diffrax.Tsit5(), start, whole, passes_below, upwards=False)


@pytest.mark.more
def test_a_pendulum_s_period_has_the_derivative_of_the_elliptic_integral():
    """By the amplitude; the angle there stays zero."""
    time, slope = quarter(1.2)

    @user_jit
    def run(rtol, end):
        def of(amplitude):
            return quarter_period(amplitude, 1.0, rtol, end)

        return jax.jvp(of, (jnp.asarray(1.2),), (jnp.asarray(1.0),))

    for rtol in (1e-5, 1e-9):
        result, slopes = run(rtol, 5.0)
        assert float(result.time) == pytest.approx(time, abs=10 * rtol)
        assert float(slopes.time) == pytest.approx(slope, abs=20 * rtol)
        assert abs(float(result.state.x)) < 10 * rtol
        assert abs(float(slopes.state.x)) < 20 * rtol
        # The energy at the bottom is that at the top: v = -2 sin(A/2), dv/dA = -cos(A/2).
        assert float(slopes.state.v) == pytest.approx(-math.cos(0.6), abs=20 * rtol)
    early, slopes = run(1e-5, 1.0)
    assert not bool(early.occurred)
    assert np.isnan([float(early.time), float(early.state.v)]).all()
    assert float(slopes.time) == float(slopes.state.v) == 0


@pytest.mark.slow
def test_a_period_has_its_derivative_in_reverse():
    slope = jax.grad(lambda k: quarter_period(jnp.asarray(1.2), k, 1e-8, 5.0).time)(jnp.asarray(1.0))
    assert float(slope) == pytest.approx(-quarter(1.2)[0] / 2, abs=1e-7)


class Falling(AbstractODE):
    State = PairState
    gravity: Scalar = parameter("length/time^2", "downwards")

    def drift(self, t, y):
        return PairState(x=y.v, v=-self.gravity + 0.0 * y.x)


@pytest.mark.slow
def test_bounces_of_a_ball():
    """The third time at the ground, by gravity, height and what a bounce leaves of the speed."""

    def third(gravity, height, kept):
        t, y = jnp.zeros_like(height), PairState(height, jnp.zeros_like(height))
        for _ in range(3):
            whole = AdaptiveGrid(t, t + 10.0, Tolerances(1e-8, 1e-8), max_steps=256)
            result = crossing(Falling(gravity), diffrax.Tsit5(), y, whole, passes_below, upwards=False)
            t, y = result.time, PairState(1e-12 + 0.0 * result.state.x, -kept * result.state.v)
        return t

    def exact(gravity, height, kept):
        return math.sqrt(2 * height / gravity) * (1 + 2 * kept + 2 * kept**2)

    given = 9.81, 1.5, 0.8
    time, slopes = user_jit(jax.value_and_grad(third, (0, 1, 2)))(*given)
    assert float(time) == pytest.approx(exact(*given), rel=1e-7)
    for i, slope in enumerate(slopes):
        up, down = ([x + s * 1e-6 * (j == i) for j, x in enumerate(given)] for s in (1, -1))
        assert float(slope) == pytest.approx((exact(*up) - exact(*down)) / 2e-6, rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["Rodas5P", "Kvaerno5"])
def test_a_stiff_problem_s_sensitivities(solver):
    """Robertson's, against differences of runs at tolerances of 1e-12."""
    rates = {name: jnp.asarray(x) for name, x in Robertson.example.items()}
    start = Robertson.State(*(jnp.asarray(x) for x in Robertson.example_initial.values()))
    first = next(iter(rates))
    direction = Direction(made(Robertson, {name: x * float(name == first) for name, x in rates.items()}))
    whole = AdaptiveGrid(0.0, 40.0, Tolerances(1e-7, 1e-12), max_steps=4096)
    result = forward_sensitivities(
        made(Robertson, rates), make_solver(solver), start, whole, States(), (direction,)
    ).derivatives[0]
    fine = AdaptiveGrid(0.0, 40.0, Tolerances(1e-12, 1e-17), max_steps=16384)

    @user_jit
    def end(rate):
        run = integrate_adaptive(
            made(Robertson, rates | {first: rate}), make_solver("Rodas5P"), start, fine, States()
        )
        return run.rows

    h = 1e-4
    up, down = (end(rates[first] * (1 + s * h)) for s in (1, -1))
    for name in start._fields:
        wanted = (up[name][-1] - down[name][-1]) / (2 * h)
        assert float(result[name][-1]) == pytest.approx(float(wanted), rel=1e-4)


def test_a_scheduled_problem_is_refused():
    problem = scheduled(swing())
    start = PairState(jnp.asarray(1.0), jnp.asarray(0.0))
    with pytest.raises(ValueError, match="scheduled"):
        forward_sensitivities(problem, diffrax.Tsit5(), start, grid(1.0), States(), ())
    with pytest.raises(ValueError, match="scheduled"):
        ode_gradient(problem, diffrax.Tsit5(), start, grid(1.0), lambda y: y.x[-1])


@pytest.mark.slow
def test_a_stationary_mean_of_an_autoregression():
    """x' = a x + b + e, e standard normal: by b the mean changes by 1/(1 - a), and a window of w steps
    leaves out a^w of it."""
    rng, a, paths, rows = np.random.default_rng(4), 0.8, 64, 4000
    e = rng.normal(size=(paths, rows))
    x, scores = signal.lfilter([1.0], [1.0, -a], e), np.cumsum(e, axis=1)
    errors = []
    for window in (2, 5, 20, 40):
        result = stationary_derivative(x, scores, window, discard=100)
        wanted = (1 - a**window) / (1 - a)
        assert abs(float(result.derivative) - wanted) < 4 * float(result.derivative_se)
        errors.append(float(result.derivative_se))
    assert abs(float(result.mean)) < 4 * float(result.mean_se)
    assert errors == sorted(errors)
    # Of independent halves the estimates differ as their errors say.
    halves = [stationary_derivative(x[i::2], scores[i::2], 20, 100) for i in range(2)]
    far = abs(float(halves[0].derivative - halves[1].derivative))
    assert far < 4 * math.hypot(*(float(each.derivative_se) for each in halves))
    with pytest.raises(ValueError, match="window"):
        stationary_derivative(jnp.asarray(x)[:4, :50], jnp.asarray(scores)[:4, :50], 20)
    with pytest.raises(ValueError, match="one shape"):
        stationary_derivative(x, scores[:-1], 20)


def made(model: Any, numbers) -> Any:
    """The model with these numbers as its parameters."""
    return model(**{name: jnp.asarray(x) for name, x in numbers.items()})


def unit(model, name):
    return Direction(made(model, {each: float(each == name) for each in model.example}))


@pytest.mark.slow
def test_stationary_averages_of_ornstein_uhlenbeck_and_a_double_well():
    h, theta, sigma = 0.02, 1.0, 0.8
    watch = WithScores(States(), tuple(unit(OrnsteinUhlenbeck, name) for name in ("theta", "mu", "sigma")))
    problem = OrnsteinUhlenbeck(theta=jnp.asarray(theta), mu=jnp.asarray(0.5), sigma=jnp.asarray(sigma))

    def paths(problem, start, watch, steps):
        @user_jit
        @jax.vmap
        def run(path):
            noise = CounterNoise.of(KEY, path)
            return integrate(problem, EulerMaruyama(), start, Grid(0.0, h, steps, 10), noise, watch)

        return run(jnp.arange(64, dtype=jnp.uint32))

    (name,) = OrnsteinUhlenbeck.State._fields
    rows = paths(problem, OrnsteinUhlenbeck.State(jnp.asarray(0.5)), watch, 20_000)
    x, spread = rows[name], sigma**2 / (2 * theta - theta**2 * h)  # that of the chain
    by_theta = -(sigma**2) * (2 - 2 * theta * h) / (2 * theta - theta**2 * h) ** 2
    for k, values, wanted in (
        (0, x**2, by_theta),
        (1, x, 1.0),
        (1, x**2, 1.0),
        (2, x**2, 2 * spread / sigma),
    ):
        result = stationary_derivative(values, rows[f"score {k}"], 30, 25)
        assert abs(float(result.derivative) - wanted) < 4 * float(result.derivative_se)

    numbers = {each: jnp.asarray(value) for each, value in DoubleWell.example.items()}
    watch = WithScores(States(), (unit(DoubleWell, "b"),))
    rows = paths(made(DoubleWell, numbers), DoubleWell.State(jnp.asarray(-1.0)), watch, 50_000)
    grid_x = np.linspace(-4, 4, 20_001)

    def square(b):
        weight = np.exp(-b * (grid_x**2 - 1) ** 2)
        return (grid_x**2 * weight).sum() / weight.sum()

    result = stationary_derivative(rows["x"] ** 2, rows["score 0"], 30, 50)
    wanted = (square(1 + 1e-4) - square(1 - 1e-4)) / 2e-4
    assert abs(float(result.derivative) - wanted) < 4 * float(result.derivative_se) + 0.02  # of the step


@pytest.mark.slow
def test_stationary_means_of_immigration_and_death():
    network = ImmigrationDeath(alpha=jnp.asarray(10.0), mu=jnp.asarray(1.0))
    directions = unit(ImmigrationDeath, "alpha"), unit(ImmigrationDeath, "mu")

    @user_jit
    @jax.vmap
    def run(path):
        y0, whole = ImmigrationDeath.State(X=jnp.int32(10)), JumpGrid(0.0, 400.0, 2000)
        noise = JumpNoise.of(KEY, path)
        return girsanov(network, make_solver("DirectMethod"), y0, whole, noise, States(), directions)

    result = run(jnp.arange(128, dtype=jnp.uint32)).run
    for k, wanted in enumerate((1.0, -10.0)):
        slope = stationary_derivative(result.rows["X"], result.scores[k], 30, 20)
        assert abs(float(slope.derivative) - wanted) < 4 * float(slope.derivative_se)


def test_a_constant_more_changes_no_stationary_derivative_nor_its_error():
    rng = np.random.default_rng(1)
    x, scores = rng.normal(size=(4, 400)), np.cumsum(rng.normal(0.1, 1.0, size=(4, 400)), axis=1)
    result, moved = (stationary_derivative(each, scores, 5, 10) for each in (x, x + 1e3))
    assert float(moved.mean - result.mean) == pytest.approx(1e3)
    assert float(moved.derivative) == pytest.approx(float(result.derivative), abs=1e-9)
    assert float(moved.derivative_se) == pytest.approx(float(result.derivative_se), abs=1e-9)
