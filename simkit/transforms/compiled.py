"""A program compiled ahead of time, and what it costs."""

import dataclasses
from typing import Any

import jax
from jaxtyping import PyTree

from simkit.errors import InputError


@dataclasses.dataclass(frozen=True)
class Cost:
    """The compiler's estimate of a program's operations and bytes, and the seconds to compile it.

    `temporary_bytes` is the memory besides arguments and results, used mostly by loops that save rows and by
    reverse passes. None if the compiler gives no number. Loops of unknown length count once in `flops` and
    `bytes_accessed`, and on the CPU loops of any length do.

    >>> import jax.numpy as jnp
    >>> from simkit.transforms import Jit, pipeline
    >>> program = pipeline(lambda x: x @ x, Jit()).compile(jnp.ones((8, 8)))
    >>> program.cost.argument_bytes
    256
    """

    temporary_bytes: int | None
    argument_bytes: int | None
    output_bytes: int | None
    flops: float | None
    bytes_accessed: float | None
    compile_s: float


@dataclasses.dataclass(frozen=True)
class Program:
    """A compiled program, to be called with arguments of the shapes that it was compiled for.

    `static` are the positions whose values were compiled in, with those values.

    >>> import jax.numpy as jnp
    >>> from simkit.transforms import Jit, pipeline
    >>> program = pipeline(lambda x: 2.0 * x, Jit()).compile(jnp.ones(3))
    >>> program(jnp.ones(3)).shape
    (3,)
    """

    executable: jax.stages.Compiled
    static: dict[int, Any]
    device: Any
    cost: Cost

    def __call__(self, *args: PyTree) -> PyTree:
        for i, value in self.static.items():
            if i >= len(args) or args[i] != value:
                given = repr(args[i]) if i < len(args) else "nothing"
                raise InputError(
                    f"program: argument {i} was compiled in as {value!r}, got {given}; compile another one"
                )
        dynamic = [x for i, x in enumerate(args) if i not in self.static]
        return self.executable(*placed(dynamic, self.device))


def placed(args: PyTree, device: Any) -> PyTree:
    """Arguments on a device, which then is where the program runs; shapes say that they lie there."""
    if device is None:
        return args
    where = jax.sharding.SingleDeviceSharding(device)

    def put(x):
        if isinstance(x, jax.ShapeDtypeStruct):
            return jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=where)
        return jax.device_put(x, device)

    return jax.tree.map(put, args)


def cost_of(executable: jax.stages.Compiled, compile_s: float) -> Cost:
    memory, counted = executable.memory_analysis(), executable.cost_analysis() or {}

    def of(name):
        return None if memory is None else int(getattr(memory, name))

    return Cost(
        of("temp_size_in_bytes"),
        of("argument_size_in_bytes"),
        of("output_size_in_bytes"),
        counted.get("flops"),
        counted.get("bytes accessed"),
        compile_s,
    )
