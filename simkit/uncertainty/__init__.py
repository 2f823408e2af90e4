"""What uncertain parameters do to an output: propagation, and measures of which of them matter.

`sobol_indices(f, distributions)` and its siblings study any function written for JAX;
`uncertainty_of(source)` studies an experiment, as `simkit uncertainty FILE` does.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from simkit.uncertainty.api import derivative_measures as derivative_measures
    from simkit.uncertainty.api import elementary_effects as elementary_effects
    from simkit.uncertainty.api import propagate as propagate
    from simkit.uncertainty.api import rank_correlations as rank_correlations
    from simkit.uncertainty.api import sobol_indices as sobol_indices
    from simkit.uncertainty.experiments import uncertainty_of as uncertainty_of

__all__ = [
    "derivative_measures",
    "elementary_effects",
    "propagate",
    "rank_correlations",
    "sobol_indices",
    "uncertainty_of",
]


def __getattr__(name: str) -> Any:
    # Reading a file needs its distributions, and neither jax nor xarray.
    if name not in __all__:
        raise AttributeError(f"module 'simkit.uncertainty' has no attribute {name!r}")
    module = "experiments" if name == "uncertainty_of" else "api"
    return getattr(importlib.import_module(f"simkit.uncertainty.{module}"), name)
