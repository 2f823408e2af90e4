"""One program on several devices."""

import jax
import numpy as np
import pytest

from simkit.machine.on_each_device import local_devices, lower


@pytest.mark.parametrize("count", [1, 3])
def test_a_call_runs_on_the_default_device_where_the_program_is_for_it(count):
    """And on the first of its devices elsewhere: the last is none of them."""
    devices, x = local_devices(count), np.arange(3.0)
    program = lower(jax.jit(lambda x: 2 * x), (x,), devices)()
    for device in (*devices, jax.local_devices()[-1]):
        with jax.default_device(device):
            y = program(x)
        assert y.devices() == {device if device in devices else devices[0]}
        np.testing.assert_array_equal(y, 2 * x)
    assert jax.local_devices()[-1] not in devices
