"""Whether a record belongs to a run: of the same experiment, numbers, versions and machine."""

import difflib
import platform
from collections.abc import Iterator, Mapping
from importlib.metadata import version

from simkit.machine.xla_flags import flags_of_bits
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
        "XLA_FLAGS": flags_of_bits(),
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


def differences(
    one: Mapping[str, str], other: Mapping[str, str], of_one: str = "recorded", of_other: str = "now"
) -> list[str]:
    """What differs between two identities, such as those of a record and of a run, a text each.

    Of a variant, or a point of a sweep, that only one of the two has, it is the name.
    """
    meaning = {"-": of_one, "+": of_other}
    changed = [
        f"{key}: {text}"
        for key in other
        if key in one and (text := _difference(one[key], other[key], meaning))
    ]
    gone = _listed(f"{of_one} only", [key for key in one if key not in other])
    new = _listed(f"{of_other} only", [key for key in other if key not in one])
    return [*changed, *gone, *new]


def _listed(what: str, names: list[str]) -> list[str]:
    more = f", and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return [f"{what}: {', '.join(names[:SHOWN])}{more}"] if names else []


def _difference(one: str, other: str, meaning: Mapping[str, str]) -> str:
    if one == other:
        return ""
    if "\n" not in one + other:
        return f"{meaning['-']} {one or 'nothing'}, {meaning['+']} {other or 'nothing'}"
    lines = [*_changed(one, other, meaning)]
    more = f", and {len(lines) - SHOWN} more lines" if len(lines) > SHOWN else ""
    return "; ".join(lines[:SHOWN]) + more


def _changed(one: str, other: str, meaning: Mapping[str, str]) -> Iterator[str]:
    """The lines that only one of the two texts has."""
    for line in difflib.ndiff(one.splitlines(), other.splitlines()):
        if line[0] in meaning and line[2:].strip():
            yield f"{meaning[line[0]]} `{line[2:].strip()}`"
