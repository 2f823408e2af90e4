"""Freed memory and vector width, set before jax is imported: `simkit.tune_process`."""

import warnings

from simkit.machine.compilation_cache import keep_compiled_programs
from simkit.machine.freed_memory import reuse_freed_memory
from simkit.machine.xla_flags import prefer_wide_vectors


def tune_process(keep_programs: bool = False) -> bool:
    """Configure this process for full speed; returns whether XLA uses 512-bit vectors.

    Call it before the first import of jax; the command line does, and a script that wants the same speed
    calls it in its first lines. On processors with AVX-512 and with a tested jaxlib it adds a flag to the
    environment variable `XLA_FLAGS`, unless one of that name is there. Where the C library is glibc,
    freed memory stays with the process for its next arrays, up to the most in use. With `keep_programs`,
    programs that simkit compiles are stored for later processes, in the folder that the command line uses
    (`SIMKIT_CACHE`), with a `UserWarning` where it cannot be used. Results have the same bits without it.

    >>> import simkit
    >>> simkit.tune_process() in (True, False)
    True
    """
    reuse_freed_memory()
    fault = keep_compiled_programs() if keep_programs else None
    if fault:
        warnings.warn(fault, stacklevel=2)
    return prefer_wide_vectors()
