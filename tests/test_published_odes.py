"""Published problems, written in YAML, end at their published values to the tolerance asked for."""

import adaptive_problems as problems
import pytest

import simkit

# Problem, solver, rtol, atol, and how far the end may be off: relative, or absolute where it is zero.
CASES = [
    ("HIRES", "Kvaerno5", 1e-8, 1e-12, 3e-8),
    pytest.param("HIRES", "Rodas5P", 1e-10, 1e-14, 1e-10, marks=pytest.mark.slow),  # compiles for long
    pytest.param("ROBERTSON", "Kvaerno5", 1e-8, 1e-17, 3e-7, marks=pytest.mark.slow),
    ("ROBERTSON", "Rodas5P", 1e-9, 1e-18, 1e-7),
    ("ARENSTORF", "Dopri8", 1e-12, 1e-12, 2e-8),
    ("B3", "Tsit5", 1e-10, 1e-14, 1e-6),
    ("FIGURE_EIGHT", "Dopri8", 1e-13, 1e-13, 1e-11),
]


@pytest.mark.parametrize(("name", "solver", "rtol", "atol", "tolerance"), CASES)
def test_end_is_the_published_one(name, solver, rtol, atol, tolerance):
    changes = {"solver": solver, "time.rtol": rtol, "time.atol": atol, "ensemble.devices": 1}
    result = simkit.run(getattr(problems, name), overrides=changes)
    for quantity, expected in getattr(problems, f"{name}_END").items():
        found = float(result[f"{quantity}_mean"].values.reshape(-1)[-1])
        assert found == pytest.approx(expected, rel=tolerance, abs=0 if expected else tolerance), quantity
