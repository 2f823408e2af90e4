"""One program on several devices: compiled for each of them, so that each runs the code of one."""

import dataclasses
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import SingleDeviceSharding
from simkit_solvers.numerics.platforms import traced_for

from simkit.errors import InputError

Devices = tuple[Any, ...]


def local_devices(count: int | None) -> Devices:
    """The first `count` devices of this process, all of them by default."""
    local = jax.local_devices()
    if count is not None and not 1 <= count <= len(local):
        raise InputError(
            f"ensemble.devices: is {count}, and this process has {len(local)}; leave it out for all"
        )
    return tuple(local[:count])


def shapes_on(device: Any, arguments: Any) -> Any:
    """Shapes and types of arguments, on one device."""
    place = SingleDeviceSharding(device)
    return jax.tree.map(
        lambda x: jax.ShapeDtypeStruct(jnp.shape(x), jnp.result_type(x), sharding=place), arguments
    )


@dataclasses.dataclass(frozen=True)
class OnEachDevice:
    """A compiled program for each of some devices. A call runs the one for jax's default device.

    That differs from thread to thread. Where it is none of `devices`, the call runs on the first of them.
    """

    devices: Devices
    executables: tuple[Callable, ...]

    def __call__(self, *arguments):
        if len(self.devices) == 1:
            return self.executables[0](*arguments)
        current = jax.config.jax_default_device  # pyright: ignore[reportAttributeAccessIssue]
        place = self.devices.index(current) if current in self.devices else 0
        return self.executables[place](*jax.device_put(arguments, self.devices[place]))


def lower(jitted: Any, arguments: tuple, devices: Devices) -> Callable[[], OnEachDevice]:
    """Trace and lower a jitted function for each device; what is returned compiles it."""
    # Traced once: the types are the same on every device.
    with traced_for(devices[0]):
        each = [jitted.trace(*shapes_on(device, arguments)).lower() for device in devices]

    def compile_each() -> OnEachDevice:
        if len(each) == 1:  # here, where an interrupt reaches it
            return OnEachDevice(devices, (each[0].compile(),))
        with ThreadPoolExecutor(len(each)) as pool:
            return OnEachDevice(devices, tuple(pool.map(lambda one: one.compile(), each)))

    return compile_each
