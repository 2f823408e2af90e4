r"""Rank correlations of the conditional mean with each parameter.

Where a simulation is random, the output of a point is a mean over paths, and its noise shuffles the ranks:
their correlation with a parameter is less than that of the ranks of $E[f|x]$. Means over separate paths have
the same conditional mean and independent noise, so the correlation $r$ of their ranks says by how much: with
$\rho$ that of a parameter, $\rho / \sqrt r$ is the parameter's correlation with the expected ranks (Spearman
1904, doi:10.2307/1412159). What the noise does to the expected ranks themselves is extrapolated from halves
and quarters of the paths. Where the output differs by less than the noise its ranks are not known, and the
interval covers what the unexplained part of them leaves open.
"""

from collections.abc import Callable

import numpy as np

from simkit.studies.replicates import Measure

FEWEST_PATHS = 4
HALVES, QUARTERS = 2, 4
# The difference between halves and quarters takes halves to no noise where the error is of the order of the
# noise's variance, and 2.4 times the difference where it is of its standard deviation, as next to a constant
# output. The first is the estimate; what the second adds belongs to the interval.
FURTHER = 1 / (np.sqrt(2) - 1) - 1
BEYOND_NOISE = 3.0  # standard errors of the correlation between halves


def rank_measures(inputs: np.ndarray, mean: np.ndarray, each: np.ndarray | None) -> dict[str, Measure]:
    """Spearman's correlation and the partial one of parameters `(replicates, rows, d)`.

    `mean` `(replicates, rows)` is the output and `each` `(replicates, rows, paths)` that of single paths
    where the simulation is random. A correlation is 0 ± 1 where the output may be noise alone.
    """
    d = inputs.shape[-1]
    if each is None:
        among, along = _blocks(rank_correlations(np.concatenate([inputs, mean[..., None]], -1)), d)
        return {"spearman": Measure(along[..., 0]), "partial": Measure(_partial(among, along[..., 0]))}
    levels = [_level(inputs, each, parts) for parts in (HALVES, QUARTERS)]
    if not all(_exceeds_noise(reliability) for _, _, reliability in levels):
        nothing = Measure(np.zeros((len(inputs), d)), beyond=np.ones(d))
        return {"spearman": nothing, "partial": nothing}

    def spearman(halves, quarters, further=0.0):
        near, far = (along / np.sqrt(between) for _, along, between in (halves, quarters))
        return near + (1 + further) * (near - far)

    def unexplained(halves, quarters):
        return _unexplained(halves[0], spearman(halves, quarters))

    def partial(halves, quarters, further=0.0):
        return _partial(halves[0], spearman(halves, quarters, further), 0.0 if further else least)

    halves, quarters = levels
    least = jackknife(unexplained, halves, quarters).std(0, ddof=1) / np.sqrt(len(inputs))
    # What no input explains may be hidden by noise, as where the output changes by less than that.
    one, other = (tuple(part.mean(0) for part in level) for level in (halves, quarters))
    hidden = np.sqrt(np.maximum(1 - 2 * one[2] / (1 + one[2]), 0.0))
    room = np.maximum(unexplained(one, other), 0.0)
    most = {"spearman": np.sqrt(spearman(one, other) ** 2 + room), "partial": np.ones(d)}
    measures = {}
    for name, measure in (("spearman", spearman), ("partial", partial)):
        estimate = measure(one, other)
        beyond = np.abs(measure(one, other, FURTHER) - estimate)
        beyond += hidden * np.maximum(np.minimum(most[name], 1.0) - np.abs(estimate), 0.0)
        measures[name] = Measure(jackknife(measure, halves, quarters), beyond=beyond)
    return measures


def rank_correlations(columns: np.ndarray) -> np.ndarray:
    """Spearman's correlations `(…, n, n)` of columns `(…, rows, n)`; ties have their mean rank.

    0 with a column that never changes.
    """
    from scipy.stats import rankdata

    ranks = rankdata(columns, axis=-2)
    ranks = ranks - ranks.mean(-2, keepdims=True)
    covariance = np.einsum("...ni,...nj->...ij", ranks, ranks)
    scale = np.sqrt(np.einsum("...ii->...i", covariance))
    scale = np.where(scale == 0, 1.0, scale)
    return covariance / (scale[..., :, None] * scale[..., None, :])


def jackknife(statistic: Callable, *arrays) -> np.ndarray:
    """Pseudo-values `(replicates, …)` of a function of means over replicates; their mean is the estimate.

    Each of `arrays` is a tuple of arrays with a leading axis of replicates.
    """
    count = len(arrays[0][0])
    whole = statistic(*(tuple(x.mean(0) for x in each) for each in arrays))
    left = [
        statistic(*(tuple(np.delete(x, r, 0).mean(0) for x in each) for each in arrays)) for r in range(count)
    ]
    return count * whole - (count - 1) * np.stack(left)


def _level(inputs: np.ndarray, each: np.ndarray, parts: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Correlations in each replicate: among inputs, of inputs with means over a part, between two parts."""
    size = each.shape[-1] // parts
    means = each[..., : size * parts].reshape(*each.shape[:-1], parts, size).mean(-1)
    d = inputs.shape[-1]
    matrix = rank_correlations(np.concatenate([inputs, means], -1))
    among, along = _blocks(matrix, d)
    between = matrix[..., d:, d:][..., *np.triu_indices(parts, 1)]
    return among, along.mean(-1), between.mean(-1)[:, None]


def _exceeds_noise(reliability: np.ndarray) -> bool:
    error = reliability.std(ddof=1) / np.sqrt(len(reliability))
    return bool(reliability.mean() > BEYOND_NOISE * error)


def _blocks(matrix: np.ndarray, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Correlations among the first `d` columns, and of these with the others."""
    return matrix[..., :d, :d], matrix[..., :d, d:]


def _unexplained(among: np.ndarray, along: np.ndarray) -> np.ndarray:
    """The fraction of the variance of the output's ranks that no linear function of the inputs' explains."""
    beta = np.einsum("...ij,...j->...i", np.linalg.pinv(among), along)
    return 1 - np.maximum(np.einsum("...i,...i->...", along, beta)[..., None], 0.0)


def _partial(among: np.ndarray, along: np.ndarray, least: np.ndarray | float = 0.0) -> np.ndarray:
    """Partial rank correlations, of the residuals of linear regressions on the other inputs' ranks.

    Marino et al. 2008, doi:10.1016/j.jtbi.2008.04.011. What is unexplained is at `least` that.
    """
    precision = np.linalg.pinv(among)
    beta = np.einsum("...ij,...j->...i", precision, along)
    own = beta**2 / np.einsum("...ii->...i", precision)
    left = np.maximum(_unexplained(among, along), least) + own
    return np.where(left > 0, np.sign(beta) * np.sqrt(own / np.where(left > 0, left, 1.0)), 0.0)
