"""One function mapped over an axis whose parts lie on several devices."""

from collections.abc import Callable
from typing import Any, Literal

import jax
import jax.extend.core
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec

from simkit.errors import InputError
from simkit.machine.on_each_device import first_devices

Axes = int | None | tuple[int | None, ...]


def axes_of(in_axes: Axes, args: tuple) -> tuple[int | None, ...]:
    """One axis for each argument."""
    return in_axes if isinstance(in_axes, tuple) else (in_axes,) * len(args)


def spread(
    function: Callable, in_axes: Axes, out_axes: int, devices: int | None, how: Literal["shard", "pmap"]
) -> Callable:
    """`jax.vmap(function, in_axes, out_axes)`, each device on its own part of the axis.

    Parts are equally long: the last elements are repeated to fill them and dropped again.
    """
    place = "Shard" if how == "shard" else "Pmap"

    def mapped(*args):
        over = jax.local_devices() if devices is None else [*first_devices(devices, f"{place}.devices")]
        axes = axes_of(in_axes, args)
        length = axis_length(place, axes, args)
        each = -(-length // len(over))
        indices = np.minimum(np.arange(len(over) * each), length - 1)

        def front(axis, x):
            x = jnp.moveaxis(jnp.asarray(x), axis, 0)
            return x if len(indices) == length else x[indices]

        some = [
            jax.tree.map(lambda x, a=a: front(a, x), x)
            for a, x in zip(axes, args, strict=True)
            if a is not None
        ]
        rest = [x for a, x in zip(axes, args, strict=True) if a is None]

        def of_part(some, rest):
            mapped, shared = iter(some), iter(rest)
            whole = [next(shared if a is None else mapped) for a in axes]
            return jax.vmap(function, tuple(None if a is None else 0 for a in axes))(*whole)

        way = _sharded if how == "shard" else _pmapped
        out = way(of_part, over, each)(some, rest)
        return jax.tree.map(lambda x: jnp.moveaxis(x[:length], 0, out_axes), out)

    return mapped


def axis_length(place: str, axes: tuple[int | None, ...], args: tuple) -> int:
    """The length of the mapped axis, the same in all arguments."""
    if len(axes) != len(args):
        raise InputError(f"{place}: in_axes {axes} are for {len(axes)} arguments, and {len(args)} were given")
    lengths: dict[int, str] = {}
    for i, (axis, x) in enumerate(zip(axes, args, strict=True)):
        if axis is None:
            continue
        for path, leaf in jax.tree.leaves_with_path(x):
            where, shape = f"argument {i}{jax.tree_util.keystr(path)}", jnp.shape(leaf)
            if not -len(shape) <= axis < len(shape):
                raise InputError(f"{place}: {where} has shape {list(shape)}, and no axis {axis}")
            lengths.setdefault(shape[axis], where)
    if len(lengths) > 1:
        raise InputError(
            f"{place}: the mapped axes differ: "
            + ", ".join(f"{n} in {where}" for n, where in lengths.items())
        )
    if not lengths or 0 in lengths:
        raise InputError(f"{place}: nothing to map over; give an argument an axis in in_axes")
    return next(iter(lengths))


def _sharded(of_part: Callable, devices: list, each: int) -> Callable:
    mesh = Mesh(np.array(devices), ("part",))

    def run(some, rest):
        # Traced before shard_map sees it: inside, types carry the mesh, and lineax refuses them (issue 185).
        shapes = jax.tree.map(lambda x: jax.ShapeDtypeStruct((each, *x.shape[1:]), x.dtype), some)
        plain = jax.tree.map(lambda x: jax.ShapeDtypeStruct(jnp.shape(x), jnp.result_type(x)), rest)
        traced, out = jax.make_jaxpr(of_part, return_shape=True)(shapes, plain)

        def part(some, rest):
            result: Any = jax.extend.core.jaxpr_as_fun(traced)(*jax.tree.leaves((some, rest)))
            return jax.tree.unflatten(jax.tree.structure(out), result)

        own = PartitionSpec("part")
        specs = own, PartitionSpec()
        return jax.shard_map(part, mesh=mesh, in_specs=specs, out_specs=own, check_vma=False)(some, rest)

    return run


def _pmapped(of_part: Callable, devices: list, each: int) -> Callable:
    def run(some, rest):
        parts = jax.tree.map(lambda x: x.reshape(len(devices), each, *x.shape[1:]), some)
        out = jax.pmap(of_part, in_axes=(0, None), devices=devices)(parts, rest)
        return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), out)

    return run
