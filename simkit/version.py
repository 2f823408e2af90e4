"""The version of this installation of simkit."""

import importlib.metadata


def simkit_version() -> str:
    """The installed version, or `source` when the packages are used from a checkout without installing it."""
    try:
        return importlib.metadata.version("simkit")
    except importlib.metadata.PackageNotFoundError:
        return "source"
