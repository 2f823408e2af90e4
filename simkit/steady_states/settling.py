"""Following a model in time until it rests."""

from typing import Any, NamedTuple

import numpy as np
from scipy.integrate import Radau
from scipy.linalg import solve_continuous_lyapunov
from scipy.optimize import brentq

from simkit.steady_states.newton import Fixed, Root
from simkit.steady_states.sizes import HUGE, advanced
from simkit.steady_states.stability import Stability, stability_of

STEPS = 3000
LONGEST = 1e300  # time of a run
MORE = 1.05  # steps after which the next attempt to end by Newton's method comes, relative to those before
LATER = 10.0  # and the time, relative to that before
NEAR = 0.1  # distance from a stable root, relative to the variables, from which the rest may be known
PUSHES = 256
GROWN = 1e10  # value of a variable that grows without bound, relative to those before
POLE = 1e6  # and its change in all time at the rate where the solution ends
CLOSE = 1e-12  # distance from a root, relative to the variables, that is none
RTOL = 1e-8
SMALL = 1e-100  # value of a variable, relative to its typical size, below which its error may be as large
FOLLOWED = 1e-8  # of the largest value of a variable: smaller ones are lost in the error of the method


class Rest(NamedTuple):
    """Where a model comes to rest, how stable that is, and when.

    From that time on all variables were within 10 % of their values there, or of their initial values if
    those are larger; where both are nothing, of the largest value that they had. Of a model that did not come
    to rest `root` is None, `mean` the mean state over the second half of the steps, `course` what it did
    instead, and `unbounded` whether it grew without bound.
    """

    root: Root | None
    stability: Stability | None
    time: float
    mean: np.ndarray
    course: str = ""
    unbounded: bool = False


def settle(fixed: Fixed) -> Rest:
    """The steady state that a model reaches from the start.

    An implicit method (Radau IIA of order 5) follows it until it is near a stable state that everything
    around flows to, or until it is there. Where states are a continuum, the one reached depends on every
    step, and its error includes the difference from a run of looser tolerance.
    """
    rest = _followed(fixed, RTOL, STEPS)
    if rest.unbounded:  # an epidemic that has fallen below 0 by an error grows there without bound
        rest = _followed(fixed, RTOL, 5 * STEPS, SMALL)
    if rest.root is None or rest.stability is None or not rest.stability.continuum:
        return rest
    finer = _followed(fixed, RTOL / 100, 5 * STEPS)
    if finer.root is None:
        return finer
    difference = abs(finer.root.state - rest.root.state)
    root = finer.root._replace(error=finer.root.error + difference)
    return finer._replace(root=root, stability=stability_of(fixed, root))


def _followed(fixed: Fixed, rtol: float, steps: int, small: float = 0.01) -> Rest:
    """What the model does in so many steps. Errors of variables that are `small`, relative to their typical
    size, may be as large as they are."""
    start = fixed.start
    at_start = fixed.root_from(start)
    if at_start.converged and fixed.relative(at_start.state - start, start) <= 1e-12:
        return Rest(at_start, stability_of(fixed, at_start), 0.0, start)
    times, curves, solver = [0.0], [], _solver(fixed, rtol, small)
    states = [start]
    largest, next_step, next_time = abs(start), 5, np.inf
    for step in range(1, steps + 1):
        if not advanced(solver) or abs(solver.y).max() > HUGE or solver.t > LONGEST:
            break
        y, largest = solver.y, np.maximum(largest, abs(solver.y))
        states.append(y)
        times.append(solver.t)
        curves.append(solver.dense_output())
        if step < next_step and solver.t < next_time:
            continue
        next_step, next_time = int(MORE * step) + 5, LATER * solver.t
        rest = _rest_at(fixed, y, solver.t)
        if rest is not None and rest.root is not None:
            sizes = np.maximum(abs(start), abs(rest.root.state))
            sizes = np.where(sizes > FOLLOWED * largest, sizes, largest)
            time = _time_near(rest.root.state, NEAR * sizes, states, times, curves)
            if time is not None:
                return rest._replace(time=time)
    half = len(states) // 2
    weights = np.diff(times)[half - 1 :] if half else np.ones(1)
    mean = np.average(states[-len(weights) :], axis=0, weights=weights)
    course, unbounded = _course(fixed, states, times[-1], solver.status == "failed")
    return Rest(None, None, times[-1], mean, course, unbounded)


def _course(fixed: Fixed, states: list[np.ndarray], time: float, failed: bool) -> tuple[str, bool]:
    """What a model that did not come to rest did, as the rest of a sentence, and whether it is unbounded.

    A variable grows without bound that ends far beyond its typical size and all values of the first half of
    the steps. At a pole of the solution the method fails, with rates at which a variable would have changed
    far more in the time before.
    """
    y = states[-1]
    if failed and fixed.relative(fixed.rates(y) * time, y) > POLE:
        return (
            f"has no solution beyond a time of {time:.4g}, where its rates of change grow without bound",
            True,
        )
    before = np.max([fixed.scale, *map(abs, states[: len(states) // 2 + 1])], axis=0)
    for name, value, most in zip(fixed.rates.names, y, before, strict=True):
        if abs(value) > GROWN * most:
            return f"grows without bound: {name} = {value:.3g} at a time of {time:.4g}", True
    return f"had not come to rest within a time of {time:.4g}", False


def _time_near(
    end: np.ndarray, allowed: np.ndarray, states: list[np.ndarray], times: list[float], curves: list[Any]
) -> float | None:
    """The time from which on all variables are as near to the end as allowed; None where they are not yet."""

    def beyond(y: np.ndarray) -> float:
        return float(np.max(abs(y - end) - allowed))

    last = max((i for i, y in enumerate(states) if beyond(y) > 0), default=None)
    if last is None:
        return 0.0
    if last == len(states) - 1:
        return None
    curve, ends = curves[last], (times[last], times[last + 1])
    if not beyond(curve(ends[0])) > 0 >= beyond(curve(ends[1])):  # which rounding alone may bring about
        return ends[1]
    crossing: Any = brentq(lambda t: beyond(curve(t)), *ends)
    return float(crossing)


def _rest_at(fixed: Fixed, y: np.ndarray, time: float) -> Rest | None:
    """The root at which a model has as good as arrived; None where it has not.

    It has arrived within the error of the root, or, where no push grows, within `CLOSE`: what slows down on
    its way, as along $x' = -x^3$, gets no nearer in any time. Nothing here depends on the unit of time.
    """
    jacobian = fixed.rates.jacobian(y)
    if np.isfinite(jacobian).all():
        change = fixed.inverse(jacobian) @ fixed.rates(y)
        if fixed.relative(change, y) > NEAR:
            return None
    root = fixed.root_from(y)
    if not root.converged:
        return None
    stability, distance = stability_of(fixed, root), abs(root.state - y)
    close = fixed.relative(distance, y) <= CLOSE and not stability.grows
    arrived = close or bool(np.all(distance <= root.error))
    if arrived or (stability.stable and not stability.steep and flows_to(fixed, root, y)):
        return Rest(root, stability, time, y)
    return None


def flows_to(fixed: Fixed, root: Root, y: np.ndarray) -> bool:
    r"""Whether states as near to a stable root as `y` flow to it, by a function of Lyapunov's.

    $V = z^T P z$ with $J^T P + P J = -1$ falls along the linearised flow. Where it falls at random states
    with $V$ up to that of `y`, a state in there does not leave.
    """
    matrix = fixed.reduced(fixed.rates.jacobian(root.state))
    lyapunov = solve_continuous_lyapunov(matrix.T, -np.eye(len(matrix)))
    own = fixed.basis.T @ ((y - root.state) / fixed.scale)
    generator = np.random.default_rng(0)
    pushes = generator.standard_normal((PUSHES, len(own)))
    heights = np.einsum("ki,ij,kj->k", pushes, lyapunov, pushes)
    height = own @ lyapunov @ own
    if not (np.isfinite(lyapunov).all() and (heights > 0).all() and height > 0):
        return False
    pushes *= (np.sqrt(height / heights) * generator.uniform(0.1, 1.0, PUSHES))[:, None]
    rates = fixed.rates.each(root.state + pushes @ fixed.free.T) / fixed.scale @ fixed.basis
    return bool(np.all(np.einsum("ki,ij,kj->k", pushes, lyapunov, rates) < 0))


def _solver(fixed: Fixed, rtol: float, small: float) -> Radau:
    rates = fixed.rates
    allowed: Any = rtol * small * fixed.scale  # of each variable, which the signature does not know
    return Radau(
        lambda t, y: rates(y),
        0.0,
        fixed.start,
        np.inf,
        rtol=rtol,
        atol=allowed,
        jac=lambda t, y: rates.jacobian(y),
    )
