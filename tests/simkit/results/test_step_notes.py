"""What to do where steps leave a figure in doubt."""

import pytest
import xarray as xr
from simkit_solvers import SOLVERS

from simkit.results.step_notes import more_steps

STABLE = {name for name, info in SOLVERS.items() if "ode" in info.problem and info.stiff}


@pytest.mark.parametrize("solver", [name for name, info in SOLVERS.items() if "ode" in info.problem])
def test_whoever_takes_a_stiff_solver_is_not_advised_another(solver):
    dataset = xr.Dataset(attrs={"kind": "ode", "solver": solver, "dt": 0.1})
    advice = more_steps(dataset, {"x": 200})
    assert advice.startswith("use 200 steps or more")
    assert advice.endswith("or Rodas5P if the problem is stiff") == (solver not in STABLE)


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
