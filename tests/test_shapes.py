"""A model whose drift or noise is not a state is refused before anything is compiled."""

from typing import NamedTuple
from unittest import mock

import jax.numpy as jnp
import pytest
from simkit_physics import MODELS
from simkit_solvers.problem import AbstractODE, AbstractSDE, check_shapes
from solver_problems import PairNoise, PairState

import simkit
from simkit.errors import InputError


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


@pytest.mark.parametrize("time", [{"t1": 1.0, "steps": 4}, {"t1": 1.0, "rtol": 1e-3, "atol": 1e-3}])
@pytest.mark.parametrize("base", [AbstractODE, AbstractSDE])
def test_a_run_is_refused_with_the_reason(base, time):
    class Slope(base):
        """dx/dt = -x, returned without its name."""

        State = PairState
        Noise = PairNoise
        calculus = "any"
        noise_kind = "additive"

        def drift(self, t, y):
            return -y.x

        def noise(self, t, y, dW):
            return PairState(dW.W1, dW.W2)

    experiment = {"model": {"type": "Slope"}, "initial": {"x": 1.0, "v": 0.0}, "time": time}
    with mock.patch.dict(MODELS, {"Slope": Slope}), pytest.raises(InputError) as caught:
        simkit.run(experiment)
    assert "Slope.drift: must return a PairState with a number for each of x, v, got one number" in str(
        caught.value
    )
