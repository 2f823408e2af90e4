"""Newton's method at fixed conserved totals, and the error of what it finds."""

import dataclasses
import functools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.linalg import null_space

from simkit.steady_states.rates import Rates

ITERATIONS = 200
CONVERGED = 1e-3  # the error of a root, relative to its variables; of one of high multiplicity it is large
EPS = float(np.finfo(float).eps)
NEAR = 1e-6  # changes below which rounding, rather than a poor start, may be why they no longer shrink
SINGULAR = 4 * EPS  # of singular values of the Jacobian, against the largest
FLAT = np.geomspace(1e-16, 1e-2, 57)  # distances along a direction in which the Jacobian says nothing
SHORTEST = 2.0**-14  # part of a step of Newton's
SLOWEST = 0.9  # ratio of successive changes: at a root without a Jacobian they shrink by a factor
DIGITS = EPS**0.5  # how well a root is known where the Jacobian is singular, at best
STEP = 1e-6  # of differences, relative to a variable
TRACE = 1e-20  # of a typical size


class Root(NamedTuple):
    """A state with its error, the rates of change that it leaves, and whether Newton's method converged."""

    state: np.ndarray
    error: np.ndarray
    residual: np.ndarray
    converged: bool


@dataclasses.dataclass(frozen=True)
class Fixed:
    """Rates of change at the conserved totals of a start, in as many coordinates as directions are free.

    A state is $y_0 + S B z$, with typical sizes S of the variables and orthonormal columns B that no total
    changes along. So the Jacobian has none of the zero eigenvalues that the totals would give it. Every state
    is moved back to the totals of the start where it is off by more than their rounding. `scale` are the
    typical sizes.
    """

    rates: Rates
    weights: np.ndarray
    start: np.ndarray
    scale: np.ndarray

    @functools.cached_property
    def free(self) -> np.ndarray:
        """The matrix S B, a column for each direction."""
        return self.scale[:, None] * self.basis

    @functools.cached_property
    def basis(self) -> np.ndarray:
        """The matrix B."""
        if not len(self.weights):
            return np.eye(len(self.start))
        rows = self.weights * self.scale
        return null_space(rows / np.linalg.norm(rows, axis=1, keepdims=True))

    @functools.cached_property
    def lift(self) -> np.ndarray:
        """The least change, in typical sizes, that raises each total by 1; a column for each."""
        if not len(self.weights):
            return np.zeros((len(self.start), 0))
        rows = self.weights * self.scale
        norms = np.linalg.norm(rows, axis=1)
        return self.scale[:, None] * np.linalg.pinv(rows / norms[:, None]) / norms

    def within(self, y: np.ndarray) -> np.ndarray:
        """The nearest state with the totals of the start."""
        off = self.weights @ (y - self.start)
        return y - self.lift @ np.where(abs(off) > self.totals_rounding(y), off, 0.0)

    def totals_rounding(self, y: np.ndarray) -> np.ndarray:
        """What rounding of the variables makes of the totals."""
        return EPS * (abs(self.weights) @ (abs(y) + abs(self.start)))

    def reduced(self, matrix: np.ndarray) -> np.ndarray:
        """A matrix of derivatives by the variables, in the coordinates z."""
        return self.basis.T @ (matrix / self.scale[:, None]) @ self.free

    def inverse(self, jacobian: np.ndarray) -> np.ndarray:
        """The inverse of a Jacobian where totals stay; of one that is singular there, the pseudo-inverse."""
        rows = (self.basis / self.scale[:, None]).T
        return self.free @ np.linalg.pinv(self.reduced(jacobian), rcond=SINGULAR) @ rows

    def relative(self, change: np.ndarray, y: np.ndarray) -> float:
        """The largest change of a variable, relative to it or its typical size."""
        return float(np.max(abs(change) / np.maximum(abs(y), self.scale)))

    def neighbours(self, root: Root) -> Iterator[tuple[np.ndarray, float, float]]:
        """For each variable the state with it alone moved, by how much, and the error of the root in it."""
        for i, error in enumerate(root.error):
            step = STEP * max(abs(root.state[i]), self.scale[i])
            moved = root.state.copy()
            moved[i] += step
            yield moved, step, float(error)

    def root_from(self, y: np.ndarray) -> Root:
        """Damped Newton's method from a state. What did not converge is where it ended.

        A step is shortened until the next one, with the same Jacobian, is shorter, which does not depend on
        the units of the variables. Reference: Deuflhard (2011), Newton Methods for Nonlinear Problems,
        doi:10.1007/978-3-642-23899-4.
        """
        y, before, ratio = self.within(y), np.inf, 0.0
        inverse = self._inverse_at(y)
        for _ in range(ITERATIONS):
            change = np.full_like(y, np.inf) if inverse is None else -inverse @ self.rates(y)
            size = self.relative(change, y)
            if inverse is None or not np.isfinite(size) or size == 0:
                break
            new = self._step(y, inverse, change)
            if new is None or (size <= NEAR and size >= SLOWEST * before):
                break
            before, ratio, y = size, min(size / before, SLOWEST), new
            inverse = self._inverse_at(y)
        root = self._judged(y, ratio)
        return self._without_traces(root)

    def _step(self, y: np.ndarray, inverse: np.ndarray, change: np.ndarray) -> np.ndarray | None:
        """The state after as much of a change as helps; None where none of it does."""
        part = 1.0
        while part >= SHORTEST:
            new = self.within(y + part * change)
            rates = self.rates(new)
            if np.isfinite(rates).all():
                next_size = np.linalg.norm((inverse @ rates) / self.scale)
                if next_size <= (1 - part / 4) * np.linalg.norm(change / self.scale):
                    return new
            part /= 2
        return None

    def _inverse_at(self, y: np.ndarray) -> np.ndarray | None:
        jacobian = self.rates.jacobian(y)
        return self.inverse(jacobian) if np.isfinite(jacobian).all() else None

    def _without_traces(self, root: Root) -> Root:
        """The root with zeros in place of what Newton's method leaves of them, unless it would go back."""
        rounded = np.where(abs(root.state) <= TRACE * self.scale, 0.0, root.state)
        if np.array_equal(rounded, root.state) or not (root.converged or not self.rates(rounded).any()):
            return root
        judged = self._judged(rounded, 0.0)
        moved = rounded != root.state
        back = abs(judged.error[moved]) > abs(root.state[moved])
        return root if root.converged and (back.any() or not judged.converged) else judged

    def _judged(self, y: np.ndarray, ratio: float) -> Root:
        """The root with its error: the next change, all that would follow, and rounding.

        It is one if rounding accounts for the rates that it leaves. Where these are so flat along a direction
        that rounding takes more than `NEAR` of the variables, or all digits of the Jacobian, the error is how
        far they stay small.
        """
        residual, jacobian = self.rates(y), self.rates.jacobian(y)
        if not (residual.any() or np.isfinite(jacobian).all()):  # as of sqrt(x) at 0
            alone = not self._rests_beside(y)
            return Root(y, EPS * abs(y) if alone else np.full_like(y, np.inf), residual, alone)
        if not (np.isfinite(residual).all() and np.isfinite(jacobian).all()):
            return Root(y, np.full_like(y, np.inf), residual, False)
        rounding = self.rates.rounding(y)
        off = abs(residual) / (1 - ratio) + 2 * rounding
        left, values, rows = np.linalg.svd(self.reduced(jacobian))
        lengths = np.asarray([self.relative(self.free @ row, y) for row in rows])
        push = abs(left.T) @ abs(self.basis.T) @ (off / self.scale)
        flat = (values <= SINGULAR * values.max(initial=0.0)) | (push * lengths > NEAR * values)
        upright = (rows[~flat].T / values[~flat]) @ left[:, ~flat].T
        inverse = self.free @ upright @ (self.basis / self.scale[:, None]).T
        by_total = self.lift - inverse @ (jacobian @ self.lift)
        rounded = 2 * abs(inverse) @ rounding + EPS * abs(y) + abs(by_total) @ self.totals_rounding(y)
        error = abs(inverse @ residual) / (1 - ratio) + rounded
        small = 4 * float(np.linalg.norm((abs(residual) + rounding) / self.scale))
        noise = 8 * EPS * values.max(initial=0.0)  # of the rates, for that of such a direction
        allowed = 2 * (abs(jacobian) @ rounded + rounding)
        for row, length in zip(rows[flat], lengths[flat], strict=True):
            reach = self._reach(y, self.free @ row, length, small, noise)
            error += reach * abs(self.free @ row)
            allowed += reach * noise * self.scale
        explained = bool(np.all(abs(residual) <= allowed))
        return Root(y, error, residual, explained and self.relative(error, y) <= CONVERGED)

    def _rests_beside(self, y: np.ndarray) -> bool:
        """Whether nothing changes next to a state either, on one of the sides in some direction."""
        pushes = 1e-6 * self.scale * np.concatenate([self.free.T, -self.free.T])
        return not self.rates.each(y + pushes).any(axis=1).all()

    def _reach(self, y: np.ndarray, push: np.ndarray, length: float, small: float, noise: float) -> float:
        """How far from a state along a direction the rates stay small, and half of the digits at least.

        Where they are small all along, as on a line of steady states, it is nothing.
        """
        steps = FLAT / length
        sizes = np.linalg.norm(
            self.rates.each(y + np.concatenate([steps, -steps])[:, None] * push) / self.scale, axis=1
        )
        near = sizes <= small + noise * np.tile(steps, 2)
        return 0.0 if near.all() else max([DIGITS / length, *np.tile(steps, 2)[near]])
