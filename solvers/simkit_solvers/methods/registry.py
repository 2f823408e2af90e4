"""Every solver by name.

One more solver is one file, with its record, and one line in `SOLVERS` below.
"""

import difflib
import math
from collections.abc import Iterable
from typing import Any, get_args

import diffrax
import equinox as eqx
import optimistix as optx
from jaxtyping import PyTree

from simkit_solvers.methods.diffrax_solvers import DIFFRAX_SOLVERS
from simkit_solvers.methods.jump.common_reaction_paths import COMMON_REACTION_PATHS
from simkit_solvers.methods.jump.direct_method import DIRECT_METHOD
from simkit_solvers.methods.jump.jump_method import check_rates
from simkit_solvers.methods.jump.next_reaction import NEXT_REACTION
from simkit_solvers.methods.jump.tau_leaping import TAU_LEAPING
from simkit_solvers.methods.langevin.baoab import BAOAB_INFO
from simkit_solvers.methods.langevin.leimkuhler_matthews import LEIMKUHLER_MATTHEWS
from simkit_solvers.methods.model_solver import AbstractModelSolver
from simkit_solvers.methods.ode.rodas5p import RODAS5P
from simkit_solvers.methods.ode.rosenbrock23 import ROSENBROCK23
from simkit_solvers.methods.ode.symplectic import SYMPLECTIC_SOLVERS
from simkit_solvers.methods.sde.andersen_qe import ANDERSEN_QE
from simkit_solvers.methods.sde.drift_implicit import DRIFT_IMPLICIT
from simkit_solvers.methods.sde.euler_maruyama import EULER_MARUYAMA
from simkit_solvers.methods.sde.exact_sampling import EXACT_SAMPLING
from simkit_solvers.methods.sde.milstein import DERIVATIVE_FREE_MILSTEIN, MILSTEIN
from simkit_solvers.methods.sde.platen import PLATEN_WEAK_2
from simkit_solvers.methods.sde.sri import SRIW1_INFO
from simkit_solvers.methods.sde.tamed_euler import TAMED_EULER
from simkit_solvers.methods.solver_info import ROOT_FIND_MAX_STEPS, SolverInfo
from simkit_solvers.methods.switched import Switched
from simkit_solvers.problems.hamiltonian import AbstractHamiltonian
from simkit_solvers.problems.jump_diffusion import AbstractJumpDiffusion
from simkit_solvers.problems.langevin import AbstractUnderdampedLangevin
from simkit_solvers.problems.problem import AbstractODE, AbstractSDE, Calculus, NoiseKind
from simkit_solvers.problems.reaction_network import AbstractReactionNetwork
from simkit_solvers.problems.schedule import Scheduled, model_in
from simkit_solvers.problems.terms import is_separable, takes_halves

SOLVERS: dict[str, SolverInfo] = {
    info.name: info
    for info in (
        EULER_MARUYAMA,
        MILSTEIN,
        DERIVATIVE_FREE_MILSTEIN,
        SRIW1_INFO,
        PLATEN_WEAK_2,
        TAMED_EULER,
        *DRIFT_IMPLICIT,
        *DIFFRAX_SOLVERS,
        *SYMPLECTIC_SOLVERS,
        BAOAB_INFO,
        LEIMKUHLER_MATTHEWS,
        RODAS5P,
        ROSENBROCK23,
        DIRECT_METHOD,
        NEXT_REACTION,
        COMMON_REACTION_PATHS,
        TAU_LEAPING,
        EXACT_SAMPLING,
        ANDERSEN_QE,
    )
}

REFUSED = {
    "LeapfrogMidpoint": "its state holds an absolute time, which the integer clock does not give; "
    "take Midpoint or ReversibleHeun",
    "HalfSolver": "it only adds an error estimate for adaptive steps; name the solver inside it",
}


def make_solver(name: str, options: dict | None = None) -> Any:
    """The solver of a name with its options set: a diffrax solver, or a jump method.

    Options are the numbers among the solver's fields (`SOLVERS[name].options`); implicit solvers, which find
    roots by Newton's method, also take its `rtol` and `atol`. Raises `ValueError` for an unknown name or
    option and for a value that is not a positive number.
    """
    if name in REFUSED:
        raise ValueError(f"solver {name} does not run on a fixed grid: {REFUSED[name]}")
    if name not in SOLVERS:
        raise ValueError(f"unknown solver {name!r}{_suggestion(name, SOLVERS)}")
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


def check_solver(
    solver: diffrax.AbstractSolver | Switched,
    problem: AbstractODE,
    y0: PyTree | None = None,
    instead: str | None = None,
) -> None:
    """Raise `ValueError`, with the reason and the remedy, when a solver does not fit a problem.

    `y0` is a `State` near which a splitting method checks that the problem separates, ones unless given. All
    numbers are concrete: this is for the time before a run is compiled. A choice between solvers fits where
    each of them does. `instead` is what an error advises for a stochastic problem, in place of one for any
    noise.
    """
    if isinstance(solver, Switched):
        for each in solver.solvers:
            check_solver(each, problem, y0, instead)
        return
    own = problem.original if isinstance(problem, Scheduled) else problem
    info, model = info_of(solver), type(_written(problem)).__name__
    if "jump" in info.problem:
        if not isinstance(problem, AbstractReactionNetwork):
            other = "EulerMaruyama" if isinstance(problem, AbstractSDE) else "Tsit5"
            raise ValueError(
                f"solver {info.name} is for reaction networks, and {model} is not one; take {other}"
            )
        check_rates(problem)
        return
    if not isinstance(problem, AbstractSDE):
        if "ode" not in info.problem:
            raise ValueError(
                f"solver {info.name} is for stochastic problems, {model} is an ordinary one; take Tsit5, or "
                "Rodas5P if it is stiff"
            )
        if takes_halves(info.cls):
            _check_separable(info.name, problem, y0)
        return
    for what, said, known in (
        ("calculus", problem.calculus, get_args(Calculus)),
        ("noise_kind", problem.noise_kind, get_args(NoiseKind)),
    ):
        if said not in known:
            raise ValueError(f"{model}.{what}: must be {_among(known)}, got {said!r}")
    choice = _choice(problem) if instead is None else instead
    steady = isinstance(solver, AbstractModelSolver) or (
        info.langevin and isinstance(own, AbstractUnderdampedLangevin)
    )
    if steady and own is not problem:
        raise ValueError(
            f"solver {info.name} takes parameters that are constant over a step, and those of {model} change "
            f"all the time; take {choice}, or interpolation: previous"
        )
    if isinstance(solver, AbstractModelSolver):
        try:
            solver.check(problem)
        except ValueError as error:
            raise ValueError(f"{error}; take {choice}") from None
        return
    if "sde" not in info.problem:
        raise ValueError(f"solver {info.name} is for ordinary problems, {model} is stochastic; take {choice}")
    if info.langevin and not isinstance(problem, AbstractUnderdampedLangevin):
        raise ValueError(
            f"solver {info.name} is for underdamped Langevin models (positions and velocities under a force, "
            f"friction and noise), such as DoubleWellLangevin, and {model} is not one; take {choice}"
        )
    if "any" not in (info.calculus, problem.calculus) and info.calculus != problem.calculus:
        raise ValueError(
            f"solver {info.name} converges to the {_WORDS[str(info.calculus)]} solution, {model} is "
            f"{_AN[problem.calculus]} model; take {choice}"
            + (
                f", or let it convert the model: {{type: {info.name}, convert: true}}"
                if problem.smooth and problem.noise_kind in info.noise_kinds
                else ""
            )
        )
    if problem.noise_kind not in info.noise_kinds:
        raise ValueError(
            f"solver {info.name} is for {_among(info.noise_kinds)} noise, {model} has {problem.noise_kind} "
            f"noise; take {choice}"
        )


def check_runs(solver: diffrax.AbstractSolver) -> None:
    """Raise `ValueError` for a solver that would run on a fixed grid and be wrong."""
    name = type(solver).__name__
    if name in REFUSED:
        raise ValueError(f"solver {name} does not run on a fixed grid: {REFUSED[name]}")


def info_of(solver: diffrax.AbstractSolver) -> SolverInfo:
    """The record of a solver; `ValueError` when it cannot run on a fixed grid or is not registered."""
    check_runs(solver)
    name = type(solver).__name__
    if name not in SOLVERS or SOLVERS[name].cls is not type(solver):
        raise ValueError(
            f"solver {name} is not registered; add its record to simkit_solvers.methods.registry.SOLVERS"
        )
    return SOLVERS[name]


def solvers_by_problem(solvers: Iterable[SolverInfo]) -> dict[str, list[SolverInfo]]:
    """The solvers grouped by problem; one for two kinds of problem is in two groups."""
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
            groups[f"{_WORDS[str(info.calculus)]} equations"].append(info)
        if "ode" in info.problem:
            kind = "stiff " if info.stiff else "separable " if takes_halves(info.cls) else ""
            groups[f"{kind}ordinary equations"].append(info)
    return groups


def strong_order(solver: diffrax.AbstractSolver, problem: AbstractSDE) -> float:
    """The strong order of a solver that fits on a problem's kind of noise."""
    info = info_of(solver)
    if info.strong is None:
        raise ValueError(f"solver {info.name} is for ordinary problems and has no strong order")
    return info.strong.of(problem.noise_kind)


def weak_order(solver: diffrax.AbstractSolver, problem: AbstractODE) -> float:
    """The order at which means converge: weak on a stochastic problem, the only one on an ordinary one.

    Jumps that do not commute with what is between them allow no more than order 1. `ValueError` for a solver
    without errors, which has no order.
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


def samples_exactly(solver: diffrax.AbstractSolver | Switched, problem: AbstractODE) -> bool:
    """Whether the states at the ends of steps have the law of the process, whatever the steps."""
    if isinstance(solver, Switched):
        return False
    return info_of(solver).exact and not _splits(problem)


def _splits(problem: AbstractODE) -> bool:
    """Whether taking jumps apart from the rest changes the law."""
    return isinstance(problem, AbstractJumpDiffusion) and not problem.jumps_commute


_WORDS = {"ito": "Itô", "stratonovich": "Stratonovich"}
_AN = {"ito": "an Itô", "stratonovich": "a Stratonovich"}


def _choice(problem: AbstractSDE) -> str:
    """Solvers that fit a stochastic problem: of its calculus, those of the highest orders."""
    if problem.calculus == "stratonovich":
        return "SPaRK or EulerHeun"
    if not problem.smooth:
        return "EulerMaruyama"
    kind = problem.noise_kind
    if kind == "additive" and problem.calculus == "any":
        return "ShARK or SRA1 (strong order 1.5)"
    fit = [x for x in SOLVERS.values() if x.calculus == "ito" and not x.langevin and kind in x.noise_kinds]
    best = {}
    for what in ("strong", "weak"):
        orders = {info.name: getattr(info, what).of(kind) for info in fit}
        name = max(orders, key=lambda name: orders[name])
        best.setdefault(name, f"{name} ({what} order {orders[name]:g})")
    return " or ".join(best.values())


def _written(problem: AbstractODE) -> AbstractODE:
    """The model of a problem as its author wrote it."""
    model = model_in(problem)
    return model.original if isinstance(model, Scheduled) else model


def _among(kinds) -> str:
    return kinds[0] if len(kinds) == 1 else f"{', '.join(kinds[:-1])} or {kinds[-1]}"


def _check_separable(solver: str, problem: AbstractODE, y0) -> None:
    if isinstance(problem, AbstractHamiltonian):
        return  # its rates are functions of one half each
    names = problem.State._fields
    if len(names) % 2:
        raise ValueError(
            f"solver {solver} needs as many momenta as positions, and {type(_written(problem)).__name__} has "
            f"{len(names)} variable{'s' if len(names) > 1 else ''} ({', '.join(names)}); take Tsit5"
        )
    if y0 is None:
        y0 = problem.State(*(1.0 for _ in names))
    if not is_separable(problem, 0.0, y0):
        half = len(names) // 2
        raise ValueError(
            f"solver {solver} needs a separable problem: the first half of the variables "
            f"({', '.join(names[:half])}) must change by the second half ({', '.join(names[half:])}) alone "
            f"and the other way round, which {type(_written(problem)).__name__} does not; take Tsit5"
        )


def _check_option(info: SolverInfo, key: str, value) -> None:
    known = info.options
    if key not in known:
        remedy = _suggestion(key, known) if known else "; it has none"
        raise ValueError(f"solver {info.name} has no option {key!r}{remedy}")
    whole = isinstance(known[key], int)
    if isinstance(value, bool) or not isinstance(value, int if whole else int | float) or not value > 0:
        wanted = "a positive whole number" if whole else "a positive number"
        raise ValueError(f"solver {info.name}: {key} must be {wanted}, got {value!r}")


def _suggestion(given: str, known) -> str:
    folded = {name.casefold(): name for name in known}
    close = difflib.get_close_matches(str(given).casefold(), folded, n=1)
    return f"; did you mean {folded[close[0]]!r}?" if close else f"; known: {', '.join(known)}"
