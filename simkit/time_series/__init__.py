"""One long, correlated series: standard errors, autocorrelation times, time correlation."""

import lazy_loader

# What other rooms use; a module is imported when one of its names is.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
