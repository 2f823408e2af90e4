"""Designs evaluated on functions of the parameters."""

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from simkit.ensemble.chunks import Chunk, Chunks
from simkit.ensemble.over_chunks import concatenated
from simkit.ensemble.programs import Request, compiled
from simkit.ensemble.work import workers_on
from simkit.errors import InputError, NumericalError
from simkit.machine.on_each_device import local_devices
from simkit.studies.designs import Design
from simkit.studies.values import Values

MOST_RUNS = 2**20  # in one call of the program
FEWEST_ROWS = 64
VALUE = "value"  # what the one result is called where the function has no names


@dataclasses.dataclass(frozen=True)
class FunctionOfParameters:
    """A user's function of a point `(d,)`, with values by name.

    `names` are its arguments, None where it takes the point itself.
    """

    function: Callable
    names: tuple[str, ...] | None

    def __call__(self, x) -> dict[str, jax.Array]:
        result = self.function(x) if self.names is None else self.function(**_named(self.names, x))
        result = result if isinstance(result, dict) else {VALUE: result}
        for name, value in result.items():
            if not isinstance(name, str) or np.shape(value) != ():
                raise InputError(
                    f"the function must give a number or a dictionary of them, and {name!r} has the shape "
                    f"{np.shape(value)}"
                )
        return {name: jnp.asarray(value, x.dtype) for name, value in result.items()}


def function_of(function: Callable, parameters: tuple[str, ...], named: bool) -> FunctionOfParameters:
    """A user's function. Raises `InputError` where it does not take the parameters."""
    _check_arguments(function, parameters, named)
    return FunctionOfParameters(function, parameters if named else None)


@dataclasses.dataclass(frozen=True)
class FunctionProgram:
    """Values `(rows, members)` by name, of base points `(rows, columns)`.

    With `gradient` the first member's derivatives `(rows, d)` come too.
    """

    function: FunctionOfParameters
    take: tuple[tuple[int, ...], ...]
    gradient: bool

    def __call__(self, base):
        runs = base[:, np.asarray(self.take)]
        values = jax.vmap(jax.vmap(self.function))(runs)
        if not self.gradient:
            return values, None
        return values, jax.vmap(jax.jacfwd(self.function))(runs[:, 0])


def _named(names: tuple[str, ...], x) -> dict[str, Any]:
    return {name: x[i] for i, name in enumerate(names)}


def in_blocks(program: Callable, rows: Any, evaluations: int) -> Any:
    """A program of arrays of rows, compiled once and called with as many rows at a time as fit.

    `evaluations` are those of the function for one row. Raises `InputError` for what is not written for JAX.
    """
    count = len(jax.tree.leaves(rows)[0])
    most = max(FEWEST_ROWS, 1 << (MOST_RUNS // evaluations).bit_length() - 1)
    width = min(most, max(FEWEST_ROWS, 1 << (count - 1).bit_length()))
    with jax.enable_x64(True):
        shapes = jax.tree.map(lambda x: jax.ShapeDtypeStruct((width, *x.shape[1:]), np.float64), rows)
        try:
            (run,), _ = compiled(Request(program, (shapes,)))
        except (jax.errors.ConcretizationTypeError, jax.errors.TracerArrayConversionError) as error:
            raise InputError(
                "the function must be written for JAX, with jax.numpy in place of math and numpy and "
                "jax.numpy.where in place of if"
            ) from error

    def work(run: Callable, chunk: Chunk) -> Any:
        some = np.minimum(chunk.ids[0], count - 1)
        return run(jax.tree.map(lambda x: x[some], rows))

    workers = workers_on(local_devices(1), None)
    return concatenated(work, [run], Chunks(count, 1, width), workers, axis=0)[0]


def evaluate_function(
    function: FunctionOfParameters, parameters: tuple[str, ...], gradient: bool, keep: bool
) -> Callable[[Design, np.ndarray, int], dict[str, Values]]:
    """How a study evaluates a function."""

    def evaluate(design: Design, base: np.ndarray, first: int) -> dict[str, Values]:
        take = tuple(tuple(int(i) for i in row) for row in design.take)
        rows = base.reshape(-1, base.shape[-1])
        values, gradients = in_blocks(FunctionProgram(function, take, gradient), rows, design.members)
        result = {}
        for name, flat in values.items():
            _check(name, flat, rows[:, design.take], parameters)
            own = Values.of(flat.reshape(*base.shape[:2], -1, 1), random=False, keep=keep)
            if gradients is not None:
                _check(f"the derivative of {name}", gradients[name], rows[:, design.take[:1]], parameters)
                own = dataclasses.replace(own, gradient=gradients[name].reshape(*base.shape[:2], -1))
            result[name] = own
        return result

    return evaluate


def _check_arguments(function: Callable, parameters: tuple[str, ...], named: bool) -> None:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return  # a built-in one without a signature
    try:
        signature.bind(**dict.fromkeys(parameters)) if named else signature.bind(None)
    except TypeError as error:
        given = f"is called by name with {', '.join(parameters)}" if named else "is called with one array"
        raise InputError(f"the function {given}, and takes {signature}: {error}") from None


def _check(name: str, values: np.ndarray, points: np.ndarray, parameters: tuple[str, ...]) -> None:
    """Raise `NumericalError` with the parameters where a value is NaN or infinite."""
    bad = ~np.isfinite(values)
    if not bad.any():
        return
    row, member = np.argwhere(bad)[0][:2]
    point = points[row, member if points.shape[1] > member else 0]
    at = ", ".join(f"{key} = {x:g}" for key, x in zip(parameters, point, strict=True))
    raise NumericalError(
        f"{name} is {values[bad].flat[0]:g} at {at}; choose distributions that stay where it is finite"
    )
