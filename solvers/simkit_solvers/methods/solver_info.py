"""The record of a solver in the registry."""

import dataclasses
import inspect
import re
from typing import Any, Literal, NamedTuple, get_args

import diffrax

from simkit_solvers.methods.jump.jump_method import AbstractJumpMethod
from simkit_solvers.methods.model_solver import AbstractModelSolver
from simkit_solvers.methods.ode.rosenbrock import AbstractRosenbrock
from simkit_solvers.problems.problem import Calculus, NoiseKind

ProblemKind = Literal["ode", "sde", "jump", "model"]
EVERY_NOISE: tuple[NoiseKind, ...] = ("additive", "scalar", "diagonal", "commutative", "general")
COMMUTATIVE_NOISE: tuple[NoiseKind, ...] = ("additive", "scalar", "diagonal", "commutative")
DIAGONAL_NOISE: tuple[NoiseKind, ...] = ("additive", "scalar", "diagonal")
ADDITIVE_NOISE: tuple[NoiseKind, ...] = ("additive",)
BASES = {"ito": diffrax.AbstractItoSolver, "stratonovich": diffrax.AbstractStratonovichSolver}
ROOT_FIND_MAX_STEPS = 50  # on a fixed grid, where no shorter step follows a failure


class Orders(NamedTuple):
    """Order of convergence for additive, commutative (scalar and diagonal included) and general noise.

    `None` for noise that the solver refuses. `diagonal` and `scalar` are for solvers that take these but no
    other commutative noise, or with another order; `scalar` is that of `diagonal` unless given.

    >>> from simkit_solvers import Orders
    >>> Orders(additive=1.0, commutative=0.5).of("diagonal")
    0.5
    """

    additive: float
    commutative: float | None = None
    general: float | None = None
    diagonal: float | None = None
    scalar: float | None = None

    def of(self, kind: NoiseKind) -> float:
        """The order for one kind of noise; `ValueError` where there is none."""
        chain = {"scalar": ("scalar", "diagonal", "commutative"), "diagonal": ("diagonal", "commutative")}
        orders = (getattr(self, name) for name in chain.get(kind, (kind,)))
        order = next((order for order in orders if order is not None), None)
        if order is None:
            raise ValueError(f"no order is known for {kind} noise")
        return order

    @property
    def least(self) -> float:
        """The order for the most general noise that the solver takes."""
        return min(order for order in self if order is not None)


@dataclasses.dataclass(frozen=True)
class SolverInfo:
    """One solver: its class, its orders and what is special about it.

    `cls` is a diffrax solver or an `AbstractJumpMethod`. `order` is its order on ordinary problems, `strong`
    and `weak` are those on stochastic ones, where `calculus` is the integral that it converges to. An
    `AbstractModelSolver` has a weak order, or is `exact`: the states at the ends of its steps have the
    distribution of the process. `reference` is that in the docstring of the class unless given.

    - `langevin` solvers take an `AbstractUnderdampedLangevin` only, `overdamped` ones a force and its noise.
    - `carries`: a step depends on earlier ones by more than the state.
    - `reversible`: a step back undoes a step, of one that splits the state in halves on a Hamiltonian system.
    - `takes_states`: it does not see a problem through drift and noise alone, and so cannot integrate the
      difference from the beginning of a step, which float32 needs where steps are many.
    - `interpolates`: its dense output is of the method's order or one less. Others step to each saved time.
    - `long`: one step takes long to compile, so that it is not unrolled.
    - `unbiased_area`: what a step leaves out of the second order on general noise, the Lévy area minus its
      mean given the normals that the step reads, is zero on average.
    - `reads_slopes`: it reads derivatives of the noise.
    - `one_to_one`: given the state before a step, its end is a smooth invertible function of as many normals.
    - `switches`: how a step changes at once as a parameter moves and the random numbers stay.
    - `steps_as`: another class whose step the loops take in its place.

    Raises `ValueError` for a record without orders, or with some of what a stochastic problem needs, and for
    a calculus that is not that of the class.

    >>> from simkit_solvers import SOLVERS
    >>> info = SOLVERS["EulerMaruyama"]
    >>> info.calculus, info.weak.of("general")
    ('ito', 1.0)
    """

    cls: type[Any]
    summary: str
    reference: str = ""
    calculus: Calculus | None = None
    strong: Orders | None = None
    weak: Orders | None = None
    order: int | None = None
    langevin: bool = False
    overdamped: bool = False
    carries: bool = False
    reversible: bool = False
    takes_states: bool = False
    interpolates: bool = False
    long: bool = False
    unbiased_area: bool = False
    reads_slopes: bool = False
    one_to_one: bool = False
    switches: str = ""
    exact: bool = False
    steps_as: type[Any] | None = None

    def __post_init__(self):
        if not self.reference:
            text = re.search(r"References?: (.+?)\.?\s*(?:\n\n|\Z)", self.cls.__doc__ or "", flags=re.DOTALL)
            object.__setattr__(self, "reference", " ".join(text[1].split()) if text else "")
        if not self.problem:
            raise ValueError(f"SolverInfo of {self.name}: give its order, or calculus, strong and weak")
        if absent := ", ".join(sorted(getattr(self.cls, "__abstractmethods__", ()))):
            raise ValueError(f"SolverInfo of {self.name}: the class lacks {absent}")
        if not (self.order is None or (isinstance(self.order, int) and self.order > 0)):
            raise ValueError(
                f"SolverInfo of {self.name}: order must be a positive whole number, got {self.order!r}"
            )
        needed = {"sde": ("calculus", "strong", "weak"), "model": () if self.exact else ("weak",)}
        for kind in self.problem:
            missing = [name for name in needed.get(kind, ()) if getattr(self, name) is None]
            if missing:
                raise ValueError(
                    f"SolverInfo of {self.name}: problem {kind!r} needs {', '.join(missing)} too"
                )
        if self.calculus not in (None, *get_args(Calculus)):
            known = ", ".join(get_args(Calculus))
            raise ValueError(
                f"SolverInfo of {self.name}: calculus must be one of {known}, got {self.calculus!r}"
            )
        for calculus, base in BASES.items():
            if issubclass(self.cls, base) and self.calculus not in (None, "any", calculus):
                raise ValueError(
                    f"SolverInfo of {self.name}: has calculus {self.calculus!r}, and the class is a "
                    f"diffrax.{base.__name__}; give calculus={calculus!r}, or another base"
                )

    @property
    def name(self) -> str:
        """The name of the class."""
        return self.cls.__name__

    @property
    def problem(self) -> tuple[ProblemKind, ...]:
        """The kinds of problem that it takes; `model` stands for particular stochastic models."""
        if issubclass(self.cls, AbstractJumpMethod):
            return ("jump",)
        if issubclass(self.cls, AbstractModelSolver):
            return ("model",)
        stochastic = any(each is not None for each in (self.calculus, self.strong, self.weak))
        return (*(("ode",) if self.order is not None else ()), *(("sde",) if stochastic else ()))

    @property
    def origin(self) -> str:
        """The package that it comes from: simkit, diffrax or one's own."""
        package = self.cls.__module__.partition(".")[0]
        return "simkit" if package == "simkit_solvers" else package

    @property
    def stiff(self) -> bool:
        """Whether its steps solve systems of equations, for stiff problems."""
        return issubclass(self.cls, diffrax.AbstractImplicitSolver | AbstractRosenbrock)

    @property
    def leaps(self) -> bool:
        """Whether it is a jump method that takes many events at once."""
        return issubclass(self.cls, AbstractJumpMethod) and not self.cls.exact

    @property
    def unrolled(self) -> bool:
        """Whether several steps in a row are worth compiling as one: not where one takes long to compile."""
        return not (self.long or self.stiff or "model" in self.problem)

    @property
    def compensable(self) -> bool:
        """Whether the sums of its steps can be compensated: not of solvers that are for particular models."""
        return not (self.takes_states or "model" in self.problem)

    @property
    def noise_kinds(self) -> tuple[NoiseKind, ...]:
        """The kinds of noise that it takes."""
        if self.strong is None:
            return ()
        if self.strong.commutative is None:
            return ADDITIVE_NOISE if self.strong.diagonal is None else DIAGONAL_NOISE
        return COMMUTATIVE_NOISE if self.strong.general is None else EVERY_NOISE

    def has_right_limit(self, kind: NoiseKind) -> bool:
        """Whether its paths converge with steps chosen by their own increments, on a kind of noise it takes.

        What a step leaves out must be of higher order than its length, or zero on average given what the step
        was chosen by. Reference: Foster & Jelinčič (2024), doi:10.48550/arXiv.2311.14201.
        """
        if self.strong is None:
            return False
        return self.strong.of(kind) >= 1 or (kind == "general" and self.unbiased_area)

    @property
    def adaptive_noise_kinds(self) -> tuple[NoiseKind, ...]:
        """The kinds of noise that it takes with adaptive steps."""
        return tuple(kind for kind in self.noise_kinds if self.has_right_limit(kind) and not self.carries)

    @property
    def strong_order(self) -> float | None:
        """The strong order for the most general noise that it takes."""
        return None if self.strong is None else self.strong.least

    @property
    def weak_order(self) -> float | None:
        """The weak order for the most general noise that it takes."""
        return None if self.weak is None else self.weak.least

    @property
    def options(self) -> dict[str, int | float | None]:
        """What can be set, with the default; `None` where the default depends on the precision."""
        options: dict[str, int | float | None] = {
            name: p.default
            for name, p in inspect.signature(self.cls).parameters.items()
            if isinstance(p.default, int | float)
        }
        if issubclass(self.cls, diffrax.AbstractImplicitSolver):
            options |= {"root_find_max_steps": ROOT_FIND_MAX_STEPS, "rtol": None, "atol": None}
        return options
