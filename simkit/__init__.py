"""Stochastic and ordinary differential equations in large, differentiable, reproducible ensembles.

`simkit.run("gbm.yaml")` is what `simkit run gbm.yaml` does and returns the labelled results.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from simkit.execution import run as run
    from simkit.sensitivity import sensitivities as sensitivities

    __version__: str

__all__ = ["__version__", "run", "sensitivities"]


def __getattr__(name: str) -> Any:
    # Importing simkit must not import jax: `simkit --help` would take a second longer.
    if name == "run":
        return importlib.import_module("simkit.execution").run
    if name == "sensitivities":
        return importlib.import_module("simkit.sensitivity").sensitivities
    if name == "__version__":
        return importlib.import_module("simkit.version").simkit_version()
    raise AttributeError(f"module 'simkit' has no attribute {name!r}")
