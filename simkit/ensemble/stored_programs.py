"""Compiled programs in files, which a later process finds without tracing anything.

jax's own cache wants a program traced and lowered before it says whether it was compiled, and that takes
most of the time to a first table. Here a program is known by what it is made of (`digest_of`), by the code of
simkit, by versions and settings: nothing that decides what it computes is missing. What has no digest is not
stored.

Devices other than processors use jax's cache. The two are never used together: what jax has read from its
cache and serializes again lacks functions, and fails where it is called.
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

from simkit.ensemble.program_digest import KNOWN, NoDigestError, digest_of
from simkit.machine.compilation_cache import folder_of_programs
from simkit.machine.on_each_device import OnAllDevices, OnEachDevice

SOURCES = ("simkit", "simkit_solvers", "simkit_physics")


def file_of(request: Any) -> Path | None:
    """The file of a request's program, whether it exists or not; None where it is not to be stored."""
    folder = folder_of_programs()
    if folder is not None and request.places[0].platform != "cpu":
        jax.config.update("jax_compilation_cache_dir", str(folder))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    if folder is None or _jax_has_a_cache():
        return None
    types = jax.tree.map(lambda x: jax.ShapeDtypeStruct(jnp.shape(x), jnp.result_type(x)), request.arguments)
    try:
        kinds = [device.device_kind for device in request.places]
        options = request.quick, request.together, request.donated
        name = digest_of((_surroundings(), request.program, types, kinds, *options))
    except NoDigestError:
        return None
    return folder / f"{name}.program"


def _jax_has_a_cache() -> bool:
    return bool(jax.config.jax_compilation_cache_dir)  # pyright: ignore[reportAttributeAccessIssue]


def stored(request: Any, file: Path) -> Callable | None:
    """The program that the file holds; None where it cannot be read."""
    in_tree = jax.tree.structure((request.arguments, {}))
    try:
        # The checksum reveals a damaged file, whose machine code might run and give any number.
        payloads, out_tree = pickle.loads(zlib.decompress(file.read_bytes()))
        groups = [request.places] if request.together else [[device] for device in request.places]
        executables = tuple(
            deserialize_and_load(payload, in_tree, out_tree, execution_devices=group)
            for payload, group in zip(payloads, groups, strict=True)
        )
    except Exception:  # whatever is wrong with the file, the program can be compiled
        return None
    with contextlib.suppress(OSError):
        os.utime(file)
    return (OnAllDevices if request.together else OnEachDevice)(request.places, executables)


def store(program: OnEachDevice | OnAllDevices, file: Path) -> None:
    """Write a compiled program, whole or not at all; nothing where that is not possible."""
    executables: Any = program.executables
    try:
        payloads, _, out_trees = zip(*map(serialize, executables), strict=True)
        packed = zlib.compress(pickle.dumps((payloads, out_trees[0])), level=1)
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
