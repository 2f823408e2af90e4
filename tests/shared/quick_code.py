"""Programs in code that is quick to make instead of quick to run."""

from collections.abc import Callable

import jax

from simkit.ensemble.programs import QUICKLY_MADE


def quick_jit(function: Callable, static_argnums: int | tuple[int, ...] = ()) -> Callable:
    """`jax.jit` in half the time, for laws that hold to a tolerance and programs that run a moment.

    What is said of bits, or of what users run, is tested on the code that users run: by `jax.jit`.
    """
    return jax.jit(function, static_argnums=static_argnums, compiler_options=QUICKLY_MADE)
