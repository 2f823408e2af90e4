r"""Derivatives of stationary averages, from scores with a short memory.

In a stationary state the distant past does not matter: with the score $Z$ of a path and a window w,

$$\partial_\theta\,\pi_\theta(f) =
\lim_{w \to \infty} E\bigl[(f(X_t) - \pi_\theta(f))\,(Z_t - Z_{t - w})\bigr]
+ \pi_\theta(\partial_\theta f).$$

What a window leaves out is $\pi$-average of f's derivative by the state a time w earlier, and decays as
correlations do, while the variance grows in proportion to w: a few correlation times are enough. One long
path, or a few, averages over t; the score over the whole path would drown the mean in noise.

References: Glynn & Olvera-Cravioto (2019), Likelihood ratio gradient estimation for steady-state parameters,
doi:10.1287/stsy.2018.0023; Wang & Plecháč (2018), Steady-state sensitivity analysis of continuous time Markov
chains, doi:10.48550/arXiv.1804.00585.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Float

BATCHES = 32  # of all paths together, at least: fewer make the standard error itself too uncertain


class StationaryDerivative(NamedTuple):
    """A stationary mean and its derivative, each with the standard error of batch means."""

    mean: jax.Array
    mean_se: jax.Array
    derivative: jax.Array
    derivative_se: jax.Array


def stationary_derivative(
    values: Float[ArrayLike, "paths rows"],
    scores: Float[ArrayLike, "paths rows"],
    window: int,
    discard: int = 0,
    explicit: Float[ArrayLike, "paths rows"] | None = None,
    batches: int = BATCHES,
) -> StationaryDerivative:
    r"""The derivative of a stationary average from rows of f and of the score Z at equal distances in time.

    `values` and `scores` are arrays `(paths, rows)`, as `girsanov` and `WithScores` keep them; `window`
    counts rows, and the first `discard` rows are left out, in which the state is not yet stationary.
    `explicit` are the rows of $\partial_\theta f$, zero unless given. Standard errors are those of `batches`
    batch means over paths and time; they are right where a batch is much longer than the window and the
    correlation time. Try several windows: the derivative must no longer change.
    Raises `ValueError` for arrays of another shape, and where batches would be no longer than the window.

    >>> import numpy as np
    >>> from simkit_solvers import stationary_derivative
    >>> random = np.random.default_rng(1)
    >>> steps = random.normal(size=(8, 400))
    >>> scores = np.cumsum(steps, axis=1)  # f of a row has the derivative E[f step] = 1
    >>> result = stationary_derivative(steps, scores, window=5)
    >>> abs(float(result.derivative) - 1.0) < 5 * float(result.derivative_se)
    True
    """
    values, scores = jnp.asarray(values), jnp.asarray(scores)
    if values.ndim != 2 or values.shape != scores.shape:
        raise ValueError(
            f"values and scores: must be two arrays (paths, rows) of one shape, got {values.shape} and "
            f"{scores.shape}"
        )
    if window < 1 or discard < 0:
        raise ValueError(f"window: must be 1 or more rows, and discard 0 or more, got {window} and {discard}")
    paths, rows = values.shape
    each = -(-batches // paths)
    length = (rows - discard - window) // each
    if length <= window:
        raise ValueError(
            f"window: {window} rows are no less than a batch of {max(length, 0)}, of which each path "
            f"has {each}; save more rows, or use a shorter window or more paths"
        )
    last = values[:, discard + window :]
    centre = jnp.mean(last)
    gained = scores[:, window:] - scores[:, :-window]
    slope = (last - centre) * gained[:, discard:]
    if explicit is not None:
        slope = slope + jnp.asarray(explicit)[:, discard + window :]
    mean, derivative = (_batch_means(x, each, length) for x in (last, slope))
    return StationaryDerivative(*mean, *derivative)


def _batch_means(x, each: int, length: int):
    """The mean of all rows, and its standard error from means of batches."""
    means = jnp.mean(x[:, : each * length].reshape(len(x) * each, length), axis=1)
    return jnp.mean(x), jnp.std(means, ddof=1) / len(means) ** 0.5
