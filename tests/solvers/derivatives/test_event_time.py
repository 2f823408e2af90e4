"""Times of events: exact ones, derivatives in both modes and of second order, a whole run as condition."""

import functools

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from simkit_solvers import Grid, States, event_time, integrate
from solver_problems import Driven, PairState
from user_code import user_jit

GRAVITY = 9.81


def landing(height, speed):
    """When a ball that was thrown up comes down."""

    def altitude(t, thrown):
        return thrown[0] + thrown[1] * t - 0.5 * GRAVITY * t**2

    return event_time(altitude, 0.01, 10.0, (height, speed))


def exact_landing(height, speed):
    return (speed + jnp.sqrt(speed**2 + 2 * GRAVITY * height)) / GRAVITY


def test_a_ball_comes_down_when_it_should():
    """Time, gradient by both modes, and second derivatives, against the closed form."""
    thrown = jnp.asarray(2.0), jnp.asarray(1.5)
    assert landing(*thrown) == pytest.approx(float(exact_landing(*thrown)), rel=1e-14)

    def slopes(time):
        first = jax.grad(time, (0, 1))
        return user_jit(
            lambda h, v: (first(h, v), jax.jvp(lambda h: first(h, v), (h,), (jnp.ones_like(h),))[1])
        )

    for actual, expected in zip(slopes(landing)(*thrown), slopes(exact_landing)(*thrown), strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-11)
    forward = user_jit(jax.jacfwd(landing))(*thrown)
    np.testing.assert_allclose(forward, jax.grad(exact_landing)(*thrown), rtol=1e-13)


@pytest.mark.parametrize("dtype", ["float32", pytest.param("float64", marks=pytest.mark.slow)])
def test_growth_reaches_a_level(dtype):
    """exp(k t) = 3 at log(3)/k, for rates that are closed over, mapped and compiled; rising and falling."""

    def reached(k, sign):
        return event_time(lambda t, _: sign * (jnp.exp(k * t) - 3.0), jnp.zeros((), dtype), 5.0)

    rates, sign = jnp.asarray([0.5, 1.0, 2.0], dtype), jnp.asarray([1.0, -1.0, 1.0], dtype)
    times, slopes = user_jit(jax.vmap(jax.value_and_grad(reached)))(rates, sign)
    assert times.dtype == dtype
    rates = np.asarray(rates)
    roundings = 8 * float(jnp.finfo(dtype).eps)
    np.testing.assert_allclose(times, np.log(3.0) / rates, rtol=roundings)
    np.testing.assert_allclose(slopes, -np.log(3.0) / rates**2, rtol=4 * roundings)


@functools.cache
def crossing():
    """When a run of 20 steps to the time t has x = 0.8: by the implicit function, and through iterations."""

    def position(t, a):
        y0 = PairState(jnp.asarray(0.5), jnp.asarray(0.7))
        grid = Grid(0.0, t / 20, 20, 20)
        return integrate(Driven(a=a), diffrax.Heun(), y0, grid, None, States())["x"][-1] - 0.8

    def through(a):
        """Newton's method, whose iterations are differentiated."""

        def improved(_, t):
            value, slope = jax.jvp(lambda t: position(t, a), (t,), (jnp.ones_like(t),))
            return t - value / slope

        return jax.lax.fori_loop(0, 6, improved, jnp.asarray(0.5))

    implicit = functools.partial(event_time, position, 0.05, 1.5)
    return user_jit(
        lambda a: (implicit(a), jax.grad(implicit)(a), *jax.jvp(through, (a,), (jnp.ones_like(a),)))
    )(0.9)


@pytest.mark.slow
def test_a_whole_run_as_condition():
    time, slope, expected_time, expected_slope = crossing()
    assert float(time) == pytest.approx(float(expected_time), rel=1e-13)
    assert float(slope) == pytest.approx(float(expected_slope), rel=1e-10)
    assert abs(slope) > 1e-3


def test_no_event_is_no_number():
    def never(t, _):
        return t**2 + 1.0

    with pytest.raises(RuntimeError, match="the condition has the same sign at t0 and t1"):
        event_time(never, 0.0, 1.0)
    assert np.isnan(event_time(never, 0.0, 1.0, throw=False))


def test_a_condition_that_grazes_zero_has_no_derivative():
    def touched(a):
        return event_time(lambda t, _: (t - a) ** 3, 0.0, 1.0)

    assert touched(0.4) == pytest.approx(0.4, abs=1e-5)
    with pytest.raises(RuntimeError, match="singular"):
        jax.grad(touched)(0.4)
