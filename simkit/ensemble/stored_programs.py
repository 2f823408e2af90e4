"""Compiled programs in files, which a later process finds without tracing anything.

jax's own cache wants a program traced and lowered before it says whether it was compiled, and that takes
most of the time to a first table. Here a program is known by what it is made of (`told`), by the code of
simkit, by versions and settings: nothing that decides what it computes is missing. What cannot be told is not
stored.
"""

import contextlib
import functools
import hashlib
import importlib.metadata
import os
import pickle
import sys
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental.serialize_executable import deserialize_and_load, serialize

from simkit.ensemble.program_digest import KNOWN, UntoldError, told
from simkit.machine.compilation_cache import folder_of_programs
from simkit.machine.on_each_device import OnEachDevice

SOURCES = ("simkit", "simkit_solvers", "simkit_physics")


def file_of(request: Any) -> Path | None:
    """Where the program of a request is stored, or would be; None where it is not to be.

    Of one processor device only, since others are nobody's to test here.
    """
    folder = folder_of_programs()
    if folder is None or len(request.devices) != 1 or request.devices[0].platform != "cpu":
        return None
    types = jax.tree.map(lambda x: jax.ShapeDtypeStruct(jnp.shape(x), jnp.result_type(x)), request.arguments)
    try:
        kind = request.devices[0].device_kind
        name = told((_surroundings(), request.program, types, kind, request.quick))
    except UntoldError:
        return None
    return folder / f"{name}.program"


def stored(request: Any, file: Path) -> Callable | None:
    """The program that the file holds; None where it cannot be read."""
    in_tree = jax.tree.structure((request.arguments, {}))
    try:
        # By its checksum a damaged file is told, whose machine code might run and give any number.
        payload, out_tree = pickle.loads(zlib.decompress(file.read_bytes()))
        executable = deserialize_and_load(payload, in_tree, out_tree, execution_devices=request.devices)
    except Exception:  # whatever is wrong with the file, the program can be compiled
        return None
    with contextlib.suppress(OSError):
        os.utime(file)
    return OnEachDevice(request.devices, (executable,))


def store(program: OnEachDevice, file: Path) -> None:
    """Write a compiled program, whole or not at all; nothing where that is not possible."""
    executable: Any = program.executables[0]
    try:
        payload, _, out_tree = serialize(executable)
        packed = zlib.compress(pickle.dumps((payload, out_tree)), level=1)
    except Exception:  # of what jax cannot serialize, and says by several kinds of error
        return
    with contextlib.suppress(OSError):
        handle, name = tempfile.mkstemp(dir=file.parent)
        try:
            with os.fdopen(handle, "wb") as partial:
                partial.write(packed)
            os.replace(name, file)
        except OSError:
            os.unlink(name)


@functools.cache
def _code() -> str:
    """A digest of the code of simkit's packages, and the versions of those they stand on."""
    digest = hashlib.sha256(sys.version.encode())
    for package in SOURCES:
        root = Path(str(sys.modules[package].__file__)).parent
        for path in sorted(root.rglob("*.py")):
            digest.update(str(path.relative_to(root)).encode() + path.read_bytes())
    for package in KNOWN:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            digest.update(f"{package}={importlib.metadata.version(package)}".encode())
    return digest.hexdigest()


def _surroundings() -> tuple:
    """What else decides what is compiled: code, versions, jax's settings and those of XLA."""
    settings = sorted((name, str(value)) for name, value in jax.config.values.items())
    flags = [os.environ.get(name, "") for name in ("XLA_FLAGS", "LIBTPU_INIT_ARGS")]
    return _code(), settings, flags, jax.devices()[0].client.platform_version, str(jnp.result_type(float))
