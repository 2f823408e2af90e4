"""Estimators of sensitivity as functions of evaluated arrays; the last axis but one of a design is its rows.

Arrays are `(…, rows)`, or `(…, rows, groups)` where there is one for each group. Leading axes, such as
replicates, stay. Where a simulation is random its values are means over paths, and `noise` is what is to
be subtracted from their squares; it is 0 otherwise.
"""

import dataclasses
from typing import Literal

import numpy as np

Estimator = Literal["saltelli", "jansen", "janon"]
ESTIMATORS: tuple[Estimator, ...] = ("saltelli", "jansen", "janon")


@dataclasses.dataclass(frozen=True)
class Evaluated:
    r"""Values of a Saltelli design: `A`, `B` `(…, rows)`, `AB`, `BA` `(…, rows, groups)`.

    The others are the variances of those means over their paths: of A, of B, of AB, and of the differences
    AB - A under the same noise.
    """

    A: np.ndarray
    B: np.ndarray
    AB: np.ndarray
    BA: np.ndarray | None = None
    A_noise: np.ndarray | float = 0.0
    B_noise: np.ndarray | float = 0.0
    AB_noise: np.ndarray | float = 0.0
    difference_noise: np.ndarray | float = 0.0

    def centred(self) -> "Evaluated":
        """Without the mean of all values, which the products would carry as noise."""
        parts = [self.A[..., None], self.B[..., None], self.AB, *([] if self.BA is None else [self.BA])]
        mean = np.concatenate(parts, -1).mean((-2, -1))[..., None]
        return dataclasses.replace(
            self,
            A=self.A - mean,
            B=self.B - mean,
            AB=self.AB - mean[..., None],
            BA=None if self.BA is None else self.BA - mean[..., None],
        )


def variance(values: Evaluated) -> np.ndarray:
    r"""$V = \mathrm{Var}\,E[f \mid x]$ over the values of A and B together.

    The noise of n runs adds $1 - 1/n$ of itself to the variance about their own mean.
    """
    both = np.concatenate([values.A, values.B], -1)
    noise = (_over_rows(values.A_noise, -1) + _over_rows(values.B_noise, -1)) / 2
    return both.var(-1) - (1 - 1 / both.shape[-1]) * noise


def first_order(values: Evaluated, estimator: Estimator) -> tuple[np.ndarray, np.ndarray]:
    r"""$V_g = \mathrm{Var}\,E[f \mid x_g]$ and the V to divide it by, `(…, groups)` each.

    `saltelli`: $\overline{f_B (f_{AB} - f_A)}$ (Saltelli et al. 2010, doi:10.1016/j.cpc.2009.09.018);
    `jansen`: $V - \tfrac12 \overline{(f_B - f_{AB})^2}$ (Jansen 1999, doi:10.1016/S0010-4655(98)00154-4);
    `janon`: $\overline{f_B f_{AB}} - m^2$ over $\overline{(f_B^2 + f_{AB}^2)/2} - m^2$ with
    $m = \overline{(f_B + f_{AB})/2}$ (Janon et al. 2014, doi:10.1051/ps/2013040), efficient on random points.
    """
    B, total = values.B[..., None], variance(values)[..., None]
    noise = 0.5 * (np.expand_dims(_over_rows(values.B_noise, -1), -1) + _over_rows(values.AB_noise, -2))
    if estimator == "saltelli":
        result = (B * (values.AB - values.A[..., None])).mean(-2)
    elif estimator == "jansen":
        result = total - 0.5 * ((B - values.AB) ** 2).mean(-2) + noise
    else:
        mean = (0.5 * (B + values.AB)).mean(-2)
        result = (B * values.AB).mean(-2) - mean**2
        total = (0.5 * (B**2 + values.AB**2)).mean(-2) - mean**2 - noise
    return result, np.broadcast_to(total, result.shape)


def total_order(values: Evaluated) -> tuple[np.ndarray, np.ndarray]:
    r"""$V_g^T = \tfrac12 \overline{(f_A - f_{AB})^2}$ and V, `(…, groups)`: Jansen (1999).

    What the noise adds to the squares is subtracted; the difference is of the same noise.
    """
    result = 0.5 * ((values.A[..., None] - values.AB) ** 2).mean(-2)
    result = result - 0.5 * _over_rows(values.difference_noise, -2)
    return result, np.broadcast_to(variance(values)[..., None], result.shape)


def second_order(values: Evaluated) -> tuple[np.ndarray, np.ndarray]:
    r"""$V_{gh}$ of pairs and V, `(…, groups, groups)`, symmetric, NaN on the diagonal.

    The mean of $\overline{(f_{BA}^{(g)} - f_B)(f_{AB}^{(h)} - f_A)}$ and the same with g and h exchanged.
    It is the mean of the two estimates of Saltelli (2002), doi:10.1016/S0010-4655(02)00280-1, with A and B as
    they are and exchanged. As differences, they have a small error where the total index of a group is small.
    """
    if values.BA is None:
        raise ValueError("second-order indices need a design with BA")
    in_A, in_B = values.AB - values.A[..., None], values.BA - values.B[..., None]
    pairs = np.einsum("...ng,...nh->...gh", in_B, in_A) / values.A.shape[-1]
    result = (pairs + np.swapaxes(pairs, -1, -2)) / 2
    result = np.where(np.eye(result.shape[-1], dtype=bool), np.nan, result)
    return result, np.broadcast_to(variance(values)[..., None, None], result.shape)


def elementary_effects(values: np.ndarray, orders: np.ndarray, up: np.ndarray, step: float) -> np.ndarray:
    """Change of f by step, `(…, rows, d)`, of walks `(…, rows, d + 1)` that change `orders[…, k]` at step k.

    `up` `(…, rows, d)` has the direction of each step, 1 or -1. Morris (1991).
    """
    effects = np.diff(values, axis=-1) * up / step
    result = np.empty_like(effects)
    np.put_along_axis(result, orders, effects, -1)
    return result


def _over_rows(noise: np.ndarray | float, axis: int) -> np.ndarray | float:
    """The mean over rows; 0 where nothing is random."""
    return noise.mean(axis) if isinstance(noise, np.ndarray) else noise
