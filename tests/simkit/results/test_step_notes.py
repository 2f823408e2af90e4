"""What to do where steps leave a figure in doubt."""

import pytest
import xarray as xr
from simkit_solvers import SOLVERS

from simkit import load
from simkit.ensemble.step_bias.step_error import StepError
from simkit.results.dataset_errors import resolution_of
from simkit.results.step_notes import more_steps

STABLE = {name for name, info in SOLVERS.items() if "ode" in info.problem and info.stiff}


@pytest.mark.parametrize("solver", [name for name, info in SOLVERS.items() if "ode" in info.problem])
def test_whoever_takes_a_stiff_solver_is_not_advised_another(solver):
    dataset = xr.Dataset(attrs={"kind": "ode", "solver": solver, "dt": 0.1})
    advice = more_steps(dataset, {"x": 200})
    assert advice.startswith("use 200 steps or more")
    assert advice.endswith("or Rodas5P if the problem is stiff") == (solver not in STABLE)


@pytest.mark.parametrize(
    ("model", "times"),
    [({"ode": {"x": "-x"}}, 16), ({"sde": {"x": {"drift": "-x", "noise": {"W": 0.5}}}}, 64)],
)
def test_a_sixteenth_of_the_error_takes_tolerances_by_what_they_make_of_it(model, times):
    """Errors of ordinary equations go with the tolerances, of stochastic ones with their power 2/3."""
    time = {"t1": 1.0, "rtol": 1e-3, "atol": 1e-3}
    simulation = load({"model": model, "initial": {"x": 1.0}, "time": time})
    error = StepError(4.0, 0.0, 0.0, "estimate", 1.0)
    assert resolution_of(error, simulation, 10.0, 0.0, 0.25, False).steps == times


def test_stiff_solvers_are_those_that_solve_equations():
    implicit = {
        "ImplicitEuler",
        "Kvaerno3",
        "Kvaerno4",
        "Kvaerno5",
        "KenCarp3",
        "KenCarp4",
        "KenCarp5",
        "Sil3",
    }
    assert implicit | {"Rodas5P", "Rosenbrock23"} == STABLE
