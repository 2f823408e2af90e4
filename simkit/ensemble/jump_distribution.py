"""The distribution of what the jumps of an interval add up to, as a large sample for each number of jumps."""

import functools
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from simkit_solvers.numerics.traced import reads
from simkit_solvers.problems.jump_diffusion import AbstractJumpDiffusion
from simkit_solvers.problems.schedule import schedule_of
from simkit_solvers.random.generator import Words
from simkit_solvers.random.noise import Purpose, StepWords

SAMPLE = 2**20  # errors of means of a thousandth of a deviation, times the probability of a jump
MOST_JUMPS = 12
LEFT_OUT = 1e-9  # the probability of more
RAMPS = 5


class JumpDistribution(NamedTuple):
    """Sums of the marks of 1, 2, … jumps, `(numbers, SAMPLE)`, and the probabilities of these numbers."""

    sums: np.ndarray
    chances: np.ndarray

    @property
    def knots(self) -> np.ndarray:
        """Quantiles of the mark of one jump."""
        return np.quantile(self.sums[0], np.linspace(0.005, 0.995, RAMPS + 1))

    def means(self, knots: np.ndarray) -> np.ndarray:
        """The means of the functions of the sum of marks."""
        each = [[np.mean(f) for f in functions_of_marks(row, knots, np)] for row in self.sums]
        return self.chances @ np.asarray(each, np.float64)


def functions_of_marks(z: Any, knots: Any, xp: Any = jnp) -> list:
    """Whether there are jumps, and for these ramps of the sum of their marks from knot to knot."""
    there = z != 0
    widths = knots[1:] - knots[:-1]
    ramps = [
        xp.clip((z - knots[i]) / xp.where(widths[i] > 0, widths[i], 1.0), 0.0, 1.0) for i in range(RAMPS)
    ]
    return [xp.where(there, f, 0.0) for f in (xp.ones_like(z), *ramps)]


def jump_distribution(problem: AbstractJumpDiffusion, t: float, length: float) -> JumpDistribution | None:
    """The jumps over an interval; None if they depend on state or time, or if there may be too many."""
    if schedule_of(problem) is not None or _depends(problem, t):
        return None
    numbers, tree = jax.tree.flatten(problem)
    return _distribution(tree, tuple(map(float, numbers)), t, length)


@functools.lru_cache(maxsize=4)
def _distribution(tree: Any, numbers: tuple[float, ...], t: float, length: float) -> JumpDistribution | None:
    problem = jax.tree.unflatten(tree, numbers)
    with jax.enable_x64(True):
        y = problem.State(*[jnp.ones(())] * len(problem.State._fields))
        mean = float(problem.intensity(jnp.asarray(t), y)) * length
        chances = np.array([math.exp(-mean) * mean**n / math.factorial(n) for n in range(1, MOST_JUMPS + 1)])
        enough = 1 - math.exp(-mean) - np.cumsum(chances) < LEFT_OUT
        if not mean > 0 or not enough.any():
            return None
        most = int(np.argmax(enough)) + 1

        def kinds(number):
            words = StepWords(Words(jnp.uint32(1), jnp.uint32(2)), number, jnp.uint32(int(Purpose.JUMPS)))
            return tuple(zip(*problem.marks(jnp.asarray(t)).kinds(words, jnp.float64), strict=True))

        probabilities, marks = jax.jit(jax.vmap(kinds))(jnp.arange(SAMPLE, dtype=jnp.uint32))
    probabilities, marks = (np.stack([np.asarray(x) for x in each]) for each in (probabilities, marks))
    generator = np.random.default_rng(0)
    kind = (generator.random(SAMPLE) > np.cumsum(probabilities, 0)[:-1]).sum(0)
    one = np.take_along_axis(marks, kind[None], 0)[0]
    sums = [one]
    while len(sums) < most:
        sums.append(sums[-1] + generator.permutation(one))
    return JumpDistribution(np.stack(sums), chances[:most])


def _depends(problem: AbstractJumpDiffusion, t: float) -> bool:
    """Whether the intensity depends on the state or on time, or the marks on time."""
    y = problem.State(*[jnp.ones(())] * len(problem.State._fields))

    def intensity(t, y):
        return problem.intensity(t, y), jax.tree.leaves(problem.marks(t))

    return reads(intensity, jnp.asarray(t), y)
