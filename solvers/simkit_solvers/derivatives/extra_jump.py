r"""The derivative of a jump diffusion's expectations that comes from the number of its jumps.

Along a path the number of jumps is held fixed, so the derivative by the intensity $\lambda$, or by the
probability of a kind of jump, lacks the change of that number. For Poisson numbers of mean $\lambda h$ it is

$$\partial_\theta E[g(N)] = h\,\partial_\theta\lambda\;E[g(N + 1) - g(N)],$$

and the sum over steps and kinds of jumps i, the rate of each being $\lambda p_i$, is taken at one random
step: the path with one jump more there, minus the path without, on the same noise.
Reference: Heidergott & Vázquez-Abad (2008), Measure-valued differentiation for Markov chains,
doi:10.1007/s10957-007-9297-7.
"""

from typing import Any

import diffrax
import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from simkit_solvers.grids.grid import Grid
from simkit_solvers.loops.integrate import integrate
from simkit_solvers.methods.switched import Switched
from simkit_solvers.numerics.scalar import Scalar
from simkit_solvers.numerics.tangents import along, as_tangent
from simkit_solvers.problems.directions import Direction
from simkit_solvers.problems.jump_diffusion import AbstractJumpDiffusion
from simkit_solvers.problems.observe import AbstractObserver
from simkit_solvers.problems.schedule import Schedule, ScheduledJumpDiffusion
from simkit_solvers.random.generator import Stream, Words, block, stream_key, threefry2x32
from simkit_solvers.random.noise import AbstractNoise, Purpose, StepWords
from simkit_solvers.random.variates import below_one

_EXTRA, _APART = 2, 0xFFFFFFFF


class OneJumpMore(ScheduledJumpDiffusion):
    """A jump diffusion with one more jump, of a given mark, in the step around a time.

    `half` is half a step. A solver sees the model itself.
    """

    when: Scalar
    half: Scalar
    mark: Scalar

    def jump(self, t, y, z):
        here = jnp.abs(t - self.when) < self.half
        return ScheduledJumpDiffusion.jump(self, t, y, z + jnp.where(here, self.mark, 0.0))


def extra_jump(
    problem: AbstractJumpDiffusion,
    solver: diffrax.AbstractSolver | Switched,
    y0: PyTree,
    grid: Grid,
    noise: AbstractNoise,
    key: Words,
    path: jax.Array | int,
    observer: AbstractObserver,
    directions: tuple[Direction, ...],
) -> tuple[dict[str, Any], tuple[dict[str, Any], ...]]:
    r"""The rows of a path, and for each direction numbers whose mean is what the derivative
    along the path lacks: the part from the number of jumps.

    A direction moves the rate of jumps, or the length of the steps, in each of which the number of jumps has
    the mean rate times length. `noise` is that of the path; `key` and `path` give the place and the mark of
    the jump more.
    The derivative of the mean is the mean of these and of the derivative along the path. Each direction costs
    one path. Raises `ValueError` for a problem without jumps, and for an intensity that depends on the state,
    which would have to be known at the random step.
    """
    if not isinstance(problem, AbstractJumpDiffusion):
        raise ValueError(
            f"extra_jump: {type(problem).__name__} does not jump; take the derivative of its paths"
        )
    dtype = jnp.result_type(*jax.tree.leaves(y0))
    start, dt = jnp.asarray(grid.t0, dtype), jnp.asarray(grid.dt, dtype)
    _check_intensity(problem, start, y0)
    rows = integrate(problem, solver, y0, grid, noise, observer)

    apart = stream_key(threefry2x32(key, Words(jnp.uint32(_EXTRA), jnp.uint32(_APART))), path, Stream.JUMPS)
    where = block(apart, jnp.uint32(0), jnp.uint32(0))
    step = jnp.floor(below_one(where.a, dtype) * grid.steps)
    middle = start + step * dt + 0.5 * dt
    words = StepWords(apart, jnp.uint32(1), jnp.uint32(int(Purpose.TRANSITION)))

    def means(given):
        """How many jumps of each kind the step has on average."""
        problem, start, dt = given
        middle = start + step * dt + 0.5 * dt
        kinds = problem.marks(middle).kinds(words, dtype)
        mean = jnp.asarray(problem.intensity(middle, y0), dtype) * dt
        return jnp.stack([mean * jnp.asarray(p, dtype) for p, _ in kinds])

    marks = jnp.stack([jnp.asarray(mark, dtype) for _, mark in problem.marks(middle).kinds(words, dtype)])
    u = below_one(where.b, dtype)

    def with_one_more(mark):
        schedule = problem.schedule if isinstance(problem, ScheduledJumpDiffusion) else Schedule({}, {}, ())
        more = OneJumpMore(
            original=problem.original if isinstance(problem, ScheduledJumpDiffusion) else problem,
            schedule=schedule,
            State=problem.State,
            Noise=problem.Noise,
            calculus=problem.calculus,
            noise_kind=problem.noise_kind,
            when=middle,
            half=0.5 * dt,
            mark=mark,
        )
        return integrate(more, solver, y0, grid, noise, observer)

    found = []
    for each in directions:
        given = problem, start, dt
        change = as_tangent(given, (each.problem, each.t0, each.dt), dtype)
        _, slopes = along(means, given, change)
        sums = jnp.cumsum(jnp.abs(slopes))
        kind = jnp.argmax(sums > u * sums[-1])
        weight = jnp.sign(slopes[kind]) * sums[-1] * grid.steps
        found.append((marks[kind], weight))
    more = jax.vmap(with_one_more)(jnp.stack([mark for mark, _ in found]))
    missing = tuple(
        jax.tree.map(lambda x, y, i=i, weight=weight: weight * (x[i] - y), more, rows)
        for i, (_, weight) in enumerate(found)
    )
    return rows, missing


def _check_intensity(problem: AbstractJumpDiffusion, t, y0) -> None:
    jaxpr = jax.make_jaxpr(lambda y: jnp.asarray(problem.intensity(t, y), t.dtype))(y0).jaxpr
    used = [*jaxpr.outvars, *(x for eqn in jaxpr.eqns for x in eqn.invars)]
    if any(var is x for var in jaxpr.invars for x in used):
        raise ValueError(
            f"{type(problem).__name__}.intensity depends on the state, which a jump more changes; take "
            "finite differences with common random numbers"
        )
