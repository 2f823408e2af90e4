"""What an estimator of a derivative is, and the choice of one for a derivative."""

import abc
import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from simkit_solvers.derivatives.smoothing import Smoothing
from simkit_solvers.problems.directions import Release

from simkit.derivatives.facts import Facts

if TYPE_CHECKING:
    from simkit.derivatives.part import Part


@dataclasses.dataclass(frozen=True)
class Selection:
    """The estimator selected for one derivative: the order of `targets` is that of differentiation.

    A released derivative is zero at each of `every` steps. `smoothings` are where values jump: for the first
    derivative, and once more for the second. `long_steps` are those of finite differences.
    """

    quantity: str
    targets: tuple[int, ...]
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
    """The estimators of one derivative: a pilot picks one of several `rivals`, the best of most cases first.

    `instead` are for where none of the rivals has a finite variance.
    """

    rivals: tuple[Selection, ...]
    instead: tuple[Selection, ...] = ()


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
    def fits(self, facts: Facts, quantity: str, target: int, why: str) -> Selection | str:
        """The choice of it for a first derivative, taken for the reason `why`; or why it would be wrong."""

    def group(self, facts: Facts, choice: Selection) -> tuple:
        """What choices of it must agree in to be estimated by one program."""
        return ()

    @abc.abstractmethod
    def part(self, facts: Facts, group: list[Selection]) -> "Part":
        """The program of derivatives that can be estimated by one."""


class AbstractOfPath(AbstractEstimator):
    """One whose program simulates the paths of the run, and their derivatives with them."""

    @abc.abstractmethod
    def estimate(
        self, facts: Facts, group: list[Selection], rows: int, targets: Sequence[int]
    ) -> tuple[Callable[..., Any], Release | Smoothing | None]:
        """The function of a path (`derivative_program`) for derivatives of `rows` rows, and its release."""
