"""The registry: what it records of every solver, and solvers made by their names."""

import inspect
import re

import diffrax
import pytest
from simkit_solvers import (
    SOLVERS,
    AbstractJumpMethod,
    AndersenQE,
    SolverInfo,
    make_solver,
    solvers_by_problem,
)
from simkit_solvers.methods.model_solver import AbstractModelSolver


@pytest.mark.parametrize("name", SOLVERS)
def test_record(name):
    info = SOLVERS[name]
    assert info.cls.__name__ == name
    assert set(info.problem) in ({"ode"}, {"sde"}, {"ode", "sde"}, {"jump"}, {"model"})
    assert ("model" in info.problem) == issubclass(info.cls, AbstractModelSolver)
    assert ("model" in info.problem and info.weak is None) == info.exact
    assert ("jump" in info.problem) == issubclass(info.cls, AbstractJumpMethod)
    assert info.summary.endswith(".")
    assert info.summary.count(". ") == 0
    assert "doi:10." in info.reference
    assert info.origin == ("diffrax" if info.cls.__module__.startswith("diffrax") else "simkit")
    assert ("sde" in info.problem) == (info.strong is not None)
    assert ("sde" in info.problem or "model" in info.problem) == (info.weak is not None or info.exact)
    assert ("sde" in info.problem) == (info.calculus in ("ito", "stratonovich", "any"))
    assert ("ode" in info.problem) == (info.order is not None)
    if info.origin == "diffrax" and info.calculus:
        expected = diffrax.AbstractItoSolver if info.calculus == "ito" else diffrax.AbstractStratonovichSolver
        assert issubclass(info.cls, expected)


ALL = ("additive", "scalar", "diagonal", "commutative", "general")


CLAIMS = {  # how many of these kinds of noise a solver takes, and for each the strong and the weak order
    "EulerMaruyama": (5, (1, 0.5, 0.5, 0.5, 0.5), (1, 1, 1, 1, 1)),
    "Milstein": (5, (1, 1, 1, 1, 0.5), (1, 1, 1, 1, 1)),
    "DerivativeFreeMilstein": (4, (1, 1, 1, 1), (1, 1, 1, 1)),
    "SRIW1": (3, (1.5, 1.5, 1.5), (2, 2, 1.5)),
    "PlatenWeak2": (5, (1, 1, 1, 1, 0.5), (2, 2, 2, 2, 2)),
    "TamedEuler": (5, (1, 0.5, 0.5, 0.5, 0.5), (1, 1, 1, 1, 1)),
    "DriftImplicitEuler": (5, (1, 0.5, 0.5, 0.5, 0.5), (1, 1, 1, 1, 1)),
    "ImplicitMilstein": (4, (1, 1, 1, 1), (1, 1, 1, 1)),
    "Euler": (5, (1, 0.5, 0.5, 0.5, 0.5), (1, 1, 1, 1, 1)),
    "Heun": (5, (1, 1, 1, 1, 0.5), (2, 1, 1, 1, 1)),
    "Midpoint": (5, (1, 1, 1, 1, 0.5), (1, 1, 1, 1, 1)),
    "Ralston": (5, (1, 1, 1, 1, 0.5), (1, 1, 1, 1, 1)),
    "ReversibleHeun": (5, (1, 1, 1, 1, 0.5), (2, 1, 1, 1, 1)),
    "EulerHeun": (5, (1, 1, 1, 1, 0.5), (1, 1, 1, 1, 1)),
    "ItoMilstein": (4, (1, 1, 1, 1), (1, 1, 1, 1)),
    "StratonovichMilstein": (4, (1, 1, 1, 1), (1, 1, 1, 1)),
    "SEA": (1, (1,), (1,)),
    "SRA1": (1, (1.5,), (2,)),
    "ShARK": (1, (1.5,), (2,)),
    "GeneralShARK": (5, (1.5, 1, 1, 1, 0.5), (2, 1, 1, 1, 1)),
    "SlowRK": (5, (1.5, 1.5, 1.5, 1.5, 0.5), (2, 2, 2, 2, 1)),
    "SPaRK": (5, (1.5, 1, 1, 1, 0.5), (2, 1, 1, 1, 1)),
    "ALIGN": (1, (2,), (2,)),
    "ShOULD": (1, (3,), (3,)),
    "QUICSORT": (1, (3,), (3,)),
    "BAOAB": (1, (1,), (2,)),
    "LeimkuhlerMatthews": (1, (0.5,), (1,)),
}


def test_each_solver_claims_what_its_paper_does():
    """The orders are measured elsewhere, as recorded; here it is distinguished from a wrong one."""
    stochastic = {name for name, info in SOLVERS.items() if "sde" in info.problem}
    assert set(CLAIMS) == stochastic, (
        "state in CLAIMS the orders that the paper of each stochastic solver claims"
    )
    for name, (count, strong, weak) in CLAIMS.items():
        info = SOLVERS[name]
        assert info.noise_kinds == ALL[:count], name
        assert info.strong is not None
        assert info.weak is not None
        assert tuple(info.strong.of(kind) for kind in ALL[:count]) == strong, name
        assert tuple(info.weak.of(kind) for kind in ALL[:count]) == weak, name


def test_every_diffrax_solver_has_a_record_or_a_reason():
    classes = {
        name
        for name, cls in vars(diffrax).items()
        if inspect.isclass(cls)
        and issubclass(cls, diffrax.AbstractSolver)
        and not name.startswith("Abstract")
    }
    for name in classes - set(SOLVERS):
        with pytest.raises(ValueError, match=f"solver {name} does not run on a fixed grid: it"):
            make_solver(name)


BAD_INPUT = [
    ("tsit", {}, "unknown solver 'tsit'; did you mean 'Tsit5'?"),
    (
        "LeapfrogMidpoint",
        {},
        "solver LeapfrogMidpoint does not run on a fixed grid: its state holds an absolute time",
    ),
    ("Tsit5", {"rtol": 1e-3}, "solver Tsit5 has no option 'rtol'; it has none"),
    ("SPaRK", {"scan_kind": "lax"}, "solver SPaRK has no option 'scan_kind'; it has none"),
    ("Kvaerno5", {"rtl": 1e-3}, "solver Kvaerno5 has no option 'rtl'; did you mean 'rtol'?"),
    ("Kvaerno5", {"root_finder": 1}, "solver Kvaerno5 has no option 'root_finder'"),
    (
        "Kvaerno5",
        {"root_find_max_steps": 2.5},
        "root_find_max_steps must be a positive whole number, got 2.5",
    ),
    ("Kvaerno5", {"rtol": -1.0}, "rtol must be a positive number, got -1.0"),
    ("Kvaerno5", {"rtol": True}, "rtol must be a positive number, got True"),
    ("Kvaerno5", {"atol": float("nan")}, "atol must be a positive number, got nan"),
]


@pytest.mark.parametrize(("name", "options", "message"), BAD_INPUT)
def test_bad_input(name, options, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        make_solver(name, options)


def test_a_record_has_what_its_problem_needs():
    with pytest.raises(
        ValueError, match=r"^SolverInfo of Euler: give its order, or calculus, strong and weak$"
    ):
        SolverInfo(diffrax.Euler, "A solver.")
    with pytest.raises(ValueError, match="'sde' needs strong, weak too"):
        SolverInfo(diffrax.Euler, "A solver.", order=1, calculus="ito")
    with pytest.raises(ValueError, match="'model' needs weak too"):
        SolverInfo(AndersenQE, "A solver.")


def test_options_arrive():
    solver = make_solver("KenCarp4", {"root_find_max_steps": 7, "rtol": 1e-3, "atol": 1e-5})
    assert (solver.root_find_max_steps, solver.root_finder.rtol, solver.root_finder.atol) == (7, 1e-3, 1e-5)
    assert make_solver("ALIGN", {"taylor_threshold": 0.01}).taylor_threshold == 0.01
    for info in SOLVERS.values():
        assert make_solver(info.name, {k: v for k, v in info.options.items() if v}) == make_solver(info.name)


def test_every_solver_is_in_a_group_of_problems():
    groups = solvers_by_problem(SOLVERS.values())
    listed = [info.name for group in groups.values() for info in group]
    assert set(listed) == set(SOLVERS)
    for name, info in SOLVERS.items():
        assert listed.count(name) == len(info.problem)
    assert {info.name for info in groups["separable ordinary equations"]} >= {"Leapfrog", "SemiImplicitEuler"}
    assert {info.name for info in groups["stiff ordinary equations"]} >= {"Kvaerno5", "Rodas5P"}
