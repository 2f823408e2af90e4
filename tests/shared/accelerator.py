"""Programs as they are made for accelerators, traced on a machine that has none."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest import mock

import jax
import pytest

from simkit.ensemble import programs

needs_processor = pytest.mark.skipif(
    jax.default_backend() != "cpu", reason="of threads and kernels of processors"
)


@contextmanager
def as_on_accelerator() -> Iterator[None]:
    """What is traced inside has the form for accelerators, and runs here."""
    _forget()
    with mock.patch.object(jax, "default_backend", return_value="gpu"):
        yield
    _forget()


def _forget() -> None:
    """Forget what was traced: it is kept by the function, not by the platform."""
    programs._cache.clear()
    jax.clear_caches()


def custom_calls(function: Callable, *arguments) -> set[str]:
    """What a function calls beside XLA's own operations, when it is lowered for CUDA as on an accelerator."""
    with as_on_accelerator():
        text = jax.export.export(jax.jit(function), platforms=["cuda"])(*arguments).mlir_module()
    return set(re.findall(r"custom_call @(\S+?)\(", text))
