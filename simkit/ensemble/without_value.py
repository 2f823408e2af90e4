"""Which operation of an equation has no value at a state, in words."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree
from simkit_solvers.problems.schedule import as_solved, within

from simkit.ensemble.flat import Constant, Operation, Value, traced
from simkit.ensemble.simulation import Simulation


class Undefined(NamedTuple):
    """What has no value, and how it is written so that it has one."""

    what: str
    remedy: str


UNKNOWN = Undefined(
    "a division by zero, or the log or the root of a negative number", "log(maximum(x, 1e-9))"
)
_DIVISION = Undefined("a division by zero", "1/maximum(x, 1e-9)")
_LOG = Undefined("the log of zero or of a negative number", "log(maximum(x, 1e-9))")
_ROOT = Undefined("the root of a negative number", "sqrt(maximum(x, 0))")
_INVERSE = Undefined("the inverse of a function outside its range", "asin(clip(x, -1, 1))")
_POWER = Undefined("a power of a negative number, or one below 0 of zero", "maximum(x, 1e-9)**a")
OPERATIONS = {
    **dict.fromkeys(("div", "rem"), _DIVISION),
    **dict.fromkeys(("log", "log1p", "lgamma"), _LOG),
    **dict.fromkeys(("sqrt", "rsqrt", "cbrt"), _ROOT),
    **dict.fromkeys(("pow", "integer_pow"), _POWER),
    **dict.fromkeys(("asin", "acos", "acosh", "atanh"), _INVERSE),
}


def undefined_at(simulation: Simulation, t: float, state: dict[str, float]) -> Undefined | None:
    """What has no value in the equations at a time and a state; `None` where they have one, or overflow."""
    problem, dtype = simulation.problem, simulation.precision
    if simulation.grid.steps is not None:
        problem = as_solved(within(problem, t, t + float(simulation.grid.dt)))
    noises = problem.Noise._fields if simulation.stepping.has_increments else ()
    ones = [jnp.ones((), dtype) for _ in noises]

    def terms(model: Any, y: PyTree, time: jax.Array) -> list[jax.Array]:
        return simulation.stepping.terms(model, y, time, ones)

    y = problem.State(*(jnp.asarray(x, dtype) for x in state.values()))
    return undefined_in(terms, problem, y, jnp.asarray(t, dtype))


def undefined_in(function: Callable, *arguments: PyTree) -> Undefined | None:
    """What has no value in a function; `None` where all has one, or overflows."""
    found = first_bad(function, *arguments)
    if found is None:
        return None
    operation, given = found
    if operation.name in ("div", "rem") and np.all(np.asarray(given[1])):
        return None  # it overflows
    return OPERATIONS.get(operation.name)


def first_bad(function: Callable, *arguments: PyTree) -> tuple[Operation, list[Any]] | None:
    """The first operation that gives something not finite from finite numbers, and these.

    The function is run as operations one by one, on concrete arrays. `None` where everything is finite.
    """
    program, _ = traced(function, *arguments)
    known: dict[Value, Any] = dict(zip(program.inputs, jax.tree.leaves(arguments), strict=True))
    for operation in program.operations:
        given = [x.value if isinstance(x, Constant) else known[x] for x in operation.inputs]
        result = operation(*given)
        known |= dict(zip(operation.outputs, result, strict=True))
        if not all(map(_is_finite, result)) and all(map(_is_finite, given)):
            return operation, given
    return None


def _is_finite(x: Any) -> bool:
    return not jnp.issubdtype(jnp.result_type(x), jnp.inexact) or bool(np.isfinite(x).all())
