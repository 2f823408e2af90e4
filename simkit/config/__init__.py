"""YAML text becomes checked sections, with every error at its place in the file."""

import lazy_loader

# What benchmarks and the documentation use; a module is imported when one of its names is.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
