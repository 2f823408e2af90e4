"""The table of solvers by name."""

import pytest
from simkit_solvers import SOLVERS, EulerMaruyama, SolverInfo


class Euler2(EulerMaruyama):
    """A solver of one's own."""


def test_a_solver_is_entered_by_the_name_of_its_class(monkeypatch):
    orders = (0.5, 1.0, 1.0)
    info = SolverInfo(Euler2, "Euler's rule again.", calculus="ito", strong=orders, weak=orders)
    with pytest.raises(ValueError, match=r"rename the class Euler2, or use SOLVERS\['Euler2'\]"):
        SOLVERS["Mine"] = info
    assert "Mine" not in SOLVERS
    monkeypatch.setitem(SOLVERS, "Euler2", info)
    assert SOLVERS["Euler2"] is info
