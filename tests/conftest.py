"""Tests run in float64 with strict dtype promotion, on four CPU devices, with warnings as errors."""

import gc
import os

os.environ["SIMKIT_CACHE"] = "off"  # nothing is written to the home of whoever tests
own_flags = os.environ.get("XLA_FLAGS", "")
os.environ["XLA_FLAGS"] = f"{own_flags} --xla_force_host_platform_device_count=4".strip()

import jax
import pytest
from hypothesis import settings
from quick_code import quick_jit

from simkit.ensemble import programs

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_dtype_promotion", "strict")

# An example may compile a program, whose time says nothing; the same examples every time, on every machine.
settings.register_profile("simkit", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("simkit")

quick = type(programs._kept)()


@pytest.fixture
def quick_programs(monkeypatch):
    """Ensembles run in code that is quick to make, and is kept apart from that which users run."""
    monkeypatch.setattr(programs, "_kept", quick)
    monkeypatch.setattr(programs, "_jit", quick_jit)


def pytest_collection_finish():
    """What the imports made is no garbage: looking through it again and again took 5 % of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)
