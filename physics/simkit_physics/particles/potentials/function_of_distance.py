from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from simkit_solvers import parameter

from simkit_physics.particles.potentials.pair_tables import PairParameter
from simkit_physics.particles.potentials.potential import AbstractPotential


class FunctionOfDistance(AbstractPotential):
    """The potential `function(r, **parameters)`, a function of the distance in JAX's functions.

    `parameters` are numbers or symmetric tables over species. The function is called with each number for
    itself, and must be defined for all distances from that of the nearest pair to the cutoff. It takes
    scalars and returns one.

    >>> import jax.numpy as jnp
    >>> from simkit_physics import FunctionOfDistance
    >>> potential = FunctionOfDistance(lambda r, A: A * jnp.exp(-r), {"A": 2.0})
    >>> round(float(potential.energy(1.0)), 4)  # at r = 1
    0.7358
    """

    function: Callable[..., jax.Array] = eqx.field(static=True)
    parameters: dict[str, PairParameter] = parameter("", "numbers that the function takes")

    def energy(self, r2: Any) -> Any:
        return self.function(jnp.sqrt(r2), **self.parameters)
