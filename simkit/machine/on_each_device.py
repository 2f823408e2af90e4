"""One program on several devices: compiled for each of them, so that each runs the code of one."""

import dataclasses
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

PATHS = "paths"
REPLICATED = PartitionSpec()
IDS = PartitionSpec(PATHS)
ROWS = PartitionSpec(None, PATHS)


def on_one(device: Any) -> NamedSharding:
    """The place of an array that is whole on one device."""
    return NamedSharding(Mesh(np.array([device]), (PATHS,)), REPLICATED)


def part_for(device: Any, devices: int, argument: Any, spec: PartitionSpec) -> Any:
    """Shapes and types of what one of so many devices is given of an argument that lies as `spec` says."""
    axis = spec.index(PATHS) if PATHS in spec else None

    def own(x) -> jax.ShapeDtypeStruct:
        shape = tuple(n // devices if i == axis else n for i, n in enumerate(jnp.shape(x)))
        return jax.ShapeDtypeStruct(shape, jnp.result_type(x), sharding=on_one(device))

    return jax.tree.map(own, argument)


@dataclasses.dataclass(frozen=True)
class OnEachDevice:
    """A compiled program for each device of a mesh, called with arrays laid over them as `specs` say.

    There is no communication, and what comes out lies as `ROWS` say.
    """

    executables: tuple[Callable, ...]
    mesh: Mesh
    specs: tuple[PartitionSpec, ...]

    def __call__(self, *arguments):
        laid = [
            jax.device_put(argument, NamedSharding(self.mesh, spec))
            for argument, spec in zip(arguments, self.specs, strict=True)
        ]
        found = []
        for device, executable in zip(self.mesh.devices.flat, self.executables, strict=True):
            own = jax.tree.map(lambda x, device=device: _part_on(x, device), laid)
            found.append(executable(*jax.device_put(own, on_one(device))))
        return jax.tree.map(self._together, *found)

    def _together(self, *parts: jax.Array) -> jax.Array:
        rows, leaves, *rest = parts[0].shape
        shape = rows, leaves * len(parts), *rest
        return jax.make_array_from_single_device_arrays(shape, NamedSharding(self.mesh, ROWS), list(parts))


def _part_on(array: jax.Array, device) -> jax.Array:
    return next(shard.data for shard in array.addressable_shards if shard.device == device)


def lower(jitted: Any, arguments: tuple, mesh: Mesh, specs: tuple[PartitionSpec, ...]) -> Callable[[], Any]:
    """Trace and lower a jitted function for each device of a mesh; what is returned compiles it."""
    devices = list(mesh.devices.flat)

    def lowered(device):
        each = zip(arguments, specs, strict=True)
        own = [part_for(device, len(devices), argument, spec) for argument, spec in each]
        return jitted.trace(*own).lower()  # traced once: the types are the same on every device

    each = [lowered(device) for device in devices]

    def compile_each() -> OnEachDevice:
        if len(each) == 1:  # here, where an interrupt reaches it
            return OnEachDevice((each[0].compile(),), mesh, specs)
        with ThreadPoolExecutor(len(each)) as pool:
            return OnEachDevice(tuple(pool.map(lambda one: one.compile(), each)), mesh, specs)

    return compile_each
