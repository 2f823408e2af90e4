"""The five methods: the design of each, and what it measures."""

import dataclasses
from typing import ClassVar

import numpy as np

from simkit.distributions.distribution import AbstractContinuousDistribution
from simkit.results.number_text import rounding_in
from simkit.studies.designs import Design, morris_walks, saltelli_design, walk_design
from simkit.studies.estimators import (
    Estimator,
    Evaluated,
    elementary_effects,
    first_order,
    second_order,
    total_order,
    variance,
)
from simkit.studies.method import (
    PER_GROUP,
    AbstractMethod,
    AbstractPointMethod,
    DesignRows,
    Measures,
    StudyMeasures,
)
from simkit.studies.ranks import rank_measures
from simkit.studies.replicates import Measure
from simkit.studies.values import Values

TAIL = 0.01
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
# What each measure is, in the order of tables.
PER_PARAMETER = {
    "first": "first-order Sobol' index",
    "total": "total Sobol' index",
    "mu_star": "mean absolute elementary effect",
    "mu": "mean elementary effect",
    "sigma": "standard deviation of signed elementary effects",
    "effect_noise": "standard deviation that the noise leaves in an effect",
    "bound": "upper bound of the total Sobol' index",
    "nu": "mean squared derivative",
    "derivative": "mean derivative",
    "spearman": "rank correlation",
    "partial": "partial rank correlation",
}
OF_ALL = {
    "mean": "mean",
    "sd": "standard deviation",
    "parameter_variance": "variance of the conditional mean, which the parameters cause",
    "noise_variance": "mean conditional variance, which the noise causes",
    "noise_fraction": "fraction of the variance due to the noise",
}
MEANINGS = {
    **PER_PARAMETER,
    "second": "second-order Sobol' index of the pair",
    **OF_ALL,
    "quantiles": "quantile",
}
UNUSED = "no influence: nothing in the experiment uses it"
NO_INFLUENCE = "no run changed with it"
ONLY_NOISE = "may be noise alone: use more paths"
NEVER_CHANGES = "never changes: its variance is zero, and so are all measures"


@dataclasses.dataclass(frozen=True)
class Sobol(AbstractMethod):
    """Sobol' indices of first and total order, and, on request, of second order."""

    estimator: Estimator = "saltelli"
    order: int = 1

    key = "sobol"
    title = "Sobol' indices"
    points: ClassVar = 1024
    settings: ClassVar = ("order", "groups", "estimator")
    headline: ClassVar = ("first", "total")

    @property
    def design(self) -> Design:
        return saltelli_design(list(self.groups.values()), len(self.distributions), self.order == 2)

    def measured(self, values: Values, inputs: DesignRows) -> StudyMeasures:
        """Indices of $E[f|x]$: noise is subtracted where it adds."""
        evaluated = self.evaluated(values)
        same = np.all(evaluated.AB - evaluated.A[..., None] == 0, (0, 1))
        if values.difference_noise is not None:
            same &= np.all(evaluated.difference_noise == 0, (0, 1))
        if evaluated.BA is not None:
            same &= np.all(evaluated.BA - evaluated.B[..., None] == 0, (0, 1))
        evaluated = evaluated.centred()
        first = _without(same, *first_order(evaluated, self.estimator))
        total = _without(same, *total_order(evaluated))
        result: Measures = {"first": (PER_GROUP, Measure(*first)), "total": (PER_GROUP, Measure(*total))}
        if self.order == 2:
            pairs, over = second_order(evaluated)
            result["second"] = ((*PER_GROUP, "parameter_2"), Measure(pairs, over))
        return StudyMeasures(result | _moments(values, variance(evaluated)), _notes(same))

    def evaluated(self, values: Values) -> Evaluated:
        """The values by the letters of the design."""
        count = len(self.groups)

        def parts(array: np.ndarray):
            return array[:, :, 0], array[:, :, 1], array[:, :, 2 : 2 + count]

        A, B, AB = parts(values.mean)
        BA = values.mean[:, :, 2 + count :] if self.order == 2 else None
        if values.noise is None or values.difference_noise is None:
            return Evaluated(A, B, AB, BA)
        return Evaluated(A, B, AB, BA, *parts(values.noise), parts(values.difference_noise)[2])


@dataclasses.dataclass(frozen=True)
class Morris(AbstractMethod):
    r"""Elementary effects: their mean mu, mu_star of absolute values, and sigma, the deviation about mu.

    Walks are on a grid of `levels` of probability, from 0 to 1, or from 0.01 to 0.99 for distributions with
    an infinite end; a step is $\Delta = p / (2 (p - 1))$ of it for p levels.
    """

    levels: int = 4

    key = "morris"
    title = "elementary effects"
    points: ClassVar = 16
    settings: ClassVar = ("levels",)
    headline: ClassVar = ("mu_star",)
    width_unit: ClassVar = " of the largest mu_star"
    wants_each: ClassVar = True

    @property
    def design(self) -> Design:
        return walk_design(len(self.distributions))

    @property
    def step(self) -> float:
        """The step, as a fraction of the grid."""
        return self.levels / (2 * (self.levels - 1))

    def inputs(self, first: int, count: int, seed: int, replicates: int) -> DesignRows:
        d = len(self.distributions)
        walks = [morris_walks(d, self.levels, first, count, seed, r) for r in range(replicates)]
        base, orders = (np.stack(parts) for parts in zip(*walks, strict=True))
        change = np.diff(base.reshape(*base.shape[:2], d + 1, d), axis=2)
        up = np.sign(np.take_along_axis(change, orders[..., None], -1)[..., 0])
        ends = [each.quantile(np.asarray([0.0, 1.0])) for each in self.distributions.values()]
        tails = np.tile([0.0 if np.all(np.isfinite(x)) else TAIL for x in ends], d + 1)
        return DesignRows(self.quantiles(tails + (1 - 2 * tails) * base), orders, up)

    def measured(self, values: Values, inputs: DesignRows) -> StudyMeasures:
        r"""The effects on means over paths, where all points of a walk meet the same noise.

        What is left of it, `effect_noise`, is subtracted from the variance of the effects. Absolute values
        keep it: without any influence `mu_star` is $\sqrt{2/\pi}$ of it. A note says where it may be that.
        """
        if inputs.order is None or inputs.up is None or values.each is None:
            raise TypeError("elementary effects need the orders of the walks and the single paths")
        effects = elementary_effects(values.mean, inputs.order, inputs.up, self.step)
        noise = np.zeros_like(effects)
        if values.noise is not None:
            paths = np.moveaxis(values.each, -1, 0)
            single = elementary_effects(paths, inputs.order[None], inputs.up[None], self.step)
            noise = single.var(0, ddof=1) / values.paths
        variance = effects.var(1, ddof=1) - noise.mean(1)
        rounding = rounding_in("float64") * np.abs(values.mean).max() / self.step
        measures: Measures = {
            "mu": (PER_GROUP, Measure(effects.mean(1))),
            "mu_star": (PER_GROUP, Measure(np.abs(effects).mean(1))),
            "sigma": (PER_GROUP, Measure(np.where(variance <= rounding**2, 0.0, variance), root=True)),
        }
        if values.noise is not None:
            measures["effect_noise"] = (PER_GROUP, Measure(noise.mean(1), root=True))
        notes = _notes(np.all(effects == 0, (0, 1)))
        if values.noise is not None:
            star, half = measures["mu_star"][1].interval(0.95)
            only = star - half <= np.sqrt(2 / np.pi * noise.mean((0, 1)))
            notes = [note or (ONLY_NOISE if maybe else "") for note, maybe in zip(notes, only, strict=True)]
        return StudyMeasures(measures, notes)

    def scale(self, name: str, estimates: dict[str, np.ndarray]) -> float:
        return float(np.max(estimates["mu_star"])) or 1.0


@dataclasses.dataclass(frozen=True)
class Derivatives(AbstractPointMethod):
    r"""Mean squared derivatives $\nu_i = E[(\partial f/\partial x_i)^2]$ and what they bound.

    `bound` is $E[(w_i\, \partial f/\partial x_i)^2]/V \ge S^T_i$, with $w_i$ the `poincare_slope` of the
    distribution (Sobol' & Kucherenko 2009, doi:10.1016/j.matcom.2009.01.023; Lamboni et al. 2013,
    doi:10.1016/j.matcom.2013.02.002).
    """

    key = "derivatives"
    title = "derivative-based bounds"
    points: ClassVar = 256
    headline: ClassVar = ("bound",)
    wants_gradient: ClassVar = True

    def measured(self, values: Values, inputs: DesignRows) -> StudyMeasures:
        if values.gradient is None:
            raise TypeError("derivative-based measures need gradients")
        squares = values.gradient**2
        if values.gradient_noise is not None:
            squares = squares - values.gradient_noise
        weights = np.stack(
            [
                each.poincare_slope(inputs.base[..., i])
                for i, each in enumerate(self.distributions.values())
                if isinstance(each, AbstractContinuousDistribution)
            ],
            -1,
        )
        split = values.split()["parameters"]
        over = np.broadcast_to(split[:, None], (len(split), weights.shape[-1]))
        measures: Measures = {
            "nu": (PER_GROUP, Measure(squares.mean(1))),
            "bound": (PER_GROUP, Measure((weights**2 * squares).mean(1), over)),
            "derivative": (PER_GROUP, Measure(values.gradient.mean(1))),
        }
        zero = np.all(values.gradient == 0, (0, 1))
        return StudyMeasures(measures | _moments(values, split), _notes(zero))


@dataclasses.dataclass(frozen=True)
class Rank(AbstractPointMethod):
    r"""Spearman's rank correlation of $E[f|x]$ with each parameter, and the partial one."""

    key = "rank"
    title = "rank correlations"
    points: ClassVar = 256
    headline: ClassVar = ("spearman", "partial")
    wants_each: ClassVar = True

    def measured(self, values: Values, inputs: DesignRows) -> StudyMeasures:
        each = None if values.noise is None or values.each is None else values.each[:, :, 0]
        result = rank_measures(inputs.base, values.mean[:, :, 0], each)
        measures: Measures = {name: (PER_GROUP, measure) for name, measure in result.items()}
        return StudyMeasures(
            measures | _moments(values, values.split()["parameters"]), [""] * len(self.groups)
        )


@dataclasses.dataclass(frozen=True)
class Propagate(AbstractPointMethod):
    """Moments and quantiles of the output, with the variance of a random simulation split in two."""

    key = "propagate"
    title = "propagation"
    points: ClassVar = 1024
    headline: ClassVar = ("mean",)
    width_unit: ClassVar = " standard deviations of the output"
    wants_each: ClassVar = True

    def measured(self, values: Values, inputs: DesignRows) -> StudyMeasures:
        if values.each is None:
            raise TypeError("quantiles need the values of single paths")
        each = values.each.reshape(len(values.mean), -1)
        quantiles = np.quantile(each, QUANTILES, axis=1).T
        result: Measures = {"quantiles": (("quantile",), Measure(quantiles))}
        return StudyMeasures(_moments(values, values.split()["parameters"]) | result, [""] * len(self.groups))

    def scale(self, name: str, estimates: dict[str, np.ndarray]) -> float:
        return float(estimates["sd"]) or 1.0


METHODS: dict[str, type[AbstractMethod]] = {
    each.key: each for each in (Sobol, Morris, Derivatives, Rank, Propagate)
}
OWNERS = {setting: each.key for each in METHODS.values() for setting in each.settings}


def _moments(values: Values, parameters: np.ndarray) -> Measures:
    """Mean, standard deviation and, where the simulation is random, the parts of its variance."""
    noise = values.split()["noise"]
    result: Measures = {
        "mean": ((), Measure(values.mean[:, :, 0].mean(1))),
        "sd": ((), Measure(parameters + noise, root=True)),
    }
    if values.noise is not None:
        result["parameter_variance"] = ((), Measure(parameters))
        result["noise_variance"] = ((), Measure(noise))
        result["noise_fraction"] = ((), Measure(noise, parameters + noise))
    return result


def _without(same: np.ndarray, part: np.ndarray, over: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Exactly zero for groups that change nothing."""
    return np.where(same, 0.0, part), over


def _notes(same: np.ndarray) -> list[str]:
    return [NO_INFLUENCE if zero else "" for zero in same]
