"""Whether a solver fits a problem, and which one does."""

from typing import get_args

import diffrax
from jaxtyping import PyTree

from simkit_solvers.methods.jump.jump_method import check_rates
from simkit_solvers.methods.model_solver import AbstractModelSolver
from simkit_solvers.methods.registry import CALCULI, SOLVERS, info_of
from simkit_solvers.methods.solver_info import SolverInfo
from simkit_solvers.methods.switched import Solver, SwitchedSolver
from simkit_solvers.problems.hamiltonian import AbstractHamiltonian
from simkit_solvers.problems.jump_diffusion import AbstractJumpDiffusion
from simkit_solvers.problems.langevin import AbstractUnderdampedLangevin
from simkit_solvers.problems.problem import AbstractODE, AbstractSDE, Calculus, NoiseKind
from simkit_solvers.problems.reaction_network import AbstractReactionNetwork
from simkit_solvers.problems.schedule import Scheduled, model_of
from simkit_solvers.problems.terms import is_separable, takes_halves


def check_solver(
    solver: Solver, problem: AbstractODE, y0: PyTree | None = None, instead: str | None = None
) -> None:
    """Raise `ValueError`, with the reason and the remedy, when a solver does not fit a problem.

    `y0` is a `State` near which a splitting method checks that the problem separates, ones unless given. All
    numbers are concrete: this is for the time before a run is compiled. A choice between solvers fits where
    each of them does. `instead` is what an error advises for a stochastic problem, in place of one for any
    noise.

    >>> from simkit_physics import GBM, Heston
    >>> from simkit_solvers import SRIW1, check_solver
    >>> check_solver(SRIW1(), GBM(mu=0.05, sigma=0.2))  # fits
    >>> try:
    ...     check_solver(SRIW1(), Heston(mu=0.05, kappa=1.0, theta=0.04, xi=0.3, rho=-0.7))
    ... except ValueError as error:
    ...     print(str(error).partition(";")[0])
    solver SRIW1 is for additive, scalar or diagonal noise, Heston has general noise
    """
    if isinstance(solver, SwitchedSolver):
        for each in solver.solvers:
            check_solver(each, problem, y0, instead)
        return
    info = info_of(solver)
    if "jump" in info.problem:
        _check_network(info, problem)
    elif not isinstance(problem, AbstractSDE):
        _check_ordinary(info, problem, y0)
    else:
        _check_words(problem)
        misfit = _misfit(solver, info, problem)
        if misfit is not None:
            reason, *others = misfit
            remedies = [_choice(problem) if instead is None else instead, *others]
            raise ValueError(f"{reason}; use {', or '.join(remedies)}")


def check_adaptive(solver: diffrax.AbstractSolver, problem: AbstractODE) -> None:
    """Raise `ValueError`, with the reason and the remedy, for what cannot run with adaptive steps."""
    if problem.stochastic:
        raise ValueError(
            f"{type(problem).__name__} is stochastic, and these steps are for ordinary equations; "
            "use adaptive_sde.integrate_adaptive_sde"
        )
    if not isinstance(solver, diffrax.AbstractAdaptiveSolver):
        raise ValueError(
            f"solver {type(solver).__name__} has no error estimate to choose steps by; use Tsit5, or "
            "Rodas5P if the problem is stiff"
        )


def check_adaptive_sde(solver: Solver, problem: AbstractSDE) -> None:
    """Raise `ValueError`, with the reason and the remedy, for a solver that adaptive steps do not fit.

    What a step leaves out must be of higher order than its length, or zero on average given the increments it
    was chosen by (Foster & Jelinčič 2024). So the strong order on the problem's noise has to be 1 or more, or
    the solver's record has to say `unbiased_area`. A solver must not carry anything but the state from one
    step to the next, which is of another length. A choice between solvers fits where each of them does.
    Jump diffusions are refused: the jumps inside an interval are not split between its halves.
    """
    if isinstance(problem, AbstractJumpDiffusion):
        raise ValueError(
            f"{type(problem).__name__} jumps, and adaptive steps cannot assign a jump to one half of an "
            "interval; give steps of equal length"
        )
    if isinstance(solver, AbstractModelSolver):
        raise ValueError(
            f"solver {info_of(solver).name} has no error estimate for adaptive steps; give steps of "
            "equal length"
        )
    remedy = _adaptive_choice(problem)
    check_solver(solver, problem, instead=remedy)
    if isinstance(solver, SwitchedSolver):
        for each in solver.solvers:
            check_adaptive_sde(each, problem)
        return
    info, kind = info_of(solver), problem.noise_kind
    if not info.has_right_limit(kind):
        raise ValueError(
            f"adaptive steps are chosen by looking at the increments, which can make {info.name} converge "
            f"to a wrong limit on {kind} noise (Gaines & Lyons 1997); use {remedy}, or give steps of equal "
            "length"
        )
    if info.carries:
        raise ValueError(
            f"solver {info.name} carries more than the state from step to step, and adaptive steps change "
            f"their length; use {remedy}, or give steps of equal length"
        )


def _check_network(info: SolverInfo, problem: AbstractODE) -> None:
    if not isinstance(problem, AbstractReactionNetwork):
        other = "EulerMaruyama" if problem.stochastic else "Tsit5"
        raise ValueError(
            f"solver {info.name} is for reaction networks, and {_name(problem)} is not one; use {other}"
        )
    check_rates(problem, info.cls)


def _check_ordinary(info: SolverInfo, problem: AbstractODE, y0: PyTree | None) -> None:
    if "ode" not in info.problem:
        raise ValueError(
            f"solver {info.name} is for stochastic problems, {_name(problem)} is an ordinary one; use "
            "Tsit5, or Rodas5P if it is stiff"
        )
    if takes_halves(info.cls):
        _check_separable(info.name, problem, y0)


def _check_words(problem: AbstractSDE) -> None:
    """Raise `ValueError` where a model's calculus or kind of noise is unknown."""
    for what, given, known in (
        ("calculus", problem.calculus, get_args(Calculus)),
        ("noise_kind", problem.noise_kind, get_args(NoiseKind)),
    ):
        if given not in known:
            raise ValueError(f"{_name(problem)}.{what}: must be {_among(known)}, got {given!r}")


def _misfit(
    solver: diffrax.AbstractSolver, info: SolverInfo, problem: AbstractSDE
) -> tuple[str] | tuple[str, str] | None:
    """Why a solver does not fit a stochastic problem, and what to do other than taking another solver."""
    name, model = f"solver {info.name}", _name(problem)
    original = problem.original if isinstance(problem, Scheduled) else problem
    particular = isinstance(solver, AbstractModelSolver)
    langevin = info.langevin and isinstance(original, AbstractUnderdampedLangevin)
    if (particular or langevin) and original is not problem:
        reason = f"{name} needs constant parameters over a step, and those of {model} change continuously"
        return reason, "interpolation: previous"
    if particular:
        try:
            solver.check(problem)
        except ValueError as error:
            return (str(error),)
        return None
    if "sde" not in info.problem:
        return (f"{name} is for ordinary problems, {model} is stochastic",)
    if info.langevin and not langevin:
        return (
            f"{name} is for underdamped Langevin models (positions and velocities under a force, friction "
            f"and noise), such as DoubleWellLangevin, and {model} is not one",
        )
    takes_noise = problem.noise_kind in info.noise_kinds
    if "any" not in (info.calculus, problem.calculus) and info.calculus != problem.calculus:
        article = "an" if problem.calculus == "ito" else "a"
        reason = (
            f"{name} converges to the {CALCULI[str(info.calculus)]} solution, {model} is {article} "
            f"{CALCULI[problem.calculus]} model"
        )
        if problem.smooth and takes_noise:
            return reason, f"let it convert the model: {{type: {info.name}, convert: true}}"
        return (reason,)
    if not takes_noise:
        return (f"{name} is for {_among(info.noise_kinds)} noise, {model} has {problem.noise_kind} noise",)
    return None


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


def _adaptive_choice(problem: AbstractSDE) -> str:
    """A solver that fits adaptive steps of a stochastic problem."""
    if problem.calculus == "stratonovich":
        return "SPaRK or Heun"
    return "SPaRK with convert: true" if problem.noise_kind == "general" and problem.smooth else "Milstein"


def _check_separable(solver: str, problem: AbstractODE, y0) -> None:
    if isinstance(problem, AbstractHamiltonian):
        return  # its rates are functions of one half each
    names, model = problem.State._fields, _name(problem)
    if len(names) % 2:
        raise ValueError(
            f"solver {solver} needs as many momenta as positions, and {model} has {len(names)} "
            f"variable{'s' if len(names) > 1 else ''} ({', '.join(names)}); use Tsit5"
        )
    if y0 is None:
        y0 = problem.State(*(1.0 for _ in names))
    if not is_separable(problem, 0.0, y0):
        half = len(names) // 2
        raise ValueError(
            f"solver {solver} needs a separable problem: the first half of the variables "
            f"({', '.join(names[:half])}) must change by the second half ({', '.join(names[half:])}) alone "
            f"and the other way round, which {model} does not; use Tsit5"
        )


def _name(problem: AbstractODE) -> str:
    """The model of a problem, as its author named it."""
    return type(model_of(problem)).__name__


def _among(kinds) -> str:
    return kinds[0] if len(kinds) == 1 else f"{', '.join(kinds[:-1])} or {kinds[-1]}"
