"""The common part of one-step solvers, with memory and without."""

import abc
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from simkit_solvers.methods.step_types import Flag, Step, Terms, Time
from simkit_solvers.numerics.scalar import Scalar
from simkit_solvers.problems.terms import NoiseTerm


class AbstractMemoryless(diffrax.AbstractSolver):
    """A solver that carries nothing from step to step."""

    term_structure: ClassVar = diffrax.AbstractTerm

    def init(self, terms: Terms, t0: Time, t1: Time, y0: PyTree, args: PyTree) -> PyTree:
        return None

    def func(self, terms: Terms, t0: Time, y0: PyTree, args: PyTree) -> PyTree:
        return terms.vf(t0, y0, args)


class AbstractOneStep(AbstractMemoryless):
    """A one-step method on a drift and a noise term, linear between the ends of a step.

    `areas` counts the Lévy areas that a step uses in addition to the increments: none, H, or H and K.

    >>> from simkit_solvers import AbstractOneStep, EulerMaruyama
    >>> issubclass(EulerMaruyama, AbstractOneStep), EulerMaruyama().areas
    (True, 0)
    """

    interpolation_cls: ClassVar = diffrax.LocalLinearInterpolation
    areas: ClassVar[int] = 0

    @abc.abstractmethod
    def advance(self, terms: Terms, t0: Time, t1: Time, y0: PyTree, args: PyTree) -> Any:
        """The state at `t1` from that at `t0`."""

    def step(
        self, terms: Terms, t0: Time, t1: Time, y0: PyTree, args: PyTree, solver_state: Any, made_jump: Flag
    ) -> Step:
        y1 = self.advance(terms, t0, t1, y0, args)
        return y1, None, {"y0": y0, "y1": y1}, None, diffrax.RESULTS.successful


class AbstractCarryingStep(diffrax.AbstractSolver):
    """One step of a method that carries something from step to step; `init` gives the first of it."""

    interpolation_cls: ClassVar = diffrax.LocalLinearInterpolation

    @abc.abstractmethod
    def advance_with(
        self, terms: Terms, t0: Time, t1: Time, y0: PyTree, args: PyTree, carried: PyTree
    ) -> tuple[Any, Any]:
        """The state at `t1` from that at `t0`, and what is carried on from there."""

    def step(
        self, terms: Terms, t0: Time, t1: Time, y0: PyTree, args: PyTree, solver_state: Any, made_jump: Flag
    ) -> Step:
        if made_jump is not False:
            solver_state = jax.lax.cond(
                made_jump, lambda: self.init(terms, t0, t1, y0, args), lambda: solver_state
            )
        y1, carried = self.advance_with(terms, t0, t1, y0, args, solver_state)
        return y1, None, {"y0": y0, "y1": y1}, carried, diffrax.RESULTS.successful


def components(control: PyTree) -> tuple[list, Callable[[Sequence], Any]]:
    """The scalars in a noise control, and the function that puts as many back into its shape."""
    leaves, tree = jax.tree.flatten(control)
    scalars = [leaf[index] for leaf in leaves for index in np.ndindex(leaf.shape)]

    def assembled(scalars):
        rest, shaped = list(scalars), []
        for leaf in leaves:
            own, rest = rest[: leaf.size], rest[leaf.size :]
            shaped.append(jnp.stack(own).reshape(leaf.shape) if leaf.shape else own[0])
        return jax.tree.unflatten(tree, shaped)

    return scalars, assembled


def groups(noise: diffrax.AbstractTerm, count: int) -> list[list[int]]:
    """Which components of a noise can be displaced together: all of diagonal noise, else one at a time."""
    if isinstance(noise, NoiseTerm) and noise.problem.noise_kind == "diagonal":
        return [list(range(count))]
    return [[j] for j in range(count)]


def directions(noise: diffrax.AbstractTerm, dW: PyTree, h: Time) -> list[tuple[Any, Any]]:
    r"""The pairs $(e_j, \Delta W_j\,\Delta W - h\,e_j)$ over which Milstein's double sum runs.

    With commutative noise $\sum_{jk} (g_j\cdot\nabla) g_k\,I_{jk} = \tfrac12 \sum_j (g_j\cdot\nabla)\,
    g\,(\Delta W_j\,\Delta W - h\,e_j)$, where $g\,v$ is the noise term's product. Diagonal noise needs one
    pair for all components, $(1, \Delta W^2 - h)$ entry by entry.
    """
    w, assembled = components(dW)
    one, zero = jnp.ones_like(w[0]), jnp.zeros_like(w[0])
    pairs = []
    for group in groups(noise, len(w)):
        unit = [one if k in group else zero for k in range(len(w))]
        weight = [x * (x if k in group else w[group[0]]) for k, x in enumerate(w)]
        weight = [x - h if k in group else x for k, x in enumerate(weight)]
        pairs.append((assembled(unit), assembled(weight)))
    return pairs


def total(first: PyTree, *rest: PyTree, scale: Scalar = 1.0) -> PyTree:
    """`first + scale * (the sum of rest)`, for pytrees of one structure."""
    return jax.tree.map(lambda y, *terms: y + scale * sum(terms[1:], terms[0]), first, *rest)
