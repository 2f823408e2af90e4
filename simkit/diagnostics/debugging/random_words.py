"""Which random words a result is made of: run as operations that hand on where their values are from."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from simkit.ensemble.flat import Operation, flat, nothing, union

CIPHER = "threefry2x32_rounds"
Word = tuple[int, int, int, int, int]  # key, counter, and which of the two words


def following(function: Callable, *examples: PyTree) -> Callable[..., list[frozenset[Word]]]:
    """A function of the same arguments as `function` that gives, for each scalar output, its random words.

    These are the words of the counter-based generator that it was computed from. What is drawn under a key is
    identified by key and counter; that the key was drawn itself is not followed. Of a choice only the
    chosen value counts. A loop hands on all that it is given. `examples` are arguments of the right shapes.
    """
    program = flat(jax.make_jaxpr(function)(*examples), frozenset([CIPHER]))

    def followed(*arguments) -> list[frozenset[Word]]:
        inputs = [(x, nothing(x)) for x in jax.tree.leaves(arguments)]
        return [words for _, words in program.follow(inputs, lambda x: (x, nothing(x)), _with_words)]

    return followed


def _with_words(operation: Operation, given: list[tuple[Any, frozenset[Word]]]) -> list:
    """The outputs of an operation, each with its words."""
    values, origins = [value for value, _ in given], [words for _, words in given]
    if operation.name == CIPHER:
        words = _drawn(values)
    elif operation.name == "select_n" and np.ndim(values[0]) == 0:
        words = [origins[0] | origins[1 + int(values[0])]]
    else:
        words = union(operation, origins)
    return list(zip(operation(*values), words, strict=True))


def _drawn(given: list[Any]) -> list[frozenset[Word]]:
    """The two words of each key and counter, which may be arrays of them."""
    blocks = np.stack(np.broadcast_arrays(*map(np.asarray, given)), -1).reshape(-1, 4).tolist()
    return [frozenset((a, b, c, d, half) for a, b, c, d in blocks) for half in (0, 1)]


def draws(operation: Operation) -> bool:
    """Whether an operation draws by `jax.random`, itself or inside a loop."""
    return operation.name == "random_bits" or "random_bits" in str(operation.equation.params.get("jaxpr", ""))
