"""A problem as diffrax terms, over one step of the fixed grid.

The step runs over local time (0, h) with the problem shifted to `start`, so that a solver never sees an
absolute time and none is lost to rounding.
"""

import math

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp

from simkit_solvers.noise import H_SCALE, K_SCALE, Draw
from simkit_solvers.problem import AbstractODE, AbstractSDE, Scalar


class DriftTerm(diffrax.AbstractTerm):
    """$f(start + t, y)\\,dt$."""

    problem: AbstractODE
    start: Scalar

    def vf(self, t, y, args):
        return self.problem.drift(self.start + t, y)

    def contr(self, t0, t1, **kwargs):
        return t1 - t0

    def prod(self, vf, control):
        return jax.tree.map(lambda f: f * control, vf)


class NoiseTerm(diffrax.AbstractTerm):
    """The product-form diffusion under the increment of one step.

    `vf` is the columns $g_k(t, y)$, a `Noise` of `State`s: diffrax differentiates it, so it must be arrays and
    never a closure. `vf_prod` is the model's own product.
    """

    problem: AbstractSDE
    start: Scalar
    increment: diffrax.AbstractBrownianIncrement

    def vf(self, t, y, args):
        names = self.problem.Noise._fields
        one = jnp.ones_like(jax.tree.leaves(y)[0])
        zero = jnp.zeros_like(one)
        columns = [
            self.problem.noise(self.start + t, y, self.problem.Noise(*(one if n == k else zero for n in names)))
            for k in names
        ]
        return self.problem.Noise(*columns)

    def contr(self, t0, t1, use_levy: bool = False, **kwargs):
        return self.increment if use_levy else self.increment.W

    def prod(self, vf, control):
        scaled = [jax.tree.map(lambda g, w=w: g * w, column) for column, w in zip(vf, control, strict=True)]
        return jax.tree.map(lambda *columns: sum(columns[1:], columns[0]), *scaled)

    def vf_prod(self, t, y, args, control):
        return self.problem.noise(self.start + t, y, control)


class ZeroTerm(diffrax.AbstractTerm):
    """The vanishing explicit part of an implicit–explicit method that treats the whole problem implicitly."""

    def vf(self, t, y, args):
        return jax.tree.map(jnp.zeros_like, y)

    def contr(self, t0, t1, **kwargs):
        return t1 - t0

    def prod(self, vf, control):
        return vf


class HalfTerm(diffrax.AbstractTerm):
    """One half of a separable problem: the derivatives of one half of the variables from the other half.

    Splitting methods hand over the half that the derivative depends on; the other half enters as zeros, which
    `check_separable` has shown to be without influence.
    """

    problem: AbstractODE
    start: Scalar
    first: bool = eqx.field(static=True)

    def vf(self, t, y, args):
        zeros = tuple(jnp.zeros_like(x) for x in y)
        state = self.problem.State(*(zeros + tuple(y) if self.first else tuple(y) + zeros))
        rates = tuple(self.problem.drift(self.start + t, state))
        half = len(rates) // 2
        return rates[:half] if self.first else rates[half:]

    def contr(self, t0, t1, **kwargs):
        return t1 - t0

    def prod(self, vf, control):
        return jax.tree.map(lambda f: f * control, vf)


def brownian_increment(problem: AbstractSDE, dt, draw: Draw) -> diffrax.AbstractBrownianIncrement:
    """The increment of one step, with as many Lévy areas as were drawn, in the shape diffrax expects."""
    root = jnp.sqrt(dt)

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


def is_separable(problem: AbstractODE, t, y) -> bool:
    """Whether the first half of the rates depends on the second half of the state alone, and vice versa.

    Judged by the Jacobian at `y` and at two points beside it, all concrete numbers.
    """
    n = len(y)
    if n % 2:
        return False
    for shift in (0.0, math.pi / 7, -math.e / 5):
        point = problem.State(*(jnp.asarray(x) + shift * (1 + i) for i, x in enumerate(y)))
        jacobian = jax.jacfwd(lambda p: problem.drift(t, p))(point)
        for i, row in enumerate(jacobian):
            for j, entry in enumerate(row):
                if (i < n // 2) == (j < n // 2) and bool(jnp.any(entry != 0)):
                    return False
    return True
