"""Numbers that change with time, and curves through given points."""

import abc
from typing import Literal, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float, Int

from simkit_solvers.numerics.scalar import Scalar

Interpolation = Literal["linear", "previous", "cubic"]
FEW_NODES = 64  # nodes compared with t all at once; among more of them the interval is searched by halving
INSIDE = 1 / 64  # of a step: a node as near to its end as this counts as lying there


class AbstractTimeFunction(eqx.Module):
    """A number that changes with time.

    >>> import numpy as np
    >>> from simkit_solvers import AbstractTimeFunction, Curve
    >>> isinstance(Curve(np.array([0.0, 1.0]), np.array([1.0, 3.0])), AbstractTimeFunction)
    True
    """

    @property
    @abc.abstractmethod
    def nodes(self) -> tuple[jax.Array | np.ndarray, ...]:
        """The times at which it is not smooth, as arrays of any length."""

    @abc.abstractmethod
    def __call__(self, t: Scalar) -> Float[Array, ""]:
        """The value at a scalar time, and after the jump where there is one."""

    @abc.abstractmethod
    def within(self, t0: Scalar, t1: Scalar) -> "Scalar | AbstractTimeFunction":
        """This function from `t0` to `t1`, where a node at an end lies outside; a number if it is constant.

        A solver's stage at the end of a step then sees the value before a jump there, and the clock's
        rounding does not decide on which side of a node a step lies.
        """

    @abc.abstractmethod
    def between(self, t0: Scalar, t1: Scalar) -> "Scalar | AbstractTimeFunction":
        """This function from `t0` to `t1`, between which there is no node; a number if it is constant."""

    @abc.abstractmethod
    def prepared(self) -> "AbstractTimeFunction":
        """This function, with all that does not depend on time computed once, for loops over many times."""


class Curve(AbstractTimeFunction):
    r"""A curve through the points (`times`, `values`), constant before the first and after the last.

    `linear` joins them by straight lines, `previous` keeps each value until the next time, `cubic` is the
    piecewise cubic with a continuous slope that stays between neighbouring values (PCHIP). At an inner point
    with slopes $\delta_-, \delta_+$ of the lines over intervals of lengths $h_-, h_+$ its slope is

    $$d = \frac{3 (h_- + h_+)\,\delta_- \delta_+}{(2 h_+ + h_-)\,\delta_+ + (h_+ + 2 h_-)\,\delta_-},$$

    and zero where these differ in sign. Times and values are floats `(points,)`, and differentiable.
    Raises `ValueError` unless there are as many times as values, two or more (one of `previous`), and the
    times increase, where they are no tracers.
    Reference: Fritsch & Butland (1984), A method for constructing local monotone piecewise cubic
    interpolants, doi:10.1137/0905021.

    >>> import numpy as np
    >>> from simkit_solvers import Curve
    >>> curve = Curve(np.array([0.0, 1.0]), np.array([1.0, 3.0]))
    >>> float(curve(0.5)), float(curve(2.0))
    (2.0, 3.0)
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
    def nodes(self) -> tuple[jax.Array | np.ndarray, ...]:
        return (self.times,)

    def __call__(self, t: Scalar) -> Float[Array, ""]:
        return self.prepared()(t)

    def within(self, t0: Scalar, t1: Scalar) -> "Scalar | AbstractTimeFunction":
        return self.prepared().within(t0, t1)

    def between(self, t0: Scalar, t1: Scalar) -> "Scalar | AbstractTimeFunction":
        return self.prepared().between(t0, t1)

    def prepared(self) -> AbstractTimeFunction:
        times, values = jnp.asarray(self.times), jnp.asarray(self.values)
        if self.interpolation == "previous":
            return _Pieces(times, values, ())
        h = jnp.diff(times)
        slope = jnp.diff(values) / h
        if self.interpolation == "linear":
            return _Pieces(times, values, (slope,))
        ends = _monotone_slopes(h, slope)
        left, right = ends[:-1], ends[1:]
        cubic = (left, (3 * slope - 2 * left - right) / h, (left + right - 2 * slope) / (h * h))
        return _Pieces(times, values, cubic)


class _Pieces(AbstractTimeFunction):
    """Polynomials of the time since each node: the values there, and the higher coefficients in order."""

    times: jax.Array
    values: jax.Array
    higher: tuple[jax.Array, ...]

    @property
    def nodes(self) -> tuple[jax.Array | np.ndarray, ...]:
        return (self.times,)

    def __call__(self, t: Scalar) -> Float[Array, ""]:
        return self.value(t, t)

    def within(self, t0: Scalar, t1: Scalar) -> "Scalar | AbstractTimeFunction":
        if not self.higher:
            return self(0.5 * (t0 + t1))
        return _PiecesWithin(self, t0, t1)

    def between(self, t0: Scalar, t1: Scalar) -> "Scalar | AbstractTimeFunction":
        middle = 0.5 * (t0 + t1)
        if not self.higher:
            return self(middle)
        times, values, i = self._piece(middle)
        begin = jnp.where(middle < times[0], values[0], jnp.where(middle < times[-1], values[i], values[-1]))
        inside = (middle >= times[0]) & (middle < times[-1])
        return _CurvePiece(self, i, begin, jnp.where(inside, values[i + 1], begin))

    def prepared(self) -> AbstractTimeFunction:
        return self

    def value(self, t: Scalar, seen_from: Scalar) -> Float[Array, ""]:
        """The value at `t` of the piece in which another time lies."""
        times, _, i = self._piece(seen_from)
        if self.higher:
            # By the time seen from, since rounding may put the end of a step beyond that of the curve. Not
            # jnp.clip, whose slope at an end is a half: implicit methods differentiate by the time.
            outside = jnp.where(seen_from > times[-1], times[-1], t)
            t = jnp.where(seen_from < times[0], times[0], outside)
        return self.polynomial(t, i)

    def polynomial(self, t: Scalar, i: Int[Array, ""]) -> Float[Array, ""]:
        """The polynomial of piece `i`, in it or not."""
        dtype = jnp.result_type(t)
        first, *rest = (jnp.asarray(each, dtype)[i] for each in (self.values, *self.higher))
        if not rest:
            return first
        *rest, value = first, *rest
        s = t - jnp.asarray(self.times, dtype)[i]
        for coefficient in reversed(rest):
            value = coefficient + s * value
        return value

    def _piece(self, t: Scalar) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Nodes and values in the precision of a time, and the number of the piece in which it lies."""
        times, values = (jnp.asarray(each, jnp.result_type(t)) for each in (self.times, self.values))
        method = "compare_all" if len(times) <= FEW_NODES else "scan_unrolled"
        i = jnp.searchsorted(times, t, side="right", method=method) - 1
        pieces = len(times) - 1 if self.higher else len(times)
        return times, values, jnp.clip(i, 0, pieces - 1)


class _CurvePiece(AbstractTimeFunction):
    """Piece `i` alone, which is monotone: rounding does not take it beyond its values at the ends."""

    pieces: _Pieces
    i: jax.Array
    begin: jax.Array
    end: jax.Array

    @property
    def nodes(self) -> tuple[jax.Array | np.ndarray, ...]:
        return self.pieces.nodes

    def __call__(self, t: Scalar) -> Float[Array, ""]:
        value = self.pieces.polynomial(t, self.i)
        return jnp.clip(value, jnp.minimum(self.begin, self.end), jnp.maximum(self.begin, self.end))

    def within(self, t0: Scalar, t1: Scalar) -> "Scalar | AbstractTimeFunction":
        return self.pieces.within(t0, t1)

    def between(self, t0: Scalar, t1: Scalar) -> "Scalar | AbstractTimeFunction":
        return self.pieces.between(t0, t1)

    def prepared(self) -> AbstractTimeFunction:
        return self


class _PiecesWithin(AbstractTimeFunction):
    """Pieces from `t0` to `t1`: those that only touch this interval are not seen."""

    pieces: _Pieces
    t0: Scalar
    t1: Scalar

    @property
    def nodes(self) -> tuple[jax.Array | np.ndarray, ...]:
        return self.pieces.nodes

    def __call__(self, t: Scalar) -> Float[Array, ""]:
        margin = INSIDE * (self.t1 - self.t0)
        seen_from = jnp.minimum(jnp.maximum(t, self.t0 + margin), self.t1 - margin)
        return self.pieces.value(t, seen_from)

    def within(self, t0: Scalar, t1: Scalar) -> "Scalar | AbstractTimeFunction":
        return self.pieces.within(t0, t1)

    def between(self, t0: Scalar, t1: Scalar) -> "Scalar | AbstractTimeFunction":
        return self.pieces.between(t0, t1)

    def prepared(self) -> AbstractTimeFunction:
        return self


def _monotone_slopes(h, slope):
    """The slopes of the monotone cubic at the nodes, given lengths and slopes of the lines between them."""
    if len(h) == 1:
        return jnp.concatenate([slope, slope])
    before, after, h_before, h_after = slope[:-1], slope[1:], h[:-1], h[1:]
    same = before * after > 0
    weighted = (2 * h_after + h_before) * after + (h_after + 2 * h_before) * before
    inner = jnp.where(same, 3 * (h_before + h_after) * before * after / jnp.where(same, weighted, 1.0), 0.0)
    first, last = (_end_slope(h[i], h[j], slope[i], slope[j]) for i, j in ((0, 1), (-1, -2)))
    return jnp.concatenate([first[None], inner, last[None]])


def _end_slope(h, h_next, here, following):
    """The slope of the parabola through three points at its end, limited so that it does not overshoot."""
    slope = ((2 * h + h_next) * here - h * following) / (h + h_next)
    slope = jnp.where(slope * here <= 0, 0.0, slope)
    too_steep = (here * following < 0) & (jnp.abs(slope) > 3 * jnp.abs(here))
    return jnp.where(too_steep, 3 * here, slope)
