"""One step of any solver without a tableau (`DiffraxStep`), or of one chosen at run time (`SwitchedStep`).

Methods that are a tableau have steps of their own (`runge_kutta`). Every other solver's `step` is called as
it is, on diffrax terms over local time (0, h).
"""

from typing import Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from simkit_solvers.loops.runge_kutta import ExplicitRungeKutta, StochasticRungeKutta
from simkit_solvers.loops.stepper import AbstractStepper
from simkit_solvers.methods.model_solver import AbstractModelSolver
from simkit_solvers.methods.registry import check_runs, info_or_default
from simkit_solvers.methods.root_finder import with_tolerances
from simkit_solvers.methods.switched import Solver, SwitchedSolver
from simkit_solvers.problems.origin import scale_of
from simkit_solvers.problems.problem import AbstractODE, halves, other_arguments, reason_of
from simkit_solvers.problems.terms import (
    DriftTerm,
    HalfTerm,
    NoiseTerm,
    brownian_increment,
    langevin_terms,
    ordinary_terms,
    takes_halves,
    takes_langevin,
)
from simkit_solvers.random.draws import Draw


class DiffraxStep(AbstractStepper):
    """Any other diffrax solver, which steps by its own `step`.

    A step whose implicit equations did not converge gives NaN, which the ensemble reports like any other
    failed path.
    """

    solver: diffrax.AbstractSolver
    areas: int = eqx.field(static=True, default=0)

    @property
    def unrolled(self):
        return info_or_default(self.solver).unrolled

    @property
    def variates(self):
        return isinstance(self.solver, AbstractModelSolver) and self.solver.variates

    def init(self, problem: AbstractODE, t: jax.Array, dt: jax.Array, y: PyTree) -> PyTree:
        terms, state = self._terms(problem, t, dt, y, self._zero(problem, dt)), self._enter(y)
        return self.solver.init(terms, jnp.zeros_like(dt), dt, state, None)

    def restarted(
        self, problem: AbstractODE, t: jax.Array, dt: jax.Array, y: PyTree, state: PyTree
    ) -> PyTree:
        kept = getattr(self.solver, "carries_noise", False)
        return state if kept else self.init(problem, t, dt, y)

    def step(
        self, problem: AbstractODE, t: jax.Array, dt: jax.Array, y: PyTree, draw: Draw, state: PyTree
    ) -> tuple[PyTree, PyTree]:
        terms, solver = (
            self._terms(problem, t, dt, y, draw),
            with_tolerances(self.solver, scale_of(problem, y), dt),
        )
        y0 = self._enter(y)
        y1, _, _, new, result = solver.step(terms, jnp.zeros_like(dt), dt, y0, None, state, False)
        if jax.tree.structure(y1) != jax.tree.structure(y0):
            raise ValueError(
                f"{type(solver).__name__}: a step must return a state like y0, a {type(y0).__name__}, got a "
                f"{type(y1).__name__}; write jax.tree.map(lambda a, b: a + b, y0, change) for y0 + change"
            )
        y1 = jax.tree.map(_like, self._leave(problem, y1), y)
        if isinstance(solver, diffrax.AbstractImplicitSolver):
            ok = result == diffrax.RESULTS.successful
            y1 = jax.tree.map(lambda u: jnp.where(ok, u, jnp.nan), y1)
        return y1, jax.tree.map(_like, new, state)

    def check(self, problem: AbstractODE, y0: PyTree) -> None:
        """Raise `ValueError` when a step fails by itself or returns no state. Nothing is computed."""

        def one_step(t, dt, y):
            return self.step(problem, t, dt, y, self._zero(problem, dt), self.init(problem, t, dt, y))

        name = type(self.solver).__name__
        try:
            y1, _ = jax.eval_shape(one_step, *jax.tree.map(jnp.asarray, (0.0, 1.0, y0)))
        except (TypeError, AttributeError, NameError, jax.errors.JAXTypeError) as error:
            own = [each for each in ("advance", "advance_with", "step") if hasattr(self.solver, each)]
            others = (other_arguments(type(self.solver), each) for each in own)
            reason = next(filter(None, others), None) or reason_of(error)
            raise ValueError(f"{name}: a step fails: {reason}") from error
        shapes = jax.tree.map(jnp.shape, y1)
        if shapes != jax.tree.map(jnp.shape, y0):
            raise ValueError(f"{name}: a step must return a state like y0, got one of the shapes {shapes}")

    def _zero(self, problem, dt):
        return Draw(*(tuple(jnp.zeros_like(dt) for _ in range(n)) for n in self._counts(problem)))

    def _counts(self, problem):
        n = len(problem.Noise._fields)
        return n, n if self.areas else 0, n if self.areas > 1 else 0

    def _terms(self, problem, t, dt, y, draw):
        if takes_halves(self.solver):
            q, p = halves(y)
            return HalfTerm(problem, t, q, True), HalfTerm(problem, t, p, False)
        if takes_langevin(self.solver):
            return langevin_terms(problem, brownian_increment(problem, dt, draw))
        drift = DriftTerm(problem, t)
        if problem.stochastic:
            increment = brownian_increment(problem, dt, draw)
            return diffrax.MultiTerm(drift, NoiseTerm(problem, t, increment, draw.words))
        return ordinary_terms(self.solver, drift)

    def _enter(self, y):
        """The state in the shape the solver takes: halves for a splitting method."""
        return halves(y) if self._split else y

    def _leave(self, problem, y):
        return problem.State(*y[0], *y[1]) if self._split else y

    @property
    def _split(self):
        return takes_halves(self.solver) or takes_langevin(self.solver)


class SwitchedStep(AbstractStepper):
    """The step of whichever solver is chosen; each of the `steppers` carries its own state.

    A solver that takes over from another starts afresh.
    """

    steppers: tuple[AbstractStepper, ...]
    switched: SwitchedSolver

    @property
    def areas(self):
        return max(stepper.areas for stepper in self.steppers)

    @property
    def unrolled(self):
        return all(stepper.unrolled for stepper in self.steppers)

    @property
    def variates(self):
        return any(stepper.variates for stepper in self.steppers)

    def init(self, problem: AbstractODE, t: jax.Array, dt: jax.Array, y: PyTree) -> PyTree:
        states = tuple(stepper.init(problem, t, dt, y) for stepper in self.steppers)
        return self.switched.position(problem, y), states

    def restarted(
        self, problem: AbstractODE, t: jax.Array, dt: jax.Array, y: PyTree, state: PyTree
    ) -> PyTree:
        pairs = zip(self.steppers, state[1], strict=True)
        return self.switched.position(problem, y), tuple(s.restarted(problem, t, dt, y, x) for s, x in pairs)

    def step(
        self, problem: AbstractODE, t: jax.Array, dt: jax.Array, y: PyTree, draw: Draw, state: PyTree
    ) -> tuple[PyTree, PyTree]:
        position = self.switched.position(problem, y)

        def way(i, stepper):
            def advance(y, state):
                last, states = state
                own = states[i]
                if callable(self.switched.which):
                    own = jax.lax.cond(
                        position == last,
                        lambda: own,
                        lambda: jax.tree.map(_like, stepper.init(problem, t, dt, y), own),
                    )
                areas = (part if n < stepper.areas else () for n, part in enumerate(draw[1:3]))
                wanted = Draw(draw.W, *areas, draw.words)
                y1, new = stepper.step(problem, t, dt, y, wanted, own)
                new = jax.tree.map(_like, new, own)
                return jax.tree.map(_like, y1, y), (position, (*states[:i], new, *states[i + 1 :]))

            return advance

        ways = [way(i, stepper) for i, stepper in enumerate(self.steppers)]
        return jax.lax.switch(position, ways, y, state)


def stepper_for(solver: Solver) -> AbstractStepper:
    """The stepper of a solver; `ValueError` for one that cannot run on a fixed grid.

    >>> from simkit_solvers import make_solver, stepper_for
    >>> type(stepper_for(make_solver("EulerMaruyama"))).__name__
    'DiffraxStep'
    """
    if isinstance(solver, SwitchedSolver):
        return SwitchedStep(tuple(stepper_for(each) for each in solver.solvers), solver)
    check_runs(solver)
    other = info_or_default(solver).steps_as
    return _stepper(solver if other is None else other())


def _stepper(solver: diffrax.AbstractSolver) -> AbstractStepper:
    if isinstance(solver, diffrax.AbstractERK):
        return ExplicitRungeKutta(solver.tableau)
    areas = _areas(solver)
    if isinstance(solver, diffrax.AbstractSRK):
        return StochasticRungeKutta(solver.tableau, areas)
    if isinstance(solver, diffrax.AbstractRungeKutta) and solver.scan_kind is None:
        # The one kind of stage loop that is differentiable in both modes.
        solver = eqx.tree_at(lambda s: s.scan_kind, solver, "bounded", is_leaf=lambda x: x is None)
    return DiffraxStep(solver, areas)


def _areas(solver: diffrax.AbstractSolver) -> int:
    """How many Lévy areas a solver reads, as its class says: in diffrax by the least kind of increment."""
    least: Any = getattr(solver, "minimal_levy_area", diffrax.AbstractBrownianIncrement)
    kinds = diffrax.AbstractSpaceTimeLevyArea, diffrax.AbstractSpaceTimeTimeLevyArea
    return getattr(solver, "areas", sum(issubclass(least, kind) for kind in kinds))


def _like(new, old):
    """An array of the old one's type, so that a scan's carry keeps it."""
    return jnp.asarray(new, old.dtype) if eqx.is_array(old) else new
