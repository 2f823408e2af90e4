"""Whether a record belongs to a run: of the same experiment, numbers, versions and machine."""

import difflib
import os
import platform
from collections.abc import Iterator, Mapping
from importlib.metadata import version

from simkit.version import __version__

PACKAGES = ("jax", "jaxlib", "diffrax", "equinox", "numpy")
SHOWN = 12  # lines of a difference


def of_this_machine() -> dict[str, str]:
    """What decides the bits of a run in addition to its experiment: versions, back end and processor."""
    import jax

    versions = " ".join([f"simkit={__version__}", *(f"{name}={version(name)}" for name in PACKAGES)])
    return {
        "versions": f"{versions} python={platform.python_version()}",
        "back end": f"{jax.default_backend()}: {jax.local_devices()[0].device_kind}",
        "processor": _processor(),
        "XLA_FLAGS": os.environ.get("XLA_FLAGS", ""),
    }


def _processor() -> str:
    """The type of the processor, and what it can do, a line each, since XLA compiles for that."""
    wanted = ("model name", "flags", "Features")
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            lines = file.read().split("\n\n")[0].split("\n")
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    known = {key.strip(): text.strip() for key, _, text in (line.partition(":") for line in lines)}
    name, *features = (known[key] for key in wanted if key in known)
    return "\n".join([name, *" ".join(features).split()])


def differences(recorded: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """What differs between the identity of a record and that of a run, a text each.

    Of a variant, or a point of a sweep, that only one of the two has, it is the name.
    """
    changed = [
        f"{key}: {text}" for key in now if key in recorded and (text := _difference(recorded[key], now[key]))
    ]
    gone = _listed("recorded, and not in this run", [key for key in recorded if key not in now])
    new = _listed("in this run, and not recorded", [key for key in now if key not in recorded])
    return [*changed, *gone, *new]


def _listed(what: str, names: list[str]) -> list[str]:
    more = f", and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return [f"{what}: {', '.join(names[:SHOWN])}{more}"] if names else []


def _difference(recorded: str, now: str) -> str:
    if recorded == now:
        return ""
    if "\n" not in recorded + now:
        return f"{recorded or 'none'} was recorded, now {now or 'none'}"
    lines = [*_changed(recorded, now)]
    more = f", and {len(lines) - SHOWN} more lines" if len(lines) > SHOWN else ""
    return "; ".join(lines[:SHOWN]) + more


def _changed(recorded: str, now: str) -> Iterator[str]:
    """The lines that only one of the two texts has."""
    meaning = {"-": "recorded", "+": "now"}
    for line in difflib.ndiff(recorded.splitlines(), now.splitlines()):
        if line[0] in meaning and line[2:].strip():
            yield f"{meaning[line[0]]} `{line[2:].strip()}`"
