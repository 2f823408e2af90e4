"""Rosenbrock methods: published digits of stiff problems, stability, dense output, derivatives.

Their orders on a problem that is neither linear nor autonomous are among those of test_diffrax_ode.py.
"""

import functools
from typing import NamedTuple

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from simkit_solvers import Rodas5P, Rosenbrock23, Scalar

SOLVERS = (Rodas5P(), Rosenbrock23())
HIRES_END = (
    0.7371312573325668e-3,
    0.1442485726316185e-3,
    0.5888729740967575e-4,
    0.1175651343283149e-2,
    0.2386356198831331e-2,
    0.6238968252742796e-2,
    0.2849998395185769e-2,
    0.2850001604814231e-2,
)
ROBERTSON_END = (0.2083340149701255e-7, 0.8333360770334713e-13, 0.9999999791665050)


class SpeciesState(NamedTuple):
    a: Scalar
    b: Scalar
    c: Scalar


class HiresState(NamedTuple):
    y1: Scalar
    y2: Scalar
    y3: Scalar
    y4: Scalar
    y5: Scalar
    y6: Scalar
    y7: Scalar
    y8: Scalar


def robertson(t, y, slow):
    first, second, third = slow * y.a, 1e4 * y.b * y.c, 3e7 * y.b * y.b
    return SpeciesState(second - first, first - second - third, third)


def hires(t, y, args):
    bound = 280.0 * y.y6 * y.y8
    y7 = bound - 1.81 * y.y7
    return HiresState(
        -1.71 * y.y1 + 0.43 * y.y2 + 8.32 * y.y3 + 0.0007,
        1.71 * y.y1 - 8.75 * y.y2,
        -10.03 * y.y3 + 0.43 * y.y4 + 0.035 * y.y5,
        8.32 * y.y2 + 1.71 * y.y3 - 1.12 * y.y4,
        -1.745 * y.y5 + 0.43 * y.y6 + 0.43 * y.y7,
        -bound + 0.69 * y.y4 + 1.71 * y.y5 - 0.43 * y.y6 + 0.69 * y.y7,
        y7,
        -y7,
    )


def state(kind, values, dtype="float64"):
    return kind(*(jnp.asarray(x, dtype) for x in values))


def adaptive(rates, solver, y0, t1, args=None, rtol=1e-8, atol=1e-12, adjoint=None, saveat=None):
    return diffrax.diffeqsolve(
        diffrax.ODETerm(rates),
        solver,
        jnp.asarray(0.0),
        jnp.asarray(t1),
        None,
        y0,
        args,
        saveat=saveat or diffrax.SaveAt(t1=True),
        stepsize_controller=diffrax.PIDController(rtol=rtol, atol=atol),
        adjoint=adjoint or diffrax.RecursiveCheckpointAdjoint(),
        max_steps=20_000,
    )


@pytest.mark.parametrize(
    ("solver", "rtol", "steps"),
    [pytest.param(SOLVERS[0], 1e-9, 1500, marks=pytest.mark.slow), (SOLVERS[1], 1e-5, 2000)],
)
def test_robertson_to_the_published_digits(solver, rtol, steps):
    """Over eleven decades of time, a variable of 1e-13 included, at the tolerance asked for."""
    y0 = state(SpeciesState, (1, 0, 0))
    solution = adaptive(robertson, solver, y0, 1e11, 0.04, rtol, 1e-20)
    result = np.ravel(solution.ys)
    accumulated = 30 if isinstance(solver, Rosenbrock23) else 1
    np.testing.assert_allclose(result, ROBERTSON_END, rtol=accumulated * rtol)
    assert result.sum() == pytest.approx(1, abs=1e-12)
    assert solution.stats["num_steps"] < steps


@pytest.mark.slow
def test_hires_to_the_published_digits():
    start = (1, 0, 0, 0, 0, 0, 0, 0.0057)
    solution = adaptive(hires, Rodas5P(), state(HiresState, start), 321.8122)
    np.testing.assert_allclose(np.ravel(solution.ys), HIRES_END, rtol=1e-7)


@pytest.mark.slow
def test_an_array_takes_the_same_steps_as_scalars():
    """Elimination is written out for both."""
    start, program = (1, 0, 0), jax.jit(adaptive, static_argnums=(0, 1))
    scalars = program(robertson, Rosenbrock23(), state(SpeciesState, start), 1e3, 0.04, 1e-5)

    def rates(t, y, slow):
        return jnp.stack(robertson(t, SpeciesState(*y), slow))

    array = program(rates, Rosenbrock23(), jnp.asarray(start, float), 1e3, 0.04, 1e-5)
    assert array.stats["num_steps"] == scalars.stats["num_steps"]
    np.testing.assert_allclose(array.ys[0], np.ravel(scalars.ys), rtol=1e-9)


class OscillatorState(NamedTuple):
    x: Scalar
    v: Scalar


def forced_van_der_pol(t, y, mu):
    return OscillatorState(y.v, mu * ((1 - y.x * y.x) * y.v - y.x + t * t))


@pytest.mark.slow
def test_agrees_with_radau():
    """On a driven relaxation oscillator, at saved times between the steps."""
    times, y0 = jnp.linspace(0.0, 2.0, 9), state(OscillatorState, (2, 0))
    args = {"args": 300.0, "saveat": diffrax.SaveAt(ts=times)}
    result = np.stack(adaptive(forced_van_der_pol, Rodas5P(), y0, 2.0, **args).ys)

    def rates(t, y):
        return np.stack(forced_van_der_pol(t, OscillatorState(*y), 300.0))

    radau = solve_ivp(rates, (0, 2), (2, 0), "Radau", t_eval=np.asarray(times), rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(result, radau.y, rtol=1e-6, atol=1e-7)


@pytest.mark.slow
def test_agrees_with_kvaerno():
    y0, program = state(OscillatorState, (2, 0)), functools.partial(adaptive, forced_van_der_pol)
    rodas, kvaerno = (program(solver, y0, 2.0, 300.0).ys for solver in (Rodas5P(), diffrax.Kvaerno5()))
    np.testing.assert_allclose(np.ravel(rodas), np.ravel(kvaerno), rtol=1e-6)


def one_step(solver, rates, y0, h, args=None):
    terms, zero = diffrax.ODETerm(rates), jnp.zeros_like(h)
    return solver.step(terms, zero, h, y0, args, None, False)


@pytest.mark.parametrize("solver", SOLVERS)
def test_l_stability(solver):
    """|R(z)| <= 1 on the imaginary axis, and R tends to zero as z does to minus infinity."""

    @jax.jit
    @jax.vmap
    def amplification(rate, frequency):
        def rates(t, y, args):
            return OscillatorState(-rate * y.x - frequency * y.v, frequency * y.x - rate * y.v)

        y1 = one_step(solver, rates, state(OscillatorState, (1, 0)), jnp.asarray(1.0))[0]
        return jnp.hypot(y1.x, y1.v)

    frequencies = jnp.logspace(-2, 4, 200)
    assert amplification(jnp.zeros(200), frequencies).max() <= 1 + 1e-12
    rates = jnp.asarray([1e4, 1e7, 1e10])
    np.testing.assert_array_less(amplification(rates, jnp.zeros(3)), 20 / rates)


@pytest.mark.parametrize(("solver", "order"), [(SOLVERS[0], 4), (SOLVERS[1], 2)])
def test_order_of_the_dense_output(solver, order):
    """Within one step the error goes as the step length to the power of the order and one."""

    def rates(t, y, args):
        return OscillatorState(y.v + 0.4 * jnp.sin(2 * t), -1.3 * jnp.sin(y.x) + 0.5 * jnp.cos(3 * t))

    start, lengths = (0.4, 0.7), 0.2 * 0.8 ** np.arange(6)
    within = jnp.asarray([0.3, 0.55, 0.8])

    def inside(h):
        dense = one_step(solver, rates, state(OscillatorState, start), h)[2]
        path = solver.interpolation_cls(t0=jnp.zeros_like(h), t1=h, **dense)
        return jnp.stack(jax.vmap(path.evaluate)(within * h))

    result = jax.jit(jax.vmap(inside))(jnp.asarray(lengths))

    def numpy_rates(t, y):
        return np.stack(rates(t, OscillatorState(*y), None))

    exact = [
        solve_ivp(
            numpy_rates, (0, h), start, "DOP853", t_eval=np.asarray(within) * h, rtol=3e-14, atol=1e-16
        ).y
        for h in lengths
    ]
    errors = np.sqrt(np.mean((np.asarray(result) - exact) ** 2, axis=(1, 2)))
    assert np.polyfit(np.log(lengths), np.log(errors), 1)[0] == pytest.approx(order + 1, abs=0.2)


def test_the_dense_output_of_no_step_is_its_state():
    """As in the part of a solution's memory that was not needed; derivatives are finite there too."""
    dense = one_step(SOLVERS[1], lambda t, y, args: -y, jnp.asarray(2.0), jnp.asarray(0.1))[2]

    def at(end):
        return SOLVERS[1].interpolation_cls(t0=jnp.asarray(0.3), t1=end, **dense).evaluate(jnp.asarray(0.3))

    value, slope = jax.value_and_grad(at)(jnp.asarray(0.3))
    assert value == 2
    assert np.isfinite(slope)


@pytest.mark.parametrize(("solver", "degree"), [(SOLVERS[0], 4), (SOLVERS[1], 2)])
def test_the_error_estimate_of_a_rate_that_is_a_polynomial_in_time(solver, degree):
    """None below the degree at which the embedded method falls behind; there it is the size of the step's."""

    def step(power):
        y0, h = {"x": jnp.asarray(0.0)}, jnp.asarray(0.5)
        y1, error, *_ = one_step(solver, lambda t, y, args: {"x": (t + 0.3) ** power}, y0, h)
        exact = (0.8 ** (power + 1) - 0.3 ** (power + 1)) / (power + 1)
        return float(y1["x"]) - exact, float(error["x"])

    for power in range(degree):
        assert abs(step(power)[1]) < 1e-14
    off, error = step(degree)
    assert abs(error) > 1e-6
    if isinstance(solver, Rosenbrock23):  # whose result is that of lower order, the error's own
        assert abs(error) == pytest.approx(abs(off), rel=1e-12)


@pytest.mark.parametrize("solver", SOLVERS)
def test_an_impossible_step_is_tried_again_shorter(solver):
    """Outside the rates' domain the error is infinite, never NaN, and an adaptive run goes around."""

    def rates(t, y, args):
        return {"x": -100.0 * jnp.sqrt(y["x"]) * (1 + y["x"])}

    error = one_step(solver, rates, {"x": jnp.asarray(-1.0)}, jnp.asarray(0.1))[1]
    assert error["x"] == np.inf
    result = adaptive(rates, solver, {"x": jnp.asarray(4.0)}, 0.01, rtol=1e-6, atol=1e-9).ys["x"][0]
    assert result == pytest.approx(np.tan(np.arctan(2) - 0.5) ** 2, rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(
    "adjoint",
    [diffrax.ForwardMode(), pytest.param(diffrax.RecursiveCheckpointAdjoint(), marks=pytest.mark.slow)],
)
def test_derivatives_through_adaptive_steps(adjoint):
    """By the slow rate of Robertson's reaction, against a difference quotient."""
    y0 = state(SpeciesState, (1, 0, 0))

    def end(slow):
        return adaptive(robertson, Rosenbrock23(), y0, 40.0, slow, 1e-7, 1e-13, adjoint).ys.c[0]

    derivative = jax.jacfwd if isinstance(adjoint, diffrax.ForwardMode) else jax.jacrev
    h, values = 1e-4, jax.jit(jax.vmap(end))
    low, high = np.asarray(values(jnp.asarray([0.04 - h, 0.04 + h])))
    assert jax.jit(derivative(end))(jnp.asarray(0.04)) == pytest.approx((high - low) / (2 * h), rel=1e-3)


@pytest.mark.more
@pytest.mark.parametrize("names", [pytest.param("abc", marks=pytest.mark.slow), "abcdefghi"])
def test_stages_in_a_loop_are_those_written_out(names):
    """Copies of a system, too many numbers to write out, or to invert, take the steps of one."""

    def rates(t, y, args):
        return OscillatorState(y.v + 0.4 * jnp.sin(2 * t), -1.3 * jnp.sin(y.x) + 0.5 * jnp.cos(3 * t))

    def copies(t, y, args):
        return {name: rates(t, each, args) for name, each in y.items()}

    y0, h = state(OscillatorState, (0.4, 0.7)), jnp.asarray(0.3)
    for solver in SOLVERS:
        one = one_step(solver, rates, y0, h)[:3]
        all_of_them = one_step(solver, copies, dict.fromkeys(names, y0), h)[:3]
        for name in names:
            np.testing.assert_allclose(all_of_them[0][name], one[0], rtol=1e-12)
            np.testing.assert_allclose(all_of_them[1][name], one[1], rtol=1e-9)
            for D, own in zip(all_of_them[2]["D"], one[2]["D"], strict=True):
                np.testing.assert_allclose(D[name], own, rtol=1e-9)
