"""A folder of the user's own for compiled programs, for the command line and for scripts that ask for it.

Compiled programs are code that later runs execute, so nobody else may be able to write there.
"""

import contextlib
import hashlib
import importlib.metadata
import os
import platform
import stat
import sys
import warnings
from pathlib import Path

from simkit.errors import InputError

VARIABLE = "SIMKIT_CACHE"
OFF = ("off", "0", "no", "none")
JAX_FOLDER = "JAX_COMPILATION_CACHE_DIR"
MOST_BYTES = 2**30

_own: list[Path] = []  # the folder of this process's machine, after programs are stored there


def cache_folder() -> Path | None:
    """Where compiled programs go: `SIMKIT_CACHE`, else simkit/xla in the user's cache folder; None for `off`.

    Raises `InputError` where `SIMKIT_CACHE` is a relative path.
    """
    named = os.environ.get(VARIABLE, "")
    if named.lower() in OFF:
        return None
    if named:
        folder = Path(named).expanduser()
        if not folder.is_absolute():
            raise InputError(f"{VARIABLE}: {named!r} is not an absolute path; write one, or off")
        return folder
    home = os.environ.get("XDG_CACHE_HOME", "")
    base = Path(home) if Path(home).is_absolute() else Path("~/.cache").expanduser()
    return base / "simkit" / "xla"


def fault_of(folder: Path) -> str | None:
    """Why a folder, made private where it is new, may not hold compiled programs; None where it may."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        about = folder.stat()
    except (OSError, RuntimeError) as error:
        return f"cannot be made: {error}"
    if not stat.S_ISDIR(about.st_mode):
        return "is not a folder"
    if os.name == "posix":
        if about.st_uid != os.geteuid():
            return "belongs to another user"
        if about.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            return f"can be written to by others (chmod 700 {folder})"
    return None if os.access(folder, os.W_OK | os.X_OK) else "cannot be written to"


def keeps_programs() -> bool:
    """Whether this process keeps compiled programs for later ones."""
    return bool(_own)


def keep_compiled_programs() -> str | None:
    """Keep compiled programs for later processes; a warning for the user where that cannot be, else None.

    Call it before the first import of jax, whose log it quietens: the command line does, and
    `simkit.tune_process`. Where the user has a compilation cache of jax's own, nothing happens.
    """
    if JAX_FOLDER in os.environ or "jax" in sys.modules:
        return None
    folder = cache_folder()
    if folder is None:
        return None
    fault = fault_of(folder)
    if fault is None:
        own = folder / machine()
        try:
            own.mkdir(mode=0o700, exist_ok=True)
            _make_room(folder)
        except OSError as error:
            fault = str(error)
        else:
            _own[:] = [own]
            # XLA takes its own tuning flags for instructions that the processor lacks, and logs pages of it;
            # 1 is what jax itself sets, for child processes too.
            if os.environ.get("TF_CPP_MIN_LOG_LEVEL", "1") == "1":
                os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
            # What cannot be read or written is compiled anew; jax's warning of it is no concern of the run's.
            warnings.filterwarnings("ignore", message=".*persistent compilation cache.*")
            return None
    return f"compiled programs are not stored: {folder} {fault}; {VARIABLE}=off silences this"


def folder_of_programs() -> Path | None:
    """Where this process keeps what it compiles; None where it does not."""
    return _own[0] if _own else None


def machine(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """What compiled programs depend on besides what jax knows of: the processor's instructions.

    A home folder may be shared by machines of several kinds, where another's program would crash.
    """
    flags = ""
    with contextlib.suppress(OSError), cpuinfo.open() as lines:
        flags = next((line for line in lines if line.startswith(("flags", "Features"))), "")
    parts = " ".join([platform.machine(), platform.processor(), *sorted(set(flags.split()))])
    return f"jaxlib-{importlib.metadata.version('jaxlib')}-{hashlib.sha256(parts.encode()).hexdigest()[:12]}"


def _make_room(folder: Path) -> None:
    """Remove the oldest programs where all together are more than `MOST_BYTES`."""
    files = [(path, path.stat()) for path in folder.glob("*/*") if path.is_file()]
    total = sum(about.st_size for _, about in files)
    for path, about in sorted(files, key=lambda each: each[1].st_mtime):
        if total <= MOST_BYTES:
            return
        path.unlink(missing_ok=True)
        total -= about.st_size
