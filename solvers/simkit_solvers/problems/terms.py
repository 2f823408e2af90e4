"""A problem as diffrax terms, over one step of the fixed grid.

The step runs over local time (0, h) with the problem shifted to `start`, so that a solver never sees an
absolute time and none is lost to rounding.
"""

import math
from typing import Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from simkit_solvers.numerics.scalar import Scalar
from simkit_solvers.problems.langevin import AbstractUnderdampedLangevin
from simkit_solvers.problems.problem import AbstractODE, AbstractSDE
from simkit_solvers.random.draws import H_SCALE, K_SCALE, Draw

LANGEVIN_TERMS = diffrax.MultiTerm[
    tuple[diffrax.UnderdampedLangevinDriftTerm, diffrax.UnderdampedLangevinDiffusionTerm]
]


class AbstractTimeTerm(diffrax.AbstractTerm):
    """Rates of change over time."""

    def contr(self, t0, t1, **kwargs):
        return t1 - t0

    def prod(self, vf, control):
        return jax.tree.map(lambda f: f * control, vf)


class DriftTerm(AbstractTimeTerm):
    """$f(start + t, y)\\,dt$."""

    problem: AbstractODE
    start: Scalar

    def vf(self, t: Scalar, y: PyTree, args: PyTree) -> PyTree:
        return as_arrays(self.problem.drift(self.start + t, y), y)


class NoiseTerm(diffrax.AbstractTerm):
    """The product-form diffusion under the increment of one step.

    `vf` is the columns $g_k(t, y)$, a `Noise` of `State`s: diffrax differentiates it, so it must be arrays
    and never a closure. `vf_prod` is the model's own product. `words` are the random words of the step, for
    solvers that draw other variates.
    """

    problem: AbstractSDE
    start: Scalar
    increment: diffrax.AbstractBrownianIncrement
    words: tuple = ()

    def vf(self, t: Scalar, y: PyTree, args: PyTree) -> PyTree:
        names = self.problem.Noise._fields
        dtype = jnp.result_type(*jax.tree.leaves(y))
        one, zero = jnp.ones((), dtype), jnp.zeros((), dtype)
        units = [self.problem.Noise(*(one if n == k else zero for n in names)) for k in names]
        columns = [self.problem.noise(self.start + t, y, unit) for unit in units]
        return self.problem.Noise(*(as_arrays(column, y) for column in columns))

    def contr(self, t0, t1, use_levy: bool = False, **kwargs):
        return self.increment if use_levy else self.increment.W

    def prod(self, vf, control):
        scaled = [jax.tree.map(lambda g, w=w: g * w, column) for column, w in zip(vf, control, strict=True)]
        return jax.tree.map(lambda *columns: sum(columns[1:], columns[0]), *scaled)

    def vf_prod(self, t: Any, y, args, control):
        return self.problem.noise(self.start + t, y, control)


class ZeroTerm(AbstractTimeTerm):
    """The vanishing explicit part of an implicit–explicit method that treats the whole problem implicitly."""

    def vf(self, t: Scalar, y: PyTree, args: PyTree) -> PyTree:
        return jax.tree.map(jnp.zeros_like, y)

    def prod(self, vf, control):
        return vf


def ordinary_terms(solver: diffrax.AbstractSolver, drift: DriftTerm) -> diffrax.AbstractTerm:
    """An ordinary problem as its solver takes it: implicit–explicit ones take two terms, the first zero."""
    two = diffrax.MultiTerm[tuple[diffrax.AbstractTerm, diffrax.AbstractTerm]]
    return diffrax.MultiTerm(ZeroTerm(), drift) if solver.term_structure == two else drift


class HalfTerm(AbstractTimeTerm):
    """One half of a separable problem: the derivatives of one half of the variables from the other half.

    Splitting methods hand over the half that the derivatives depend on. `own`, the half that changes, has no
    influence on them (`is_separable`), but the drift is evaluated only at states that occur.
    """

    problem: AbstractODE
    start: Scalar
    own: tuple
    first: bool = eqx.field(static=True)

    def vf(self, t: Scalar, y: PyTree, args: PyTree) -> PyTree:
        state = self.problem.State(*(self.own + tuple(y) if self.first else tuple(y) + self.own))
        rates = as_arrays(self.problem.drift(self.start + t, state), state)
        half = len(rates) // 2
        return tuple(rates[:half] if self.first else rates[half:])


class StepPath(diffrax.AbstractBrownianPath):
    """A Brownian path of one step only, for terms that take a path."""

    increment: diffrax.AbstractBrownianIncrement
    levy_area: type[diffrax.AbstractBrownianIncrement] = eqx.field(static=True)

    t0 = -math.inf
    t1 = math.inf

    def evaluate(self, t0, t1=None, left=True, use_levy=False):
        return self.increment if use_levy else self.increment.W


def langevin_terms(
    problem: AbstractUnderdampedLangevin, increment: diffrax.AbstractBrownianIncrement
) -> diffrax.MultiTerm:
    """The two terms that diffrax's underdamped Langevin solvers take; states are (positions, velocities)."""
    plain = jax.tree.map(tuple, increment, is_leaf=lambda x: isinstance(x, problem.Noise))
    path = StepPath(plain, levy_area=type(increment))
    return diffrax.MultiTerm(
        diffrax.UnderdampedLangevinDriftTerm(
            problem.gamma, problem.u, lambda q, args: as_arrays(problem.grad_f(q), q)
        ),
        diffrax.UnderdampedLangevinDiffusionTerm(problem.gamma, problem.u, path),
    )


def as_arrays(rates: PyTree, y: PyTree) -> PyTree:
    """Rates of change, Python numbers among them (a 0.0, say), as arrays of the state's types."""
    return jax.tree.map(lambda f, x: jnp.asarray(f, x.dtype) if isinstance(f, int | float) else f, rates, y)


def brownian_increment(problem: AbstractSDE, dt: jax.Array, draw: Draw) -> diffrax.AbstractBrownianIncrement:
    """The increment of one step, with as many Lévy areas as were drawn, in the shape diffrax expects.

    Of a step back, whose length is negative, it is the opposite of that of the step there.
    """
    root = jnp.sign(dt) * jnp.sqrt(jnp.abs(dt))

    def scaled(normals, scale):
        return problem.Noise(*(root * scale * z.astype(dt.dtype) for z in normals))

    W = scaled(draw.W, 1.0)
    times = problem.Noise(*(dt for _ in draw.W))
    if draw.K:
        return diffrax.SpaceTimeTimeLevyArea(
            dt=times, W=W, H=scaled(draw.H, H_SCALE), K=scaled(draw.K, K_SCALE)
        )
    if draw.H:
        return diffrax.SpaceTimeLevyArea(dt=times, W=W, H=scaled(draw.H, H_SCALE))
    return diffrax.BrownianIncrement(dt=times, W=W)


def takes_halves(solver: diffrax.AbstractSolver | type[diffrax.AbstractSolver]) -> bool:
    """Whether a solver splits the state in halves and takes a term for each, as its `term_structure` says."""
    return solver.term_structure == (diffrax.AbstractTerm, diffrax.AbstractTerm)


def takes_langevin(solver: diffrax.AbstractSolver) -> bool:
    """Whether a solver takes the terms of an underdamped Langevin problem and no others."""
    return solver.term_structure == LANGEVIN_TERMS


def is_separable(problem: AbstractODE, t: Scalar, y: PyTree) -> bool:
    """Whether the first half of the rates depends on the second half of the state alone, and vice versa.

    Judged by the Jacobian at `y` and at two points near it and at later times, all concrete numbers.
    """
    n = len(y)
    if n % 2:
        return False
    for shift in (0.0, math.pi / 7, -math.e / 5):
        point = problem.State(*(jnp.asarray(x) + shift * (1 + i) for i, x in enumerate(y)))
        jacobian = jax.jacfwd(problem.drift, 1)(t + abs(shift), point)
        for i, row in enumerate(jacobian):
            for j, entry in enumerate(row):
                if (i < n // 2) == (j < n // 2) and bool(jnp.any(entry != 0)):
                    return False
    return True
