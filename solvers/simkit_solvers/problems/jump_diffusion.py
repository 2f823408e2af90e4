"""Jump diffusions: stochastic differential equations whose state jumps at random times."""

import abc
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from simkit_solvers.numerics.scalar import Scalar
from simkit_solvers.problems.marks import LARGEST_MEAN, AbstractMarks
from simkit_solvers.problems.problem import AbstractSDE
from simkit_solvers.random.noise import StepWords


class AbstractJumpDiffusion(AbstractSDE):
    r"""A stochastic differential equation with jumps,

    $$dy = f(t, y)\,dt + \sum_k g_k(t, y)\,dW_k + \sum_i \bigl(J(t, y_-, z_i) - y_-\bigr)\,\delta(t - T_i),$$

    whose jump times $T_i$ come at the rate `intensity(t, y)` and whose marks $z_i$ are independent numbers
    with the distribution `marks(t)`. `jump` is the state after a jump, J; two jumps must do what one with the
    sum of their marks does, $J(t, J(t, y, z_1), z_2) = J(t, y, z_1 + z_2)$, as $S e^z$ and $X + z$ do.

    In each step of the fixed grid a solver for the equation without jumps takes the step, and then all jumps
    of the step happen at once: the sum of N marks, N Poisson-distributed with the mean $h\lambda$, the
    intensity at the middle of the step in time and at the state after the diffusive part. The distribution of
    the sum is exact. In general that is of weak order 1, whatever the solver's. `jumps_commute` says that it
    does not matter for the distribution when in a step the jumps happen, as where they multiply a price whose
    equation is linear in it and come at a constant rate: then nothing is lost and the solver keeps its order.

    Derivatives are taken along the path with its number of jumps held fixed. They are right in every
    parameter but those of the intensity and the time, where the change of the number of jumps is missing:
    `extra_jump` has that.
    Reference: Glasserman & Merener (2003), Numerical solution of jump-diffusion LIBOR market models,
    doi:10.1007/s007800200076; Platen & Bruti-Liberati (2010), Numerical Solution of Stochastic Differential
    Equations with Jumps in Finance, doi:10.1007/978-3-642-13694-8.

    >>> from simkit_physics import Merton
    >>> model = Merton(mu=0.05, sigma=0.2, lam=1.0, m=-0.1, delta=0.1)
    >>> model.intensity(0.0, model.State(S=100.0)), model.marks(0.0)
    (1.0, NormalMarks(m=-0.1, s=0.1))
    """

    jumps_commute: ClassVar[bool] = False

    @abc.abstractmethod
    def intensity(self, t: Scalar, y: PyTree) -> Any:
        """How many jumps there are on average per unit of time, a scalar >= 0."""

    @abc.abstractmethod
    def marks(self, t: Scalar) -> AbstractMarks:
        """The distribution of a mark."""

    @abc.abstractmethod
    def jump(self, t: Scalar, y: PyTree, z: Scalar) -> Any:
        """The state after a jump with the mark z, a `State`."""


def jumps_of_step(
    problem: AbstractJumpDiffusion, t: Scalar, dt: jax.Array, y: PyTree, words: tuple[StepWords, ...]
) -> tuple[PyTree, jax.Array]:
    """The state `y` at the end of a step from `t` after the jumps of the step, and the sum of their marks.

    Both are NaN for a bad intensity. `words` are the random words of as many equal parts of the step, each
    with its own number of jumps. Raises `ValueError` when `jump` does not give a state like `y`.
    """
    middle = t + 0.5 * dt
    rate = jnp.asarray(problem.intensity(middle, y), dt.dtype)
    mean = jax.lax.stop_gradient(rate * (dt / len(words)))
    marks = problem.marks(middle)
    total = sum((marks.total(each, mean) for each in words[1:]), marks.total(words[0], mean))
    total = jnp.where((mean >= 0) & (mean <= LARGEST_MEAN), total, jnp.nan)
    after = problem.jump(middle, y, total)
    shapes = [jax.tree.map(lambda x: (jnp.shape(x), jnp.result_type(x)), each) for each in (y, after)]
    if type(after) is not type(y) or shapes[0] != shapes[1]:
        raise ValueError(
            f"{type(problem).__name__}.jump: must return a {type(y).__name__} of numbers in the state's "
            f"precision, got {after}"
        )
    return after, total
