"""Helpers that keep the compiler from mixing, repeating or removing work."""

import jax
import jax.numpy as jnp
import numpy as np
from simkit_solvers.numerics.kernels import floats_by_themselves, own_number
from user_code import user_jit


def test_floats_are_computed_by_themselves_and_the_rest_stays():
    """Their values, with what is no float among them, in a branch of the program."""

    def step(x):
        return {"x": jnp.sin(x), "count": jnp.int32(3), "y": (x * 2.0, jnp.arange(2.0) * x)}

    def program(x):
        return floats_by_themselves(x == x, lambda: step(x))

    x = jnp.asarray(0.3)
    for actual, expected in zip(*(jax.tree.leaves(f(x)) for f in (jax.jit(program), step)), strict=True):
        assert actual.dtype == expected.dtype
        np.testing.assert_array_equal(actual, expected)
    assert jax.jit(program).lower(x).as_text().count("stablehlo.case") == 1


def test_last_bits_do_not_depend_on_what_stands_next_to_it():
    """A product is rounded before one is subtracted, where a fused multiply-add would not round it."""

    def program(x, always):
        return floats_by_themselves(always, lambda: x * x) - jnp.float32(1.0)

    xs = np.linspace(0.5, 1.5, 1001, dtype=np.float32)
    result = user_jit(jax.vmap(program, (0, None)))(xs, jnp.asarray(True))
    np.testing.assert_array_equal(result, xs * xs - np.float32(1.0))


def test_a_number_of_its_own_has_the_value_and_a_derivative_for_each_path():
    def of_each(x, noise):
        return jax.vmap(lambda word: own_number(x, {"word": word, "name": "W"}))(noise)

    x, noise = jnp.asarray(1.7), jnp.arange(4, dtype=jnp.uint32)
    np.testing.assert_array_equal(of_each(x, noise), [1.7] * 4)
    assert jax.grad(lambda x: jnp.sum(of_each(x, noise) * jnp.arange(4.0)))(x) == 6
    assert own_number(x, {"name": "W"}) is x
