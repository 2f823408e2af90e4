"""The forms of a loop for processors and for accelerators give the same numbers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from accelerator import as_on_accelerator
from simkit_solvers import on_accelerator, over_parts
from simkit_solvers.numerics.platforms import TURNS, by_platform, while_loop


def test_a_processor_is_no_accelerator():
    assert not on_accelerator()
    with as_on_accelerator():
        assert on_accelerator()
        assert by_platform(1, 2) == 2
        with jax.default_device(jax.devices("cpu")[0]):
            assert not on_accelerator()


def test_parts_are_stacked_in_their_order():
    parts = {"x": jnp.arange(12.0).reshape(4, 3)}
    expected = np.arange(12.0).reshape(4, 3).sum(1)
    np.testing.assert_array_equal(over_parts(lambda part: part["x"].sum(), parts), expected)
    with as_on_accelerator():
        np.testing.assert_array_equal(over_parts(lambda part: part["x"].sum(), parts), expected)


@pytest.mark.parametrize("last", [0, 1, TURNS, TURNS + 1, 3 * TURNS - 1])
def test_a_loop_takes_no_turn_too_many(last):
    with as_on_accelerator():
        ends = jax.vmap(lambda n: while_loop(lambda k: k < n, lambda k: k + 1, jnp.int32(0)))
        counts = np.array([last, 0, last // 2], np.int32)
        np.testing.assert_array_equal(ends(counts), counts)
