"""What uncertain parameters do to an output: propagation, and measures of which of them matter.

`sobol_indices(f, distributions)` and its siblings study any function written for JAX;
`uncertainty(source)` studies an experiment, as `simkit uncertainty FILE` does.
"""

import lazy_loader

# Reading a file needs its distributions, and neither jax nor xarray.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
