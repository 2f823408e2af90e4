"""What moves with the numbers of a problem: its variables, the rate of its jumps."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import PyTree
from simkit_solvers.methods.sde.exact_sampling import AbstractExactTransition
from simkit_solvers.numerics.traced import traced_once
from simkit_solvers.problems.jump_diffusion import AbstractJumpDiffusion
from simkit_solvers.problems.problem import AbstractODE
from simkit_solvers.problems.schedule import model_of
from simkit_solvers.random.generator import Words
from simkit_solvers.random.noise import StepWords


def moved_variables(
    problem: AbstractODE, change: PyTree, initial: frozenset[str], precision: str
) -> frozenset[str]:
    """The variables that a change of a problem moves, and of these initial values: one by way of another."""
    zero = jnp.zeros((), precision)
    y = problem.State(*[zero] * len(problem.State._fields))

    def made(problem, y):
        return traced_once(_right_side, problem, zero, y)

    moved = initial
    while True:
        dy = type(y)(**{name: zero if name in moved else None for name in y._fields})
        after = jax.eval_shape(lambda dy=dy: eqx.filter_jvp(made, (problem, y), (change, dy))[1])
        wider = moved.union(name for part in after for name, x in part._asdict().items() if x is not None)
        if wider == moved:
            return moved
        moved = wider


def _right_side(problem, t, y) -> list:
    """All that moves the state of a problem, for noise and marks of any size."""
    result = [problem.drift(t, y)]
    if problem.stochastic:
        result.append(problem.noise(t, y, problem.Noise(*[t] * len(problem.Noise._fields))))
    if isinstance(problem, AbstractJumpDiffusion):
        marks = [mark for _, mark in problem.marks(t).kinds(_some_words(StepWords), t.dtype)]
        result.append(problem.jump(t, y, sum(marks)))
    return result


def moves_intensity(problem: AbstractJumpDiffusion, change: PyTree, precision: str) -> tuple[bool, bool]:
    """Whether the rate of jumps moves with a change of a problem, and with the state."""
    zero = jnp.zeros((), precision)
    y = problem.State(*[zero] * len(problem.State._fields))
    words = _some_words(StepWords)

    def rate(problem, y):
        """The rate of all jumps, and the probability of each kind."""
        kinds = problem.marks(zero).kinds(words, zero.dtype)
        return problem.intensity(zero, y), [probability for probability, _ in kinds]

    def moved(change, dy):
        return eqx.filter_jvp(rate, (problem, y), (change, dy))[1]

    of_state = jax.eval_shape(lambda: moved(jax.tree.map(lambda _: None, problem), y))
    of_target = jax.eval_shape(lambda: moved(change, jax.tree.map(lambda _: None, y)))
    return bool(jax.tree.leaves(of_target)), bool(jax.tree.leaves(of_state))


def draws_words(problem: AbstractODE) -> bool:
    """Whether a model's exact transition draws more than normals."""
    drawn = []

    class Recorded(StepWords):
        def block(self, n):
            drawn.append(n)
            return super().block(n)

    model: Any = model_of(problem)
    if not issubclass(type(model), AbstractExactTransition):
        return False
    one = jnp.float32(1)
    y = model.State(*[one] * len(model.State._fields))
    dW = model.Noise(*[one] * len(model.Noise._fields))
    jax.eval_shape(lambda: model.transition(one, one, y, dW, _some_words(Recorded)))
    return bool(drawn)


def _some_words(kind: type[StepWords]) -> StepWords:
    whole = jnp.uint32(0)
    return kind(Words(whole, whole), whole, whole)
