"""A model whose drift or noise is not what it should be is refused before anything is compiled."""

from typing import ClassVar
from unittest import mock

import pytest
from simkit_physics import MODELS
from simkit_solvers import (
    AbstractODE,
    AbstractReactionNetwork,
    AbstractSDE,
    Scalar,
    check_noise,
    parameter,
    reaction,
)
from solver_problems import PairNoise, PairState

import simkit
from simkit import InputError


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


def test_noise_that_is_right_for_some_parameters_is_checked_for_others():
    """With b = 0 the noise is a sum of increments. What is seen for all parameters is not looked at again."""

    class Offset(AbstractSDE):
        """dx = a dW1 + b, where b belongs into the drift."""

        State = PairState
        Noise = PairNoise
        calculus = "any"
        noise_kind = "general"

        a: Scalar = parameter("1", "noise")
        b: Scalar = parameter("1", "offset")

        def drift(self, t, y):
            return y

        def noise(self, t, y, dW):
            return PairState(self.a * dW.W1 + self.b, dW.W2)

    def loaded(b):
        model = {"type": "Offset", "a": 1.0, "b": b}
        return simkit.load({"model": model, "initial": {"x": 1.0, "v": 0.0}, "time": {"t1": 1.0, "steps": 4}})

    with mock.patch.dict(MODELS, {"Offset": Offset}):
        assert not check_noise(loaded(0.0).problem, PairState(1.0, 0.0))
        with pytest.raises(InputError, match=r"Offset\.noise: must be a sum of increments"):
            loaded(1.0)


def test_a_run_of_forgotten_increments_is_refused():
    class Gompertz(AbstractSDE):
        """dx = 0.2 x dW1, written without its increment."""

        State = PairState
        Noise = PairNoise
        calculus = "any"
        noise_kind = "general"

        def drift(self, t, y):
            return y

        def noise(self, t, y, dW):
            return PairState(0.2 * y.x, dW.W2)

    experiment = {
        "model": {"type": "Gompertz"},
        "initial": {"x": 1.0, "v": 0.0},
        "time": {"t1": 1.0, "steps": 4},
    }
    with mock.patch.dict(MODELS, {"Gompertz": Gompertz}), pytest.raises(InputError, match="multiply by one"):
        simkit.run(experiment)


@pytest.mark.parametrize(
    ("steps", "solver"), [({}, "DirectMethod"), ({"steps": 4}, "Tsit5"), ({"steps": 4}, "EulerMaruyama")]
)
def test_a_network_whose_rates_are_wrong_is_refused_before_its_drift(steps, solver):
    """Its drift is made of the rates, and is not the user's to mend."""

    class Queue(AbstractReactionNetwork):
        State = PairState
        reactions: ClassVar = {"arrival": reaction("0 -> x"), "service": reaction("x -> v")}

        def rates(self, t, y):
            return 1.0, y.u

    class Reneging(Queue):
        def rates(self, t, y):
            return (1.0,)

    experiment = {"initial": {"x": 1.0, "v": 0.0}, "time": {"t1": 1.0} | steps, "solver": {"type": solver}}
    wrong = r"model\.type: Queue\.rates: AttributeError: .* 'u'; it is rates\(self, t, y\), with .* y\.v"
    few = r"model\.type: Reneging\.rates: must return a tuple with .* of arrival, service; got a tuple of 1"
    with mock.patch.dict(MODELS):
        for model, reason in ((Queue(), wrong), (Reneging(), few)):
            for events in ({}, {"events": {"later": {"at": 0.5, "set": {"x": "x + 1"}}}}):
                with pytest.raises(InputError, match=reason) as caught:
                    simkit.run(experiment | {"model": model} | events)
                assert "drift" not in str(caught.value)
