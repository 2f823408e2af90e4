"""Ordinary and stochastic differential equations as equinox modules.

A model's fields are its parameters, so `jax.grad` and `vmap` over parameters need no adapter. State and
noise are `NamedTuple`s of scalars, one field a variable, so that under `vmap` each becomes one contiguous
vector over paths.
"""

import abc
import dataclasses
import inspect
import typing
from collections.abc import Callable
from typing import Any, ClassVar, Literal, NamedTuple

import equinox as eqx
import jax
from jax.core import Tracer
from jaxtyping import PyTree

from simkit_solvers.numerics.scalar import Scalar

Calculus = Literal["ito", "stratonovich", "any"]
NoiseKind = Literal["additive", "scalar", "diagonal", "commutative", "general"]


class Quantity(NamedTuple):
    """Unit and description of a variable: `S: Annotated[Scalar, Quantity("currency", "asset price")]`.

    `at_least` is the least value at which it may begin, where there is one.

    >>> from typing import Annotated, NamedTuple
    >>> from simkit_solvers import Quantity, Scalar
    >>> class State(NamedTuple):
    ...     S: Annotated[Scalar, Quantity("currency", "price of the asset")]
    """

    unit: str
    description: str
    at_least: float | None = None


class Discontinuity(NamedTuple):
    """A place where drift or noise jumps, or where their slope does (`kink`).

    `names` are the variables and parameters, and `t`, that are compared there. `noise` says that the noise
    has it: solvers that read the slope of the noise jump at its kinks.

    >>> from simkit_solvers import Discontinuity
    >>> Discontinuity(frozenset({"v"}), kink=True)
    Discontinuity(names=frozenset({'v'}), kink=True, noise=False)
    """

    names: frozenset[str]
    kink: bool = False
    noise: bool = False


@dataclasses.dataclass(frozen=True)
class Parameter:
    """Unit, description and admissible range of one model parameter.

    `total` are the variables whose sum it is at the start, where it is that.

    >>> from simkit_physics import GBM
    >>> from simkit_solvers import parameters_of
    >>> sigma = parameters_of(GBM)["sigma"]
    >>> sigma.unit, sigma.admits(-1.0)
    ('1/time^0.5', False)
    """

    unit: str
    description: str
    above: float | None = None
    at_least: float | None = None
    below: float | None = None
    at_most: float | None = None
    total: tuple[str, ...] = ()

    @property
    def range(self) -> str:
        """The admissible range in words, such as `> 0`; empty when every number is allowed."""
        bounds = {">": self.above, ">=": self.at_least, "<": self.below, "<=": self.at_most}
        return " and ".join(f"{sign} {bound:g}" for sign, bound in bounds.items() if bound is not None)

    def admits(self, value: float) -> bool:
        """Whether a concrete number lies in the range; NaN never does."""
        return (
            (self.above is None or value > self.above)
            and (self.at_least is None or value >= self.at_least)
            and (self.below is None or value < self.below)
            and (self.at_most is None or value <= self.at_most)
            and value == value
        )


def parameter(
    unit: str,
    description: str,
    *,
    above: float | None = None,
    at_least: float | None = None,
    below: float | None = None,
    at_most: float | None = None,
    total: tuple[str, ...] = (),
) -> Any:
    """A model field with its unit, description and admissible range, read by YAML, CLI, datasets and docs.

    >>> import equinox as eqx
    >>> from simkit_solvers import Scalar, parameter, parameters_of
    >>> class Spring(eqx.Module):
    ...     k: Scalar = parameter("mass/time^2", "stiffness, > 0", above=0.0)
    >>> parameters_of(Spring)["k"].above
    0.0
    """
    ends = above, at_least, below, at_most
    return eqx.field(metadata={"parameter": Parameter(unit, description, *ends, total)})


class NoNoise(NamedTuple):
    """The `Noise` of an ordinary equation."""


class AbstractODE(eqx.Module):
    r"""An ordinary differential equation $dy/dt = f(t, y)$.

    `State` is the `NamedTuple` class of `y`; `drift` takes a scalar `t` and a `State` and returns a `State`.
    `example` and `example_initial` are parameters and initial values to show it with, `example_time` a grid
    that suits them, as under `time` in YAML, and `example_solver` the name of a solver, where the usual one
    would not do.

    >>> from typing import NamedTuple
    >>> from simkit_solvers import AbstractODE, Scalar, parameter
    >>> class Decay(AbstractODE):
    ...     class State(NamedTuple):
    ...         x: Scalar
    ...
    ...     k: Scalar = parameter("1/time", "rate, >= 0", at_least=0.0)
    ...
    ...     def drift(self, t, y):
    ...         return self.State(x=-self.k * y.x)
    >>> Decay(k=2.0).drift(0.0, Decay.State(x=3.0))
    State(x=-6.0)
    """

    example: ClassVar[dict[str, float]] = {}
    example_initial: ClassVar[dict[str, float]] = {}
    example_time: ClassVar[dict[str, float]] = {"t1": 1.0, "steps": 252}
    example_solver: ClassVar[str] = ""
    stochastic: ClassVar[bool] = False  # whether it is an `AbstractSDE`
    Noise: ClassVar[type] = NoNoise

    State: eqx.AbstractVar[type]

    @abc.abstractmethod
    def drift(self, t: Scalar, y: PyTree) -> Any:
        """$f(t, y)$ as a `State`."""

    def discontinuities(self) -> tuple[Discontinuity, ...]:
        """Where drift or noise jumps, or their slope: nowhere, in most models.

        A derivative along a path does not see a jump, nor a second one a kink, so another estimator is used
        instead. A parameter at a value at which paths have no slope in it is named too.
        """
        return ()


class AbstractSDE(AbstractODE):
    r"""A stochastic differential equation $dy = f(t, y)\,dt + \sum_k g_k(t, y)\,dW_k$.

    The diffusion is given as the product `noise(t, y, dW)` $= \sum_k g_k(t, y)\,dW_k$, linear in `dW`, a
    `Noise` (the `NamedTuple` class that names the independent Brownian motions). `calculus` says how the
    integral is meant (`any` where Itô and Stratonovich agree), `noise_kind` what the solver may assume:
    `additive` (independent of y), `scalar` (one component), `diagonal` (component k drives variable k only
    and depends on it alone), `commutative`, or `general`. `smooth` says whether the noise has a derivative in
    the state wherever a path may go: a square root has none at zero, and a model with one is not converted to
    the other calculus.

    >>> from simkit_physics import OrnsteinUhlenbeck
    >>> model = OrnsteinUhlenbeck(theta=1.0, mu=0.0, sigma=0.5)
    >>> y = model.State(X=2.0)
    >>> model.drift(0.0, y), model.noise(0.0, y, model.Noise(W=0.1))
    (OrnsteinUhlenbeckState(X=-2.0), OrnsteinUhlenbeckState(X=0.05))
    """

    stochastic = True
    smooth: ClassVar[bool] = True

    Noise: eqx.AbstractVar[type]
    calculus: eqx.AbstractVar[Calculus]
    noise_kind: eqx.AbstractVar[NoiseKind]

    @abc.abstractmethod
    def noise(self, t: Scalar, y: PyTree, dW: PyTree) -> Any:
        r"""$\sum_k g_k(t, y)\,dW_k$ as a `State`."""

    def correlations(self) -> dict[tuple[int, int], Scalar]:
        """The correlations that the model gives noises i and j, where their matrix has a range of its own.

        None in most models: the range of a single correlation is that of its parameter.
        """
        return {}


class AbstractExactMoments(eqx.Module):
    """Mix-in for models whose mean and variance are known in closed form from a fixed initial value.

    >>> from simkit_physics import GBM
    >>> from simkit_solvers import AbstractExactMoments
    >>> isinstance(GBM(mu=0.05, sigma=0.2), AbstractExactMoments)
    True
    >>> round(float(GBM(mu=0.05, sigma=0.2).exact_mean(1.0, GBM.State(S=100.0)).S), 2)
    105.13
    """

    @abc.abstractmethod
    def exact_mean(self, t: Scalar, y0: PyTree) -> Any:
        """$E[y_t]$ as a `State` of scalars, `None` in a field where no closed form is known."""

    @abc.abstractmethod
    def exact_variance(self, t: Scalar, y0: PyTree) -> Any:
        """$Var[y_t]$ as a `State` of scalars, `None` in a field where no closed form is known."""


def parameters_of(model: type[eqx.Module] | eqx.Module) -> dict[str, Parameter]:
    """The parameters of a model, a method or a potential by name, in the order of its fields.

    >>> from simkit_physics import GBM
    >>> from simkit_solvers import parameters_of
    >>> {name: each.unit for name, each in parameters_of(GBM).items()}
    {'mu': '1/time', 'sigma': '1/time^0.5'}
    """
    return {f.name: f.metadata["parameter"] for f in dataclasses.fields(model) if "parameter" in f.metadata}


def variables_of(model: type[AbstractODE] | AbstractODE) -> dict[str, Quantity]:
    """The state variables of a model by name; unit and description are empty where the class gives none.

    >>> from simkit_physics import GBM
    >>> from simkit_solvers import variables_of
    >>> variables_of(GBM)["S"].unit
    'currency'
    """
    hints = typing.get_type_hints(model.State, include_extras=True)
    quantities = {}
    for name in model.State._fields:
        extras = getattr(hints.get(name), "__metadata__", ())
        quantities[name] = next((extra for extra in extras if isinstance(extra, Quantity)), Quantity("", ""))
    return quantities


def halves(y: PyTree) -> tuple[tuple, tuple]:
    """The first and the second half of a state's variables: positions and momenta, say."""
    return tuple(y[: len(y) // 2]), tuple(y[len(y) // 2 :])


def features_of(problem: AbstractODE) -> dict[str, Any]:
    """What a problem that is made of another one takes over: variables, noises, calculus, kind of noise."""
    names = ("State", *(("Noise", "calculus", "noise_kind") if problem.stochastic else ()))
    return {name: getattr(problem, name) for name in names}


def check_parameters(model: AbstractODE) -> None:
    """Raise `ValueError` when a concrete parameter lies outside its admissible range.

    Traced values pass: their range was checked where they were numbers.

    >>> from simkit_physics import GBM
    >>> from simkit_solvers import check_parameters
    >>> check_parameters(GBM(mu=0.05, sigma=-0.2))
    Traceback (most recent call last):
        ...
    ValueError: GBM.sigma: must be >= 0, got -0.2
    """
    for name, spec in parameters_of(model).items():
        value = getattr(model, name)
        if not isinstance(value, Tracer) and not spec.admits(float(value)):
            wanted = spec.range or "a number"
            raise ValueError(f"{type(model).__name__}.{name}: must be {wanted}, got {float(value):g}")


MOMENTS = ("exact_mean", "exact_variance")  # a field may be None


def check_shapes(model: AbstractODE, y0: PyTree) -> None:
    """Raise `ValueError` when a function of a model does not return a state like `y0`, a `State` of numbers.

    Nothing is computed. A model that fails by itself does so here, and the error says how to write it.
    """
    calls = {"drift": lambda t, y: model.drift(t, y)}
    if isinstance(model, AbstractSDE):
        dW = model.Noise(*[0.0] * len(model.Noise._fields))
        calls["noise"] = lambda t, y: model.noise(t, y, dW)
    if isinstance(model, AbstractExactMoments):
        calls |= {name: getattr(model, name) for name in MOMENTS}
    shapes = jax.tree.map(jax.numpy.shape, y0)
    for name, call in calls.items():
        returned = shapes_returned(model, name, call, y0)
        if name in MOMENTS and isinstance(returned, type(y0)):
            returned = type(y0)(*[() if each is None else each for each in returned])  # not known
        if returned != shapes or type(returned) is not type(y0):
            wanted = f"a {type(y0).__name__} with a number for each of {', '.join(y0._fields)}"
            raise ValueError(f"{type(model).__name__}.{name}: must return {wanted}, got {in_words(returned)}")


def shapes_returned(model: AbstractODE, name: str, call: Callable, y0: PyTree) -> Any:
    """What a function of a model returns, with shapes in place of arrays; raises `ValueError` if it fails."""
    try:
        shaped = jax.eval_shape(call, 0.0, y0)
    except (TypeError, AttributeError, NameError, jax.errors.JAXTypeError) as error:
        raise ValueError(f"{type(model).__name__}.{name}: {_in_own_words(error, model, name)}") from error
    return jax.tree.map(lambda x: x.shape, shaped)


def reason_of(error: Exception) -> str:
    """Why code of the user's own cannot be traced, and how to write it instead where that is known."""
    if isinstance(error, jax.errors.TracerBoolConversionError):
        return "`if`, `and`, `or` and `not` need a concrete value; write jnp.where(condition, a, b)"
    if isinstance(error, (jax.errors.TracerArrayConversionError, jax.errors.ConcretizationTypeError)):
        return "numpy, math and float() need a concrete value; use the jax.numpy function"
    return f"{type(error).__name__}: {error}".splitlines()[0]


def other_arguments(cls: type, name: str) -> str:
    """What a method takes and how it is written, where the number or order of its arguments is wrong."""
    first = next(base for base in reversed(cls.__mro__) if name in vars(base))
    own, wanted = ([*inspect.signature(getattr(each, name)).parameters] for each in (cls, first))
    if own == wanted or (len(own) == len(wanted) and {*own} != {*wanted}):
        return ""
    return f"{name} takes ({', '.join(own[1:])}); write {name}({', '.join(wanted)})"


def _in_own_words(error: Exception, model: AbstractODE, name: str) -> str:
    """What a model's own function failed with, and how to write it instead."""
    reason = reason_of(error)
    if isinstance(error, jax.errors.JAXTypeError):
        return reason
    if other := other_arguments(type(model), name):
        return other
    variables = ", ".join(f"y.{field}" for field in model.State._fields)
    if name != "noise":
        return f"{reason}; it is {name}(self, t, y), with the variables {variables}"
    increments = ", ".join(f"dW.{field}" for field in model.Noise._fields)
    return (
        f"{reason}; it is noise(self, t, y, dW), with the variables {variables} and increments {increments}"
    )


def in_words(shapes) -> str:
    """What a function returned, given the shapes in place of its arrays."""
    if isinstance(shapes, tuple) and all(isinstance(n, int) for n in shapes):
        return f"an array of shape {shapes}" if shapes else "one number"
    if shapes is None:
        return "None"
    fields = getattr(shapes, "_fields", None)
    if fields is None:
        return f"a {type(shapes).__name__}"
    parts = [f"{name} {in_words(shape)}" for name, shape in zip(fields, shapes, strict=True)]
    return f"a {type(shapes).__name__} with {', '.join(parts)}"
