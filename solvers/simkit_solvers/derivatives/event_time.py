r"""The time at which a trajectory meets a condition, with the derivative of the time itself.

Where $g(t^*, \theta) = 0$, the implicit function theorem gives $\mathrm d t^* = -\,(\partial
g/\partial\theta)\,\mathrm d\theta \,/\, (\partial g/\partial t)$: exact whatever finds the root, in both
modes and of any order.
Reference: Galán, Feehery & Barton (1999), Parametric sensitivity functions for hybrid discrete/continuous
systems, doi:10.1016/S0168-9274(98)00125-1.
"""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import lineax as lx
import optimistix as optx
from jaxtyping import Array, Float, PyTree

from simkit_solvers.numerics.scalar import Scalar


def event_time(
    condition: Callable, t0: Scalar, t1: Scalar, args: PyTree = None, *, throw: bool = True
) -> Float[Array, ""]:
    r"""The time between `t0` and `t1` at which `condition(t, args)` crosses zero, a scalar.

    `condition` takes a time and gives a scalar: a closed form, dense output (of
    `simkit_solvers.solution`), or a whole run up to that time. Numbers that it depends on stand in `args`, a
    pytree, or are closed over; derivatives are taken with respect to both. Times and the condition take the
    dtype of `t0`, a float. Bisection halves the interval until its ends are neighbouring numbers; of several
    crossings it finds one.

    Without a change of sign between `t0` and `t1` it raises an error, unless `throw` is false: then the time
    is NaN. Where the condition only grazes zero, $\partial g/\partial t = 0$, the time has no derivative, and
    the one that is given is not finite or an error.

    >>> import jax
    >>> import jax.numpy as jnp
    >>> from simkit_solvers import event_time
    >>> def half_life(rate):
    ...     return event_time(lambda t, k: jnp.exp(-k * t) - 0.5, 0.0, 10.0, rate)
    >>> round(float(half_life(1.0)), 4), round(float(jax.grad(half_life)(1.0)), 4)
    (0.6931, -0.6931)
    """
    t0 = jnp.asarray(t0, jnp.result_type(t0, float) if not eqx.is_inexact_array(t0) else None)
    t1 = jnp.asarray(t1, t0.dtype)

    def g(t, args):
        return jnp.asarray(condition(t, args), t.dtype)

    before, after = (jax.lax.stop_gradient(g(t, args)) for t in (t0, t1))
    crossed = (before <= 0) != (after <= 0)
    if throw:
        t0 = eqx.error_if(
            t0,
            ~crossed,
            "event_time: the condition has the same sign at t0 and t1; choose times before and after the "
            "event, or throw=False, which gives NaN",
        )
    root = optx.root_find(
        g,
        # The values do not say how near the time is, so all halvings are done.
        optx.Bisection(rtol=0.0, atol=0.0, flip=True),
        0.5 * (t0 + t1),
        args,
        options={"lower": jnp.where(before > 0, t0, t1), "upper": jnp.where(before > 0, t1, t0)},
        adjoint=optx.ImplicitAdjoint(lx.AutoLinearSolver(well_posed=True)),
        max_steps=jnp.finfo(jnp.result_type(t0)).nmant + 4,
        throw=False,
    )
    return jnp.where(crossed, root.value, jnp.nan)
