"""The version of this installation of simkit."""

import importlib.metadata

try:
    __version__ = importlib.metadata.version("simkit")
except importlib.metadata.PackageNotFoundError:  # used from a checkout without installing it
    __version__ = "source"
