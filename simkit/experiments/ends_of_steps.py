"""Times that must be ends of steps, and the message for one that is not."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from simkit_solvers.problems.event import ON_STEP

from simkit.config.diagnostics import SettingError
from simkit.config.documents import KeyPath
from simkit.experiments.constants import Constants
from simkit.expressions import Expression

INTERVALS = {"steps": "steps", "points": "saved intervals"}
MOST_STEPS = 10  # times as many steps are tried for a number that meets all times


def increasing_times(
    texts: Mapping[KeyPath, float | str], constants: Constants
) -> list[tuple[KeyPath, Expression, float]] | None:
    """Times by the place where they are given, expressions of constants; `None` where one is wrong.

    Raises `SettingError` where they do not increase.
    """
    result, last = [], -math.inf
    for place, text in texts.items():
        number = constants.number(place, text)
        if number is None:
            return None
        expression, time = number
        if not time > last:
            raise SettingError(place, f"must increase, got {time:g} after {last:g}")
        result.append((place, expression, time))
        last = time
    return result


def inside_a_step(
    times: Sequence[float], ends: tuple[float, float], steps: int | None, otherwise: str, key: str = "steps"
) -> tuple[int, str] | None:
    """The first of the times that is not the end of a step: which it is, and the message with the remedy.

    With the key `points` it is a saved interval in place of a step. Steps without a number end at all times.
    """
    if steps is None:
        return None
    t0, span = ends[0], ends[1] - ends[0]
    fractions = (np.asarray(times, np.float64) - t0) / span
    if _on_steps(fractions, steps):
        return None
    near = _nearest_steps(fractions, steps)
    remedy = f"{key}: {' or '.join(map(str, near))}" if near else f"{otherwise}, or more {key}"
    wrong = next(i for i, s in enumerate(fractions) if not _on_steps(np.asarray([s]), steps))
    return wrong, f"the time {times[wrong]:g} is inside one of the {steps} {INTERVALS[key]}; use {remedy}"


def _on_steps(fractions: np.ndarray, steps: int) -> bool:
    """Whether each time, as a fraction of the run, is the end of a step."""
    exact = fractions * steps
    return bool(np.all(np.abs(exact - np.rint(exact)) <= ON_STEP))


def _nearest_steps(fractions: np.ndarray, steps: int) -> list[int]:
    """The numbers of steps next to a given one that meet all times."""
    below = next((n for n in range(steps - 1, 0, -1) if _on_steps(fractions, n)), None)
    above = next((n for n in range(steps + 1, MOST_STEPS * steps + 1000) if _on_steps(fractions, n)), None)
    return [n for n in (below, above) if n is not None]
