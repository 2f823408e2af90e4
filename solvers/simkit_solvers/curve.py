"""Numbers that change with time, and curves through given points."""

import abc
import itertools
from typing import Literal, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from simkit_solvers.problem import Scalar

Interpolation = Literal["linear", "previous", "cubic"]
FEW_NODES = 64  # up to so many are compared with t all at once; of more the interval is found by halving
INSIDE = 1 / 64  # of a step: a node as near to its end as this is taken to lie there


class AbstractTimeFunction(eqx.Module):
    """A number that changes with time."""

    @property
    @abc.abstractmethod
    def nodes(self) -> tuple[jax.Array | np.ndarray, ...]:
        """The times at which it is not smooth, as arrays of any length."""

    @abc.abstractmethod
    def __call__(self, t) -> jax.Array:
        """The value at a scalar time, and after the jump where there is one."""

    @abc.abstractmethod
    def within(self, t0, t1) -> "Scalar | AbstractTimeFunction":
        """The same from `t0` to `t1`, where a node at an end lies outside: just a number if it is constant.

        A solver's stage at the end of a step then sees the value before a jump there, and the clock's
        rounding does not decide on which side of a node a step lies.
        """


class Curve(AbstractTimeFunction):
    r"""A curve through the points (`times`, `values`), constant before the first and after the last.

    `linear` joins them by straight lines, `previous` keeps each value until the next time, `cubic` is the
    piecewise cubic with a continuous slope that stays between neighbouring values (PCHIP). At an inner point
    with slopes $\delta_-, \delta_+$ of the lines over intervals of lengths $h_-, h_+$ its slope is

    $$d = \frac{3 (h_- + h_+)\,\delta_- \delta_+}{(2 h_+ + h_-)\,\delta_+ + (h_+ + 2 h_-)\,\delta_-},$$

    and zero where these differ in sign. Times and values are arrays of floats, and differentiable.
    Raises `ValueError` unless there are as many times as values, two or more (one of `previous`), and the
    times increase, where they are no tracers.
    Reference: Fritsch & Butland (1984), A method for constructing local monotone piecewise cubic
    interpolants, doi:10.1137/0905021.
    """

    times: jax.Array | np.ndarray
    values: jax.Array | np.ndarray
    interpolation: Interpolation = eqx.field(static=True, default="linear")

    def __check_init__(self):
        known = get_args(Interpolation)
        if self.interpolation not in known:
            raise ValueError(f"Curve.interpolation: must be {' or '.join(known)}, got {self.interpolation!r}")
        shape, least = np.shape(self.times), 1 if self.interpolation == "previous" else 2
        if len(shape) != 1 or np.shape(self.values) != shape or shape[0] < least:
            raise ValueError(
                f"Curve: needs as many times as values, {least} or more, got {shape} and "
                f"{np.shape(self.values)}"
            )
        if not isinstance(self.times, Tracer):
            steps = np.diff(np.asarray(self.times))
            if not np.all(steps > 0):
                first = int(np.argmin(steps > 0))
                raise ValueError(
                    f"Curve.times: must increase, got {float(self.times[first]):g} and then "
                    f"{float(self.times[first + 1]):g}"
                )

    @property
    def nodes(self):
        return (self.times,)

    def __call__(self, t):
        return self._value(t, t)

    def within(self, t0, t1):
        if self.interpolation == "previous":
            return self(0.5 * (t0 + t1))
        return _CurveWithin(self, t0, t1)

    def _value(self, t, seen_from):
        """The value at `t` of the piece in which another time lies."""
        dtype = jnp.result_type(t)
        times, values = jnp.asarray(self.times, dtype), jnp.asarray(self.values, dtype)
        last = len(times) - 1
        method = "compare_all" if len(times) <= FEW_NODES else "scan_unrolled"
        i = jnp.searchsorted(times, seen_from, side="right", method=method) - 1
        if self.interpolation == "previous":
            return values[jnp.clip(i, 0, last)]
        i = jnp.clip(i, 0, last - 1)
        # Not jnp.clip, whose slope at an end is a half: implicit methods differentiate with respect to time.
        t = jnp.where(t < times[0], times[0], jnp.where(t > times[last], times[last], t))
        h = times[i + 1] - times[i]
        slope, s = (values[i + 1] - values[i]) / h, t - times[i]
        if self.interpolation == "linear":
            return values[i] + s * slope
        left, right = _slopes(times, values, i)
        a, b = (3 * slope - 2 * left - right) / h, (left + right - 2 * slope) / (h * h)
        return values[i] + s * (left + s * (a + s * b))


class _CurveWithin(AbstractTimeFunction):
    """A curve from `t0` to `t1`: pieces that only touch this interval are not seen."""

    curve: Curve
    t0: Scalar
    t1: Scalar

    @property
    def nodes(self):
        return self.curve.nodes

    def __call__(self, t):
        margin = INSIDE * (self.t1 - self.t0)
        seen_from = jnp.minimum(jnp.maximum(t, self.t0 + margin), self.t1 - margin)
        return self.curve._value(t, seen_from)

    def within(self, t0, t1):
        return self.curve.within(t0, t1)


def _slopes(times, values, i):
    """The slopes of the monotone cubic at both ends of piece `i`."""
    last = len(times) - 1
    if last == 1:
        slope = (values[1] - values[0]) / (times[1] - times[0])
        return slope, slope
    at = [jnp.clip(i + k, 0, last) for k in (-1, 0, 1, 2)]
    t, v = [times[k] for k in at], [values[k] for k in at]
    h = [jnp.where(b > a, b - a, 1.0) for a, b in itertools.pairwise(t)]
    slopes = [(b - a) / size for (a, b), size in zip(itertools.pairwise(v), h, strict=True)]
    before, here, after = slopes
    left = jnp.where(i == 0, _end_slope(h[1], h[2], here, after), _inner_slope(h[0], h[1], before, here))
    inner = _inner_slope(h[1], h[2], here, after)
    return left, jnp.where(i == last - 1, _end_slope(h[1], h[0], here, before), inner)


def _inner_slope(h_before, h_after, before, after):
    same = before * after > 0
    weighted = (2 * h_after + h_before) * after + (h_after + 2 * h_before) * before
    return jnp.where(same, 3 * (h_before + h_after) * before * after / jnp.where(same, weighted, 1.0), 0.0)


def _end_slope(h, h_next, here, following):
    """That of the parabola through three points, kept from overshooting."""
    slope = ((2 * h + h_next) * here - h * following) / (h + h_next)
    slope = jnp.where(slope * here <= 0, 0.0, slope)
    too_steep = (here * following < 0) & (jnp.abs(slope) > 3 * jnp.abs(here))
    return jnp.where(too_steep, 3 * here, slope)
