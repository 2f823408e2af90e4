"""Sampling from a model's transition distribution."""

import abc
from typing import Any, ClassVar

import equinox as eqx
from jaxtyping import PyTree

from simkit_solvers.methods.model_solver import AbstractModelSolver
from simkit_solvers.methods.solver_info import SolverInfo
from simkit_solvers.methods.step_types import Terms, Time
from simkit_solvers.numerics.scalar import Scalar
from simkit_solvers.problems.problem import AbstractODE
from simkit_solvers.random.noise import StepWords


class AbstractExactTransition(eqx.Module):
    """Mix-in for stochastic models whose transition distribution over any time is known and can be drawn
    from.

    For a jump diffusion it is the distribution without the jumps.

    >>> from simkit_physics import GBM
    >>> from simkit_solvers import AbstractExactTransition
    >>> issubclass(GBM, AbstractExactTransition)
    True
    """

    @abc.abstractmethod
    def transition(self, t: Scalar, h: Scalar, y: PyTree, dW: PyTree, words: StepWords) -> Any:
        r"""A `State` drawn from the distribution of $y_{t+h}$ given $y_t = y$.

        `dW` is a `Noise` of independent normals with variance h, `words` give the blocks of random
        words that other variates need.
        """


class ExactSampling(AbstractModelSolver):
    r"""Exact sampling: $y_{n+1}$ is drawn from the distribution of $y_{t+h}$ given $y_t = y_n$, for any h.

    The states at the ends of steps have the joint distribution of the process, so there is no step bias and
    none is reported; one step is as good as a thousand. What an observable makes of the path between, an
    `integral` or `no_touch`, has a step bias of its own. For models that give their distribution
    (`AbstractExactTransition`); of jump diffusions the part without jumps, which the loop adds.
    Reference: Glasserman (2003), Monte Carlo Methods in Financial Engineering, doi:10.1007/978-0-387-21617-1,
    sections 3.2 to 3.5.
    """

    variates: ClassVar[bool] = True

    def check(self, problem: AbstractODE) -> None:
        if not isinstance(problem, AbstractExactTransition):
            raise ValueError(
                f"solver ExactSampling draws from the transition distribution of the model, and "
                f"{type(problem).__name__} gives none (AbstractExactTransition)"
            )

    def advance(self, terms: Terms, t0: Time, t1: Time, y0: PyTree, args: PyTree) -> PyTree:
        _, noise = terms.terms
        dW = noise.contr(t0, t1)
        return noise.problem.transition(noise.start + t0, t1 - t0, y0, dW, noise.words[0])


EXACT_SAMPLING = SolverInfo(
    ExactSampling,
    "Draws from the transition distribution of models that know it: no step bias at any length of step.",
    one_to_one=True,
    exact=True,
)
