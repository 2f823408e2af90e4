"""Tests run in float64 with strict dtype promotion, warnings as errors, and quickly compiled code."""

import gc
import os

os.environ["SIMKIT_CACHE"] = "off"  # nothing is written to the home of whoever tests
# OpenBLAS factorises the small matrices of implicit steps, and its threads spin in between: one test took 18
# to 83 s of processor time instead of 9.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
own_flags = os.environ.get("XLA_FLAGS", "")
os.environ["XLA_FLAGS"] = f"{own_flags} --xla_force_host_platform_device_count=4".strip()

import jax
import pytest
from hypothesis import settings

from simkit.ensemble import programs
from simkit.machine.freed_memory import give_back_freed_memory

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_dtype_promotion", "strict")

# An example may compile a program, whose time says nothing; the same examples every time, on every machine.
settings.register_profile("simkit", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("simkit")

# How programs are made, and those that were: in general, and in tests marked `user_code`.
QUICK = programs._quick_jit, programs._cache
USERS = programs._jit, type(programs._cache)()


@pytest.hookimpl(tryfirst=True)  # before the fixtures of a module run their ensembles
def pytest_runtest_setup(item):
    users = item.get_closest_marker("user_code") is not None
    programs._jit, programs._cache = USERS if users else QUICK
    # Not by XLA_FLAGS, which would change the code of `user_jit` too: the backend as a whole reads them.
    jax.config.update("jax_disable_most_optimizations", not users)
    # jax's caches do not distinguish by it: an operation on its own would stay as the first test made it.
    # They distinguish by this one, which changes nothing here.
    jax.config.update("jax_softmax_custom_jvp", users)


def pytest_collection_finish():
    """What the imports made is no garbage: looking through it again and again took 5 % of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)


MOST_MEMORY = 2 * 2**30  # of a process: some 20 000 mappings of compiled programs; XLA crashes at 65 530


def pytest_runtest_teardown():
    """Forget compiled programs where they fill the memory; the garbage collector would find them too late."""
    if not os.path.exists("/proc/self/statm"):
        return
    with open("/proc/self/statm") as pages:
        resident = int(pages.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    if resident > MOST_MEMORY:
        for _, cache in (QUICK, USERS):
            cache.clear()
        jax.clear_caches()
        gc.collect()
        give_back_freed_memory()  # which the command line, in this process, told malloc to keep
