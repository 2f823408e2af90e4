"""Numbers in pairs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from simkit_solvers.numerics.packing import Paired, packing

CARRY = {
    "step": jnp.uint32(2**32 - 1),
    "x": jnp.float32(1.5),
    "row": jnp.arange(3.0),
    "y": jnp.float32(-0.0),
    "t": jnp.float64(1e-300),
    "z": jnp.float32(2.5),
    "count": jnp.int32(-7),
    "u": jnp.float64(-2.0),
}


@pytest.mark.parametrize(("as_bits", "arrays"), [(False, 6), (True, 5)])
def test_what_is_unpacked_has_the_bits_and_types_of_what_was_packed(as_bits, arrays):
    """Three numbers of float32 and two of float64 make two pairs; with the two integers, as bits, three."""
    pack, unpack = packing(CARRY, as_bits)
    packed = jax.jit(pack)(CARRY)
    assert len(jax.tree.leaves(packed)) == arrays
    result = jax.jit(unpack)(packed)
    for name, value in CARRY.items():
        assert result[name].dtype == value.dtype
        assert np.asarray(result[name]).tobytes() == np.asarray(value).tobytes(), name


def test_derivatives_pass_through_pairs():
    numbers = {"a": jnp.asarray(0.3), "b": jnp.asarray(2.0), "c": jnp.asarray(-1.0)}

    def product(numbers):
        return numbers["a"] * numbers["b"] ** 2 * numbers["c"]

    slopes = jax.grad(lambda paired: product(paired.unpacked()))(Paired.of(numbers)).unpacked()
    for name, slope in jax.grad(product)(numbers).items():
        # That of a complex number is conjugate: JAX's convention for what is real in the end.
        assert float(slopes[name]) == pytest.approx(float(slope) * (-1 if name == "b" else 1), rel=1e-15)
