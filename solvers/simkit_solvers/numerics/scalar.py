"""A number of one path: `vmap` makes a vector over paths of it."""

import jax

Scalar = float | jax.Array
