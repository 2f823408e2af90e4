"""The contract of an estimator: where it fits and which program it makes; the record of a selected one."""

import abc
import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple, Self

import jax
import numpy as np
from simkit_solvers.derivatives.smoothing import Smoothing

from simkit.derivatives.differentiated_run import DifferentiatedRun
from simkit.derivatives.leaps import Leaps
from simkit.derivatives.moments import Averages
from simkit.ensemble.programs import Request, compiled
from simkit.ensemble.step_bias.coupled_steps import MOST_LOST

Errors = dict["Selection", np.ndarray]
Targets = tuple[int, ...]  # two for a second derivative


@dataclasses.dataclass(frozen=True)
class Selection:
    """The estimator selected for one derivative: the order of `targets` is that of differentiation.

    A released derivative is zero at each of `every` steps. `smoothings` are where values jump: for the first
    derivative, and once more for the second. `long_steps` are those of finite differences.
    """

    quantity: str
    targets: Targets
    estimator: "AbstractEstimator"
    reason: str
    every: int = 0
    smoothings: tuple[Smoothing, ...] = ()
    long_steps: bool = False

    @property
    def method(self) -> str:
        """The name of the estimator."""
        return self.estimator.name

    @property
    def is_second(self) -> bool:
        """Whether it is of a second derivative."""
        return len(self.targets) == 2


class Offer(NamedTuple):
    """The estimators of one derivative: a pilot selects one of `rivals`, the usual one first.

    `instead` are for where none of the rivals has a finite variance.
    """

    rivals: tuple[Selection, ...]
    instead: tuple[Selection, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Part:
    """Derivatives that one program gives: (choice, position among its arrays), and values by position.

    `finer` gives the same on other steps, or part of it, which shows the error of the steps of this one, and
    `levels` that of the first paths on steps `factor` times as long, the nearest first; `shorter_levels`
    makes those on shorter steps, and `leaps` is the same of leaps.
    `replicates` are the same with other policies of early exercise, by the same programs.
    """

    requests: tuple[Request, ...]
    simulate: Callable
    counts: tuple[int, ...]
    derivatives: tuple[tuple[Selection, int], ...] = ()
    values: tuple[tuple[str, int], ...] = ()
    cost: float
    finer: "Part | None" = None
    levels: "tuple[Part, ...]" = ()
    factor: float = 1.0
    replicates: "tuple[Part, ...]" = ()
    leaps: Leaps | None = None
    shorter_levels: "Callable[[], tuple[Part, ...]]" = tuple

    def ready(self) -> Callable[[Any], Sequence[jax.Array]]:
        """What gives the arrays of a chunk's ids, by programs that have been compiled before."""
        return functools.partial(self.simulate, *compiled(*self.requests)[0])

    def with_arguments(self, **arguments: Any) -> Self:
        """This part with other arguments of its programs."""
        return dataclasses.replace(self, simulate=functools.partial(self.simulate, **arguments))

    @property
    def all_requests(self) -> tuple[Request, ...]:
        """The requests of this part, and of an equation's finer one or of the levels of a run with noise."""
        others = self.levels if self.finer is None else (self.finer,)
        leaps = () if self.leaps is None else (self.leaps.request,)
        return sum((other.requests for other in others), self.requests) + leaps

    def step_errors(self, result: Averages, of_first_paths: Callable) -> Errors:
        """The error of steps in each derivative, where that is known.

        `of_first_paths` gives the arrays of the first paths that a function of ids makes.
        """
        if self.finer is None:
            return {}
        coarse, fine = (of_first_paths(part.ready()) for part in (self, self.finer))
        return {choice: mean_difference(coarse[i], fine[i]) for choice, i in self.finer.derivatives}

    def again(self, result: Averages, errors: Errors) -> "Part | None":
        """The derivatives whose steps are too long, once more; None where none are, or can be."""
        return None


def mean_difference(own: np.ndarray, other: np.ndarray) -> np.ndarray:
    """The difference of two means over paths `(rows, paths)`, without paths that failed in either.

    NaN where too many failed in the other alone: those that are left are no sample of all.
    """
    difference = own - other
    finite = np.isfinite(difference)
    total, paths = np.where(finite, difference, 0).sum(axis=1), finite.sum(axis=1)
    known = finite.sum(axis=1) >= np.maximum((1 - MOST_LOST) * np.isfinite(own).sum(axis=1), 1)
    return np.abs(np.divide(total, paths, out=np.full(len(total), np.nan), where=known))


class AbstractEstimator(abc.ABC):
    """A way to estimate derivatives of means: where it is valid, and its program."""

    name: ClassVar[str]
    cost: ClassVar[float]  # of a path, in plain runs, as docs/guides/which_derivative.md measures it
    weighted: ClassVar[bool] = False  # weighs values with the derivative of a density
    refusal: ClassVar[str] = "no {name} for {quantity} in {label}: {reason}"

    @property
    def key(self) -> str:
        """The name as `sensitivity.method` has it."""
        return self.name.replace(" ", "_")

    @abc.abstractmethod
    def fits(self, run: DifferentiatedRun, quantity: str, targets: Targets, why: str) -> Selection | str:
        """Its choice for a derivative in one target or two, with the reason `why`; or why it is wrong."""

    def group(self, run: DifferentiatedRun, choice: Selection) -> tuple:
        """What choices of it must agree in to be estimated by one program."""
        return ()

    @abc.abstractmethod
    def part(self, run: DifferentiatedRun, group: list[Selection]) -> Part:
        """The program of derivatives that can be estimated by one."""
