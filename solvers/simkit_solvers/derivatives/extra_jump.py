r"""The derivative of a jump diffusion's expectations that comes from the number of its jumps.

Along a path the number of jumps is held fixed, so the derivative by the intensity $\lambda$, or by the
probability of a kind of jump, lacks the change of that number. For Poisson numbers of mean $\lambda h$ it is

$$\partial_\theta E[g(N)] = h\,\partial_\theta\lambda\;E[g(N + 1) - g(N)],$$

and the sum over steps and kinds of jumps i, the rate of each being $\lambda p_i$, is taken at one random
step: the path with one jump more there, minus the path without, on the same noise.
Reference: Heidergott & Vázquez-Abad (2008), Measure-valued differentiation for Markov chains,
doi:10.1007/s10957-007-9297-7.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree, UInt32

from simkit_solvers.grids.grid import Grid
from simkit_solvers.loops.integrate import integrate
from simkit_solvers.methods.switched import Solver
from simkit_solvers.numerics.scalar import Scalar
from simkit_solvers.numerics.tangents import as_tangent, jvp
from simkit_solvers.numerics.traced import reads
from simkit_solvers.problems.calendar import Schedule
from simkit_solvers.problems.directions import Direction
from simkit_solvers.problems.jump_diffusion import AbstractJumpDiffusion
from simkit_solvers.problems.observe import AbstractObserver
from simkit_solvers.problems.problem import features_of
from simkit_solvers.problems.schedule import ScheduledJumpDiffusion
from simkit_solvers.random.generator import Stream, Words, block, stream_key, threefry2x32
from simkit_solvers.random.noise import AbstractNoise, Purpose, StepWords
from simkit_solvers.random.variates import below_one

_EXTRA, _NO_PATH = 2, 0xFFFFFFFF  # a key that is that of no path


class OneJumpMore(ScheduledJumpDiffusion):
    """A jump diffusion with one more jump, of a given mark, in the step around a time.

    `half` is half a step. A solver sees the model itself.
    """

    when: Scalar
    half: Scalar
    mark: Scalar

    @staticmethod
    def of(problem: AbstractJumpDiffusion, when: Scalar, half: Scalar, mark: Scalar) -> "OneJumpMore":
        """The problem with the jump."""
        original, schedule = problem, Schedule({}, {}, ())
        if isinstance(problem, ScheduledJumpDiffusion):
            original, schedule = problem.original, problem.schedule
        given: Any = {"original": original, "schedule": schedule, **features_of(problem)}
        return OneJumpMore(**given, when=when, half=half, mark=mark)

    def jump(self, t, y, z):
        here = jnp.abs(t - self.when) < self.half
        return ScheduledJumpDiffusion.jump(self, t, y, z + jnp.where(here, self.mark, 0.0))


class _Place(NamedTuple):
    """Where one more jump happens: its `step`, a real number, and the words of its kind and its mark."""

    step: jax.Array
    kind: jax.Array
    words: StepWords

    @staticmethod
    def of(key: Words, path: UInt32[Array, ""] | int, steps: int, dtype) -> "_Place":
        """The place among `steps` steps for one path id under a key."""
        own = threefry2x32(key, Words(jnp.uint32(_EXTRA), jnp.uint32(_NO_PATH)))
        own = stream_key(own, path, Stream.JUMPS)
        words = block(own, jnp.uint32(0), jnp.uint32(0))
        step = jnp.floor(below_one(words.a, dtype) * steps)
        return _Place(step, words.b, StepWords(own, jnp.uint32(1), jnp.uint32(int(Purpose.TRANSITION))))

    def middle(self, start: Scalar, dt: Scalar) -> Any:
        """The middle of the step, of a grid from `start`."""
        return start + self.step * dt + 0.5 * dt

    def means(self, problem: AbstractJumpDiffusion, y: PyTree, start: Scalar, dt: jax.Array) -> jax.Array:
        """How many jumps of each kind the step has on average."""
        middle = self.middle(start, dt)
        kinds = problem.marks(middle).kinds(self.words, dt.dtype)
        mean = jnp.asarray(problem.intensity(middle, y), dt.dtype) * dt
        return jnp.stack([mean * jnp.asarray(p, dt.dtype) for p, _ in kinds])


def extra_jump(
    problem: AbstractJumpDiffusion,
    solver: Solver,
    y0: PyTree,
    grid: Grid,
    noise: AbstractNoise,
    key: Words,
    path: UInt32[Array, ""] | int,
    observer: AbstractObserver,
    directions: tuple[Direction, ...],
) -> tuple[dict[str, Any], tuple[dict[str, Any], ...]]:
    r"""The rows of a path, and for each direction numbers whose mean is what the derivative along the path
    lacks: the part from the number of jumps.

    A direction moves the rate of jumps, or the length of the steps, in each of which the number of jumps has
    the mean rate times length. `noise` is that of the path; `key` and `path` give the place and the mark of
    the additional jump. The derivative of the mean is the mean of these and of the derivative along the path.
    Each direction costs one path. Raises `ValueError` for a problem without jumps, and for an intensity that
    depends on the state, which would have to be known at the random step.

    >>> from simkit_physics import Merton
    >>> from simkit_solvers import CounterNoise, Direction, EulerMaruyama, Grid, States, extra_jump, seed_key
    >>> model, start = Merton(mu=0.05, sigma=0.2, lam=1.0, m=-0.1, delta=0.1), Merton.State(S=100.0)
    >>> grid, noise = Grid(t0=0.0, dt=0.1, steps=10, every=10), CounterNoise.of(seed_key(1), path=0)
    >>> by_rate = Direction(problem=Merton(mu=0.0, sigma=0.0, lam=1.0, m=0.0, delta=0.0))
    >>> rows, changes = extra_jump(
    ...     model, EulerMaruyama(), start, grid, noise, seed_key(2), 0, States(), (by_rate,)
    ... )
    >>> changes[0]["S"].shape
    (2,)
    """
    if not isinstance(problem, AbstractJumpDiffusion):
        raise ValueError(f"extra_jump: {type(problem).__name__} does not jump; differentiate its paths")
    dtype = jnp.result_type(*jax.tree.leaves(y0))
    start, dt = jnp.asarray(grid.t0, dtype), jnp.asarray(grid.dt, dtype)
    _check_intensity(problem, start, y0)
    rows = integrate(problem, solver, y0, grid, noise, observer)

    place = _Place.of(key, path, grid.steps, dtype)
    middle = place.middle(start, dt)
    kinds = problem.marks(middle).kinds(place.words, dtype)
    marks = jnp.stack([jnp.asarray(mark, dtype) for _, mark in kinds])
    level = below_one(place.kind, dtype)

    def drawn(direction: Direction) -> tuple[jax.Array, jax.Array]:
        """The mark of the jump, of a kind drawn by how much its mean changes, and the weight of the path."""
        given = problem, start, dt
        change = as_tangent(given, (direction.problem, direction.t0, direction.dt), dtype)
        _, slopes = jvp(lambda x: place.means(x[0], y0, *x[1:]), given, change)
        sums = jnp.cumsum(jnp.abs(slopes))
        kind = jnp.argmax(sums > level * sums[-1])
        return marks[kind], jnp.sign(slopes[kind]) * sums[-1] * grid.steps

    jumps = [drawn(each) for each in directions]
    more = jax.vmap(
        lambda mark: integrate(
            OneJumpMore.of(problem, middle, 0.5 * dt, mark), solver, y0, grid, noise, observer
        )
    )(jnp.stack([mark for mark, _ in jumps]))
    missing = tuple(
        jax.tree.map(lambda x, y, i=i, weight=weight: weight * (x[i] - y), more, rows)
        for i, (_, weight) in enumerate(jumps)
    )
    return rows, missing


def _check_intensity(problem: AbstractJumpDiffusion, t, y0) -> None:
    if reads(lambda y: jnp.asarray(problem.intensity(t, y), t.dtype), y0):
        raise ValueError(
            f"{type(problem).__name__}.intensity depends on the state, which one more jump changes; use "
            "finite differences with common random numbers"
        )
