"""Functions that are traced once for all calls, whatever the numbers, and what a function reads."""

import dataclasses
import functools
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jax.extend.core import Jaxpr, JaxprEqn, Literal

# They do nothing where what comes out has the shape and type of what goes in.
IDENTITIES = ("convert_element_type", "reshard", "broadcast_in_dim")


@dataclasses.dataclass(frozen=True)
class Static:
    """A tree as a part of a program: equal to another of the same structure with equal leaves."""

    tree: Any = dataclasses.field(compare=False)
    structure: Any = dataclasses.field(init=False, repr=False)
    leaves: tuple = dataclasses.field(init=False, repr=False)

    def __post_init__(self):
        leaves, structure = jax.tree.flatten(self.tree)
        object.__setattr__(self, "structure", structure)
        object.__setattr__(self, "leaves", tuple(map(_as_key, leaves)))


def _as_key(leaf) -> Hashable:
    """A key that is equal for leaves that do the same: 1, 1.0 and True differ, an array is its bytes."""
    if isinstance(leaf, np.ndarray | jax.Array):
        array = np.asarray(leaf)
        return type(leaf), array.dtype.str, array.shape, array.tobytes()
    return type(leaf), leaf


def traced_once(function: Callable, *arguments) -> Any:
    """`function(*arguments)`, which gives arrays; traced once for arguments that differ in arrays alone.

    So are its derivatives, along the same leaves, and its batches: what jax keeps of them, it keeps with the
    trace, in which nothing is computed twice. `function` reads nothing but its arguments.
    """
    numbers, others = eqx.partition(arguments, eqx.is_array)
    return _called(numbers, Static((function, others)))


def reads(function: Callable, *arguments) -> bool:
    """Whether a function reads any of its arguments."""
    with jax.numpy_dtype_promotion("standard"):  # of whatever precision its own numbers are
        jaxpr = jax.make_jaxpr(function)(*arguments).jaxpr
    used = [*jaxpr.outvars, *(x for eqn in jaxpr.eqns for x in eqn.invars)]
    return any(var is x for var in jaxpr.invars for x in used)


@functools.partial(jax.jit, static_argnums=1)
def _called(numbers, others: Static):
    function, rest = others.tree

    def of(numbers):
        return function(*eqx.combine(numbers, rest))

    traced, shapes = jax.make_jaxpr(of, return_shape=True)(numbers)
    values = _Once({}).values(traced.jaxpr, traced.consts, jax.tree.leaves(numbers))
    return jax.tree.unflatten(jax.tree.structure(shapes), values)


@dataclasses.dataclass(frozen=True)
class _Once:
    """Evaluates traced operations, equal ones once; calls of functions are inlined.

    A derivative along each of several directions repeats the step itself. XLA would find that out, after jax
    has differentiated, batched and lowered each copy.
    """

    known: dict[Hashable, tuple]  # by operation: what it gives, and its arguments, which keep their ids

    def values(self, jaxpr: Jaxpr, consts: Sequence, given: Sequence) -> list:
        """The outputs for given inputs."""
        env = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*consts, *given), strict=True))

        def read(atom):
            return atom.val if isinstance(atom, Literal) else env[atom]

        for eqn in jaxpr.eqns:
            env.update(zip(eqn.outvars, self._of(eqn, [read(atom) for atom in eqn.invars]), strict=True))
        return [read(atom) for atom in jaxpr.outvars]

    def _of(self, eqn: JaxprEqn, given: list) -> Sequence:
        name = eqn.primitive.name
        if name in IDENTITIES and eqn.invars[0].aval == eqn.outvars[0].aval:
            return given[:1]
        if name == "jit":
            inner = eqn.params["jaxpr"]
            return self.values(inner.jaxpr, inner.consts, given)
        key = eqn.primitive, tuple(map(_same, eqn.invars, given)), tuple(sorted(eqn.params.items()))
        try:
            cached = None if eqn.effects else self.known.get(key)
        except TypeError:  # a parameter that is not hashable
            return self._bound(eqn, given)
        if cached is None:
            cached = self._bound(eqn, given), given
            self.known[key] = cached
        return cached[0]

    @staticmethod
    def _bound(eqn: JaxprEqn, given: list) -> Sequence:
        results = eqn.primitive.bind(*given, **eqn.primitive.get_bind_params(eqn.params))
        return results if eqn.primitive.multiple_results else [results]


def _same(atom, value) -> Hashable:
    """What distinguishes the arguments of operations."""
    if isinstance(atom, Literal):
        array = np.asarray(value)
        return str(atom.aval), array.tobytes()
    return id(value)
