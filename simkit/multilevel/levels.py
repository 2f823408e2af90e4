"""What the levels of a simulation are: how many there may be, their programs, and the cost of a path."""

import abc
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from simkit.derivatives.moments import Averages
from simkit.ensemble.simulation import Simulation
from simkit.ensemble.step_bias.coupled_steps import orders

MOST_LEVELS = 24
UNKNOWN_ORDER = 1.0


def weak_orders(simulation: Simulation) -> dict[str, float]:
    """The weak orders of the means of state variables and observables, in this order."""
    known = orders(simulation)
    names = *simulation.problem.State._fields, *simulation.observables
    return {name: known.get(name, UNKNOWN_ORDER) for name in names}


@dataclasses.dataclass(frozen=True)
class AbstractLevels(abc.ABC):
    """The levels of a simulation.

    A program gives of each figure the value at the end less that of the level below, and then `measured`
    numbers that tell the steps and the cost of a path.
    """

    simulation: Simulation
    unit: ClassVar[str]  # of steps, in texts
    measured: ClassVar[int] = 0

    @property
    @abc.abstractmethod
    def orders(self) -> dict[str, float]:
        """The figures that are averaged, in their order, and the weak orders of their means."""

    @property
    def derivatives(self) -> dict[str, bool]:
        """Those of the figures that are derivatives, and whether they jump along a path."""
        return {}

    @property
    @abc.abstractmethod
    def most(self) -> int:
        """How many levels there may be."""

    @abc.abstractmethod
    def steps(self, seen: Sequence[Averages]) -> list[int]:
        """The steps of a path, on the finer grid, of each level that there may be."""

    @abc.abstractmethod
    def costs(self, seen: Sequence[Averages]) -> list[float]:
        """The steps that a path of each level costs, on all its grids."""

    @property
    def many_ends(self) -> list[str]:
        """The observables for which the last step is taken many times."""
        return []

    @property
    @abc.abstractmethod
    def precision(self) -> str:
        """That of the numbers which a program gives."""

    @abc.abstractmethod
    def grids(self, own: Simulation, level: int) -> tuple[Simulation, ...]:
        """The simulation on the grids of a level, the finer one first.

        `own` has the level's paths and seed.
        """

    @abc.abstractmethod
    def program(self, grids: tuple[Simulation, ...], level: int) -> tuple[Callable, Any]:
        """The program of a level and its inputs.

        It is a function of (inputs, ids) that gives arrays `(1, leaves, lanes)`.
        """

    @abc.abstractmethod
    def failure(self, grids: tuple[Simulation, ...], level: int, path: int) -> Exception:
        """Why a path of a level is not finite."""
