"""The contract of a method: its design, and what it measures."""

import abc
import dataclasses
from typing import ClassVar, NamedTuple

import numpy as np

from simkit.distributions.distribution import AbstractDistribution
from simkit.studies.designs import Design, plain_design, scrambled_sobol
from simkit.studies.replicates import Measure
from simkit.studies.values import Values


class DesignRows(NamedTuple):
    """The base of a design: parameters `(replicates, rows, columns)`, and `order`, `up` of Morris' walks."""

    base: np.ndarray
    order: np.ndarray | None = None
    up: np.ndarray | None = None

    def and_more(self, more: "DesignRows") -> "DesignRows":
        """These rows followed by later ones."""
        base = np.concatenate([self.base, more.base], 1)
        if self.order is None or self.up is None or more.order is None or more.up is None:
            return DesignRows(base)
        return DesignRows(
            base, np.concatenate([self.order, more.order], 1), np.concatenate([self.up, more.up], 1)
        )


Measures = dict[str, tuple[tuple[str, ...], Measure]]


class StudyMeasures(NamedTuple):
    """Measures by name with the dimensions of each, and for each group why it is zero, or nothing."""

    measures: Measures
    notes: list[str]


PER_GROUP = ("parameter",)


@dataclasses.dataclass(frozen=True)
class AbstractMethod(abc.ABC):
    """A method for `distributions` of parameters, by name, put together in `groups` of their places."""

    distributions: dict[str, AbstractDistribution]
    groups: dict[str, list[int]]

    key: ClassVar[str]  # the name in a file
    title: ClassVar[str]  # of pictures
    points: ClassVar[int]  # of a study that gives none
    settings: ClassVar[tuple[str, ...]] = ()  # of the section `uncertainty`, those that no other method has
    headline: ClassVar[tuple[str, ...]]  # the measures whose intervals decide when to stop
    width_unit: ClassVar[str] = ""  # what `scale` is
    wants_each: ClassVar[bool] = False
    wants_gradient: ClassVar[bool] = False

    @property
    @abc.abstractmethod
    def design(self) -> Design:
        """How the runs of a row are made of its base."""

    @abc.abstractmethod
    def measured(self, values: Values, inputs: DesignRows) -> StudyMeasures:
        """What the runs of all replicates say of one observable that changes."""

    def inputs(self, first: int, count: int, seed: int, replicates: int) -> DesignRows:
        """Rows `first`, … of all replicates."""
        columns = self.design.columns
        base = np.stack([scrambled_sobol(columns, first, count, seed, r) for r in range(replicates)])
        return DesignRows(self.quantiles(base))

    def quantiles(self, base: np.ndarray) -> np.ndarray:
        """Probabilities of all columns as values of the parameters."""
        each, columns = list(self.distributions.values()), range(base.shape[-1])
        return np.stack([each[c % len(each)].quantile(base[..., c]) for c in columns], -1)

    def scale(self, name: str, estimates: dict[str, np.ndarray]) -> float:
        """What the intervals of a headline measure are compared with: 1 for fractions and correlations."""
        return 1.0


class AbstractPointMethod(AbstractMethod):
    """A method whose rows are one point each."""

    @property
    def design(self) -> Design:
        return plain_design(len(self.distributions))
