"""What uncertain parameters do to an output: propagation, and measures of which of them matter.

`sobol_indices(f, distributions)` and its siblings study any function written for JAX;
`uncertainty_of(source)` studies an experiment, as `simkit uncertainty FILE` does.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from simkit.studies.api import derivative_measures as derivative_measures
    from simkit.studies.api import elementary_effects as elementary_effects
    from simkit.studies.api import propagate as propagate
    from simkit.studies.api import rank_correlations as rank_correlations
    from simkit.studies.api import sobol_indices as sobol_indices
    from simkit.studies.experiments import uncertainty_of as uncertainty_of

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
        raise AttributeError(f"module 'simkit.studies' has no attribute {name!r}")
    module = "experiments" if name == "uncertainty_of" else "api"
    return getattr(importlib.import_module(f"simkit.studies.{module}"), name)
