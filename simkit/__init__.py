"""Stochastic and ordinary differential equations in large, differentiable, reproducible ensembles.

`simkit.run("gbm.yaml")` is what `simkit run gbm.yaml` does and returns the labelled results.
"""

import lazy_loader

# The public names are those of `__init__.pyi`. Modules are imported when one of their names is used:
# `simkit --help` must not import jax, which takes a second.
_public, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str):
    if name in __all__:
        return _public(name)
    from simkit.suggestions import did_you_mean

    raise AttributeError(f"simkit has no {name!r}{did_you_mean(name, __all__)}")
