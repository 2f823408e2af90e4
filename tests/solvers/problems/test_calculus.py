"""Itô and Stratonovich readings of one process."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from simkit_physics import GBM
from simkit_solvers import Grid, States, check_solver, in_calculus, integrate, make_solver
from solver_problems import Additive, Commutative, Diagonal, General, Given, ScalarNoise

import simkit
from simkit import InputError

KINDS = (ScalarNoise, Diagonal, Commutative, General)


def ends(problem, name, steps=2048, paths=64):
    """The states at the end of paths that are the same for every solver."""
    count = len(problem.Noise._fields)
    normals = np.random.default_rng(3).standard_normal((3, steps, count, paths))
    y0, grid = problem.State(jnp.asarray(0.4), jnp.asarray(-0.9)), Grid(0.1, 0.5 / steps, steps, steps)

    def end(normals):
        return [
            x[-1] for x in integrate(problem, make_solver(name), y0, grid, Given(normals), States()).values()
        ]

    return np.stack(jax.jit(jax.vmap(end, in_axes=-1))(normals))


@pytest.mark.more
@pytest.mark.parametrize(
    "model", [m if m in (Diagonal, General) else pytest.param(m, marks=pytest.mark.slow) for m in KINDS]
)
def test_both_readings_are_one_process(model):
    """An Itô solver and a Stratonovich solver follow the same path once the model is converted."""
    problem = model(calculus="ito")
    converted = in_calculus(problem, "stratonovich")
    ito, stratonovich, wrong = (
        ends(problem, "EulerMaruyama"),
        ends(converted, "EulerHeun"),
        ends(model(calculus="stratonovich"), "EulerHeun"),
    )
    away = np.sqrt(np.mean((ito - wrong) ** 2))
    assert np.sqrt(np.mean((ito - stratonovich) ** 2)) < 0.25 * away


@pytest.mark.parametrize("model", KINDS)
@pytest.mark.parametrize("calculus", ["ito", "stratonovich"])
def test_there_and_back(model, calculus):
    problem = model(calculus="stratonovich" if calculus == "ito" else "ito")
    converted = in_calculus(problem, calculus)
    assert converted.calculus == calculus
    assert in_calculus(converted, problem.calculus) is problem
    t, y = jnp.asarray(0.3), problem.State(jnp.asarray(0.7), jnp.asarray(-0.2))
    again = in_calculus(copy_of(converted), problem.calculus)
    for there, back in zip(problem.drift(t, y), again.drift(t, y), strict=True):
        np.testing.assert_allclose(there, back, rtol=1e-14)


def copy_of(converted):
    """The converted problem as one that does not know where it comes from."""

    class Copy(type(converted.original)):
        def drift(self, t, y):
            return converted.drift(t, y)

    return Copy(calculus=converted.calculus)


def test_correction_of_gbm():
    model = in_calculus(GBM(0.1, 0.4), "stratonovich")
    assert pytest.approx(3 * (0.1 - 0.08), rel=1e-6) == model.drift(0.0, GBM.State(jnp.asarray(3.0))).S


def test_nothing_to_convert():
    for problem in (GBM(0.1, 0.4), Additive(calculus="stratonovich"), Additive(calculus="any")):
        assert in_calculus(problem, "ito") is problem
    with pytest.raises(ValueError, match="must be ito, stratonovich or any, got 'Ito'"):
        in_calculus(GBM(0.1, 0.4), "Ito")


SQUARE_ROOTS = [
    ({"type": "CIR", "kappa": 2, "theta": 0.04, "sigma": 1}, {"r": 0.04}),
    ({"type": "Heston", "mu": 0.05, "kappa": 2, "theta": 0.04, "xi": 1, "rho": -0.7}, {"S": 100, "v": 0.04}),
]


@pytest.mark.parametrize("steps", [{"steps": 10}, {"rtol": 1e-3, "atol": 1e-3}])
@pytest.mark.parametrize(("model", "initial"), SQUARE_ROOTS)
def test_square_roots_are_not_converted(model, initial, steps):
    """Converted, paths that touch zero would stick there: E[v] = 0.026 for 0.04, at any step."""
    file = {"model": model, "initial": initial, "time": {"t1": 1.0, **steps}}
    with pytest.raises(InputError, match="cannot be converted to the other calculus: its noise has no deriv"):
        simkit.run(file | {"solver": {"type": "SPaRK", "convert": True}})
    with pytest.raises(InputError) as caught:
        simkit.run(file | {"solver": "Heun"})
    assert "convert" not in str(caught.value)


@pytest.mark.more
def test_heston_has_adaptive_steps_by_milstein():
    """Of a variance that touches zero often, too."""
    file = {
        "model": SQUARE_ROOTS[1][0],
        "initial": SQUARE_ROOTS[1][1],
        "time": {"t1": 1, "rtol": 0.01, "atol": 0.01},
        "ensemble": {"paths": 4096, "seed": 1},
    }
    with pytest.raises(InputError, match=r"general noise .*; use Milstein, or give steps of equal length"):
        simkit.run(file | {"solver": "EulerMaruyama"})
    done = simkit.run(file)
    assert done.attrs["solver"] == "Milstein"
    assert max(abs(float(done[f"{name}_z"])) for name in "Sv") < 4.5


@pytest.mark.slow
def test_from_a_file():
    """GBM under a Stratonovich solver: refused as it stands, converted on request, its exact mean kept."""
    file = {
        "model": {"type": "GBM", "mu": 0.3, "sigma": 0.5},
        "initial": {"S": 1.0},
        "solver": {"type": "SPaRK"},
        "time": {"t1": 1.0, "steps": 20},
        "ensemble": {"paths": 20_000, "seed": 5},
    }
    with pytest.raises(InputError, match=r"or let it convert the model: \{type: SPaRK, convert: true\}"):
        simkit.run(file)
    done = simkit.run(file | {"solver": {"type": "SPaRK", "convert": True}})
    mean, error = float(done["S_mean"][-1]), float(done["S_stderr"][-1])
    assert abs(mean - np.exp(0.3)) < 4 * error
    check_solver(make_solver("SPaRK"), in_calculus(GBM(0.3, 0.5), "stratonovich"))
