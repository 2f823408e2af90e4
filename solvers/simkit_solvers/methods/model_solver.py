"""Solvers for particular models, which need more of them than drift and noise."""

import abc
from typing import ClassVar

from simkit_solvers.methods.one_step import AbstractOneStep
from simkit_solvers.problems.problem import AbstractODE


class AbstractModelSolver(AbstractOneStep):
    """A one-step method that takes only models with an abstract class of its own among theirs.

    Its terms are those of every stochastic problem in the fixed-grid loop; from the noise term it takes the
    problem, the increments and, where `variates` is set, the random words of the step.
    """

    variates: ClassVar[bool] = False

    @abc.abstractmethod
    def check(self, problem: AbstractODE) -> None:
        """Raise `ValueError`, with the reason and the remedy, for a problem that it does not take."""
