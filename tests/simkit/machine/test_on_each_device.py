"""One program on several devices."""

import os
import subprocess
import sys

import jax
import numpy as np
import pytest
from accelerator import needs_processor
from md_examples import fluid

from simkit.machine.cores import usable_cores
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


DEVICES = """
import jax
from simkit.md.experiment import load_particles
for _ in range(2):  # also where the devices are known
    load_particles({experiment})
    print(len(jax.devices()))
"""


@needs_processor
@pytest.mark.parametrize(
    ("flags", "setting", "expected"),
    [("", "", usable_cores()), ("--xla_force_host_platform_device_count=3", "", 3), ("", "5", 5)],
)
def test_molecular_dynamics_sees_a_device_in_each_core_unless_the_user_has_said_how_many(
    flags, setting, expected
):
    environment = os.environ | {"XLA_FLAGS": flags} | ({"JAX_NUM_CPU_DEVICES": setting} if setting else {})
    code = DEVICES.format(experiment=fluid())
    run = subprocess.run(
        [sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True, check=True
    )
    assert run.stdout.split() == [str(expected)] * 2


def test_one_processor_is_taken_unless_more_are_named():
    assert local_devices(None) == tuple(jax.local_devices()[: 1 if jax.default_backend() == "cpu" else None])
