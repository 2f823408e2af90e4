"""Stochastic and ordinary differential equations in large, differentiable, reproducible ensembles.

`simkit.run("gbm.yaml")` is what `simkit run gbm.yaml` does and returns the labelled results.
"""

from typing import TYPE_CHECKING, Any

from simkit.version import __version__ as __version__

if TYPE_CHECKING:
    from simkit.run import run as run

__all__ = ["__version__", "run"]


def __getattr__(name: str) -> Any:
    # Importing simkit must not import jax: `simkit --help` would take a second longer.
    if name == "run":
        import importlib

        return importlib.import_module("simkit.run").run
    raise AttributeError(f"module 'simkit' has no attribute {name!r}")
