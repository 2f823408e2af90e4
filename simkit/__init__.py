"""Stochastic and ordinary differential equations in large, differentiable, reproducible ensembles.

`simkit.run("gbm.yaml")` is what `simkit run gbm.yaml` does and returns the labelled results.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import simkit.studies as uncertainty
    from simkit import transforms as transforms
    from simkit.api import run as run
    from simkit.derivatives import sensitivities as sensitivities
    from simkit.diagnostics.debugging.debug import debug as debug
    from simkit.diagnostics.inspection.inspection import inspect as inspect
    from simkit.studies import uncertainty_of as uncertainty_of

    __version__: str

__all__ = [
    "__version__",
    "debug",
    "inspect",
    "run",
    "sensitivities",
    "transforms",
    "uncertainty",
    "uncertainty_of",
]

# Imported when asked for: `simkit --help` must not import jax, which takes a second.
_PLACES = {
    "debug": "simkit.diagnostics.debugging.debug",
    "inspect": "simkit.diagnostics.inspection.inspection",
    "run": "simkit.api",
    "sensitivities": "simkit.derivatives",
    "uncertainty_of": "simkit.studies",
}
_MODULES = ("transforms", "uncertainty")


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        return getattr(importlib.import_module(_PLACES[name]), name)
    if name in _MODULES:
        return importlib.import_module(f"simkit.{name}")
    if name == "__version__":
        return importlib.import_module("simkit.version").simkit_version()
    raise AttributeError(f"module 'simkit' has no attribute {name!r}")
