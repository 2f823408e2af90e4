"""The transforms that a pipeline is made of: small records, each with its own checks."""

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar, Literal

import jax

from simkit.errors import InputError
from simkit.machine.on_each_device import first_devices
from simkit.transforms.arguments import Positions, arity, check_positions, check_scalar, name_of
from simkit.transforms.derivative import BUDGET, By, Derivative, Strategy, jacobian
from simkit.transforms.second_order import Inner, hessian
from simkit.transforms.spread import Axes, axes_of, axis_length, spread


@dataclasses.dataclass(frozen=True)
class Vmap:
    """`jax.vmap`: the function mapped over an axis of each argument, None for one that is not mapped.

    >>> import jax.numpy as jnp
    >>> from simkit.transforms import Vmap, pipeline
    >>> scaled = pipeline(lambda x, factor: x * factor, Vmap(in_axes=(0, None)))
    >>> scaled(jnp.arange(3.0), 10.0).tolist()
    [0.0, 10.0, 20.0]
    """

    in_axes: Axes = 0
    out_axes: int = 0

    def check(self, function: Callable) -> None:
        _check_axes(type(self).__name__, self.in_axes, function)

    def apply(self, function: Callable) -> Callable:
        def mapped(*args):
            axes = axes_of(self.in_axes, args)
            axis_length("Vmap", axes, args)
            return jax.vmap(function, axes, self.out_axes)(*args)

        return mapped


@dataclasses.dataclass(frozen=True)
class AbstractSpread:
    """A map whose axis lies on several devices; it may have any length."""

    in_axes: Axes = 0
    out_axes: int = 0
    devices: int | None = None

    how: ClassVar[Literal["shard", "pmap"]]

    def check(self, function: Callable) -> None:
        _check_axes(type(self).__name__, self.in_axes, function)
        if self.devices is not None:
            first_devices(self.devices, f"{type(self).__name__}.devices")

    def apply(self, function: Callable) -> Callable:
        return spread(function, self.in_axes, self.out_axes, self.devices, self.how)


class Shard(AbstractSpread):
    """`Vmap` with each device working on its own part of the axis, as `simkit.run` does with paths.

    Any length of axis, on the first `devices` devices, all by default; no communication.

    >>> import jax.numpy as jnp
    >>> from simkit.transforms import Shard, pipeline
    >>> pipeline(lambda x: 2.0 * x, Shard(devices=1))(jnp.arange(3.0)).tolist()
    [0.0, 2.0, 4.0]
    """

    how = "shard"


class Pmap(AbstractSpread):
    """`Shard` by `jax.pmap`, for programs that are written with it. It cannot be combined with `Jit`.

    >>> import jax.numpy as jnp
    >>> from simkit.transforms import Pmap, pipeline
    >>> pipeline(lambda x: 2.0 * x, Pmap(devices=1))(jnp.arange(3.0)).tolist()
    [0.0, 2.0, 4.0]
    """

    how = "pmap"


@dataclasses.dataclass(frozen=True)
class Grad:
    """The gradient of a scalar function, by `derivative`.

    >>> from simkit.transforms import Grad, pipeline
    >>> value, (in_x, in_y) = pipeline(lambda x, y: x * y, Grad(wrt=(0, 1), with_value=True))(3.0, 2.0)
    >>> float(value), float(in_x), float(in_y)
    (6.0, 2.0, 3.0)
    """

    wrt: Positions = 0
    strategy: Strategy = "auto"
    with_value: bool = False
    budget: int = BUDGET

    def check(self, function: Callable) -> None:
        check_positions("Grad: wrt", self.wrt, function)

    def apply(self, function: Callable) -> Callable:
        slope = Derivative(function, self.wrt, self.strategy, self.budget, self.with_value)

        def gradient(*args):
            check_scalar("Grad", function, args)
            return slope(*args)

        return gradient


@dataclasses.dataclass(frozen=True)
class Jacobian:
    """The Jacobian by columns, rows or whichever costs less, by `jacobian`.

    >>> import jax.numpy as jnp
    >>> from simkit.transforms import Jacobian, pipeline
    >>> pipeline(lambda x: x[:2] ** 2, Jacobian(by="rows"))(jnp.array([1.0, 2.0, 3.0])).tolist()
    [[2.0, 0.0, 0.0], [0.0, 4.0, 0.0]]
    """

    wrt: Positions = 0
    by: By = "auto"
    budget: int = BUDGET

    def check(self, function: Callable) -> None:
        check_positions("Jacobian: wrt", self.wrt, function)

    def apply(self, function: Callable) -> Callable:
        return jacobian(function, self.wrt, self.by, budget=self.budget)


@dataclasses.dataclass(frozen=True)
class Hessian:
    """The Hessian of a scalar function, by `hessian`.

    >>> import jax.numpy as jnp
    >>> from simkit.transforms import Hessian, pipeline
    >>> pipeline(lambda x: x[0] ** 2 * x[1], Hessian())(jnp.array([1.0, 2.0])).tolist()
    [[4.0, 2.0], [2.0, 0.0]]
    """

    wrt: Positions = 0
    inner: Inner = "reverse"

    def check(self, function: Callable) -> None:
        check_positions("Hessian: wrt", self.wrt, function)

    def apply(self, function: Callable) -> Callable:
        return hessian(function, self.wrt, self.inner)


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """`jax.checkpoint`: reverse mode recomputes the function instead of storing its intermediate values.

    >>> import jax.numpy as jnp
    >>> from simkit.transforms import Checkpoint, Grad, pipeline
    >>> float(pipeline(jnp.sin, Checkpoint(), Grad())(0.0))
    1.0
    """

    def check(self, function: Callable) -> None:
        pass

    def apply(self, function: Callable) -> Callable:
        return jax.checkpoint(function)


@dataclasses.dataclass(frozen=True)
class Jit:
    """Compile the function; must be the last transform.

    Another value of an argument in `static` compiles anew; the memory of one in `donate` may be reused for
    results, and the argument is invalid after the call. `device` is a device, or `cpu`, `gpu`, `cpu:1` and
    the like.

    >>> from simkit.transforms import Jit, pipeline
    >>> power = pipeline(lambda x, n: x**n, Jit(static=(1,), device="cpu"))
    >>> float(power(3.0, 2))
    9.0
    """

    static: tuple[int, ...] = ()
    donate: tuple[int, ...] = ()
    device: Any = None

    def check(self, function: Callable) -> None:
        for name, given in (("static", self.static), ("donate", self.donate)):
            check_positions(f"Jit: {name}", given, function)
        both = set(self.static) & set(self.donate)
        if both:
            raise InputError(
                f"Jit: argument {min(both)} is both static and donated; a static one has no memory to give"
            )
        self.place()

    def place(self) -> Any:
        """The device that is meant, None for jax's default."""
        if self.device is None or not isinstance(self.device, str):
            return self.device
        kind, _, number = self.device.partition(":")
        try:
            there = jax.local_devices(backend=kind)
        except RuntimeError:
            raise InputError(
                f"Jit: device {self.device!r}: there is no {kind}; this process has {jax.default_backend()}"
            ) from None
        if number and not (number.isdecimal() and int(number) < len(there)):
            raise InputError(
                f"Jit: device {self.device!r}: this process has {kind}:0 to {kind}:{len(there) - 1}"
            )
        return there[int(number or 0)]


Transform = Vmap | Shard | Pmap | Grad | Jacobian | Hessian | Checkpoint | Jit
MAPS = (Vmap, Shard, Pmap)
DERIVATIVES = (Grad, Jacobian, Hessian)


def mapped_arguments(transform: Vmap | Shard | Pmap, arguments: int) -> tuple[int, ...]:
    """The positions that a map maps over."""
    axes = transform.in_axes if isinstance(transform.in_axes, tuple) else (transform.in_axes,) * arguments
    return tuple(i for i, axis in enumerate(axes) if axis is not None)


def _check_axes(place: str, in_axes: Axes, function: Callable) -> None:
    if not isinstance(in_axes, tuple):
        if in_axes is None:
            raise InputError(f"{place}: nothing to map over; give an argument an axis in in_axes")
        return
    fewest, most = arity(function)
    if not fewest <= len(in_axes) <= most:
        takes = f"{fewest} to {most:g}" if fewest != most else str(fewest)
        raise InputError(
            f"{place}: in_axes {in_axes} are for {len(in_axes)} arguments, and {name_of(function)} takes "
            f"{takes}"
        )
    if all(axis is None for axis in in_axes):
        raise InputError(f"{place}: nothing to map over; give an argument an axis in in_axes")
