"""From independent replicates to an estimate with an interval."""

import dataclasses

import numpy as np
from scipy import special


@dataclasses.dataclass(frozen=True, eq=False)
class Measure:
    """A quantity measured in each replicate, `(replicates, …)`, over another one where it is a ratio.

    With `root` the quantity is the square root of the mean. `beyond` is what may be wrong with the estimate
    in addition to the spread of replicates, and is added to half of the interval.
    """

    values: np.ndarray
    over: np.ndarray | None = None
    root: bool = False
    beyond: np.ndarray | float = 0.0

    def __post_init__(self) -> None:
        if self.root and np.any(self.beyond):
            raise ValueError("beyond is added to the interval of a mean or a ratio, not to that of a root")

    def interval(self, confidence: float) -> tuple[np.ndarray, np.ndarray]:
        r"""The estimate and half of its interval.

        A ratio is that of the means, and its error that of the residuals $v_r - \hat q\, o_r$ over the mean
        of o (Cochran 1977, Sampling Techniques, 6.3): a mean of ratios would keep the bias of each. Student's
        t with one degree less than there are replicates.
        """
        count = len(self.values)
        if count < 2:
            raise ValueError(f"an interval needs at least two replicates, got {count}")
        t = special.stdtrit(count - 1, 0.5 + confidence / 2)
        estimate = self.values.mean(0) + 0.0  # which makes 0 of -0
        spread = self.values
        if self.over is not None:
            below = self.over.mean(0)
            sound = np.where(below == 0, 1.0, below)
            estimate = np.where(below == 0, 0.0, estimate / sound)
            spread = (self.values - estimate * self.over) / sound
        half = t * spread.std(0, ddof=1) / np.sqrt(count)
        if self.root:
            root = np.sqrt(np.maximum(estimate, 0.0))
            return root, np.where(root > 0, half / (2 * np.where(root > 0, root, 1.0)), np.sqrt(half))
        return estimate, half + self.beyond
