"""Which random words a result is made of: run as operations that hand on where their values are from."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from simkit.diagnostics.inspection.flat import Constant, Flat, Operation, Value, flat

CIPHER = "threefry2x32"
Word = tuple[int, int, int, int, int]  # key, counter, and which of the two words


def following(function, *examples) -> Callable[..., list[frozenset[Word]]]:
    """A function of the same arguments as `function` that gives, for each scalar output, its random words.

    These are the words of the counter-based generator that it was computed from. What is drawn under a key is
    identified by key and counter; that the key was drawn itself is not followed. Of a choice only the
    chosen value counts. A loop hands on all that it is given. `examples` are arguments of the right shapes.
    """
    program = flat(jax.make_jaxpr(function)(*examples), frozenset([CIPHER]))
    return lambda *arguments: _followed(program, jax.tree.leaves(arguments))


def _followed(program: Flat, arguments: list[Any]) -> list[frozenset[Word]]:
    values: dict[Value, Any] = dict(zip(program.inputs, arguments, strict=True))
    origins: dict[Value, frozenset[Word]] = dict.fromkeys(program.inputs, frozenset())

    def value(x: Value | Constant) -> Any:
        return x.value if isinstance(x, Constant) else values[x]

    def origin(x: Value | Constant) -> frozenset[Word]:
        return frozenset() if isinstance(x, Constant) else origins[x]

    for operation in program.operations:
        given = [value(x) for x in operation.inputs]
        values |= dict(zip(operation.outputs, operation(*given), strict=True))
        if operation.name == CIPHER:
            result = _drawn(given)
        elif operation.name == "select_n" and np.ndim(given[0]) == 0:
            chosen = operation.inputs[1 + int(given[0])]
            result = [origin(operation.inputs[0]) | origin(chosen)]
        else:
            result = [frozenset().union(*(origin(x) for x in operation.inputs))] * len(operation.outputs)
        origins |= dict(zip(operation.outputs, result, strict=True))
    return [origin(x) for x in program.outputs]


def _drawn(given: list[Any]) -> list[frozenset[Word]]:
    """The two words of each key and counter, which may be arrays of them."""
    blocks = np.stack(np.broadcast_arrays(*map(np.asarray, given)), -1).reshape(-1, 4).tolist()
    return [frozenset((a, b, c, d, half) for a, b, c, d in blocks) for half in (0, 1)]


def draws(operation: Operation) -> bool:
    """Whether an operation draws by `jax.random`, itself or inside a loop."""
    return operation.name == "random_bits" or "random_bits" in str(operation.equation.params.get("jaxpr", ""))
