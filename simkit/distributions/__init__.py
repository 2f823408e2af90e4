"""Distributions of uncertain parameters and of initial values."""

import lazy_loader

# What benchmarks and the documentation use; a module is imported when one of its names is.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
