"""What a drift or a noise returns is a state."""

from typing import NamedTuple

import jax.numpy as jnp
import pytest
from simkit_solvers import AbstractExactMoments, AbstractSDE
from simkit_solvers.problems.problem import check_shapes
from solver_problems import PairNoise, PairState


class Other(NamedTuple):
    x: float
    v: float


RETURNED = {
    "got one number": lambda y: y.x,
    "got an array of shape (2,)": lambda y: jnp.stack([y.x, y.v]),
    "got a tuple": lambda y: (y.x, y.v),
    "got a dict": lambda y: {"x": y.x, "v": y.v},
    "got a Other with x one number, v one number": lambda y: Other(y.x, y.v),
    "got a PairState with x one number, v an array of shape (3,)": lambda y: PairState(
        y.x, jnp.ones(3) * y.v
    ),
}


class Mistaken(AbstractSDE):
    State = PairState
    Noise = PairNoise
    calculus = "any"
    noise_kind = "additive"

    where: str
    how: str

    def drift(self, t, y):
        return RETURNED[self.how](y) if self.where == "drift" else y

    def noise(self, t, y, dW):
        return RETURNED[self.how](y) if self.where == "noise" else PairState(dW.W1, 2 * dW.W2)


@pytest.mark.parametrize("where", ["drift", "noise"])
@pytest.mark.parametrize("how", RETURNED)
def test_what_is_no_state_is_described(where, how):
    with pytest.raises(
        ValueError, match=rf"Mistaken\.{where}: must return a PairState with a number"
    ) as caught:
        check_shapes(Mistaken(where, how), PairState(1.0, 2.0))
    assert str(caught.value).endswith(how)
    check_shapes(Mistaken("nowhere", how), PairState(1.0, 2.0))


class MistakenMoments(Mistaken, AbstractExactMoments):
    def exact_mean(self, t, y0):
        return RETURNED[self.how](y0) if self.where == "exact_mean" else PairState(y0[0] * t, None)

    def exact_variance(self, t, y0):
        return RETURNED[self.how](y0) if self.where == "exact_variance" else PairState(t, t)


@pytest.mark.parametrize("where", ["exact_mean", "exact_variance"])
@pytest.mark.parametrize("how", RETURNED)
def test_moments_that_are_no_state_are_described_and_none_is_not_known(where, how):
    with pytest.raises(ValueError, match=rf"MistakenMoments\.{where}: must return a PairState") as caught:
        check_shapes(MistakenMoments(where, how), PairState(1.0, 2.0))
    assert str(caught.value).endswith(how)
    check_shapes(MistakenMoments("nowhere", how), PairState(1.0, 2.0))
