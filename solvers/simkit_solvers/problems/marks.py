r"""The distributions of jump sizes, and sums of a random number of them.

The number of jumps in a step is drawn by inversion from one word while its mean is at most 1/4: of the
probabilities $P(N \ge k)$ eight are compared with the uniform. What they leave out, $P(N > 8) < 10^{-11}$, is
less than the 2^-32 that one word resolves. A larger mean is used up by exponential times between jumps, in a
loop of no iterations where no path needs it; `variates.poisson` takes several times as long to compile.
"""

import abc
import functools

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Float

from simkit_solvers.numerics.scalar import Scalar
from simkit_solvers.random.noise import StepWords
from simkit_solvers.random.normal import standard_normal
from simkit_solvers.random.variates import exponential, inverted

MOST_BY_INVERSION = 8
SMALL_MEAN = 0.25
LARGEST_MEAN = 1e4  # jumps in one step; their times are drawn one by one


class AbstractMarks(eqx.Module):
    """The distribution of a jump's mark, a real number.

    >>> from simkit_solvers import AbstractMarks, NormalMarks
    >>> isinstance(NormalMarks(m=0.0, s=0.1), AbstractMarks)
    True
    """

    @abc.abstractmethod
    def total(self, words: StepWords, mean: Float[Array, ""]) -> Float[Array, ""]:
        """The sum of N independent marks, N Poisson-distributed with this mean, in the precision of `mean`.

        N has no derivative: `mean` is a number from `jax.lax.stop_gradient`. The sum has one in the
        distribution's parameters. `words` are those of this step alone.
        """

    @abc.abstractmethod
    def kinds(self, words: StepWords, dtype: DTypeLike) -> tuple[tuple[Scalar, Float[Array, ""]], ...]:
        """The kinds of marks that there are, each with its probability and one mark of that kind.

        The marks are made of the first block of `words`.
        """

    @abc.abstractmethod
    def exponential_moment(self, k: float) -> Scalar:
        r"""$E[e^{kz}]$, infinite where it does not exist."""

    def mean_return(self) -> Scalar:
        r"""$E[e^z] - 1$, what a jump adds on average to a price of 1 that it multiplies by $e^z$."""
        return self.exponential_moment(1.0) - 1

    def squared_return(self) -> Scalar:
        r"""$E[(e^z - 1)^2]$, what a jump adds to the variance of a price that it multiplies by $e^z$."""
        return self.exponential_moment(2.0) - 2 * self.exponential_moment(1.0) + 1


class NormalMarks(AbstractMarks):
    r"""Normal marks, $N(m, s^2)$. The sum of N is $Nm + \sqrt N s Z$: one normal, whatever N is.

    >>> from simkit_solvers import NormalMarks
    >>> round(float(NormalMarks(m=0.0, s=0.1).mean_return()), 5)  # exp(0.005) - 1
    0.00501
    """

    m: Scalar
    s: Scalar

    def total(self, words: StepWords, mean: Float[Array, ""]) -> Float[Array, ""]:
        first = words.block(0)
        n = jump_count(first.a, words, 1, mean)
        z = standard_normal(first.b).astype(mean.dtype)
        return n * self.m + jnp.sqrt(n) * z * self.s

    def kinds(self, words: StepWords, dtype: DTypeLike) -> tuple[tuple[Scalar, Float[Array, ""]], ...]:
        z = standard_normal(words.block(0).b).astype(dtype)
        return ((jnp.ones((), dtype), self.m + self.s * z),)

    def exponential_moment(self, k: float) -> Scalar:
        return jnp.exp(k * self.m + 0.5 * (k * self.s) ** 2)


class DoubleExponentialMarks(AbstractMarks):
    r"""Marks that are with probability p exponential with rate $\eta_1$, and minus such with $\eta_2$ else.

    Upward and downward jumps are two independent Poisson numbers; the exponential variates of each sum are
    drawn one by one. Reference: Kou (2002), A jump-diffusion model for option pricing,
    doi:10.1287/mnsc.48.8.1086.166.

    >>> from simkit_solvers import DoubleExponentialMarks
    >>> round(float(DoubleExponentialMarks(p=0.5, eta1=10.0, eta2=5.0).mean_return()), 5)
    -0.02778
    """

    p: Scalar
    eta1: Scalar
    eta2: Scalar

    def total(self, words: StepWords, mean: Float[Array, ""]) -> Float[Array, ""]:
        p = jax.lax.stop_gradient(jnp.asarray(self.p, mean.dtype))
        first = words.block(0)
        up = jump_count(first.a, words, 1, p * mean)
        down = jump_count(first.b, words, 2, (1.0 - p) * mean)

        def one_more(carry):
            i, ups, downs = carry
            e1, e2 = (exponential(word).astype(mean.dtype) for word in words.block(3 * i + jnp.uint32(3)))
            k = i.astype(mean.dtype)
            return i + jnp.uint32(1), ups + jnp.where(k < up, e1, 0.0), downs + jnp.where(k < down, e2, 0.0)

        most, zero = jnp.maximum(up, down).astype(jnp.uint32), jnp.zeros((), mean.dtype)
        _, ups, downs = one_more((jnp.uint32(0), zero, zero))
        # The first of each is made in any case, and the loop adds others where there are two.
        _, more_up, more_down = jax.lax.while_loop(
            lambda c: c[0] < most, one_more, (jnp.uint32(1), zero, zero)
        )
        ups, downs = ups + more_up, downs + more_down
        return ups / self.eta1 - downs / self.eta2

    def kinds(self, words: StepWords, dtype: DTypeLike) -> tuple[tuple[Scalar, Float[Array, ""]], ...]:
        size, p = exponential(words.block(0).b).astype(dtype), jnp.asarray(self.p, dtype)
        return (p, size / self.eta1), (1.0 - p, -size / self.eta2)

    def exponential_moment(self, k: float) -> Scalar:
        finite = k < self.eta1
        rising = self.p * self.eta1 / jnp.where(finite, self.eta1 - k, 1.0)
        up = jnp.where(finite | (self.p == 0), rising, jnp.inf)
        return up + (1 - self.p) * self.eta2 / (self.eta2 + k)


@functools.partial(jax.jit, static_argnums=2)  # traced once rather than at every call
def jump_count(word: jax.Array, words: StepWords, which: int, mean: jax.Array) -> jax.Array:
    r"""A Poisson variate in the precision of `mean`: from one word, and if need be others, `which` is 1 or 2.

    Zero for a mean that is negative, NaN or above `LARGEST_MEAN`.
    """
    small = mean <= SMALL_MEAN
    few = inverted(word, jnp.where(small, mean, 0.0), MOST_BY_INVERSION)

    def next_two(carry):
        i, count, left = carry
        for further in words.block(3 * i + jnp.uint32(which)):
            left = left - exponential(further).astype(mean.dtype)
            count = count + (left > 0).astype(mean.dtype)
        return i + jnp.uint32(1), count, left

    # A branch as well as a loop: where the mean is that of all paths, the loop's sums are not even started.
    left = jnp.where(small | ~(mean <= LARGEST_MEAN), 0.0, mean)
    start = jnp.uint32(0), jnp.zeros_like(mean), left
    more = jax.lax.cond(
        left > 0, lambda: jax.lax.while_loop(lambda c: c[2] > 0, next_two, start)[1], lambda: start[1]
    )
    return few + more
