r"""Variance reduction: pairs, control variates and Sobol' points, averaged in place of single paths.

A mean and its error are those of *replicates*: a pair of antithetic paths, whose Brownian noise has opposite
signs, counts as the average of the two, and a scrambling of Sobol' points as that of all of them. With
control variates $c_j$ of known means $\mu_j$ a path counts as

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
from simkit_solvers.random.noise import AbstractNoise, MirroredNoise, on_base
from simkit_solvers.random.sobol import SobolNoise

from simkit.ensemble.reducers import AbstractReducer, Covariance, Moments

MOMENTS, COVARIANCE = "replicates", "replicate_covariance"  # their statistics
PAIR = 2


@dataclasses.dataclass(frozen=True)
class VarianceReduction:
    """How the variance of means is reduced.

    With `scramblings` the noise is that of Sobol' points: path i is one of scrambling i % `scramblings`; with
    `ends_only` just the value at the end of each Brownian motion is.
    `controls` are observables or state variables, with their `means` and for each quantity its `slopes` on
    them once a pilot has found these. With `importance` paths have weights, and each Brownian noise a
    `drift`; that which makes the variance of the quantity `aim` least is found by a pilot of `pilot` paths,
    which also finds how far the noise of paths has to `reach`, by quantity and row, to show their variances.
    """

    antithetic: bool = False
    scramblings: int = 0
    ends_only: bool = False
    controls: tuple[str, ...] = ()
    means: tuple[float, ...] = ()
    slopes: tuple[tuple[str, tuple[float, ...]], ...] = ()
    importance: bool = False
    drift: tuple[float, ...] | None = None
    aim: str = ""
    pilot: int = 0
    reach: tuple[tuple[str, tuple[float, ...]], ...] = ()

    @property
    def size(self) -> int:
        """The paths of a pair; 1 where there are no pairs."""
        return PAIR if self.antithetic else 1

    def whole(self, paths: float, up: bool) -> int:
        """About so many paths, rounded up or down to those that make whole replicates."""
        if self.scramblings:
            power = math.log2(max(paths, self.scramblings))
            return 1 << (math.ceil(power) if up else math.floor(power))
        return max((math.ceil if up else math.floor)(paths / self.size), 1) * self.size

    def independent(self, paths: int) -> int:
        """How many of these paths are independent at least."""
        return self.scramblings or paths // self.size

    @property
    def averages(self) -> bool:
        """Whether what is averaged are not the values of single paths."""
        return self.has_replicates or self.importance

    @property
    def has_replicates(self) -> bool:
        """Whether there are statistics of pairs or controlled values next to those of paths."""
        return self.antithetic or bool(self.controls)

    @property
    def inflation(self) -> float:
        """How many times as large the errors of single paths may be: those of quantiles and counts.

        They are no larger than those of independent paths times the square root of the paths of a pair,
        whatever the two have in common. Scrambled points are more even than independent ones.
        """
        return math.sqrt(self.size)

    @property
    def description(self) -> str:
        """What is done, in words."""
        parts = ["antithetic paths"] * self.antithetic
        parts += [f"control variates {', '.join(self.controls)}"] * bool(self.controls)
        parts += ["importance sampling"] * self.importance
        points = "stratified ends" if self.ends_only else "Sobol' points"
        parts += [f"{points} in {self.scramblings} scramblings"] * bool(self.scramblings)
        return " and ".join(parts)

    def driver(self, driver: Any, steps: int, paths: int) -> Any:
        """What makes the noise of paths of so many steps, from what makes that of independent ones."""
        if self.scramblings:
            return OnPoints(driver, steps, self.scramblings, paths // self.scramblings, self.ends_only)
        return Mirrored(driver) if self.antithetic else driver

    @property
    def ready(self) -> bool:
        """Whether nothing has to be found before a run."""
        return bool(self.reach) if self.importance else bool(self.slopes) or not self.controls

    def numbers(self, names: Any) -> tuple[np.ndarray, np.ndarray]:
        """The slopes `(quantities, controls)` of quantities in this order, and the controls' means."""
        slopes = dict(self.slopes)
        none = (0.0,) * len(self.controls)
        return np.array([slopes.get(name, none) for name in names]), np.array(self.means)

    def of_paths(self, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The replicates `(replicates, …)` of values `(paths, …)` at the end, without a last half pair."""
        return {name: self.averaged(x) for name, x in self.controlled(values).items()}

    def controlled(self, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Values at the end less what the controls explain.

        Where grids are compared, controls without a step bias are not among the values: they are the same.
        """
        result = dict(values)
        for name, slopes in self.slopes:
            if name in result:
                for control, slope, mean in zip(self.controls, slopes, self.means, strict=True):
                    result[name] = result[name] - slope * (values.get(control, mean) - mean)
        return result

    def averaged(self, values: np.ndarray) -> np.ndarray:
        """The averages of replicates along the first axis: of pairs, or of scramblings as far as they go.

        In a scrambling paths with a value that is not finite are left out.
        """
        if self.scramblings:
            whole = values[: len(values) // self.scramblings * self.scramblings]
            each = whole.reshape(-1, self.scramblings, *values.shape[1:])
            valid = np.isfinite(each).all(tuple(range(2, each.ndim)), keepdims=True)
            with np.errstate(invalid="ignore"):
                return np.where(valid, each, 0.0).sum(0) / valid.sum(0)
        if not self.antithetic:
            return values
        whole = values[: len(values) // PAIR * PAIR]
        return (whole[::PAIR] + whole[1::PAIR]) / PAIR


PLAIN = VarianceReduction()


@dataclasses.dataclass(frozen=True)
class Mirrored:
    """Makes the noise of paths of which each second one mirrors the one before."""

    driver: Any

    def __call__(self, key: Words, path: jax.Array, float64: bool) -> AbstractNoise:
        pair, odd = path >> jnp.uint32(1), (path & jnp.uint32(1)).astype(bool)
        return MirroredNoise(self.driver(key, pair, float64), self.driver(key, path, float64), odd)


@dataclasses.dataclass(frozen=True)
class OnPoints:
    """Makes the noise of paths of so many steps with normals of scrambled Sobol' points.

    Where `driver` sums draws or splits them between halves, these are those of the points. The first paths
    are the first points of all scramblings, and these fill space evenly too.
    """

    driver: Any
    steps: int
    scramblings: int
    points: int
    ends_only: bool

    def __call__(self, key: Words, path: jax.Array, float64: bool) -> AbstractNoise:
        scramblings, points = jnp.uint32(self.scramblings), jnp.uint32(self.points)
        of_run = path % (scramblings * points)  # later paths have scramblings of their own
        place = path - of_run + of_run % scramblings * points + of_run // scramblings

        def on_points(_, steps: int) -> AbstractNoise:
            return SobolNoise.of(key, place, steps, self.points, float64, self.ends_only)

        return on_base(self.driver(key, path, float64), self.steps, on_points)


def replicate_reducers(rows: Mapping[str, int]) -> dict[str, AbstractReducer]:
    """The statistics of averages of pairs, or of controlled values."""
    return {MOMENTS: Moments(rows), COVARIANCE: Covariance(rows)}


def replicated(
    values: Mapping[str, jax.Array], valid: jax.Array, pairs: bool, controls: tuple[str, ...], numbers: tuple
) -> tuple[dict[str, jax.Array], jax.Array]:
    """The averages of pairs, or the single values, of `(rows, leaves, lanes)`, and which count; in a program.

    `numbers` are slopes and means (`VarianceReduction.numbers`); they change the last rows.
    """
    slopes, means = numbers
    off = [values[name][-1].astype(jnp.float64) - means[i] for i, name in enumerate(controls)]
    result = {}
    for place, (name, x) in enumerate(values.items()):
        x = x.astype(jnp.float64)
        for i, each in enumerate(off):
            x = jnp.concatenate([x[:-1], x[-1:] - slopes[place, i] * each])
        result[name] = (x[..., ::PAIR] + x[..., 1::PAIR]) / PAIR if pairs else x
    return result, valid[..., ::PAIR] & valid[..., 1::PAIR] if pairs else valid


def with_replicates(
    statistics: dict[str, dict[str, np.ndarray]], reduction: VarianceReduction
) -> dict[str, dict[str, np.ndarray]]:
    """The statistics with means, and their errors, from replicates; others have them already."""
    if not reduction.has_replicates:
        return statistics
    moments, histogram = dict(statistics["moments"]), dict(statistics["histogram"])
    most, own = reduction.inflation, statistics[MOMENTS]
    for name, x in own.items():
        if name.endswith("_variance_stderr"):
            moments[name] = most * moments[name]
        elif name.endswith(("_mean", "_stderr")):
            moments[name] = x
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
