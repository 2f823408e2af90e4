"""Transforms of a function, composed in a stated order and checked before anything runs."""

import dataclasses
import time
from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import PyTree
from simkit_solvers.numerics.platforms import traced_for

from simkit.errors import InputError
from simkit.transforms.arguments import arity, name_of, positions
from simkit.transforms.compiled import Program, cost_of, placed
from simkit.transforms.records import (
    DERIVATIVES,
    MAPS,
    Jit,
    Pmap,
    Shard,
    Transform,
    mapped_arguments,
)


@dataclasses.dataclass(frozen=True)
class Pipeline:
    """A function and its transforms; see `pipeline`.

    >>> import jax.numpy as jnp
    >>> from simkit.transforms import Grad, Vmap, pipeline
    >>> slopes = pipeline(lambda x: x**3, Grad(), Vmap())
    >>> [type(each).__name__ for each in slopes.transforms]
    ['Grad', 'Vmap']
    """

    function: Callable
    transforms: tuple[Transform, ...]
    composed: Callable = dataclasses.field(repr=False)
    programs: dict[Hashable, Program] = dataclasses.field(default_factory=dict, repr=False, compare=False)

    def __call__(self, *args: PyTree) -> PyTree:
        self._check_count(args)
        jit = self.jit
        if jit is None:
            return self.composed(*args)
        program = self.programs.get(_key(args, jit)) if self.programs else None
        if program is not None:
            return program(*args)
        with self._traced(jit):
            return self.composed(*self._placed(args, jit))

    @property
    def jit(self) -> Jit | None:
        """How it is compiled, None where it is not."""
        last = self.transforms[-1] if self.transforms else None
        if isinstance(last, Pmap):
            return Jit()
        return last if isinstance(last, Jit) else None

    def lower(self, *args: PyTree) -> jax.stages.Lowered:
        """The traced program for arguments, or for their shapes (`jax.ShapeDtypeStruct`), as jax gives it.

        Raises `InputError` where the pipeline ends with neither `Jit` nor `Pmap`.
        """
        jit = self.jit
        if jit is None:
            raise InputError(f"pipeline: {name_of(self.function)} is not compiled; end with Jit()")
        self._check_count(args)
        compiled: Any = self.composed
        with self._traced(jit):
            return compiled.lower(*self._placed(args, jit))

    def compile(self, *args: PyTree) -> Program:
        """The program compiled for arguments or their shapes, with its cost. Raises what `lower` raises."""
        start = time.perf_counter()
        executable = self.lower(*args).compile()
        jit = self.jit or Jit()
        static = {i: args[i] for i in jit.static}
        return Program(executable, static, jit.place(), cost_of(executable, time.perf_counter() - start))

    def warm_up(self, *args: PyTree) -> Program:
        """Compile for such arguments or shapes now, so that later calls with them need not."""
        program = self.compile(*args)
        self.programs[_key(args, self.jit or Jit())] = program
        return program

    def _check_count(self, args: tuple) -> None:
        fewest, most = arity(self.function)
        if not fewest <= len(args) <= most:
            takes = f"{fewest} to {most:g}" if fewest != most else str(fewest)
            raise InputError(f"{name_of(self.function)} takes {takes} arguments by position, got {len(args)}")

    @staticmethod
    def _traced(jit: Jit) -> AbstractContextManager:
        """In which what is traced has the form for the device that was named."""
        device = jit.place()
        return nullcontext() if device is None else traced_for(device)

    def _placed(self, args: tuple, jit: Jit) -> list:
        device = jit.place()
        return [x if i in jit.static else placed(x, device) for i, x in enumerate(args)]


def pipeline(function: Callable, *transforms: Transform) -> Pipeline:
    """`function` with transforms applied in order: the last is the outermost.

    `pipeline(f, Grad(), Vmap(), Jit())` is `jax.jit(jax.vmap(jax.grad(f)))`. Arguments are positional.
    `Vmap`, `Shard` and `Pmap` mean the same: the function of one element, mapped over an axis, on one device
    or on several, with the same numbers. Raises `InputError` for meaningless combinations: `Jit` anywhere but
    last, several transforms that use devices, an argument that is missing, or static and also donated, mapped
    or differentiated, more devices than there are; and, when called or traced, the gradient of a function
    with more than one output.

    >>> import jax.numpy as jnp
    >>> from simkit.transforms import Grad, Jit, Vmap, pipeline
    >>> slopes = pipeline(lambda x: x**3, Grad(), Vmap(), Jit())
    >>> slopes(jnp.array([1.0, 2.0])).tolist()
    [3.0, 12.0]
    """
    known = Transform.__args__
    for number, each in enumerate(transforms, 1):
        if not isinstance(each, known):
            hint = (
                f"{each.__name__}()"
                if isinstance(each, type) and each in known
                else "a record such as Grad()"
            )
            raise InputError(f"pipeline: transform {number} is {each!r}; write {hint}")
        each.check(function)
    _check_order(function, transforms)
    made = function
    for each in transforms:
        made = _compiled(made, each) if isinstance(each, Jit) else each.apply(made)
    if transforms and isinstance(transforms[-1], Pmap):
        made = _compiled(made, Jit())  # or every call would be a new function to pmap, and compile anew
    return Pipeline(function, transforms, made)


def _compiled(function: Callable, jit: Jit) -> Callable:
    return jax.jit(function, static_argnums=jit.static, donate_argnums=jit.donate)


def _check_order(function: Callable, transforms: tuple[Transform, ...]) -> None:
    jits = [n for n, each in enumerate(transforms, 1) if isinstance(each, Jit)]
    if len(jits) > 1:
        raise InputError(f"pipeline: Jit stands at {jits}; compile once: keep the last")
    if jits and jits[0] < len(transforms):
        outside = type(transforms[jits[0]]).__name__
        raise InputError(f"pipeline: Jit stands before {outside}, which would not be compiled; put Jit last")
    laid = [each for each in transforms if isinstance(each, Shard | Pmap)]
    if len(laid) > 1:
        names = " and ".join(type(each).__name__ for each in laid)
        raise InputError(f"pipeline: {names} both lay out over the devices; keep one, and Vmap for the other")
    jit = transforms[-1] if jits else None
    if not isinstance(jit, Jit):
        return
    if laid and isinstance(laid[0], Pmap):
        raise InputError(
            "pipeline: Pmap compiles what it maps, and Jit would once more; drop Jit, or use Shard"
        )
    if laid and jit.device is not None:
        name = type(laid[0]).__name__
        raise InputError(
            f"pipeline: {name} lays out over devices, and Jit names one: {jit.device}; drop either"
        )
    most = arity(function)[1]
    for each in transforms:
        if isinstance(each, DERIVATIVES):
            _refuse(jit, positions("wrt", each.wrt), f"{type(each).__name__} differentiates by it")
        if isinstance(each, MAPS):
            mapped = mapped_arguments(each, int(min(most, 64)))
            _refuse(jit, mapped, f"{type(each).__name__} maps over it; give it None in in_axes")


def _refuse(jit: Jit, used: tuple[int, ...], why: str) -> None:
    both = set(jit.static) & set(used)
    if both:
        raise InputError(f"pipeline: argument {min(both)} is static in Jit, and {why}")


def _key(args: tuple, jit: Jit) -> Hashable:
    dynamic = [x for i, x in enumerate(args) if i not in jit.static]
    leaves, structure = jax.tree.flatten(dynamic)
    static = tuple(args[i] for i in jit.static)
    return structure, tuple((jnp.shape(x), jnp.result_type(x)) for x in leaves), static
