r"""Whether a function jumps, which its derivatives do not see.

The change along a segment is the mean of the slope on it, unless the function jumps there. With slopes at two
independent uniform places, $R_k = \Delta f - f'(s_k)\,\Delta x$, both remainders have the mean that jumps
leave: $E[R_1 R_2]$ is the mean squared jump on a segment, kinks or not.
"""

import dataclasses
from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats

from simkit.distributions.distribution import AbstractDistribution
from simkit.errors import InputError
from simkit.studies.functions import FunctionOfParameters, in_blocks

BATCHES = 16
FEWEST, MOST = 256, 4096  # segments in each parameter, in whole batches
HITS = 128  # how many of them would meet a jump
LONGEST = 0.5  # of a segment, in probability
EVALUATIONS = 6  # of the function, for a segment: two values and two slopes
NEGLIGIBLE = 1e-3  # a jump, in standard deviations of the value: rounding is smaller
CHANCE = 1e-6  # of saying that a function jumps where it does not

Distributions = Mapping[str, AbstractDistribution]


class Segments(NamedTuple):
    """Segments in one parameter each, `(rows, d)`, and two places on each, `(rows, 2)`, from 0 to 1."""

    start: np.ndarray
    change: np.ndarray
    places: np.ndarray


@dataclasses.dataclass(frozen=True)
class Remainders:
    """For each of many `Segments`, the value at its start and the two remainders, `(rows, 3)`, by name."""

    function: FunctionOfParameters

    def __call__(self, segments: Segments):
        return jax.vmap(self.one)(segments)

    def one(self, segment: Segments):
        """The remainders of one segment."""
        start, change, places = segment
        here, there = self.function(start), self.function(start + change)

        def left(place):
            slope = jax.jvp(self.function, (start + place * change,), (change,))[1]
            return {name: there[name] - here[name] - slope[name] for name in here}

        first, second = left(places[0]), left(places[1])
        return {name: jnp.stack([here[name], first[name], second[name]]) for name in here}


def check_jumps(function: FunctionOfParameters, distributions: Distributions, runs: int, seed: int) -> None:
    """Raise `InputError` where a function jumps as a parameter moves, as far as segments show it.

    There are about as many of them as `runs`. What is steep over much less than a segment jumps, too.
    """
    d = len(distributions)
    each = min(max(runs // d, FEWEST), MOST) // BATCHES * BATCHES
    part = min(LONGEST, HITS / each)
    segments = random_segments(distributions, each, part, seed)
    for value, result in in_blocks(Remainders(function), segments, EVALUATIONS).items():
        here, *left = np.where(np.isfinite(result).all(1, keepdims=True), result, 0.0).T
        batches = np.prod(left, axis=0).reshape(BATCHES, -1, d).mean(1) / part
        mean, error = batches.mean(0), stats.sem(batches)
        jumps = mean > np.maximum(stats.t.isf(CHANCE, BATCHES - 1) * error, (NEGLIGIBLE * here.std()) ** 2)
        for i in np.flatnonzero(jumps):
            name, size = list(distributions)[i], np.sqrt(mean[i])
            raise InputError(
                f"{value} jumps as {name} moves, by {size:.2g} in all, which derivatives do not see; use "
                "sobol_indices or elementary_effects"
            )


def random_segments(distributions: Distributions, each: int, part: float, seed: int) -> Segments:
    """`each` segments in every parameter, one after the other, that are this part of its probability."""
    rng = np.random.default_rng([seed, len(distributions)])
    own = np.tile(np.eye(len(distributions), dtype=bool), (each, 1))
    u = np.where(own, 1 - part, 1.0) * rng.random(own.shape)
    start, end = (
        np.stack([own.quantile(column) for own, column in zip(distributions.values(), x.T, strict=True)], 1)
        for x in (u, np.where(own, u + part, u))
    )
    return Segments(start, end - start, rng.random((len(own), 2)))
