"""Numerics of simkit: problems, counter-based noise, the fixed-grid loop and its solvers."""

import lazy_loader

# The public names are those of `__init__.pyi`; a module is imported when one of its names is first used.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
