"""Models whose number of equal parts is chosen."""

import abc
import functools
import types
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, ClassVar, NamedTuple

import equinox as eqx
from simkit_solvers import AbstractODE, Parameter, Quantity, Scalar


class ModelParts(NamedTuple):
    """What a model of some size consists of: variables, names of noises and parameters by name."""

    variables: Mapping[str, Quantity]
    noises: tuple[str, ...]
    parameters: Mapping[str, Parameter]


class AbstractSized(eqx.Module):
    """A model whose number of parts may be chosen, in YAML by `size`.

    `sizes` are the smallest and the largest. Each variable is a scalar, and what is written out grows with
    their number: the largest size is one that compiles in about a minute.
    """

    sizes: ClassVar[tuple[int, int]]

    @classmethod
    @abc.abstractmethod
    def parts(cls, size: int) -> ModelParts:
        """What a model of this size consists of."""


def is_sized(model: type) -> bool:
    """Whether a model's number of parts may be chosen.

    >>> from simkit_physics import GBM, Lorenz96, is_sized
    >>> is_sized(Lorenz96), is_sized(GBM)
    (True, False)
    """
    return issubclass(model, AbstractSized)


@functools.cache
def of_size(model: Any, size: int) -> type[AbstractODE]:
    """The class of this size: the same one each time, so that its programs are shared.

    Raises `ValueError` for a size that the model does not come in.
    """
    smallest, largest = model.sizes
    if not smallest <= size <= largest:
        reason = "" if size < smallest else ": larger ones take minutes to compile"
        raise ValueError(f"{model.__name__} comes in sizes from {smallest} to {largest}{reason}, got {size}")
    if tuple(model.parts(size).variables) == model.State._fields:
        return model
    made = _of_size(
        model, size, _made_by=(_of_pair, (model, size))
    )  # no parameter has a name with _ in front
    made.State._made_by = _state_of_pair, (model, size)  # pyright: ignore[reportAttributeAccessIssue]
    return made


def _of_pair(pair: tuple[Any, int]) -> type[AbstractODE]:
    return of_size(*pair)


def _state_of_pair(pair: tuple[Any, int]) -> type:
    return of_size(*pair).State


def with_size(size: int) -> Callable[[type], Any]:
    """Completes a model class: its variables, noises and parameters are those of `parts` at this size."""

    def completed(model: type):
        members = {name: getattr(model, name) for name in ("example", "example_initial")}
        return _of_size(model, size, **members)

    return completed


def _of_size(model: Any, size: int, **others: Any) -> type[AbstractODE]:
    parts = model.parts(size)
    members: dict[str, Any] = {
        "__doc__": model.__doc__,
        "__module__": model.__module__,
        "__annotations__": dict.fromkeys(parts.parameters, Scalar),
        **{name: eqx.field(metadata={"parameter": spec}) for name, spec in parts.parameters.items()},
        "State": _scalars(f"{model.__name__}State", parts.variables),
        "example_time": model.example_time,
        "example_solver": model.example_solver,
        **others,
    }
    if parts.noises:
        members["Noise"] = _scalars(f"{model.__name__}Noise", dict.fromkeys(parts.noises))
    bases = model.__bases__
    return types.new_class(model.__name__, bases, {}, lambda namespace: namespace.update(members))


def indexed(name: str, numbers: Iterable[int]) -> tuple[str, ...]:
    """`x1`, `x2`, …"""
    return tuple(f"{name}{number}" for number in numbers)


def pair_name(name: str, i: int, j: int) -> str:
    """`rho12`; beyond nine an underscore parts the numbers, as in `rho3_10`."""
    return f"{name}{i}{j}" if max(i, j) < 10 else f"{name}{i}_{j}"


def _scalars(title: str, fields: Mapping[str, Quantity | None]) -> Any:
    hints = [(name, Scalar if spec is None else Annotated[Scalar, spec]) for name, spec in fields.items()]
    return NamedTuple(title, hints)
