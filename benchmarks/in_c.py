"""Peers written in C, compiled for this processor by the benchmarks that use them."""

import ctypes
import shutil
import subprocess
import sys
from pathlib import Path

FLAGS = ["-O3", "-march=native", "-mprefer-vector-width=512", "-fopenmp", "-shared", "-fPIC"]
FAST = ["-ffast-math", "-fno-finite-math-only"]  # NaN marks empty places


def compiled(name: str, folder: Path) -> ctypes.CDLL | None:
    """The library of `NAME.c`; None without a compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        print(f"no C compiler: nothing is compared with {name}.c", file=sys.stderr)
        return None
    library, source = folder / f"{name}.so", Path(__file__).with_name(f"{name}.c")
    subprocess.run([compiler, *FLAGS, *FAST, str(source), "-o", str(library), "-lm"], check=True)
    return ctypes.CDLL(str(library))
