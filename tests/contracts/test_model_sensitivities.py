"""Forward, reverse and finite differences agree on every registered model, in up to four parameters of each.

On a weighted sum of the variables after a few short steps from the documented example. Few paths do: they
agree path by path, so means do to the error of the differences. Normals are float64: two programs may round
float32 ones differently in the last bit.
"""

import numpy as np
import pytest
from simkit_physics import MODELS
from simkit_solvers import AbstractReactionNetwork, parameters_of

import simkit

QUICK = ("OrnsteinUhlenbeck", "Lorenz63")
STEPS = 3
MOST = 4  # parameters of one model


def experiment(name: str) -> dict:
    """The documented example over a few steps; reaction networks by their Langevin equation."""
    model = MODELS[name]
    steps = model.example_time.get("steps", 10**6)
    span = float(model.example_time["t1"]) / steps * STEPS
    solver = {"solver": model.example_solver} if model.example_solver else {}
    if issubclass(model, AbstractReactionNetwork):
        # So long that derivatives are more than the rounding of counts.
        solver, span = {"solver": "EulerMaruyama"}, min(float(model.example_time["t1"]), 1e-3)
    return {
        "model": {"type": name, **model.example},
        "initial": {key: float(value) for key, value in model.example_initial.items()},
        **solver,
        "time": {"t1": span, "steps": STEPS},
        # Few steps: the estimators differentiate the same steps, however large the error of these is.
        "ensemble": {"paths": 64, "seed": 2, "devices": 1, "normals": "float64", "unresolved": "keep"},
        "observe": {"total": " + ".join(f"{1 / (i + 1)}*{x}" for i, x in enumerate(model.State._fields))},
        "sensitivity": {"wrt": [f"model.{each}" for each in parameters_of(model)][:MOST]},
    }


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=pytest.mark.more if n in QUICK else pytest.mark.slow) for n in MODELS],
)
def test_forward_reverse_and_differences_agree(name):
    given = experiment(name)
    if not given["sensitivity"]["wrt"]:
        assert not parameters_of(MODELS[name])
        return
    result = simkit.sensitivity(given)
    forward = result["total_derivative"].values
    smooth = result["total_derivative_estimator"].values == "pathwise"
    smooth |= result["total_derivative_reason"].values == "no path changes with it"
    assert np.all(smooth | (result["total_derivative_estimator"].values == "weak derivative"))
    differences = simkit.sensitivity(given, overrides={"sensitivity.method": "finite_differences"})
    scale = np.max(np.abs(forward)) + 1e-12
    np.testing.assert_allclose(
        forward[smooth], differences["total_derivative"].values[smooth], rtol=1e-5, atol=1e-8 * scale
    )
    if np.all(smooth):
        reverse = simkit.sensitivity(given, overrides={"sensitivity.method": "reverse"})
        np.testing.assert_allclose(forward, reverse["total_derivative"].values, rtol=1e-7, atol=1e-9 * scale)
