"""Observables of molecular dynamics, each measured in the compiled loop: numbers, functions and tables with
errors.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
