"""Freed memory and vector width, set before jax is imported: `simkit.tune_process`."""

from simkit.machine.freed_memory import reuse_freed_memory
from simkit.machine.xla_flags import prefer_wide_vectors


def tune_process() -> bool:
    """Configure this process for full speed; returns whether XLA uses 512-bit vectors.

    Call it before the first import of jax; the command line does, and a script that wants the same speed
    calls it in its first lines. On processors with AVX-512 and with a tested jaxlib it adds a flag to the
    environment variable `XLA_FLAGS`, unless one of that name is there. Where the C library is glibc,
    freed memory stays with the process for its next arrays, up to the most in use. Results have the same
    bits without it.
    """
    reuse_freed_memory()
    return prefer_wide_vectors()
