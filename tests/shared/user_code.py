"""Programs in the code that users run, instead of code that is quick to make."""

from collections.abc import Callable

import jax

# conftest.py sets the opposite: code that is made in half the time and may run ten times as long.
USERS: dict[str, bool | int] = {
    "xla_backend_optimization_level": 3,
    "xla_llvm_disable_expensive_passes": False,
}
JIT = jax.jit  # which a test may replace by `user_jit`


def user_jit(function: Callable, **static) -> Callable:
    """`jax.jit` as users have it: for bits, for memory, for what the compiler makes, and for long runs."""
    return JIT(function, compiler_options=USERS, **static)
