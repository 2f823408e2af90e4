r"""Variance reduction: antithetic pairs and control variates, averaged in place of single paths.

A mean and its error are those of *replicates*: a pair of antithetic paths, whose Brownian noise has opposite
signs, counts as the average of the two. With control variates $c_j$ of known means $\mu_j$ a path counts as

$$y - \sum_j \beta_j (c_j - \mu_j),$$

where the $\beta_j$ are those of a regression on the paths of a pilot, so that they bring no bias into means
of the run's own. Whatever describes single paths (variances, quantiles, extremes) is that of plain paths.
Reference: Glasserman (2003), Monte Carlo Methods in Financial Engineering, 4.1 and 4.2,
doi:10.1007/978-0-387-21617-1.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from simkit_solvers.random.generator import Words
from simkit_solvers.random.noise import AbstractNoise, MirroredNoise

from simkit.ensemble.reducers import AbstractReducer, Covariance, Moments

MOMENTS, COVARIANCE = "replicates", "replicate_covariance"  # their statistics
PAIR = 2


@dataclasses.dataclass(frozen=True)
class VarianceReduction:
    """How the variance of means is reduced.

    `controls` are observables or state variables, with their `means` and for each quantity its `slopes` on
    them once a pilot has found these.
    """

    antithetic: bool = False
    controls: tuple[str, ...] = ()
    means: tuple[float, ...] = ()
    slopes: tuple[tuple[str, tuple[float, ...]], ...] = ()

    @property
    def size(self) -> int:
        """The paths of a replicate."""
        return PAIR if self.antithetic else 1

    @property
    def ready(self) -> bool:
        """Whether nothing has to be found before a run."""
        return bool(self.slopes) or not self.controls

    def numbers(self, names: Any) -> tuple[np.ndarray, np.ndarray]:
        """The slopes `(quantities, controls)` of quantities in this order, and the controls' means."""
        slopes = dict(self.slopes)
        none = (0.0,) * len(self.controls)
        return np.array([slopes.get(name, none) for name in names]), np.array(self.means)

    def of_paths(self, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The replicates `(replicates, …)` of values `(paths, …)` at the end, without a last half pair."""
        return {name: self.averaged(x) for name, x in self.controlled(values).items()}

    def controlled(self, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Values at the end less what the controls explain."""
        result = dict(values)
        for name, slopes in self.slopes:
            if name in result:
                for control, slope, mean in zip(self.controls, slopes, self.means, strict=True):
                    result[name] = result[name] - slope * (values[control] - mean)
        return result

    def averaged(self, values: np.ndarray) -> np.ndarray:
        """The averages of replicates, along the first axis."""
        if self.size == 1:
            return values
        whole = values[: len(values) // PAIR * PAIR]
        return (whole[::PAIR] + whole[1::PAIR]) / PAIR


@dataclasses.dataclass(frozen=True)
class Mirrored:
    """Makes the noise of paths of which each second one mirrors the one before."""

    driver: Any

    def __call__(self, key: Words, path: jax.Array, float64: bool) -> AbstractNoise:
        pair, odd = path >> jnp.uint32(1), (path & jnp.uint32(1)).astype(bool)
        return MirroredNoise(self.driver(key, pair, float64), self.driver(key, path, float64), odd)


def replicate_reducers(rows: Mapping[str, int]) -> dict[str, AbstractReducer]:
    """The statistics of replicates."""
    return {MOMENTS: Moments(rows), COVARIANCE: Covariance(rows)}


def replicated(
    values: Mapping[str, jax.Array], valid: jax.Array, size: int, controls: tuple[str, ...], numbers: tuple
) -> tuple[dict[str, jax.Array], jax.Array]:
    """The replicates of values `(rows, leaves, lanes)`, and which of them count; inside a program.

    `numbers` are slopes and means (`VarianceReduction.numbers`); they change the last rows.
    """
    slopes, means = numbers
    off = [values[name][-1].astype(jnp.float64) - means[i] for i, name in enumerate(controls)]
    result = {}
    for place, (name, x) in enumerate(values.items()):
        x = x.astype(jnp.float64)
        for i, each in enumerate(off):
            x = jnp.concatenate([x[:-1], x[-1:] - slopes[place, i] * each])
        result[name] = x if size == 1 else (x[..., ::PAIR] + x[..., 1::PAIR]) / PAIR
    return result, valid if size == 1 else valid[..., ::PAIR] & valid[..., 1::PAIR]


def with_replicates(
    statistics: dict[str, dict[str, np.ndarray]], reduction: VarianceReduction
) -> dict[str, dict[str, np.ndarray]]:
    """The statistics with means, and their errors, from replicates.

    The errors of variances and quantiles are those of independent paths, times the square root of the paths
    of a replicate: they are no larger, whatever the paths of one have in common.
    """
    moments, histogram = dict(statistics["moments"]), dict(statistics["histogram"])
    most = math.sqrt(reduction.size)
    for name, x in statistics[MOMENTS].items():
        if name.endswith(("_mean", "_stderr")) and not name.endswith("_variance_stderr"):
            moments[name] = x
    moments |= {name: most * x for name, x in moments.items() if name.endswith("_variance_stderr")}
    histogram |= {name: most * x for name, x in histogram.items() if name.endswith("_quantile_stderr")}
    return statistics | {"moments": moments, "histogram": histogram}


def slopes_of(covariance: np.ndarray, names: list[str], controls: tuple[str, ...]) -> Any:
    """The slopes of each quantity on the controls, by least squares; of a control none, whose mean is known.

    Its own paths then show whether the known mean is right.
    `covariance` is that of replicates at the end, `(quantities, quantities)` in the order of `names`.
    """
    places = [names.index(control) for control in controls]
    scale = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    result = []
    for row, name in enumerate(names):
        used = [place for place in places if row not in places and scale[place] > 0]
        slopes = np.zeros(len(names))
        if used and scale[row] > 0:
            correlation = covariance[np.ix_(used, used)] / np.outer(scale[used], scale[used])
            own = covariance[used, row] / scale[used]
            slopes[used] = np.linalg.lstsq(correlation, own, rcond=1e-9)[0] / scale[used]
        result.append((name, tuple(float(slopes[place]) for place in places)))
    return tuple(result)
