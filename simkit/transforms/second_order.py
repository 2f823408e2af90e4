r"""Second derivatives of scalar functions: the Hessian, and its product with a vector without the Hessian."""

from collections.abc import Callable
from typing import Literal

import jax

from simkit.errors import InputError
from simkit.transforms.arguments import Positions, check_floats, check_positions, check_scalar

Inner = Literal["reverse", "forward"]


def hessian(function: Callable, wrt: Positions = 0, inner: Inner = "reverse") -> Callable:
    r"""$\partial^2 f / \partial x_i \partial x_j$ of a scalar function, as a function of the same arguments.

    Columns of the gradient's Jacobian, forward over `inner`: over reverse mode n directions of about five
    runs each, over forward mode n² of about two, for functions that have no reverse mode. The structure is
    that of the argument, twice. Raises `InputError` where the function is not scalar.

    >>> import jax.numpy as jnp
    >>> from simkit.transforms import hessian
    >>> hessian(lambda x: x[0] ** 2 * x[1])(jnp.array([1.0, 2.0])).tolist()
    [[4.0, 2.0], [2.0, 0.0]]
    """
    if inner not in ("reverse", "forward"):
        raise InputError(f"hessian: inner is reverse or forward, not {inner!r}")
    check_positions("hessian: wrt", wrt, function)
    once = jax.grad if inner == "reverse" else jax.jacfwd

    def second(*args):
        check_floats("hessian: wrt", args, wrt)
        check_scalar("hessian", function, args)
        return jax.jacfwd(once(function, wrt), wrt)(*args)

    return second


def hessian_vector_product(function: Callable, wrt: int = 0) -> Callable:
    r"""$\sum_j \partial^2 f / \partial x_i \partial x_j\, v_j$ as a function of `(v, *args)`.

    The derivative of the gradient along v, forward over reverse: at about the cost of two gradients, without
    forming the Hessian. `v` has the structure of argument `wrt`, and so has the product. Raises `InputError`
    where the function is not scalar or `v` has another structure.
    Reference: Pearlmutter (1994), Fast exact multiplication by the Hessian, doi:10.1162/neco.1994.6.1.147.

    >>> import jax.numpy as jnp
    >>> from simkit.transforms import hessian_vector_product
    >>> product = hessian_vector_product(lambda x: x[0] ** 2 * x[1])
    >>> product(jnp.array([1.0, 0.0]), jnp.array([1.0, 2.0])).tolist()
    [4.0, 2.0]
    """
    check_positions("hessian_vector_product: wrt", wrt, function)

    def product(v, *args):
        check_floats("hessian_vector_product: wrt", args, wrt)
        check_scalar("hessian_vector_product", function, args)
        if jax.tree.structure(v) != jax.tree.structure(args[wrt]):
            raise InputError(
                f"hessian_vector_product: v is {jax.tree.structure(v)}, and argument {wrt} "
                f"{jax.tree.structure(args[wrt])}; give one number for each of the argument's"
            )

        def gradient(x):
            return jax.grad(function, wrt)(*args[:wrt], x, *args[wrt + 1 :])

        return jax.jvp(gradient, (args[wrt],), (v,))[1]

    return product
