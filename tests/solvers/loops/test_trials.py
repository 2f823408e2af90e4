"""When a stochastic trial is accepted, and how deep a path may fail."""

import functools

import jax.numpy as jnp
import pytest
from simkit_solvers import (
    AbstractSDE,
    AdaptiveGrid,
    BrownianTree,
    Milstein,
    Scalar,
    States,
    Tolerances,
    integrate_adaptive_sde,
    seed_key,
)
from solver_problems import PairNoise, PairState
from user_code import user_jit

TREE = BrownianTree.of(seed_key(0), 0)


class Silent(AbstractSDE):
    """dx/dt = rate x until `last`, nothing else: a step and two half steps differ by (rate h / 2)^2 x."""

    State = PairState
    Noise = PairNoise
    calculus = "any"
    noise_kind = "additive"
    rate: Scalar
    last: Scalar

    def drift(self, t, y):
        return PairState(jnp.where(t < self.last, self.rate * y.x, jnp.nan), jnp.zeros_like(y.v))

    def noise(self, t, y, dW):
        return PairState(0.0 * dW.W1, 0.0 * dW.W2)


@functools.partial(user_jit, static_argnames="dtype")
def run(rate, last, rtol, span, first, dtype="float64"):
    grid = AdaptiveGrid(0.0, span, Tolerances(rtol, 0.0), first)
    y0 = PairState(jnp.ones((), dtype), jnp.ones((), dtype))
    return integrate_adaptive_sde(Silent(rate, last), Milstein(), y0, grid, TREE, States())


@pytest.mark.parametrize(
    ("rate", "least"),
    # By |y1| = 1.5^2 where the solution grows and by |y| = 1 where it falls; the mean is over two variables.
    [(1.0, 0.25 / 2.25 / 2**0.5), (-1.0, 0.25 / 2**0.5)],
)
def test_the_error_is_the_root_mean_square_in_units_of_the_larger_end(rate, least):
    accepted = run(rate, 9.0, least * 1.001, 1.0, 1.0)
    assert (accepted.accepted, accepted.rejected) == (1, 0)
    assert accepted.rows["x"][-1] == (1 + rate / 2) ** 2
    assert run(rate, 9.0, least * 0.999, 1.0, 1.0).rejected == 1


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("span", "first", "count"), [(1.1, 0.1, 11), (4.9, 0.7, 7), (1.0, 0.3, 4)])
def test_coarse_intervals_that_fit_but_for_rounding_are_no_more(span, first, count, dtype):
    result = run(0.1, 9.0, 1e9, span, first, dtype)
    assert (result.accepted, result.rejected) == (count, 0)


def test_a_path_fails_on_the_last_level_of_its_tree():
    """No step from 1/2 on has a value: one half is taken, the other halved until nothing is left."""
    result = run(1.0, 0.5, 0.3, 1.0, 1.0)
    assert (result.accepted, result.rejected) == (1, TREE.levels(2, 0))
    assert result.reached == 0.5
    assert jnp.isnan(result.rows["x"][-1])
