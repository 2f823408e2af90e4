"""Whether steps are short enough for a mean to be a result."""

import dataclasses
import math
from typing import Literal

from simkit.ensemble.step_bias.step_error import StepError

MANY = 5.0  # standard errors
OF_VALUE, OF_SPREAD = 0.05, 0.1  # a step bias that matters: a part of the value, or of a path's deviation
COMPARABLE = 0.5  # a step bias that leaves nothing of the larger of the two
COMPARABLE_AT_LEAST = 0.2  # where there is only a bound, beyond which the bias may lie far
GOOD = 0.01  # of the value or its spread: what more steps are to make of the bias
MORE = 4  # times as many steps where none can be foretold


@dataclasses.dataclass(frozen=True)
class Resolution:
    """What the step bias leaves of a mean, and how many steps would leave more of it; 0 where these do.

    `paths` is not 0 where noise hides the bias: how many times as many paths would show it.
    """

    kind: Literal["resolved", "noticeable", "unresolved"]
    steps: int = 0
    paths: int = 0


def resolution(error: StepError | None, size: float, spread: float, stderr: float, steps: int) -> Resolution:
    """Judge a mean of this size by its step error.

    `spread` is the standard deviation over paths, 0 of a single one and of derivatives, and `stderr` the
    mean's standard error.
    A bias is noticeable if it exceeds many standard errors, its own included, and a relevant part of the
    value or of the spread. It is unresolved if it is as large as these, or if no other grid shows it. What
    its extrapolation leaves out counts as bias where it is larger. So does the error of a bias that is not
    sure, if paths have a spread and its noise exceeds many standard errors of the mean: those are then not
    the error of the mean. Where most of that error is noise, as of a value that few paths make, more paths
    are what lowers it.
    """
    if error is None:
        return Resolution("resolved")
    if math.isnan(error.bias):
        return Resolution("unresolved", MORE * steps)
    bias, larger = max(abs(error.bias), error.left_out), max(size, spread)
    if bias > MANY * math.hypot(stderr, error.noise):
        matters = bias > OF_VALUE * size or bias > max(OF_SPREAD * spread, GOOD * size)
        paths = 0
    else:
        bias, larger = error.stderr, max(size, OF_SPREAD * spread)
        matters = spread > 0 and error.noise > MANY * stderr and bias > OF_VALUE * larger
        hidden = matters and error.noise > error.left_out
        paths = _paths(error, OF_VALUE * larger, MANY * stderr) if hidden else 0
    if not matters:
        return Resolution("resolved")
    estimated = error.claim == "estimate"
    if bias >= (COMPARABLE if estimated else COMPARABLE_AT_LEAST) * larger:
        return Resolution("unresolved", MORE * steps, paths)
    wanted = max(stderr, GOOD * larger)
    times = (bias / wanted) ** (1 / error.order) if estimated and wanted > 0 else MORE
    return Resolution("noticeable", steps * _rounded_up(max(times, 1.5)), paths)


def _paths(error: StepError, small: float, of_mean: float) -> int:
    """How many times as many paths have a small noise, or one that is no more than that of the mean.

    What one path could add is inversely proportional to their number, and the noise of the mean to its root.
    """
    times = (error.noise / small) ** 2
    if error.unseen:
        times = min(error.noise / small, (error.noise / of_mean) ** 2) if of_mean > 0 else error.noise / small
    return _rounded_up(max(times, 1.5))


def _rounded_up(times: float) -> int:
    """The next whole number of two digits and zeros: as a factor of steps, it keeps their divisors."""
    unit = 10 ** max(int(math.log10(times)) - 1, 0)
    return math.ceil(times / unit) * unit
