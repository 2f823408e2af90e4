"""Programs in code that is quick to make instead of quick to run."""

from collections.abc import Callable

import jax

# LLVM leaves the code as it is. The emitter of fused loops costs a third more, and jax 0.12 has no other.
OPTIONS: dict[str, bool | int] = {"xla_backend_optimization_level": 0}
if jax.__version_info__ < (0, 11):
    OPTIONS["xla_cpu_use_fusion_emitters"] = False


def quick_jit(function: Callable, static_argnums: int | tuple[int, ...] = ()) -> Callable:
    """`jax.jit` in half the time, for laws that hold to a tolerance and programs that run a moment.

    What is said of bits, or of what users run, is tested on the code that users run: by `jax.jit`.
    """
    return jax.jit(function, static_argnums=static_argnums, compiler_options=OPTIONS)
