"""A jaxpr without calls: one list of operations, those of inner functions in their place."""

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal
from jaxtyping import PyTree

# What is called here is written out; a loop, a branch or a solver of linear equations stays one operation.
_CALLS = (
    "jit pjit closed_call core_call custom_jvp_call custom_vjp_call custom_vjp_call_jaxpr checkpoint remat2"
)
CALLS = frozenset(_CALLS.split())


@dataclasses.dataclass(frozen=True, eq=False)
class Value:
    """Something computed, or given."""

    shape: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Constant:
    """A constant in the program."""

    value: Any


@dataclasses.dataclass(frozen=True, eq=False)
class Operation:
    """A primitive of jax with what it reads and gives; `equation` is its line in the jaxpr."""

    name: str
    inputs: tuple[Value | Constant, ...]
    outputs: tuple[Value, ...]
    equation: Any

    def __call__(self, *arguments) -> list[Any]:
        """What it gives for concrete inputs."""
        primitive = self.equation.primitive
        result = primitive.bind(*arguments, **primitive.get_bind_params(self.equation.params))
        return list(result) if primitive.multiple_results else [result]


@dataclasses.dataclass(frozen=True, eq=False)
class Flat:
    """A function as operations in the order in which they run."""

    inputs: tuple[Value, ...]
    operations: tuple[Operation, ...]
    outputs: tuple[Value | Constant, ...]

    def follow(
        self, inputs: Iterable[Any], constant: Callable, rule: Callable[[Operation, list], list]
    ) -> list:
        """What each output has: inputs have `inputs`, constants `constant(value)`.

        `rule(operation, given)` makes what an operation's outputs have out of what its inputs have.
        """
        known = dict(zip(self.inputs, inputs, strict=True))

        def read(x: Value | Constant) -> Any:
            return known[x] if isinstance(x, Value) else constant(x.value)

        for operation in self.operations:
            results = rule(operation, [read(x) for x in operation.inputs])
            known |= dict(zip(operation.outputs, results, strict=True))
        return [read(x) for x in self.outputs]


def nothing(value: Any) -> frozenset:
    """What a constant depends on."""
    return frozenset()


def union(operation: Operation, given: list[frozenset]) -> list[frozenset]:
    """All that an operation's inputs depend on, which is what each of its outputs does."""
    return [frozenset().union(*given)] * len(operation.outputs)


def flat(closed: ClosedJaxpr, keep: frozenset[str] = frozenset()) -> Flat:
    """Write out all calls in a jaxpr, except those of functions with a name in `keep`."""
    inputs = tuple(Value(_shape(x)) for x in closed.jaxpr.invars)
    operations: list[Operation] = []
    outputs = _written_out(closed.jaxpr, closed.consts, inputs, operations, keep)
    return Flat(inputs, tuple(operations), tuple(outputs))


def _written_out(jaxpr: Jaxpr, constants, inputs, operations: list[Operation], keep: frozenset[str]):
    known: dict[Any, Value | Constant] = dict(zip(jaxpr.invars, inputs, strict=True))
    known |= {x: Constant(value) for x, value in zip(jaxpr.constvars, constants, strict=True)}

    def read(x) -> Value | Constant:
        return Constant(x.val) if isinstance(x, Literal) else known[x]

    for equation in jaxpr.eqns:
        given = tuple(read(x) for x in equation.invars)
        name = equation.primitive.name
        inner = _called(equation) if name in CALLS and equation.params.get("name") not in keep else None
        if inner is None:
            outputs = tuple(Value(_shape(x)) for x in equation.outvars)
            shown = equation.params.get("name", name) if name in CALLS else name
            operations.append(Operation(str(shown), given, outputs, equation))
        else:
            outputs = _written_out(inner.jaxpr, inner.consts, given, operations, keep)
        known |= dict(zip(equation.outvars, outputs, strict=True))
    return [read(x) for x in jaxpr.outvars]


def _shape(variable: Any) -> tuple[int, ...]:
    return tuple(variable.aval.shape)


def _called(equation) -> ClosedJaxpr | None:
    """The function that a call calls, where its arguments are those of the call."""
    for value in equation.params.values():
        if isinstance(value, Jaxpr):
            value = ClosedJaxpr(value, ()) if not value.constvars else None
        if isinstance(value, ClosedJaxpr) and len(value.jaxpr.invars) == len(equation.invars):
            return value
    return None


def traced(function: Callable, *arguments: PyTree) -> tuple[Flat, Any]:
    """A function of pytrees written out, and the structure of what it gives."""
    closed, shapes = jax.make_jaxpr(function, return_shape=True)(*arguments)
    return flat(closed), jax.tree.structure(shapes)


def influences(program: Flat) -> list[frozenset[int]]:
    """For each output the numbers of the inputs that it is computed from."""
    return program.follow([frozenset([i]) for i in range(len(program.inputs))], nothing, union)
