"""Estimated derivatives, and the sensitivities of an experiment that they make up."""

import dataclasses

import numpy as np

from simkit.derivatives.estimator import Selection
from simkit.derivatives.tails import Tail, Verdict
from simkit.derivatives.targets import Target
from simkit.ensemble.step_bias.step_error import StepError


@dataclasses.dataclass(frozen=True)
class EstimatedDerivative:
    """A derivative of a mean: its estimate, standard error and standard deviation per path, by row.

    `step_error` is, of ordinary equations, how much a run to a tenth of the tolerances or with twice as many
    steps differs, for finite differences how much a formula of lower order does, and for coupled copies what
    is left of their distance, NaN where the runs that would show it fail; `steps` what the steps of a
    stochastic run leave at the end. `tail` says whether `stderr` can be believed.
    `check` is the same by finite differences, where that is requested and another method. `unknown` says why
    its error is not known, if it is not.
    """

    choice: Selection
    mean: np.ndarray
    stderr: np.ndarray
    sd: np.ndarray
    step_error: np.ndarray | None = None
    check: "EstimatedDerivative | None" = None
    steps: StepError | None = None
    tail: Tail | None = None
    unknown: str = ""

    @property
    def verdict(self) -> Verdict:
        """Whether `stderr` can be believed."""
        return "reliable" if self.tail is None else self.tail.verdict

    @property
    def is_uncompared(self) -> bool:
        """Whether the runs that would show the step error at the end have failed."""
        shown = 0.0 if self.step_error is None else self.step_error[-1]
        return not np.isfinite(shown) or (self.steps is not None and np.isnan(self.steps.bias))


@dataclasses.dataclass(frozen=True)
class EstimatedSensitivities:
    """The sensitivities of an experiment.

    `values` are means and standard errors of the quantities, `bias` what steps leave in those at the end,
    `waiting` for a first time how many paths had not met its condition, and of how many.
    """

    targets: tuple[Target, ...]
    derivatives: tuple[EstimatedDerivative, ...]
    values: dict[str, tuple[np.ndarray, np.ndarray]]
    paths: int
    failed: int
    elapsed_s: float
    compile_s: float
    bias: dict[str, StepError] = dataclasses.field(default_factory=dict)
    waiting: dict[str, tuple[int, int]] = dataclasses.field(default_factory=dict)
