"""What is known about a solver: the record that the registry keeps of each."""

import dataclasses
import inspect
from typing import Any, Literal, NamedTuple

import diffrax

from simkit_solvers.methods.ode.rosenbrock import AbstractRosenbrock
from simkit_solvers.problems.problem import Calculus, NoiseKind

ProblemKind = Literal["ode", "sde", "jump", "model"]
EVERY_NOISE: tuple[NoiseKind, ...] = ("additive", "scalar", "diagonal", "commutative", "general")
COMMUTATIVE_NOISE: tuple[NoiseKind, ...] = ("additive", "scalar", "diagonal", "commutative")
DIAGONAL_NOISE: tuple[NoiseKind, ...] = ("additive", "scalar", "diagonal")
ADDITIVE_NOISE: tuple[NoiseKind, ...] = ("additive",)
ROOT_FIND_MAX_STEPS = 50  # on a fixed grid, where no shorter step follows a failure


class Orders(NamedTuple):
    """Order of convergence for additive, commutative (scalar and diagonal included) and general noise.

    `None` for noise that the solver refuses. `diagonal` and `scalar` are for solvers that take these but no
    other commutative noise, or with another order; `scalar` is that of `diagonal` unless given.
    """

    additive: float
    commutative: float | None = None
    general: float | None = None
    diagonal: float | None = None
    scalar: float | None = None

    def of(self, kind: NoiseKind) -> float:
        """The order for one kind of noise; `ValueError` where there is none."""
        match kind:
            case "additive":
                order = self.additive
            case "general":
                order = self.general
            case "scalar" if self.scalar is not None:
                order = self.scalar
            case "scalar" | "diagonal" if self.diagonal is not None:
                order = self.diagonal
            case _:
                order = self.commutative
        if order is None:
            raise ValueError(f"no order is known for {kind} noise")
        return order

    @property
    def least(self) -> float:
        """The order for the most general noise that the solver takes."""
        return min(order for order in self if order is not None)


@dataclasses.dataclass(frozen=True)
class SolverInfo:
    """One solver: its problems, orders and reference.

    `strong` and `weak` are its orders on stochastic problems, `order` that on ordinary ones; `calculus` is
    the integral that it converges to. `cls` is a diffrax solver, of problem `jump` an `AbstractJumpMethod`.
    Problem `model` is for particular stochastic models and `cls` an `AbstractModelSolver`: one that is
    `exact`, which means that the ends of steps have the law of the process, or that has a weak order.
    `langevin` solvers take an `AbstractUnderdampedLangevin` only, `overdamped` ones a force and its noise.
    `unbiased_area` says that what a step leaves out of the second order on general noise, the Lévy area minus
    its mean given the normals that the step reads, is zero on average. `carries` says that a step depends on
    earlier ones by more than the state, `reads_slopes` that it reads derivatives of the noise, `one_to_one`
    that given the state before a step, its end is a smooth invertible function of as many normals. `switches`
    says how a step changes at once as a parameter moves and the random numbers stay; `leaps` is of a method
    for jumps that takes many events at once.
    Raises `ValueError` where a kind of problem lacks what it needs: `order` an ordinary one, `calculus`,
    `strong` and `weak` a stochastic one, `exact` or `weak` a model.
    """

    name: str
    cls: type[Any]
    problem: tuple[ProblemKind, ...]
    summary: str
    reference: str
    calculus: Calculus | None = None
    strong: Orders | None = None
    weak: Orders | None = None
    order: int | None = None
    langevin: bool = False
    overdamped: bool = False
    unbiased_area: bool = False
    carries: bool = False
    reads_slopes: bool = False
    one_to_one: bool = False
    switches: str = ""
    leaps: bool = False
    exact: bool = False
    origin: Literal["simkit", "diffrax"] = "diffrax"

    def __post_init__(self):
        needed = {"ode": ("order",), "sde": ("calculus", "strong", "weak"), "jump": ()}
        needed["model"] = () if self.exact else ("weak",)
        for kind in self.problem:
            missing = [name for name in needed[kind] if getattr(self, name) is None]
            if missing:
                raise ValueError(
                    f"SolverInfo of {self.name}: problem {kind!r} needs {', '.join(missing)} too"
                )

    @property
    def stiff(self) -> bool:
        """Whether its steps solve systems of equations, for stiff problems."""
        return issubclass(self.cls, diffrax.AbstractImplicitSolver | AbstractRosenbrock)

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
        found: dict[str, int | float | None] = {
            name: p.default
            for name, p in inspect.signature(self.cls).parameters.items()
            if isinstance(p.default, int | float)
        }
        if issubclass(self.cls, diffrax.AbstractImplicitSolver):
            found |= {"root_find_max_steps": ROOT_FIND_MAX_STEPS, "rtol": None, "atol": None}
        return found
