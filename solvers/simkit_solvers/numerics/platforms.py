"""Where programs for processors and for accelerators differ in shape.

A processor has a small cache near each core and starts a loop's next iteration for nothing: it takes small
parts one after another. An accelerator has thousands of lanes, and a new kernel costs some microseconds: it
takes everything at once.
"""

import contextlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jax
from jaxtyping import PyTree

from simkit_solvers.numerics.tree_where import tree_where

TURNS = 4


def on_accelerator() -> bool:
    """Whether what is traced now will run on an accelerator: jax's default device is one."""
    return default_platform() != "cpu"


def default_platform() -> str:
    """The platform of jax's default device, which differs from thread to thread."""
    device = jax.config.jax_default_device  # pyright: ignore[reportAttributeAccessIssue]
    return device if isinstance(device, str) else getattr(device, "platform", jax.default_backend())


@contextmanager
def traced_for(device: Any) -> Iterator[None]:
    """What is traced inside has the form for a device, which may be another than jax's default."""
    # Only where it must be set: what was traced without it is traced again with it.
    same = on_accelerator() == (device.platform != "cpu")
    with contextlib.nullcontext() if same else jax.default_device(device):
        yield


def over_parts(function: Callable[[PyTree], PyTree], parts: PyTree) -> PyTree:
    """`function` of each part, stacked: one after another on a processor, all at once on an accelerator."""
    return jax.vmap(function)(parts) if on_accelerator() else jax.lax.map(function, parts)


def while_loop(goes_on: Callable, turn: Callable, start: PyTree) -> PyTree:
    """`jax.lax.while_loop`, which on an accelerator takes several turns before it asks whether to go on.

    There the host decides each time. A turn that is not needed is computed and dropped.
    """

    def several(carry):
        for _ in range(TURNS):
            carry = tree_where(goes_on(carry), turn(carry), carry)
        return carry

    return jax.lax.while_loop(goes_on, several if on_accelerator() else turn, start)
