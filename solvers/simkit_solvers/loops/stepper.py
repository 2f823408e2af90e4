"""The contract of a stepper: it advances a problem by one step of the fixed grid."""

import abc
from typing import Any

import equinox as eqx
import jax
from jaxtyping import PyTree

from simkit_solvers.problems.problem import AbstractODE
from simkit_solvers.random.draws import Draw


class AbstractStepper(eqx.Module):
    """How a solver advances a problem by one step; `areas` counts the Lévy areas that it reads (H, then K).

    `unrolled` is whether several steps in a row are worth compiling as one, `variates` whether it reads
    random words as well as normals.
    """

    areas: eqx.AbstractVar[int]
    unrolled: eqx.AbstractVar[bool]
    variates: eqx.AbstractVar[bool]

    @abc.abstractmethod
    def init(self, problem: AbstractODE, t: jax.Array, dt: jax.Array, y: PyTree) -> Any:
        """What the solver carries from step to step in addition to the state."""

    def restarted(self, problem: AbstractODE, t: jax.Array, dt: jax.Array, y: PyTree, state: PyTree) -> Any:
        """What the solver carries where the state or a parameter has changed at once, given it before."""
        return self.init(problem, t, dt, y)

    @abc.abstractmethod
    def step(
        self, problem: AbstractODE, t: jax.Array, dt: jax.Array, y: PyTree, draw: Draw, state: PyTree
    ) -> tuple[Any, Any]:
        """The state and what the solver carries, at the end of a step from `t`."""
