"""Everything needed to run an experiment again."""

import functools
import os
import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib import metadata
from typing import Any

from simkit.version import __version__

version = functools.cache(metadata.version)  # which reads a file


def provenance(resolved: Mapping[str, Any], file: str | None = None) -> dict[str, str]:
    """What it takes to run an experiment again: its whole configuration, versions and platform.

    `file` is the path it was read from, of which the name is kept.
    """
    import jax

    configuration = dict(resolved)
    configuration.pop("output", None)  # where it lies is not what it is
    packages = ("jax", "jaxlib", "diffrax", "equinox", "numpy")
    name = "" if file is None or file.startswith("<") else os.path.basename(file)  # a text is <text>
    return {
        **({"file": name} if name else {}),
        "configuration": as_yaml(configuration),
        "versions": " ".join([f"simkit={__version__}", *(f"{name}={version(name)}" for name in packages)]),
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "backend": f"{jax.default_backend()}: {jax.local_devices()[0].device_kind}",
        "xla_flags": os.environ.get("XLA_FLAGS", ""),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def as_yaml(configuration: dict[str, Any]) -> str:
    """A configuration as YAML, in its own order."""
    import yaml

    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    return yaml.dump(configuration, Dumper=dumper, sort_keys=False, allow_unicode=True)
