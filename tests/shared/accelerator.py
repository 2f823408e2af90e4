"""Programs as they are made for accelerators, traced on a machine that has none."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest import mock

import jax
import pytest
from simkit_solvers.numerics import platforms

from simkit.ensemble import programs

needs_processor = pytest.mark.skipif(
    jax.default_backend() != "cpu", reason="of threads and kernels of processors"
)


@contextmanager
def as_on_accelerator() -> Iterator[None]:
    """What is traced inside has the form for accelerators, and runs here."""
    _forget()
    try:
        with mock.patch.object(platforms, "default_platform", return_value="gpu"):
            yield
    finally:
        _forget()


def _forget() -> None:
    """Forget what was traced: it is kept by the function, not by the platform."""
    programs._cache.clear()
    jax.clear_caches()


def lowered(function: Callable, *arguments) -> str:
    """The program of a function, lowered for CUDA as on an accelerator."""
    with as_on_accelerator():
        return jax.export.export(jax.jit(function), platforms=["cuda"])(*arguments).mlir_module()


def custom_calls(program: str) -> set[str]:
    """What a program calls beside XLA's own operations."""
    return set(re.findall(r"custom_call @(\S+?)\(", program))


def loops(program: str) -> int:
    """How many loops there are in a program."""
    return program.count("stablehlo.while")
