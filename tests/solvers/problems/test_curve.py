"""Curves through given points, against NumPy and SciPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.interpolate import PchipInterpolator
from simkit_solvers import Curve


@pytest.mark.parametrize(("count", "dtype"), [(2, "float64"), (3, "float32"), (6, "float64")])
def test_curves_are_those_of_numpy_and_scipy(count, dtype):
    rng = np.random.default_rng(count)
    times, values = np.cumsum(rng.uniform(0.5, 2, count)), rng.normal(size=count)
    values[:3] = [0.0, 1.0, -9.0][:count]  # the parabola at the first point would overshoot
    t = np.linspace(times[0], times[-1], 97)
    wanted = {
        "linear": np.interp(t, times, values),
        "previous": values[np.searchsorted(times, t, side="right") - 1],
        "cubic": PchipInterpolator(times, values)(t),
    }
    for interpolation, exact in wanted.items():
        curve = Curve(times, values, interpolation)
        program = jax.jit(jax.vmap(curve))
        result = program(jnp.asarray(t, dtype))
        assert result.dtype == dtype
        inner = slice(None, -1)  # the last time may be rounded to before the last jump
        np.testing.assert_allclose(result[inner], exact[inner], atol=2e-6 if dtype == "float32" else 1e-14)
        outside = jnp.asarray([times[0] - 1, times[-1] + 1], dtype)
        np.testing.assert_allclose(program(outside), values[[0, -1]], rtol=1e-6)


@pytest.mark.more
def test_a_cubic_through_rising_points_weighs_intervals_by_their_lengths():
    """Where the slopes of the lines change sign at each point, as above, all those of the cubic are 0."""
    times, values = np.array([0.0, 0.2, 1.0, 1.1, 3.0]), np.array([0.0, 1.0, 1.5, 4.0, 4.5])
    t = np.linspace(0, 3, 97)
    result = jax.vmap(Curve(times, values, "cubic"))(jnp.asarray(t))
    np.testing.assert_allclose(result, PchipInterpolator(times, values)(t), atol=1e-14)


def test_a_long_curve_is_found_by_halving():
    times = np.arange(200.0) ** 1.1
    t = np.linspace(0, times[-1] - 1e-9, 333)
    result = jax.vmap(Curve(times, times**2, "linear"))(jnp.asarray(t))
    np.testing.assert_allclose(result, np.interp(t, times, times**2), rtol=1e-13)


@pytest.mark.parametrize("interpolation", ["linear", "previous", "cubic"])
def test_a_curve_between_its_nodes_is_the_curve(interpolation):
    """And constant outside; rounding takes it nowhere beyond its neighbouring values, such as below 0."""
    times, values = np.array([0.0, 0.7, 1.1, 3.0]), np.array([0.0, 0.3, 0.0, 7.0])
    curve = Curve(times, values, interpolation)
    for t0, t1 in ((-1.0, 0.0), (0.0, 0.7), (0.7, 1.1), (1.1, 3.0), (3.0, 5.0)):
        piece = curve.between(jnp.asarray(t0), jnp.asarray(t1))
        t = jnp.linspace(t0 + 1e-9, t1 - 1e-9, 33)
        inside = jax.vmap(lambda t, piece=piece: piece(t) if callable(piece) else piece)(t)
        np.testing.assert_allclose(inside, jax.vmap(curve)(t), atol=1e-14)
    single = Curve(times.astype("float32"), values.astype("float32"), interpolation)
    piece = single.between(jnp.float32(0.7), jnp.float32(1.1))
    if callable(piece):
        ends = jnp.nextafter(jnp.float32(1.1), jnp.float32(2) * jnp.arange(2, dtype="float32"))
        assert (np.asarray(jax.vmap(piece)(ends)) >= 0).all()
