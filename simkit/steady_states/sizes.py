"""Typical sizes of the variables of a model, whatever their units."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.integrate import Radau

STEPS = 200
RTOL = 1e-3
LEAST = 1e7  # sizes below that many times what rounding makes of a variable mean nothing
NOTHING = 1e-26  # of the size of other variables, for one that begins at rest at zero
HUGE = 1e100

Function = Callable[[np.ndarray], np.ndarray]


def typical_sizes(
    rates: Function, jacobian: Function, rounding: Function, start: np.ndarray, duration: float
) -> np.ndarray:
    """The initial values, and for those that are zero the largest values within a duration from there.

    A variable that stays at zero within rounding has the size of the largest of the others.
    """

    def noise(y: np.ndarray) -> np.ndarray:
        """What rounding makes of variables until they decay, or until the end."""
        slopes = abs(jacobian(y))
        return (rounding(y) + np.finfo(float).eps * slopes @ y) / (np.diag(slopes) + 1 / duration)

    sizes = abs(start)
    moved = abs(rates(start)) * duration
    if not sizes.all() and moved.any() and np.isfinite(moved).all():
        guess = np.where(sizes > 0, sizes, moved)
        reached = _largest(rates, jacobian, start, duration, guess, noise(guess))
        sizes = np.where((sizes == 0) & (reached > LEAST * noise(reached)), reached, sizes)
    return np.where(sizes > 0, sizes, sizes.max() or 1.0)


def _largest(
    rates: Function,
    jacobian: Function,
    start: np.ndarray,
    duration: float,
    sizes: np.ndarray,
    noise: np.ndarray,
) -> np.ndarray:
    """The largest values of the variables along a run of low accuracy, which may end early."""
    allowed: Any = np.maximum(RTOL**2 * np.maximum(sizes, NOTHING * sizes.max()), np.nan_to_num(noise))
    largest = abs(start)
    with np.errstate(all="ignore"):
        solver = Radau(
            lambda t, y: rates(y),
            0.0,
            start,
            np.inf,
            rtol=RTOL,
            atol=allowed,
            jac=lambda t, y: jacobian(y),
        )
    for _ in range(STEPS):
        if solver.t >= duration or not advanced(solver) or abs(solver.y).max() > HUGE:
            break
        largest = np.maximum(largest, abs(solver.y))
    return largest


def advanced(solver: Radau) -> bool:
    """Whether the solver got one step on, within what numbers can hold."""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            solver.step()
    except (ValueError, np.linalg.LinAlgError, OverflowError):  # of a state that is not finite
        return False
    return solver.status == "running" and bool(np.isfinite(solver.y).all())
