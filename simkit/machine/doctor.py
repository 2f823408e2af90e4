"""Whether this machine is fit for simkit: versions, devices, vector width, a calculation that one version of
jax got wrong.
"""

import dataclasses
import importlib.metadata
import os
import platform
import sys
from typing import Literal

from simkit.errors import InputError
from simkit.machine.compilation_cache import VARIABLE, cache_folder, fault_of
from simkit.machine.cores import group_limit, usable_cores
from simkit.machine.memory import available_memory
from simkit.machine.xla_flags import VECTOR_WIDTH, has_avx512, reason_against_wide_vectors
from simkit.version import __version__

KNOWN_BAD_JAX = {
    "0.10.2": "wrong numbers on CPU (jax issue 39103) and crashes on some reductions (39257)",
    "0.11.0": "crashes on some reductions (jax issue 39257)",
    "0.11.1": "scans that keep rows take quadratic time on CPU (jax issue 40101)",
}
PACKAGES = (
    "jax",
    "jaxlib",
    "diffrax",
    "equinox",
    "optimistix",
    "lineax",
    "numpy",
    "xarray",
    "zarr",
)
REDUCTION_LENGTH = 16385  # the shortest at which jax 0.10.2 goes wrong in float64


@dataclasses.dataclass(frozen=True)
class Check:
    """One line of the examination. `failed` means that results cannot be trusted here."""

    name: str
    value: str
    status: Literal["ok", "warning", "failed"] = "ok"


def examine() -> list[Check]:
    """Everything that `simkit doctor` prints. Imports jax and runs a small calculation."""
    vectors = _vectors()  # before jax is imported, while flags can be set
    return [
        Check("python", f"{platform.python_version()} ({sys.executable})"),
        Check("platform", platform.platform()),
        Check("simkit", __version__),
        *(_version(name) for name in PACKAGES),
        _devices(),
        vectors,
        _float64(),
        _reduction(),
        _cache(),
        _threads(),
        _memory(),
    ]


def healthy(checks: list[Check]) -> bool:
    """Whether nothing failed; warnings are allowed."""
    return all(finding.status != "failed" for finding in checks)


def reduction_error() -> float:
    r"""Largest relative error of a jitted `vmap(lambda r: sum((M @ r)**2))` against NumPy, in float64 on CPU.

    The reproducer of jax issue 39103: jax 0.10.2 returns 0.998 of the last element and says nothing.
    """
    import jax
    import jax.numpy as jnp
    import numpy as np

    rows = np.arange(3.0 * REDUCTION_LENGTH).reshape(REDUCTION_LENGTH, 3)
    matrix = np.eye(3)
    with jax.enable_x64(True), jax.default_device(jax.devices("cpu")[0]):
        result = jax.jit(jax.vmap(lambda row: jnp.sum((jnp.asarray(matrix) @ row) ** 2)))(jnp.asarray(rows))
    expected = np.sum((rows @ matrix.T) ** 2, axis=1)
    return float(np.max(np.abs(np.asarray(result) / expected - 1)))


def _version(name: str) -> Check:
    try:
        version = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return Check(name, "not installed", "warning")
    fault = KNOWN_BAD_JAX.get(version) if name in ("jax", "jaxlib") else None
    if fault is None:
        return Check(name, version)
    return Check(name, f"{version}: {fault}; install another version", "warning")


def _devices() -> Check:
    import jax

    try:
        devices = jax.devices()
    except RuntimeError as error:
        return Check("devices", str(error), "failed")
    kinds = sorted({device.device_kind for device in devices})
    return Check("devices", f"{len(devices)} x {', '.join(kinds)} ({jax.default_backend()})")


def _vectors() -> Check:
    processor = "AVX-512" if has_avx512() else "no AVX-512"
    reason = reason_against_wide_vectors()
    flags = os.environ.get("XLA_FLAGS", "")
    chosen = f"XLA_FLAGS={flags}" if VECTOR_WIDTH in flags else f"XLA's default, since {reason}"
    return Check("vector width", f"{processor}; {chosen}")


def _float64() -> Check:
    import jax
    import jax.numpy as jnp

    with jax.enable_x64(True):
        third = jnp.asarray(1.0) / 3
    right = float(third) == 1 / 3
    return Check("float64", "available" if right else f"got {third.dtype}", "ok" if right else "failed")


def _reduction() -> Check:
    error = reduction_error()
    if error < 1e-12:
        return Check("reduction", f"right to {error:.1g} (the calculation of jax issue 39103)")
    return Check("reduction", f"wrong by {error:.1g} (jax issue 39103): install another jax", "failed")


def _cache() -> Check:
    """Where `simkit run` keeps what it compiled."""
    try:
        folder = cache_folder()
    except InputError as error:
        return Check("compiled programs", str(error), "warning")
    if folder is None:
        return Check("compiled programs", f"not stored, since {VARIABLE} is off")
    if not folder.exists():
        return Check("compiled programs", f"in {folder}, from the first run on")
    fault = fault_of(folder)
    if fault is not None:
        return Check("compiled programs", f"not stored: {folder} {fault}", "warning")
    files = [path for path in folder.rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in files) / 2**20
    return Check("compiled programs", f"{size:.{int(size < 10)}f} MiB in {folder}; {VARIABLE}=off keeps none")


def _threads() -> Check:
    """How many threads simulate, and the limit of the control group where there is one."""
    limit = group_limit()
    text = "" if limit is None else f", of {os.cpu_count()} cores; the control group allows {limit:g}"
    return Check("threads", f"{usable_cores()}{text}")


def _memory() -> Check:
    """Physical memory and, on Linux, how much of it is free for programs."""
    if not hasattr(os, "sysconf"):
        return Check("memory", "unknown")
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    text = f"{total / 2**30:.1f} GiB"
    available = available_memory()
    if available is not None:
        text += f", {available / 2**30:.1f} GiB available"
    return Check("memory", text)
