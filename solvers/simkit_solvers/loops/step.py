"""One step of the fixed grid, for every kind of solver.

Explicit Runge–Kutta and stochastic Runge–Kutta methods give only their tableau: their stages are unrolled
here, which XLA fuses into the loop, where diffrax's own `step` scans them through buffers (8 to 12 times
slower). Every other solver's `step` is called as it is, on diffrax terms over local time (0, h).
"""

import abc
from typing import Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from simkit_solvers.methods.langevin.baoab import BAOAB
from simkit_solvers.methods.model_solver import AbstractModelSolver
from simkit_solvers.methods.ode.rosenbrock import AbstractRosenbrock
from simkit_solvers.methods.one_step import AbstractOneStep
from simkit_solvers.methods.registry import check_runs
from simkit_solvers.methods.root_finder import with_tolerances
from simkit_solvers.methods.sde.milstein import Milstein
from simkit_solvers.methods.switched import Switched
from simkit_solvers.problems.origin import scale_of
from simkit_solvers.problems.problem import AbstractSDE, halves
from simkit_solvers.problems.terms import (
    DriftTerm,
    HalfTerm,
    NoiseTerm,
    brownian_increment,
    langevin_terms,
    ordinary_terms,
    takes_halves,
)
from simkit_solvers.random.noise import Draw


class AbstractStepper(eqx.Module):
    """How a solver advances a problem by one step; `areas` counts the Lévy areas it wants (H, then K).

    `unrolled` is whether several steps in a row are worth compiling as one, `variates` whether it wants
    random words beside the normals.
    """

    areas: eqx.AbstractVar[int]
    unrolled: eqx.AbstractVar[bool]
    variates: eqx.AbstractVar[bool]

    @abc.abstractmethod
    def init(self, problem: Any, t: jax.Array, dt: jax.Array, y: PyTree) -> Any:
        """What the solver carries from step to step beside the state."""

    @abc.abstractmethod
    def step(
        self, problem: Any, t: jax.Array, dt: jax.Array, y: PyTree, draw: Draw, state: PyTree
    ) -> tuple[Any, Any]:
        """The state and the solver's own state at the end of a step from `t`."""


class ExplicitRungeKutta(AbstractStepper):
    r"""$z_i = y + \sum_{j<i} a_{ij} k_j$, $k_i = f(t + c_i h, z_i)\,h + g(t + c_i h, z_i)\,\Delta W$,
    $y_1 = y + \sum_i b_i k_i$."""

    tableau: diffrax.ButcherTableau = eqx.field(static=True)
    areas: int = eqx.field(static=True, default=0)
    unrolled: bool = eqx.field(static=True, default=True)
    variates: bool = eqx.field(static=True, default=False)

    def init(self, problem: Any, t: jax.Array, dt: jax.Array, y: PyTree) -> PyTree:
        return None

    def step(
        self, problem: Any, t: jax.Array, dt: jax.Array, y: PyTree, draw: Draw, state: PyTree
    ) -> tuple[PyTree, PyTree]:
        tableau = self.tableau
        a = [(), *tableau.a_lower]
        c = [0.0, *tableau.c]
        needed = _needed_stages(a, tableau.b_sol)
        W = brownian_increment(problem, dt, draw).W if isinstance(problem, AbstractSDE) else None
        k: list[Any] = []
        for i in range(len(tableau.b_sol)):
            if not needed[i]:
                k.append(None)
                continue
            z, s = _add(y, zip(a[i], k, strict=False)), t + float(c[i]) * dt
            stage = jax.tree.map(lambda f: f * dt, problem.drift(s, z))
            if W is not None:
                stage = jax.tree.map(jnp.add, stage, problem.noise(s, z, W))
            k.append(stage)
        return _add(y, zip(tableau.b_sol, k, strict=True)), None


class StochasticRungeKutta(AbstractStepper):
    r"""diffrax's stochastic Runge–Kutta form (its `AbstractSRK` page gives the equations):
    $z_i = y + h \sum a_{ij} f_j + \sum_j g_j\,(a^W_{ij} W + a^H_{ij} H + a^K_{ij} K)$. With additive noise
    the sums over $g_j$ are replaced by $g(t)$, and $g(t + h) - g(t)$ enters through $W/2 - H$.
    """

    tableau: diffrax.StochasticButcherTableau = eqx.field(static=True)
    areas: int = eqx.field(static=True)
    unrolled: bool = eqx.field(static=True, default=True)
    variates: bool = eqx.field(static=True, default=False)

    def init(self, problem: Any, t: jax.Array, dt: jax.Array, y: PyTree) -> PyTree:
        return None

    def step(
        self, problem: Any, t: jax.Array, dt: jax.Array, y: PyTree, draw: Draw, state: PyTree
    ) -> tuple[PyTree, PyTree]:
        increment = brownian_increment(problem, dt, draw)
        if self.tableau.is_additive_noise():
            return self._additive(problem, t, dt, y, increment), None
        return self._general(problem, t, dt, y, increment), None

    def _drivers(self, increment):
        """The pairs (Brownian increment or area, its coefficients) that the method uses."""
        pairs = [(increment.W, self.tableau.coeffs_w)]
        if self.areas > 0:
            pairs.append((increment.H, self.tableau.coeffs_hh))
        if self.areas > 1:
            pairs.append((increment.K, self.tableau.coeffs_kk))
        return pairs

    def _additive(self, problem, t, dt, y, increment):
        tableau, drivers = self.tableau, self._drivers(increment)
        a, c = [(), *tableau.a], [0.0, *tableau.c]

        def diffusion(s, weights):
            terms = [(w, driver) for w, (driver, _) in zip(weights, drivers, strict=True) if w != 0]
            return problem.noise(s, y, _combine(terms)) if terms else None

        f: list[Any] = []
        for i in range(len(tableau.b_sol)):
            z = _add(y, zip(a[i], f, strict=False))
            shift = diffusion(t, [float(coeffs.a[i]) for _, coeffs in drivers])
            z = z if shift is None else jax.tree.map(jnp.add, z, shift)
            f.append(jax.tree.map(lambda x: x * dt, problem.drift(t + float(c[i]) * dt, z)))
        y1 = _add(y, zip(tableau.b_sol, f, strict=True))
        last = diffusion(t, [float(coeffs.b_sol) for _, coeffs in drivers])
        spread = increment.W if self.areas == 0 else _combine([(1.0, increment.W), (-2.0, increment.H)])
        late, early = problem.noise(t + dt, y, spread), problem.noise(t, y, spread)
        return jax.tree.map(lambda p, q, u, v: p + q + 0.5 * (u - v), y1, last, late, early)

    def _general(self, problem, t, dt, y, increment):
        tableau, drivers = self.tableau, self._drivers(increment)
        a, c = [(), *tableau.a], [0.0, *tableau.c]
        a_noise = [[(), *coeffs.a] for _, coeffs in drivers]
        stages = len(tableau.b_sol)
        skip_f = tableau.ignore_stage_f if tableau.ignore_stage_f is not None else [False] * stages
        skip_g = tableau.ignore_stage_g if tableau.ignore_stage_g is not None else [False] * stages
        f: list[Any] = []
        g: list[list[Any]] = [[] for _ in drivers]
        for i in range(stages):
            z, s = _add(y, zip(a[i], f, strict=False)), t + float(c[i]) * dt
            for weights, columns in zip(a_noise, g, strict=True):
                z = _add(z, zip(weights[i], columns, strict=False))
            f.append(None if skip_f[i] else jax.tree.map(lambda x: x * dt, problem.drift(s, z)))
            for (driver, _), column in zip(drivers, g, strict=True):
                column.append(None if skip_g[i] else problem.noise(s, z, driver))
        y1 = _add(y, zip(tableau.b_sol, f, strict=True))
        for (_, coeffs), column in zip(drivers, g, strict=True):
            y1 = _add(y1, zip(coeffs.b_sol, column, strict=True))
        return y1


class DiffraxStep(AbstractStepper):
    """Any other diffrax solver, by its own `step`.

    A step whose implicit equations did not converge gives NaN, which the ensemble reports like any other
    failed path.
    """

    solver: diffrax.AbstractSolver
    areas: int = eqx.field(static=True, default=0)

    @property
    def unrolled(self):
        """Not where a step is long, or holds loops of its own: it takes long to compile and gains nothing."""
        long = (diffrax.AbstractImplicitSolver, AbstractRosenbrock, AbstractModelSolver, *SHIFTED_SOLVERS)
        return not isinstance(self.solver, long)

    @property
    def variates(self):
        return isinstance(self.solver, AbstractModelSolver) and self.solver.variates

    def init(self, problem: Any, t: jax.Array, dt: jax.Array, y: PyTree) -> PyTree:
        zero = Draw(*(tuple(jnp.zeros_like(dt) for _ in range(n)) for n in self._counts(problem)))
        terms, state = self._terms(problem, t, dt, y, zero), self._enter(y)
        return self.solver.init(terms, jnp.zeros_like(dt), dt, state, None)

    def step(
        self, problem: Any, t: jax.Array, dt: jax.Array, y: PyTree, draw: Draw, state: PyTree
    ) -> tuple[PyTree, PyTree]:
        terms, solver = (
            self._terms(problem, t, dt, y, draw),
            with_tolerances(self.solver, scale_of(problem, y), dt),
        )
        y1, _, _, new, result = solver.step(terms, jnp.zeros_like(dt), dt, self._enter(y), None, state, False)
        y1 = jax.tree.map(_like, self._leave(problem, y1), y)
        if isinstance(solver, diffrax.AbstractImplicitSolver):
            ok = result == diffrax.RESULTS.successful
            y1 = jax.tree.map(lambda u: jnp.where(ok, u, jnp.nan), y1)
        return y1, jax.tree.map(_like, new, state)

    def _counts(self, problem):
        n = len(problem.Noise._fields) if isinstance(problem, AbstractSDE) else 0
        return n, n if self.areas else 0, n if self.areas > 1 else 0

    def _terms(self, problem, t, dt, y, draw):
        if takes_halves(self.solver):
            q, p = halves(y)
            return HalfTerm(problem, t, q, True), HalfTerm(problem, t, p, False)
        if isinstance(self.solver, LANGEVIN_SOLVERS):
            return langevin_terms(problem, brownian_increment(problem, dt, draw))
        drift = DriftTerm(problem, t)
        if isinstance(problem, AbstractSDE):
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
        return takes_halves(self.solver) or isinstance(self.solver, LANGEVIN_SOLVERS)


class SwitchedStep(AbstractStepper):
    """The step of the solver that is chosen, of `steppers`; each carries its own state.

    A solver that takes over from another starts afresh.
    """

    steppers: tuple[AbstractStepper, ...]
    switched: Switched

    @property
    def areas(self):
        return max(stepper.areas for stepper in self.steppers)

    @property
    def unrolled(self):
        return all(stepper.unrolled for stepper in self.steppers)

    @property
    def variates(self):
        return any(stepper.variates for stepper in self.steppers)

    def init(self, problem: Any, t: jax.Array, dt: jax.Array, y: PyTree) -> PyTree:
        states = tuple(stepper.init(problem, t, dt, y) for stepper in self.steppers)
        return self.switched.position(problem, y), states

    def step(
        self, problem: Any, t: jax.Array, dt: jax.Array, y: PyTree, draw: Draw, state: PyTree
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


SHIFTED_SOLVERS = (diffrax.ALIGN, diffrax.ShOULD, diffrax.QUICSORT)
LANGEVIN_SOLVERS = (BAOAB, *SHIFTED_SOLVERS)


def stepper_for(solver: diffrax.AbstractSolver | Switched) -> AbstractStepper:
    """The stepper of a solver; `ValueError` for one that cannot run on a fixed grid."""
    if isinstance(solver, Switched):
        return SwitchedStep(tuple(stepper_for(each) for each in solver.solvers), solver)
    check_runs(solver)
    if isinstance(solver, diffrax.AbstractERK):
        return ExplicitRungeKutta(solver.tableau)
    if isinstance(solver, diffrax.AbstractSRK):
        areas = int(solver.tableau.coeffs_hh is not None) + int(solver.tableau.coeffs_kk is not None)
        return StochasticRungeKutta(solver.tableau, areas)
    if isinstance(solver, diffrax.ItoMilstein):
        # diffrax's own step forms the tensor of all derivatives, and turns float32 into float64.
        return DiffraxStep(Milstein())
    if isinstance(solver, AbstractOneStep):
        return DiffraxStep(solver, solver.areas)
    if isinstance(solver, SHIFTED_SOLVERS):
        return DiffraxStep(solver, 1 if isinstance(solver, diffrax.ALIGN) else 2)
    if isinstance(solver, diffrax.AbstractRungeKutta) and solver.scan_kind is None:
        # The one kind of stage loop that is differentiable in both modes.
        solver = eqx.tree_at(lambda s: s.scan_kind, solver, "bounded", is_leaf=lambda x: x is None)
    return DiffraxStep(solver)


def _like(new, old):
    """An array of the old one's type, so that a scan's carry keeps it."""
    return jnp.asarray(new, old.dtype) if eqx.is_array(old) else new


def _needed_stages(a, b) -> list[bool]:
    """Which stages the solution depends on; the last one of a first-same-as-last method is not among them."""
    needed = [float(x) != 0 for x in b]
    for i in reversed(range(len(needed))):
        if needed[i]:
            for j, weight in enumerate(a[i]):
                needed[j] = needed[j] or float(weight) != 0
    return needed


def _add(y, weighted):
    """y + the sum of weight * stage over the pairs whose weight is not zero."""
    for weight, stage in weighted:
        if stage is not None and float(weight) != 0:
            y = jax.tree.map(lambda u, v, w=float(weight): u + w * v, y, stage)
    return y


def _combine(pairs):
    """The sum of weight * pytree."""
    total = jax.tree.map(lambda x: pairs[0][0] * x, pairs[0][1])
    for weight, tree in pairs[1:]:
        total = jax.tree.map(lambda u, v, w=weight: u + w * v, total, tree)
    return total
