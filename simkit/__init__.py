"""Stochastic and ordinary differential equations in large, differentiable, reproducible ensembles.

`simkit.run("gbm.yaml")` is what `simkit run gbm.yaml` does and returns the labelled results.
"""

import lazy_loader

# The public names are those of `__init__.pyi`. Modules are imported when one of their names is used:
# `simkit --help` must not import jax, which takes a second.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
