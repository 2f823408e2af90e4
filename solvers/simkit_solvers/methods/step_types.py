"""The types in the signature of a diffrax solver's step."""

import diffrax
import jax
import numpy as np
from jaxtyping import PyTree

Terms = PyTree[diffrax.AbstractTerm]
Time = float | int | jax.Array | np.ndarray
Flag = bool | jax.Array | np.ndarray
# The state at the end, an estimate of its error, what interpolates the step, the solver's own state after it.
Step = tuple[PyTree, PyTree | None, dict[str, PyTree], PyTree, diffrax.RESULTS]
