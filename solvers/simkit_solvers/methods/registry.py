"""Every solver by name.

One more solver is one file, with its record, and one line among the imports, which enters it into `SOLVERS`.
"""

import difflib
import math
import re
from collections.abc import Iterable
from typing import Any

import diffrax
import equinox as eqx
import optimistix as optx

# isort: off
# The records of `SOLVERS`, in its order.
from simkit_solvers.methods.sde.euler_maruyama import EULER_MARUYAMA
from simkit_solvers.methods.sde.milstein import MILSTEIN, DERIVATIVE_FREE_MILSTEIN
from simkit_solvers.methods.sde.sri import SRIW1_INFO
from simkit_solvers.methods.sde.platen import PLATEN_WEAK_2
from simkit_solvers.methods.sde.tamed_euler import TAMED_EULER
from simkit_solvers.methods.sde.drift_implicit import DRIFT_IMPLICIT
from simkit_solvers.methods.diffrax_solvers import DIFFRAX_SOLVERS
from simkit_solvers.methods.ode.symplectic import SYMPLECTIC_SOLVERS
from simkit_solvers.methods.langevin.baoab import BAOAB_INFO
from simkit_solvers.methods.langevin.leimkuhler_matthews import LEIMKUHLER_MATTHEWS
from simkit_solvers.methods.ode.rodas5p import RODAS5P
from simkit_solvers.methods.ode.rosenbrock23 import ROSENBROCK23
from simkit_solvers.methods.jump.direct_method import DIRECT_METHOD
from simkit_solvers.methods.jump.next_reaction import NEXT_REACTION
from simkit_solvers.methods.jump.common_reaction_paths import COMMON_REACTION_PATHS
from simkit_solvers.methods.jump.tau_leaping import TAU_LEAPING
from simkit_solvers.methods.sde.exact_sampling import EXACT_SAMPLING
from simkit_solvers.methods.sde.andersen_qe import ANDERSEN_QE

# isort: on
from simkit_solvers.methods.solver_info import ROOT_FIND_MAX_STEPS, SolverInfo
from simkit_solvers.methods.switched import Solver, SwitchedSolver
from simkit_solvers.problems.calculus import in_calculus
from simkit_solvers.problems.jump_diffusion import AbstractJumpDiffusion
from simkit_solvers.problems.problem import AbstractODE, AbstractSDE
from simkit_solvers.problems.terms import takes_halves


class _Solvers(dict[str, SolverInfo]):
    """Records by the names of their classes, by which the record of a solver is looked up."""

    def __setitem__(self, name: str, info: SolverInfo) -> None:
        if not isinstance(info, SolverInfo):
            raise ValueError(
                f"SOLVERS[{name!r}]: must be the record of a class, as in SolverInfo({name}, 'x', order=1)"
            )
        if name != info.name:
            raise ValueError(
                f"SOLVERS[{name!r}]: a solver is known by the name of its class; "
                f"rename the class {info.name}, or use SOLVERS[{info.name!r}]"
            )
        known = self.get(name)
        if known is not None and known.origin in ("simkit", "diffrax") and info.cls is not known.cls:
            raise ValueError(f"SOLVERS[{name!r}]: is the name of a solver of simkit too; rename your class")
        super().__setitem__(name, info)


# Of all that is imported above.
SOLVERS: dict[str, SolverInfo] = _Solvers(
    (info.name, info)
    for value in list(globals().values())
    for info in (value if isinstance(value, tuple) else (value,))
    if isinstance(info, SolverInfo)
)

ELSEWHERE = {"rk4": "Tsit5", "rk45": "Dopri5", "ode45": "Dopri5", "lsoda": "Rodas5P", "bdf": "Rodas5P"}
ELSEWHERE |= dict.fromkeys(("odeint", "ode15s", "cvode", "vode"), "Rodas5P") | {"solveivp": "Dopri5"}
ELSEWHERE |= {"radau": "Rodas5P", "verlet": "Leapfrog", "velocityverlet": "Leapfrog"}
ELSEWHERE |= dict.fromkeys(("gillespie", "ssa", "gillespiessa", "direct"), "DirectMethod") | {
    "langevin": "BAOAB"
}

CALCULI = {"ito": "Itô", "stratonovich": "Stratonovich"}

REFUSED = {
    "LeapfrogMidpoint": "its state holds an absolute time, which the integer clock does not give; "
    "use Midpoint or ReversibleHeun",
    "HalfSolver": "it only adds an error estimate for adaptive steps; name the solver inside it",
}


def make_solver(name: str, options: dict | None = None) -> Any:
    """The solver of a name with its options set: a diffrax solver, or a jump method.

    Options are the numbers among the solver's fields (`SOLVERS[name].options`); implicit solvers, which find
    roots by Newton's method, also take its `rtol` and `atol`. Raises `ValueError` for an unknown name or
    option and for a value that is not a positive number.

    >>> from simkit_solvers import make_solver
    >>> make_solver("TauLeaping", {"epsilon": 0.01}).epsilon
    0.01
    """
    if name in REFUSED:
        raise ValueError(f"solver {name} does not run on a fixed grid: {REFUSED[name]}")
    if name not in SOLVERS:
        other = solver_elsewhere(name)
        raise ValueError(
            f"unknown solver {name!r}{f'; use {other}' if other else _suggestion(name, SOLVERS)}"
        )
    info, options = SOLVERS[name], dict(options or {})
    for key, value in options.items():
        _check_option(info, key, value)
    tolerances = {key: options.pop(key) for key in ("rtol", "atol") if key in options}
    if issubclass(info.cls, diffrax.AbstractImplicitSolver):
        # diffrax's defaults, one Jacobian a step and few rounds, count on shorter steps where they fail.
        options = {"root_find_max_steps": ROOT_FIND_MAX_STEPS} | options
        options["root_finder"] = diffrax.with_stepsize_controller_tols(optx.Newton)()
    solver = info.cls(**options)
    for key, value in tolerances.items():
        solver = eqx.tree_at(lambda s, k=key: getattr(s.root_finder, k), solver, float(value))
    return solver


def check_runs(solver: diffrax.AbstractSolver) -> None:
    """Raise `ValueError` for a solver that would run on a fixed grid and be wrong."""
    name = type(solver).__name__
    if name in REFUSED:
        raise ValueError(f"solver {name} does not run on a fixed grid: {REFUSED[name]}")


def info_or_default(solver: diffrax.AbstractSolver) -> SolverInfo:
    """The record of a solver, or what its class alone says of one that is not registered."""
    info, cls = SOLVERS.get(type(solver).__name__), type(solver)
    return info if info is not None and info.cls is cls else SolverInfo(cls, "", order=1, exact=True)


def info_of(solver: diffrax.AbstractSolver) -> SolverInfo:
    """The record of a solver; `ValueError` when it cannot run on a fixed grid or is not registered."""
    check_runs(solver)
    info = info_or_default(solver)
    if SOLVERS.get(info.name) is not info:
        raise ValueError(f"solver {info.name} is not registered; add its record to simkit_solvers.SOLVERS")
    return info


def in_calculus_of(solver: diffrax.AbstractSolver, problem: AbstractODE) -> AbstractODE:
    """The problem in the calculus of a solver. Raises what `in_calculus` raises."""
    if not isinstance(problem, AbstractSDE):
        return problem
    return in_calculus(problem, info_of(solver).calculus or "any")


def solvers_by_problem(solvers: Iterable[SolverInfo]) -> dict[str, list[SolverInfo]]:
    """The solvers grouped by problem; one for two kinds of problem is in two groups.

    >>> from simkit_solvers import SOLVERS, solvers_by_problem
    >>> [info.name for info in solvers_by_problem(SOLVERS.values())["Langevin equations"]][:3]
    ['ALIGN', 'ShOULD', 'QUICSORT']
    """
    groups: dict[str, list[SolverInfo]] = {
        name: []
        for name in (
            "Itô equations",
            "Stratonovich equations",
            "Langevin equations",
            "ordinary equations",
            "stiff ordinary equations",
            "separable ordinary equations",
            "reaction networks",
            "particular models",
        )
    }
    for info in solvers:
        if info.langevin or info.overdamped:
            groups["Langevin equations"].append(info)
        elif "jump" in info.problem:
            groups["reaction networks"].append(info)
        elif "model" in info.problem:
            groups["particular models"].append(info)
        elif "sde" in info.problem:
            groups[f"{CALCULI[str(info.calculus)]} equations"].append(info)
        if "ode" in info.problem:
            kind = "stiff " if info.stiff else "separable " if takes_halves(info.cls) else ""
            groups[f"{kind}ordinary equations"].append(info)
    return groups


def strong_order(solver: diffrax.AbstractSolver, problem: AbstractSDE) -> float:
    """The strong order of a solver that fits on a problem's kind of noise.

    >>> from simkit_physics import GBM
    >>> from simkit_solvers import EulerMaruyama, strong_order
    >>> strong_order(EulerMaruyama(), GBM(mu=0.05, sigma=0.2))
    0.5
    """
    info = info_of(solver)
    if info.strong is None:
        raise ValueError(f"solver {info.name} is for ordinary problems and has no strong order")
    return info.strong.of(problem.noise_kind)


def weak_order(solver: diffrax.AbstractSolver, problem: AbstractODE) -> float:
    """The order at which means converge: weak on a stochastic problem, the only one on an ordinary one.

    Jumps that do not commute with what is between them allow no more than order 1. `ValueError` for a solver
    without errors, which has no order.

    >>> from simkit_physics import GBM
    >>> from simkit_solvers import EulerMaruyama, weak_order
    >>> weak_order(EulerMaruyama(), GBM(mu=0.05, sigma=0.2))
    1.0
    """
    info = info_of(solver)
    stochastic = isinstance(problem, AbstractSDE)
    if samples_exactly(solver, problem):
        raise ValueError(f"solver {info.name} samples {type(problem).__name__} exactly and has no order")
    if stochastic and (info.weak is not None or info.exact):
        order = math.inf if info.weak is None else info.weak.of(problem.noise_kind)
        return min(order, 1.0) if _splits(problem) else order
    if not stochastic and info.order is not None:
        return float(info.order)
    raise ValueError(f"solver {info.name} is for another kind of problem than {type(problem).__name__}")


def samples_exactly(solver: Solver, problem: AbstractODE) -> bool:
    """Whether the states at the ends of steps have the distribution of the process, whatever the steps."""
    if isinstance(solver, SwitchedSolver):
        return False
    return info_of(solver).exact and not _splits(problem)


def _splits(problem: AbstractODE) -> bool:
    """Whether splitting jumps from the rest of a step changes its distribution."""
    return isinstance(problem, AbstractJumpDiffusion) and not problem.jumps_commute


def _check_option(info: SolverInfo, key: str, value) -> None:
    known = info.options
    if key not in known:
        remedy = _suggestion(key, known) if known else "; it has none"
        raise ValueError(f"solver {info.name} has no option {key!r}{remedy}")
    whole = isinstance(known[key], int)
    if isinstance(value, bool) or not isinstance(value, int if whole else int | float) or not value > 0:
        wanted = "a positive whole number" if whole else "a positive number"
        raise ValueError(f"solver {info.name}: {key} must be {wanted}, got {value!r}")


def solver_elsewhere(name: str) -> str | None:
    """The solver here for which other programs have this name."""
    return ELSEWHERE.get(re.sub(r"[\s_-]", "", name.casefold()))


def _suggestion(given: str, known) -> str:
    folded = {name.casefold(): name for name in known}
    close = difflib.get_close_matches(str(given).casefold(), folded, n=1)
    return f"; did you mean {folded[close[0]]!r}?" if close else f"; known: {', '.join(known)}"
