"""Functions of arrays as compiled programs, which later runs find on disk."""

import dataclasses
import threading
from collections.abc import Callable, Hashable
from typing import Any

import equinox as eqx
import jax
import numpy as np
from simkit_solvers.numerics.traced import Static

from simkit.ensemble.programs import Request, compiled
from simkit.machine.on_each_device import Devices


@dataclasses.dataclass(frozen=True)
class FunctionOfArrays:
    """A function of a module, called with arrays and with what else it takes; returns a list of arrays."""

    function: Callable
    rest: Static

    def __call__(self, *arrays: Any) -> list[jax.Array]:
        return jax.tree.leaves(self.function(*eqx.combine(arrays, self.rest.tree)))


class Programs:
    """The programs of a run, which its threads share.

    A function that is called through it reads nothing but its arguments. What is no array in these is part of
    the program. `devices` share the parts of a function, where there are several.
    """

    def __init__(self, devices: Devices = ()) -> None:
        self.devices = devices
        self.known: dict[Hashable, Callable] = {}
        self.lock = threading.Lock()
        self.seconds = 0.0  # that compiling took

    def __call__(self, like: Any, function: Callable, *arguments: Any, donated: tuple[int, ...] = ()) -> Any:
        """`function(*arguments)`, a tree of the structure of `like`, whose leaves are arrays.

        The arrays of arguments whose numbers are `donated` are used up: results take their places.
        """
        arrays, rest = eqx.partition(arguments, _is_array)
        together = len(self.devices) > 1
        request = Request(
            FunctionOfArrays(function, Static(rest)),
            arrays,
            self.devices,
            together=together,
            donated=donated,
        )
        with self.lock:  # a thread that waits for another needs the same program, as a rule
            program = self.known.get(request.key)
            if program is None:
                (program,), seconds = compiled(request)
                self.known[request.key] = program
                self.seconds += seconds
        return jax.tree.unflatten(jax.tree.structure(like), program(*arrays))


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array | np.ndarray | np.generic)


def on_host(tree: Any) -> Any:
    """The tree with arrays of NumPy, of which no operation is compiled."""
    return jax.tree.map(np.asarray, tree)
