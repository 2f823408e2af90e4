r"""Forward sensitivities of ordinary equations, with their own error control.

With $s_k = \partial y / \partial\theta_k$ the equation $dy/dt = f(t, y; \theta)$ is solved together with

$$\frac{ds_k}{dt} = \frac{\partial f}{\partial y}\,s_k + \frac{\partial f}{\partial\theta_k},$$

as one system, whose steps are as short as all of it needs. The derivative of an adaptive run as it is,
`jax.jvp` of `integrate_adaptive`, takes the steps that y alone needs.

Reference: Serban & Hindmarsh (2005), CVODES: the sensitivity-enabled ODE solver in SUNDIALS,
doi:10.1115/DETC2005-85597.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree, UInt32

from simkit_solvers.grids.adaptive_grid import AdaptiveGrid
from simkit_solvers.loops.adaptive import integrate_adaptive
from simkit_solvers.numerics.scalar import Scalar, scalars
from simkit_solvers.numerics.tangents import as_tangent, in_precision, jvp
from simkit_solvers.problems.directions import Direction
from simkit_solvers.problems.observe import AbstractObserver
from simkit_solvers.problems.problem import AbstractODE
from simkit_solvers.problems.schedule import schedule_of


class Sensitivities(NamedTuple):
    """Rows of an adaptive run and their derivatives, one dictionary a direction.

    `accepted` and `rejected` count the steps of both together, `reached` is where the run ended.
    """

    rows: dict[str, Any]
    derivatives: tuple[dict[str, Any], ...]
    accepted: jax.Array
    rejected: jax.Array
    reached: jax.Array


class WithSensitivities(AbstractODE):
    """An ordinary equation together with its sensitivities in some directions, their states in a row."""

    original: AbstractODE
    tangents: tuple
    State: type = eqx.field(static=True)

    def __init__(self, original: AbstractODE, tangents: tuple):
        self.original, self.tangents = original, tangents
        names = original.State._fields
        sensitivities = (f"{name}_by_{k}" for k in range(len(tangents)) for name in names)
        self.State = scalars("Stacked", (*names, *sensitivities))

    def stacked(self, y: PyTree, sensitivities: Sequence[PyTree]) -> Any:
        """The joint state of a state and its sensitivities."""
        return self.State(*y, *(x for each in sensitivities for x in each))

    def unstacked(self, stacked: PyTree) -> tuple[Any, list]:
        """The state and its sensitivities, from the joint state."""
        species, size = self.original.State, len(self.original.State._fields)
        parts = [species(*stacked[i : i + size]) for i in range(0, len(stacked), size)]
        return parts[0], parts[1:]

    def drift(self, t, y):
        y, sensitivities = self.unstacked(y)

        def drift(both):
            problem, y = both
            return jax.tree.map(lambda f, x: jnp.asarray(f, jnp.result_type(x)), problem.drift(t, y), y)

        slope, slopes = drift((self.original, y)), []
        for tangent, s in zip(self.tangents, sensitivities, strict=True):
            slopes.append(jvp(drift, (self.original, y), (tangent, s))[1])
        return self.stacked(slope, slopes)


class _Observed(AbstractObserver):
    """What an observer keeps of the state, and the derivatives of that."""

    observer: AbstractObserver
    tangents: tuple

    def init(self, problem: WithSensitivities, t: Scalar, y: PyTree) -> PyTree:
        nothing = (), tuple(() for _ in self.tangents)
        return self._moved(lambda own, problem, _, y: own.init(problem, t, y), problem, nothing, y)

    @property
    def stops(self):
        """The stops of the observer."""
        return self.observer.stops

    def conditions(self, problem: WithSensitivities, t: Scalar, y: PyTree) -> tuple:
        return self.observer.conditions(problem.original, t, problem.unstacked(y)[0])

    def update(
        self,
        problem: WithSensitivities,
        acc: PyTree,
        k: UInt32[Array, ""],
        t: Scalar,
        y: PyTree,
        dt: Float[Array, ""],
    ) -> PyTree:
        return self._moved(
            lambda own, problem, acc, y: own.update(problem, acc, k, t, y, dt), problem, acc, y
        )

    def held(self, problem: WithSensitivities, acc: PyTree, which: int, t: Scalar, y: PyTree) -> PyTree:
        return self._moved(lambda own, problem, acc, y: own.held(problem, acc, which, t, y), problem, acc, y)

    def row(self, problem: WithSensitivities, acc: PyTree, t: Scalar, y: PyTree) -> dict[str, Any]:
        rows = self._moved(lambda own, problem, acc, y: own.row(problem, acc, t, y), problem, acc, y)
        return dict(zip(("rows", "derivatives"), rows, strict=True))

    def _moved(
        self, function: Callable, problem: WithSensitivities, acc: PyTree, y: PyTree
    ) -> tuple[Any, tuple]:
        """`function(observer, problem, acc, y)`, and its derivatives in all directions."""
        y, sensitivities = problem.unstacked(y)
        acc, slopes = acc
        given = self.observer, problem.original, acc, y
        moves = zip(self.tangents, problem.tangents, slopes, sensitivities, strict=True)
        return function(*given), tuple(jvp(lambda x: function(*x), given, each)[1] for each in moves)

    def coarsened(self, factor):
        return None

    def refined(self, factor):
        return self


def forward_sensitivities(
    problem: AbstractODE,
    solver: diffrax.AbstractSolver,
    y0: PyTree,
    grid: AdaptiveGrid,
    observer: AbstractObserver,
    directions: tuple[Direction, ...],
    **coefficients: Scalar,
) -> Sensitivities:
    r"""One path of `problem` from `y0` over `grid` with the derivatives of its rows in some directions.

    The tolerances hold for the state and its sensitivities together: the error of a step is the root mean
    square over all of them. A direction of the size of the parameter makes sensitivities of the size of the
    variables, to which `atol` then applies as to these. Everything else is as in `integrate_adaptive`.
    Raises `ValueError` for a scheduled problem, of which `jax.jvp` of `integrate_adaptive` is the derivative,
    and for a tangent of another structure than what it is the tangent of.

    >>> import diffrax
    >>> from simkit_physics import HarmonicOscillator
    >>> from simkit_solvers import AdaptiveGrid, Direction, States, Tolerances, forward_sensitivities
    >>> model = HarmonicOscillator(m=1.0, k=1.0)
    >>> grid = AdaptiveGrid(0.0, 3.1415927, Tolerances(1e-5, 1e-5))
    >>> start, by_start = model.State(q=1.0, p=0.0), Direction(y0=model.State(q=1.0, p=0.0))
    >>> run = forward_sensitivities(model, diffrax.Tsit5(), start, grid, States(), (by_start,))
    >>> round(float(run.derivatives[0]["q"][-1]), 3)
    -1.0
    """
    if schedule_of(problem) is not None:
        raise ValueError(
            "forward_sensitivities: the problem is scheduled, and this system has no stops; use jax.jvp of "
            "integrate_adaptive"
        )
    dtype = jnp.result_type(*jax.tree.leaves(y0))
    problem, observer = in_precision((problem, observer), dtype)
    tangents = tuple(as_tangent(problem, each.problem, dtype) for each in directions)
    system = WithSensitivities(problem, tangents)
    begin = system.stacked(y0, [as_tangent(y0, each.y0, dtype) for each in directions])
    watch = _Observed(observer, tuple(as_tangent(observer, each.observer, dtype) for each in directions))
    run = integrate_adaptive(system, solver, begin, grid, watch, **coefficients)
    return Sensitivities(run.rows["rows"], run.rows["derivatives"], run.accepted, run.rejected, run.reached)
