"""Where programs for processors and for accelerators differ in shape.

A processor has a small cache near each core and starts a loop's next iteration for nothing: it takes small
parts one after another. An accelerator has thousands of lanes, and a new kernel costs some microseconds: it
takes everything at once.
"""

import contextlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import PyTree

from simkit_solvers.numerics.tree_where import tree_where

ITERATIONS = 4
SHARED = "sharing"  # the axis of devices that share the parts of a program


def on_accelerator() -> bool:
    """Whether what is traced now will run on an accelerator: jax's default device is one.

    >>> import jax
    >>> from simkit_solvers import on_accelerator
    >>> on_accelerator() == (jax.default_backend() != "cpu")
    True
    """
    return default_platform() != "cpu"


def default_platform() -> str:
    """The platform of jax's default device, which differs from thread to thread."""
    device = jax.config.jax_default_device  # pyright: ignore[reportAttributeAccessIssue]
    return device if isinstance(device, str) else getattr(device, "platform", jax.default_backend())


@contextmanager
def traced_for(device: Any) -> Iterator[None]:
    """What is traced inside has the form for a device, which may be another than jax's default."""
    # Only where it must be set: what was traced without it is traced again with it.
    same = on_accelerator() == (device.platform != "cpu")
    with contextlib.nullcontext() if same else jax.default_device(device):
        yield


def over_parts(function: Callable[[PyTree], PyTree], parts: PyTree) -> PyTree:
    """`function` of each part, stacked: one after another on a processor, all at once on an accelerator.

    >>> import jax.numpy as jnp
    >>> from simkit_solvers import over_parts
    >>> over_parts(jnp.sum, jnp.ones((4, 3))).tolist()
    [3.0, 3.0, 3.0, 3.0]
    """
    return jax.vmap(function)(parts) if on_accelerator() else jax.lax.map(function, parts)


def over_shared_parts(function: Callable[[PyTree], PyTree], parts: PyTree) -> PyTree:
    """`over_parts`, where inside `shared_among` each device takes some of the parts.

    All devices get what is made of them. XLA may round the arithmetic of a part otherwise than on one device.

    >>> import jax.numpy as jnp
    >>> from simkit_solvers import over_shared_parts
    >>> over_shared_parts(jnp.sum, jnp.ones((4, 3))).tolist()  # all parts on one device
    [3.0, 3.0, 3.0, 3.0]
    """
    if on_accelerator() or _devices_that_share() == 1:
        return over_parts(function, parts)
    count, own = _share_of(parts)
    # Each part is taken where it lies: a copy of the share would be made at every call.
    return _gathered(over_parts(lambda k: function(jax.tree.map(lambda part: part[k], parts)), own), count)


def over_shares(function: Callable[[PyTree], PyTree], parts: PyTree) -> PyTree:
    """`function` of stacked parts, which makes something of each, and which devices share as above.

    >>> import jax.numpy as jnp
    >>> from simkit_solvers import over_shares
    >>> over_shares(lambda parts: jnp.sum(parts, axis=1), jnp.ones((4, 3))).tolist()
    [3.0, 3.0, 3.0, 3.0]
    """
    if _devices_that_share() == 1:
        return function(parts)
    count, own = _share_of(parts)
    return _gathered(function(jax.tree.map(lambda part: part[own], parts)), count)


def _share_of(parts: PyTree) -> tuple[int, jax.Array]:
    """How many parts there are, and the numbers of those that this device takes.

    Where they are too few for all to take as many, the last one is taken again.
    """
    count = jax.tree.leaves(parts)[0].shape[0]
    each = -(-count // _devices_that_share())
    first = each * jax.lax.axis_index(SHARED)
    return count, jnp.minimum(first + jnp.arange(each, dtype=jnp.int32), count - 1)


def _gathered(share: PyTree, count: int) -> PyTree:
    return jax.tree.map(lambda part: jax.lax.all_gather(part, SHARED, tiled=True)[:count], share)


def shared_among(devices: tuple[Any, ...], function: Callable) -> Callable:
    """`function` on several processors: they divide its parts among them, and each does the rest.

    Arguments and results are `copied_to` all of them.

    >>> import jax
    >>> import jax.numpy as jnp
    >>> from simkit_solvers import over_shared_parts, shared_among
    >>> def sums(rows):
    ...     return over_shared_parts(jnp.sum, rows)
    >>> shared_among((jax.devices()[0],), sums)(jnp.ones((4, 3))).tolist()
    [3.0, 3.0, 3.0, 3.0]
    """
    place = copied_to(devices)
    return jax.shard_map(
        function, mesh=place.mesh, in_specs=place.spec, out_specs=place.spec, check_vma=False
    )


def copied_to(devices: tuple[Any, ...]) -> NamedSharding:
    """A copy on each device.

    >>> import jax
    >>> from simkit_solvers import copied_to
    >>> jax.device_put(jax.numpy.ones(3), copied_to((jax.devices()[0],))).shape
    (3,)
    """
    return NamedSharding(Mesh(np.asarray(devices), (SHARED,)), PartitionSpec())


def _devices_that_share() -> int:
    try:
        return jax.lax.axis_size(SHARED)
    except NameError:  # no such axis
        return 1


def while_loop(goes_on: Callable, iteration: Callable, start: PyTree) -> PyTree:
    """`jax.lax.while_loop`, which on an accelerator does several iterations before it asks whether to go on.

    There the host decides each time. An iteration that is not needed is computed and dropped.
    """

    def several(carry):
        for _ in range(ITERATIONS):
            carry = tree_where(goes_on(carry), iteration(carry), carry)
        return carry

    return jax.lax.while_loop(goes_on, several if on_accelerator() else iteration, start)
