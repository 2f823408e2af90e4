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
MORE = 1.05  # steps after which the next attempt to end by Newton's method comes, relative to those before
LATER = 10.0  # and the time, relative to that before
NEAR = 0.1  # distance from a stable root, relative to the variables, from which the rest may be known
PUSHES = 256
RESTING = 1e-10  # change over a step that is a good part of all time
RTOL = 1e-8
FOLLOWED = 1e-8  # of the largest value of a variable: smaller ones are lost in the error of the method


class Rest(NamedTuple):
    """Where a model comes to rest, how stable that is, and when.

    From that time on all variables were within 10 % of their values there, or of their initial values if
    those are larger; where both are nothing, of the largest value that they had. Of a model that did not come
    to rest `root` is None, and `mean` the mean state over the second half of the steps.
    """

    root: Root | None
    stability: Stability | None
    time: float
    mean: np.ndarray


def settle(fixed: Fixed) -> Rest:
    """The steady state that a model reaches from the start.

    An implicit method (Radau IIA of order 5) follows it until it is near a stable state that everything
    around flows to, or until nothing changes any more. Where states are a continuum, the one reached
    depends on every step, and its error includes the difference from a run of looser tolerance.
    """
    rest = _followed(fixed, RTOL)
    if rest.root is None or rest.stability is None or not rest.stability.continuum:
        return rest
    finer = _followed(fixed, RTOL / 100)
    if finer.root is None:
        return rest._replace(root=None)
    difference = abs(finer.root.state - rest.root.state)
    root = finer.root._replace(error=finer.root.error + difference)
    return finer._replace(root=root, stability=stability_of(fixed, root))


def _followed(fixed: Fixed, rtol: float) -> Rest:
    start = fixed.start
    at_start = fixed.root_from(start)
    if at_start.converged and fixed.relative(at_start.state - start, start) <= 1e-12:
        return Rest(at_start, stability_of(fixed, at_start), 0.0, start)
    times, curves, solver = [0.0], [], _solver(fixed, rtol)
    states = [start]
    largest, next_step, next_time = abs(start), 5, np.inf
    for step in range(1, STEPS + 1):
        if not advanced(solver) or abs(solver.y).max() > HUGE:
            break
        y, largest = solver.y, np.maximum(largest, abs(solver.y))
        states.append(y)
        times.append(solver.t)
        curves.append(solver.dense_output())
        if step < next_step and solver.t < next_time:
            continue
        next_step, next_time = int(MORE * step) + 5, LATER * solver.t
        rest = _rest_at(fixed, y, solver.t, solver.h_abs, largest)
        if rest is not None and rest.root is not None:
            sizes = np.maximum(abs(start), abs(rest.root.state))
            sizes = np.where(sizes > FOLLOWED * largest, sizes, largest)
            time = _time_near(rest.root.state, NEAR * sizes, states, times, curves)
            if time is not None:
                return rest._replace(time=time)
    half = len(states) // 2
    weights = np.diff(times)[half - 1 :] if half else np.ones(1)
    mean = np.average(states[-len(weights) :], axis=0, weights=weights)
    return Rest(None, None, times[-1], mean)


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


def _rest_at(fixed: Fixed, y: np.ndarray, time: float, step: float, largest: np.ndarray) -> Rest | None:
    """The root at which a model has as good as arrived; None where it has not."""
    rates = fixed.rates(y)
    sizes = np.maximum(largest, 1e-9 * largest.max())
    resting = step >= 0.1 * time and bool(np.all(abs(rates) * step <= RESTING * sizes))
    inverse = fixed.inverse(fixed.rates.jacobian(y))
    if not resting and fixed.relative(inverse @ rates, y) > NEAR:
        return None
    root = fixed.root_from(y)
    if not root.converged or fixed.relative(root.state - y, y) > 2 * NEAR:
        return None
    stability = stability_of(fixed, root)
    arrived = bool(np.all(abs(root.state - y) <= root.error)) and not stability.grows
    if resting or arrived or (stability.stable and flows_to(fixed, root, y)):
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


def _solver(fixed: Fixed, rtol: float) -> Radau:
    rates = fixed.rates
    allowed: Any = rtol / 100 * fixed.scale  # of each variable, which the signature does not know
    return Radau(
        lambda t, y: rates(y),
        0.0,
        fixed.start,
        np.inf,
        rtol=rtol,
        atol=allowed,
        jac=lambda t, y: rates.jacobian(y),
    )
