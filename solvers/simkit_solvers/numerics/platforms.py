"""Where programs for processors and for accelerators differ in shape.

A processor has a small cache near each core and starts a loop's next iteration for nothing: it takes small
parts one after another. An accelerator has thousands of lanes, and a new kernel costs some microseconds: it
takes everything at once.
"""

from collections.abc import Callable
from typing import TypeVar

import jax
from jaxtyping import PyTree

from simkit_solvers.numerics.tree_where import tree_where

TURNS = 4

Choice = TypeVar("Choice")


def on_accelerator() -> bool:
    """Whether what is traced now will run on an accelerator: jax's default device is one."""
    device = jax.config.jax_default_device  # pyright: ignore[reportAttributeAccessIssue]
    platform = device if isinstance(device, str) else getattr(device, "platform", jax.default_backend())
    return platform != "cpu"


def by_platform(processor: Choice, accelerator: Choice) -> Choice:
    """Which of two suits the platform that is traced for."""
    return accelerator if on_accelerator() else processor


def over_parts(function: Callable[[PyTree], PyTree], parts: PyTree) -> PyTree:
    """`function` of each part, stacked: one after another on a processor, all at once on an accelerator."""
    return by_platform(jax.lax.map, _all_at_once)(function, parts)


def while_loop(goes_on: Callable, turn: Callable, start: PyTree) -> PyTree:
    """`jax.lax.while_loop`, which on an accelerator takes several turns before it asks whether to go on.

    There the host decides each time. A turn that is not needed is computed and dropped.
    """

    def several(carry):
        for _ in range(TURNS):
            carry = tree_where(goes_on(carry), turn(carry), carry)
        return carry

    return jax.lax.while_loop(goes_on, by_platform(turn, several), start)


def _all_at_once(function: Callable[[PyTree], PyTree], parts: PyTree) -> PyTree:
    return jax.vmap(function)(parts)
