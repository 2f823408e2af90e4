r"""Linear maps that are declared to JAX as their own transposes.

Of $y = A(g)\,v$ with $A = A^T$ the reverse pass is the same map: for a program that gathers, one that gathers
too, where JAX's own transpose would scatter.
"""

from collections.abc import Callable

import jax
from jax.extend.core import ClosedJaxpr, Primitive, jaxpr_as_fun
from jax.interpreters import ad, batching, mlir
from jaxtyping import Array, Float, PyTree


def self_adjoint(apply: Callable, given: PyTree, vector: Float[Array, "..."]) -> Float[Array, "..."]:
    """`apply(given, vector)`, linear in the array `vector` and its own transpose, which is not checked.

    `given` is a pytree of arrays. Derivatives in it, and of any order, are those of the program `apply`.

    >>> import jax.numpy as jnp
    >>> from simkit_solvers import self_adjoint
    >>> matrix = jnp.array([[2.0, 1.0], [1.0, 3.0]])
    >>> self_adjoint(jnp.matmul, matrix, jnp.array([1.0, 0.0])).tolist()
    [2.0, 1.0]
    """
    leaves, structure = jax.tree.flatten(given)

    def flat(*arguments):
        return apply(structure.unflatten(arguments[:-1]), arguments[-1])

    return self_adjoint_p.bind(*leaves, vector, program=jax.make_jaxpr(flat)(*leaves, vector))


def _run(*arguments, program: ClosedJaxpr):
    return jaxpr_as_fun(program)(*arguments)[0]


def _jvp(primals, tangents, *, program: ClosedJaxpr):
    """The change of the vector goes through the map; that of what is given through its program."""
    *given, vector = primals
    *dgiven, dvector = tangents
    out = self_adjoint_p.bind(*primals, program=program)
    changes = []
    if type(dvector) is not ad.Zero:
        changes.append(self_adjoint_p.bind(*given, dvector, program=program))
    moved = [i for i, x in enumerate(dgiven) if type(x) is not ad.Zero]
    if moved:

        def along(*some):
            all_given = [some[moved.index(i)] if i in moved else x for i, x in enumerate(given)]
            return _run(*all_given, vector, program=program)

        changes.append(jax.jvp(along, [given[i] for i in moved], [dgiven[i] for i in moved])[1])
    return out, sum(changes[1:], changes[0])


def _transpose(change, *arguments, program: ClosedJaxpr):
    given = arguments[:-1]
    if type(change) is ad.Zero:
        return [None] * len(given) + [ad.Zero(arguments[-1].aval)]
    return [None] * len(given) + [self_adjoint_p.bind(*given, change, program=program)]


def _batch(arguments, axes, *, program: ClosedJaxpr):
    """A batch of maps, or of vectors, is a map of the batch."""
    size = next(x.shape[axis] for x, axis in zip(arguments, axes, strict=True) if axis is not None)
    *given, vector = arguments
    *axes, axis = axes
    rows = batching.bdim_at_front(vector, axis, size)

    def apply(*arguments):
        return jax.vmap(lambda *each: _run(*each, program=program), (*axes, 0))(*arguments)

    batched = jax.make_jaxpr(apply)(*given, rows)
    return self_adjoint_p.bind(*given, rows, program=batched), 0


self_adjoint_p = Primitive("self_adjoint")
self_adjoint_p.def_impl(_run)
self_adjoint_p.def_abstract_eval(lambda *_, program: program.out_avals[0])
ad.primitive_jvps[self_adjoint_p] = _jvp
ad.primitive_transposes[self_adjoint_p] = _transpose
batching.primitive_batchers[self_adjoint_p] = _batch
mlir.register_lowering(self_adjoint_p, mlir.lower_fun(_run, multiple_results=False))
