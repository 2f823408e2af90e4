"""One program on several devices: compiled for each of them, or for all together."""

import contextlib
import dataclasses
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Sharding, SingleDeviceSharding
from simkit_solvers.numerics.platforms import copied_to, traced_for

from simkit.errors import InputError
from simkit.machine.cores import usable_cores

Devices = tuple[Any, ...]


def local_devices(count: int | None) -> Devices:
    """The first `count` devices of this process; by default all accelerators, or one processor, which threads
    share."""
    local = jax.local_devices()
    if count is None:
        return tuple(local if local[0].platform != "cpu" else local[:1])
    return first_devices(count, "ensemble.devices")


def first_devices(count: int, place: str) -> Devices:
    """The first `count` devices of this process. Raises `InputError` at a place that asks for more."""
    local = jax.local_devices()
    if not 1 <= count <= len(local):
        raise InputError(f"{place}: {count} requested, {len(local)} available; omit to use all")
    return tuple(local[:count])


def a_device_for_each_core() -> None:
    """Make each core a device of jax, for programs that run on several at once.

    Nothing happens where devices are known already, or where the user has said how many there are.
    """
    said = "--xla_force_host_platform_device_count" in os.environ.get("XLA_FLAGS", "")
    if not said and jax.config.values["jax_num_cpu_devices"] < 0:
        with contextlib.suppress(RuntimeError):
            jax.config.update("jax_num_cpu_devices", usable_cores())


def shapes_on(place: Sharding, arguments: Any) -> Any:
    """Shapes and types of arguments, in one place."""
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


@dataclasses.dataclass(frozen=True)
class OnAllDevices:
    """A compiled program that several devices run at once, and which shares its parts among them."""

    devices: Devices
    executables: tuple[Callable, ...]

    def __call__(self, *arguments):
        out = self.executables[0](*jax.device_put(arguments, copied_to(self.devices)))
        return jax.tree.map(lambda whole: whole.addressable_data(0), out)


def lower_for_all(jitted: Any, arguments: tuple, devices: Devices) -> Callable[[], OnAllDevices]:
    """Trace and lower a jitted function that devices share; what is returned compiles it."""
    with traced_for(devices[0]):
        lowered = jitted.trace(*shapes_on(copied_to(devices), arguments)).lower()
    return lambda: OnAllDevices(devices, (lowered.compile(),))


def lower(jitted: Any, arguments: tuple, devices: Devices) -> Callable[[], OnEachDevice]:
    """Trace and lower a jitted function for each device; what is returned compiles it."""
    # Traced once: the types are the same on every device.
    with traced_for(devices[0]):
        each = [jitted.trace(*shapes_on(SingleDeviceSharding(d), arguments)).lower() for d in devices]

    def compile_each() -> OnEachDevice:
        if len(each) == 1:  # here, where an interrupt reaches it
            return OnEachDevice(devices, (each[0].compile(),))
        with ThreadPoolExecutor(len(each)) as pool:
            return OnEachDevice(devices, tuple(pool.map(lambda one: one.compile(), each)))

    return compile_each
