"""A state variable or an observable of a finished run, with its statistics and their errors."""

import dataclasses
import functools
import math
from collections.abc import Mapping

import numpy as np
from simkit_solvers.problems.problem import variables_of

from simkit.ensemble.could_differ import could_differ
from simkit.ensemble.simulation import EnsembleResult, ObservableInfo, Simulation
from simkit.ensemble.step_bias.rounding import rounding_of_steps
from simkit.ensemble.step_bias.step_error import StepError
from simkit.ensemble.weights import WEIGHTS
from simkit.expressions.expression import Expression
from simkit.expressions.tree import Name


@dataclasses.dataclass(frozen=True, eq=False)
class RunQuantity:
    """What a finished run says of one state variable or observable.

    `dims` are the dimensions of its statistics: `time`, or none where it is evaluated at the end only.
    """

    name: str
    unit: str
    description: str
    dims: tuple[str, ...]
    simulation: Simulation
    result: EnsembleResult

    def statistic(self, key: str) -> np.ndarray:
        """A moment such as `mean` at each row."""
        return self.result.statistics["moments"][f"{self.name}_{key}"]

    def at_end(self, key: str) -> float:
        """A moment at the end."""
        return float(self.statistic(key)[-1])

    @property
    def n(self) -> int:
        """How many paths count."""
        return int(self.result.statistics["moments"]["n"])

    @property
    def independent(self) -> int:
        """How many of the paths are independent at least: of antithetic ones half."""
        reduction = self.simulation.reduction
        return self.n if reduction is None else reduction.independent(self.n)

    @property
    def variance_reduction(self) -> float | None:
        """The variance of the mean of as many independent paths at the end, over that of the mean.

        Infinite where rounding is all that remains of the latter, and NaN where paths do not differ.
        """
        if self.simulation.reduction is None:
            return None
        variance, error = self._plain_variance, self.at_end("stderr")
        if not variance > 0:
            return math.nan
        return math.inf if error < self.stderr[-1] else variance / self.n / error**2

    @property
    def _plain_variance(self) -> float:
        """The variance of single paths at the end, of weighted ones without the drift."""
        squares = self.result.statistics.get(WEIGHTS)
        if squares is None:
            return self.at_end("variance")
        return float(squares[f"{self.name}_mean"][-1] - self.at_end("mean") ** 2)

    @property
    def weighted(self) -> bool:
        """Whether values are weighted, so that only means are those of the process."""
        return WEIGHTS in self.result.statistics

    @property
    def observable(self) -> ObservableInfo | None:
        """What is known of an observable; None for a state variable."""
        return self.simulation.observables.get(self.name)

    @property
    def bias(self) -> StepError | None:
        """The step error of the mean at the end."""
        return self.result.bias.get(self.name)

    @functools.cached_property
    def stderr(self) -> np.ndarray:
        """The standard error of the mean at each row, at least its rounding. Counts of events have none."""
        errors = self.statistic("stderr")
        with np.errstate(invalid="ignore", over="ignore"):
            spread = np.sqrt(np.nan_to_num(self.statistic("variance")))
            size = np.hypot(self.statistic("mean"), spread)
            rows = len(self.result.times)
            elapsed = np.linspace(0.0, 1.0, rows)[-len(errors) :] if rows > 1 else np.ones(1)
            rounding = rounding_of_steps(size, self.simulation, self.result.mean_steps * elapsed, spread)
            return np.maximum(errors, rounding)

    @property
    def one_value(self) -> float | None:
        """The value that all paths have of an observable that could differ between them."""
        low = self.at_end("min")
        same = self.n > 1 and low == self.at_end("max")
        same = same and not self.weighted
        return low if same and could_differ(self.name, low, self.simulation) else None


def described(simulation: Simulation) -> dict[str, tuple[str, str]]:
    """Unit and description of every state variable and observable, in that order."""
    # A model without units of its own calls that of X [X], which says nothing here.
    states = {
        name: ("" if spec.unit == f"[{name}]" else spec.unit, spec.description or name)
        for name, spec in variables_of(simulation.problem).items()
    }
    units = {name: unit for name, (unit, _) in states.items()} | {"t": _given_time_unit(simulation)}
    usual = {each.name: _usual_unit(each.expression, units) for each in simulation.observed}
    return states | {
        name: (info.unit or usual.get(name, ""), info.description or name)
        for name, info in simulation.observables.items()
    }


def _given_time_unit(simulation: Simulation) -> str:
    return (simulation.experiment.time.unit if simulation.experiment else None) or ""


def _usual_unit(expression: Expression, units: Mapping[str, str]) -> str:
    """The unit of a variable, or of a functional such as its largest value; others are not known."""
    whole = expression.whole
    if whole is not None:
        return _usual_unit(whole.arguments[0], units) if whole.keeps_unit else ""
    return units.get(expression.tree.name, "") if isinstance(expression.tree, Name) else ""


def quantities(simulation: Simulation, result: EnsembleResult) -> dict[str, RunQuantity]:
    """The state variables and observables of a finished run, by name."""
    ends = {name for name, info in simulation.observables.items() if info.at == "end"}
    return {
        name: RunQuantity(name, unit, description, () if name in ends else ("time",), simulation, result)
        for name, (unit, description) in described(simulation).items()
    }
