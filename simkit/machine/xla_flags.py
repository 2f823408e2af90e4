"""The vector width that XLA compiles for, decided before jax is imported.

XLA prefers 256-bit vectors on x86-64 processors. With 512-bit ones the ensemble loop runs about 1.5 times as
fast on processors that have AVX-512, with the same bits in every result. An unknown flag aborts the process,
so it is set only for versions of jaxlib that were tried.
"""

import importlib.metadata
import os
import platform
import sys
from pathlib import Path

VECTOR_WIDTH = "--xla_cpu_prefer_vector_width"
WIDE_VECTORS = f"{VECTOR_WIDTH}=512"
TESTED_JAXLIB = ("0.10.1", "0.12.0", "0.12.0.1")


def has_avx512(cpuinfo: Path = Path("/proc/cpuinfo")) -> bool:
    """Whether this is an x86-64 processor with AVX-512, according to Linux; False on other systems."""
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        return False
    try:
        with cpuinfo.open() as lines:
            return any("avx512f" in line.split() for line in lines if line.startswith("flags"))
    except OSError:
        return False


def reason_against_wide_vectors() -> str | None:
    """Why `prefer_wide_vectors` would leave `XLA_FLAGS` alone, or None when it would add to it."""
    if any(flag.partition("=")[0] == VECTOR_WIDTH for flag in _flags()):
        return "XLA_FLAGS already says which"
    if "jaxlib" in sys.modules:
        return "jax is already imported"
    try:
        version = importlib.metadata.version("jaxlib")
    except importlib.metadata.PackageNotFoundError:
        return "jaxlib is not installed"
    if version not in TESTED_JAXLIB:
        return f"not tested with jaxlib {version} (tested: {', '.join(TESTED_JAXLIB)})"
    if not has_avx512():
        return "the processor has no AVX-512"
    return None


def prefer_wide_vectors() -> bool:
    """Let XLA use 512-bit vectors where that is known to be safe; returns whether they are on now.

    Call it before the first import of jax. It adds a flag to the environment variable `XLA_FLAGS`, unless one
    of that name is there, and does nothing on other processors or with an untested jaxlib. The command line
    calls it; a script that wants the same speed calls it in its first lines.
    """
    if reason_against_wide_vectors() is None:
        os.environ["XLA_FLAGS"] = " ".join([*_flags(), WIDE_VECTORS])
    return WIDE_VECTORS in _flags()


def flags_of_bits() -> str:
    """The flags in `XLA_FLAGS` that may change the bits of results."""
    return " ".join(flag for flag in _flags() if flag.partition("=")[0] != VECTOR_WIDTH)


def _flags() -> list[str]:
    return os.environ.get("XLA_FLAGS", "").split()
