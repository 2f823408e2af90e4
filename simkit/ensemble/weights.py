r"""Importance sampling: paths whose Brownian motions have a drift, with the exact weights that undo it.

Each step takes the normals $Z_k + \theta\sqrt h$ in place of $Z_k$. What is averaged is each path's value
times

$$w(t) = \exp\left(-\theta \cdot W(t) - \tfrac12 |\theta|^2 t\right),$$

the density of the normals up to then without the drift over that with it, for W without the drift. So the
means are those of the process itself, whatever the drift and the steps, and so are step biases, differences
and quantities derived from them.

With $s = |\theta| \sqrt t$ and a standard normal u along the drift $\log w = -s u - s^2/2$. Squares of
weighted values may be largest at a u that none of n paths reaches, since these end at about
$\sqrt{2 \log n}$: then most runs show a small error of a mean that is far off. So a pilot finds by how large
u most of the second moment is made, and where that is out of reach there is no result. That is decided before
any path of the run: a run that judged itself by its own paths would show a biased choice of means.
Reference: Glasserman (2003), Monte Carlo Methods in Financial Engineering, 4.6,
doi:10.1007/978-0-387-21617-1.
"""

import dataclasses
import math
from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np
from simkit_solvers.numerics.delegated import delegated
from simkit_solvers.numerics.scalar import Scalar
from simkit_solvers.problems.observe import AbstractObserver

from simkit.ensemble.reducers import Moments

WEIGHTS = "weights"  # the statistics of squares without a drift
LOG_WEIGHT = "log weight"  # no name of a quantity: it holds a space
DRIVEN = "driven "


def driven_name(i: int) -> str:
    """The name in rows of the sum of the normals that noise `i` has drawn, without the drift."""
    return f"{DRIVEN}{i}"


def is_of_weights(name: str) -> bool:
    """Whether rows of this name are for the weights, and no quantity's."""
    return name == LOG_WEIGHT or name.startswith(DRIVEN)


class WeightedObserver(AbstractObserver):
    """What `observer` sees of a path whose normals have been shifted, and the logarithm of its weight.

    `shift` is that of each noise at each step.
    """

    observer: AbstractObserver
    shift: tuple[Scalar, ...]
    counts_events = delegated("observer")

    def init(self, problem, t, y):
        zero = jnp.zeros((), jnp.result_type(*jax.tree.leaves(y)))
        return self.observer.init(problem, t, y), jnp.uint32(0), (zero,) * len(self.shift)

    def driven(self, problem, acc, k, t, y, draw):
        inner, _, sums = acc
        drawn = zip(sums, draw.W, self.shift, strict=True)
        sums = tuple(total + (z - shift) for total, z, shift in drawn)
        return self.observer.driven(problem, inner, k, t, y, draw), k + jnp.uint32(1), sums

    def update(self, problem, acc, k, t, y, dt):
        return self.observer.update(problem, acc[0], k, t, y, dt), *acc[1:]

    def jumped(self, acc, k, marks):
        return self.observer.jumped(acc[0], k, marks), *acc[1:]

    def changed(self, acc, k, t, before, after):
        return self.observer.changed(acc[0], k, t, before, after), *acc[1:]

    def row(self, problem, acc, t, y):
        inner, steps, sums = acc
        log = -sum(s * (z + 0.5 * s * steps.astype(z.dtype)) for s, z in zip(self.shift, sums, strict=True))
        totals = {driven_name(i): z for i, z in enumerate(sums)}
        return self.observer.row(problem, inner, t, y) | totals | {LOG_WEIGHT: log}

    def coarsened(self, factor: int) -> "WeightedObserver | None":
        coarse = self.observer.coarsened(factor)
        return None if coarse is None else dataclasses.replace(self, observer=coarse)

    def refined(self, factor: int) -> "WeightedObserver":
        return dataclasses.replace(self, observer=self.observer.refined(factor))


def weighted(values: Mapping[str, jax.Array], log_weight: jax.Array) -> dict[str, jax.Array]:
    """The values `(rows, …)` times the weights of their rows, which may be the last ones."""
    weight = jnp.exp(log_weight)
    return {name: x * weight[-len(x) :] for name, x in values.items()}


def square_reducer(rows: Mapping[str, int]) -> Moments:
    """The statistics of what `plain_squares` gives for quantities of these names."""
    return Moments(dict.fromkeys(rows, 1))


def plain_squares(values: Mapping[str, jax.Array], log_weight: jax.Array) -> dict[str, jax.Array]:
    """The squares of weighted values at the end over their weights: their mean is that without a drift."""
    over = jnp.exp(-log_weight[-1:].astype(jnp.float64))
    squares = {name: jnp.square(x[-1:].astype(jnp.float64)) for name, x in values.items()}
    return {name: jnp.where(square > 0, square * over, 0.0) for name, square in squares.items()}


def reach_of(paths: int) -> float:
    """How far from the mean of a standard normal the outermost of so many paths are, about."""
    return math.sqrt(2 * math.log(max(paths, 1)))


def paths_reaching(reach: float) -> float:
    """How many paths reach so far."""
    return math.exp(min(0.5 * reach**2, 700.0))


def without_degenerate(
    moments: Mapping[str, np.ndarray], reach: Mapping[str, tuple[float, ...]], paths: int
) -> dict[str, np.ndarray]:
    """The moments with NaN for means and errors in rows whose variance so many paths would not show."""
    result = dict(moments)
    for name, needed in reach.items():
        for key in (f"{name}_mean", f"{name}_stderr"):
            result[key] = np.where(np.array(needed) > reach_of(paths), np.nan, moments[key])
    return result
