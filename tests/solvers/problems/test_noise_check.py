"""Noise that is not linear in the increments, or of another kind than it says, is refused."""

import math

import jax.numpy as jnp
import numpy as np
import pytest
from simkit_solvers import AbstractSDE, check_noise
from simkit_solvers.problems.problem import check_shapes
from solver_problems import PairNoise, PairState


class Noisy(AbstractSDE):
    """dx = f dW1, dv = g dW2, or what somebody takes for it."""

    State = PairState
    Noise = PairNoise
    calculus = "any"

    noise_kind: str
    how: str

    def drift(self, t, y):
        return y

    def noise(self, t, y, dW):
        return NOISES[self.how](y, dW)


NOISES = {
    "steady": lambda y, dW: PairState(2 * dW.W1, dW.W1 + dW.W2),
    "written as a product": lambda y, dW: PairState(0.0 * y.x, (1 + 0.0 * y.v) * dW.W2),
    "one variable": lambda y, dW: PairState(0.0, jnp.zeros_like(y.v)),
    "own": lambda y, dW: PairState(jnp.where(y.x > 0, y.x, 0.0) * dW.W1, jnp.sin(y.v) * dW.W2),
    "exchanged": lambda y, dW: PairState(dW.W2, dW.W1),
    "of the other": lambda y, dW: PairState(y.v * dW.W1, dW.W2),
    "forgotten": lambda y, dW: PairState(0.2 * y.x, dW.W2),
    "in part forgotten": lambda y, dW: PairState(y.x * dW.W1 - 0.2 * y.x, dW.W2),
    "forgotten constant": lambda y, dW: PairState(dW.W1, 0.2),
    "squared": lambda y, dW: PairState(y.x * dW.W1**2, dW.W2),
    "a product": lambda y, dW: PairState(y.x * dW.W1, 0.1 * dW.W1 * dW.W2),
    "a size": lambda y, dW: PairState(y.x * dW.W1, jnp.abs(dW.W2)),
    "one side": lambda y, dW: PairState(jnp.where(dW.W1 > 0, y.x * dW.W1, 0.0), dW.W2),
    "correlated": lambda y, dW: PairState(
        y.x * dW.W1, jnp.sum(jnp.stack([0.6 * dW.W1, jnp.sqrt(y.x) * dW.W2 / 3]))
    ),
    "whole": lambda y, dW: PairState(y.x * dW, dW.W2),
    "absent": lambda y, dW: PairState(y.x * dW.W3, dW.W2),
    "branching": lambda y, dW: PairState(y.x * dW.W1 if y.x > 1 else dW.W1, dW.W2),
    "of numpy": lambda y, dW: PairState(np.log(y.x) * dW.W1, dW.W2),
    "of math": lambda y, dW: PairState(math.log(y.x) * dW.W1, dW.W2),
}


@pytest.mark.parametrize(
    ("kind", "how"),
    [
        *(("additive", how) for how in ("steady", "written as a product", "one variable")),
        *(("diagonal", how) for how in ("own", "one variable", "written as a product")),
        *((kind, "of the other") for kind in ("commutative", "general")),
        ("general", "correlated"),
    ],
)
def test_noise_of_its_kind_is_taken(kind, how):
    check_shapes(Noisy(kind, how), PairState(1.5, 0.0))
    check_noise(Noisy(kind, how), PairState(1.5, 0.0))


def not_a_sum(of: str, value: str) -> str:
    return rf"noise: must be a sum of increments .* that of {of} is {value} where .* one of dW\.W1"


def not_linear(of: str) -> str:
    return rf"noise: must be linear in the increments, and that of {of} is not: for inc"


def of_another_kind(of: str, other: str, rule: str) -> str:
    return rf"noise_kind: the noise of {of} depends on {other}, but {rule}"


NEEDS_A_SIGNATURE = r"it is noise\(self, t, y, dW\), with the var"
NOT_OF_JAX = r"noise: numpy, math and float\(\) need a concrete value; use the jax\.numpy function"


@pytest.mark.parametrize(
    ("kind", "how", "reason"),
    [
        ("general", "forgotten", not_a_sum("x", r"0\.3")),
        ("general", "in part forgotten", not_a_sum("x", r"-0\.3")),
        ("additive", "forgotten constant", not_a_sum("v", r"0\.2")),
        *(("general", how, not_linear("x")) for how in ("squared", "one side")),
        *(("general", how, not_linear("v")) for how in ("a product", "a size")),
        ("additive", "own", of_another_kind("x", "x", "additive noise depends on no")),
        ("diagonal", "exchanged", of_another_kind("x", r"dW\.W2", "diagonal noise has one")),
        ("diagonal", "of the other", of_another_kind("x", "v", "diagonal noise has one")),
        ("scalar", "steady", r"noise_kind: scalar noise has one component, Noisy has 2 \(W1, W2\); say comm"),
        ("general", "whole", rf"noise: TypeError: .*; {NEEDS_A_SIGNATURE}iables y\.x, "),
        ("general", "absent", rf"noise: AttributeError: .* 'W3'; {NEEDS_A_SIGNATURE}"),
        ("general", "branching", r"noise: `if`, .* need a concrete value; write jnp\.where\("),
        *(("general", how, NOT_OF_JAX) for how in ("of numpy", "of math")),
    ],
)
def test_other_noise_is_refused_with_the_reason(kind, how, reason):
    model = Noisy(kind, how)
    with pytest.raises(ValueError, match=rf"^Noisy\.{reason}"):  # noqa: PT012
        check_shapes(model, PairState(1.5, 0.0))
        check_noise(model, PairState(1.5, 0.0))


class Rising(Noisy):
    """A noise that is zero, or of its kind, at time zero only."""

    def noise(self, t, y, dW):
        return {
            "forgotten": PairState(y.v * dW.W1 + jnp.sin(t) * y.x, dW.W2),
            "of itself": PairState(dW.W1 + t * y.x * dW.W1, dW.W2),
            "of the other": PairState(y.x * dW.W1 + t * y.v * dW.W1, dW.W2),
        }[self.how]


@pytest.mark.parametrize(
    ("kind", "how", "reason"),
    [
        ("general", "forgotten", "noise: must be a sum of increments"),
        ("additive", "of itself", "noise_kind: the noise of x depends on x"),
        ("diagonal", "of the other", "noise_kind: the noise of x depends on v"),
    ],
)
def test_noise_that_becomes_another_is_refused(kind, how, reason):
    with pytest.raises(ValueError, match=rf"^Rising\.{reason}"):
        check_noise(Rising(kind, how), PairState(1.5, 0.0))
