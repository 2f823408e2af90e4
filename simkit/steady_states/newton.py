"""Newton's method at fixed conserved totals, and the error of what it finds."""

import dataclasses
import functools
from typing import NamedTuple

import numpy as np
from scipy.linalg import null_space

from simkit.steady_states.rates import Rates

ITERATIONS = 200
CONVERGED = 1e-6  # the error of a root, relative to its variables
NEAR = 1e-6  # changes below which rounding, rather than a poor start, may be why they no longer shrink
SINGULAR = 4 * np.finfo(float).eps  # of singular values of the Jacobian, against the largest
FLAT = np.geomspace(1e-16, 1e-2, 57)  # distances along a direction in which the Jacobian says nothing
SHORTEST = 2.0**-14  # part of a step of Newton's
SLOWEST = 0.9  # ratio of successive changes: at a root without a Jacobian they shrink by a factor
DIGITS = float(np.finfo(float).eps) ** 0.5  # how well a root is known where the Jacobian is singular, at best
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
    changes along. So the Jacobian has none of the zero eigenvalues that the totals would give it, and every
    state has the totals of the start up to rounding. `scale` are the typical sizes.
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

    def within(self, y: np.ndarray) -> np.ndarray:
        """The nearest state with the totals of the start."""
        return self.start + self.free @ (self.basis.T @ ((y - self.start) / self.scale))

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
            near = size <= NEAR
            new = self._step(y, inverse, change)
            if near and (new is None or size >= SLOWEST * before):
                break
            if new is None:
                break
            before, ratio, y = size, min(size / before, SLOWEST), new
            inverse = self._inverse_at(y)
        root = self._judged(y, inverse, ratio)
        return self._without_traces(root)

    def _step(self, y: np.ndarray, inverse: np.ndarray, change: np.ndarray) -> np.ndarray | None:
        """The state after as much of a change as helps; None where none of it does."""
        part = 1.0
        while part >= SHORTEST:
            new = y + part * change
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
        if not root.converged or np.array_equal(rounded, root.state):
            return root
        judged = self._judged(rounded, self._inverse_at(rounded), 0.0)
        moved = rounded != root.state
        back = abs(judged.error[moved]) > abs(root.state[moved])
        return root if back.any() or not judged.converged else judged

    def _judged(self, y: np.ndarray, inverse: np.ndarray | None, ratio: float) -> Root:
        """The root with its error: the next change, all that would follow, and rounding."""
        residual = self.rates(y)
        if inverse is None or not np.isfinite(residual).all():
            return Root(y, np.full_like(y, np.inf), residual, False)
        jacobian, rounding = self.rates.jacobian(y), self.rates.rounding(y)
        last = abs(inverse @ residual) / (1 - ratio)
        error = last + 2 * abs(inverse) @ rounding + np.finfo(float).eps * abs(y)
        error += self._flat(y, jacobian, residual, rounding)
        explained = bool(np.all(abs(residual) <= 2 * abs(jacobian) @ error + rounding))
        return Root(y, error, residual, explained and self.relative(error, y) <= CONVERGED)

    def _flat(self, y: np.ndarray, jacobian: np.ndarray, residual: np.ndarray, rounding: np.ndarray):
        """How far a state may be off in directions in which the Jacobian is singular within rounding.

        That is as far as the rates stay small, and half of the digits at least. Where they are small all
        along, as on a line of steady states, it is nothing.
        """
        _, values, rows = np.linalg.svd(self.reduced(jacobian))
        noise = 8 * np.finfo(float).eps * values[0]  # of the rates, for that of such a direction
        small = 4 * np.linalg.norm((abs(residual) + rounding) / self.scale)
        total = np.zeros_like(y)
        for i in np.flatnonzero(values <= SINGULAR * values[0]):
            push = self.free @ rows[i]
            steps = FLAT / self.relative(push, y)
            states = y + np.concatenate([steps, -steps])[:, None] * push
            sizes = np.linalg.norm(self.rates.each(states) / self.scale, axis=1)
            flat = sizes <= small + noise * np.tile(steps, 2)
            if not flat.all():
                total += abs(push) * max([DIGITS / self.relative(push, y), *np.tile(steps, 2)[flat]])
        return total
