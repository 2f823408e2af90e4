r"""Derivatives of a steady state, by the implicit function theorem, with their errors.

With the inverse $G$ of the Jacobian where totals stay, $\partial_\theta y^* = \partial_\theta y_0 -
G\,(J\,\partial_\theta y_0 + \partial_\theta f)$: a start that moves also moves its conserved totals.
"""

from collections.abc import Sequence

import numpy as np

from simkit.steady_states.newton import Fixed, Root


def derivatives_of(fixed: Fixed, root: Root, names: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """The derivatives of variables, then observables, in targets by name, a column each, and their errors.

    An error is that of the root times the slope of the derivative, and what rounding makes of the solution of
    the linear system. A derivative that is undefined in this state is not finite.
    """
    values = _derivatives(fixed, root.state, names)
    error = _rounding(fixed, root.state, names, values)
    for moved, step, off in fixed.neighbours(root):
        error += abs(_derivatives(fixed, moved, names) - values) / step * off
    if len(names) > 1 and not np.isfinite(values).all():
        # Another target's direction is zero along one, but zero times an undefined slope is undefined.
        alone = [derivatives_of(fixed, root, [name]) for name in names]
        values, error = (np.concatenate(columns, axis=1) for columns in zip(*alone, strict=True))
    return values, error


def _derivatives(fixed: Fixed, y: np.ndarray, names: Sequence[str]) -> np.ndarray:
    rates = fixed.rates
    jacobian = rates.jacobian(y)
    slopes, start = rates.slopes(names, y)
    of_state = start - fixed.inverse(jacobian) @ (jacobian @ start + slopes)
    by_state, by_target = rates.observed_slopes(names, y)
    return np.concatenate([of_state, by_state @ of_state + by_target])


def _rounding(fixed: Fixed, y: np.ndarray, names: Sequence[str], values: np.ndarray) -> np.ndarray:
    rates, eps = fixed.rates, np.finfo(float).eps
    jacobian = rates.jacobian(y)
    slopes, start = rates.slopes(names, y)
    of_state = abs(values[: len(y)])
    terms = abs(jacobian) @ (of_state + abs(start)) + abs(slopes)
    off = 4 * len(y) * eps * (abs(fixed.inverse(jacobian)) @ terms + abs(start) + of_state)
    by_state, by_target = rates.observed_slopes(names, y)
    observed = abs(by_state) @ (off + 4 * eps * of_state) + 4 * eps * abs(by_target)
    return np.concatenate([off, observed])
