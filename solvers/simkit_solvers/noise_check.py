"""Whether a model's noise is what it says: a sum of increments, of the kind that it names."""

import math

import jax
import jax.numpy as jnp
from jax.extend.core import Literal

from simkit_solvers.problem import AbstractSDE

SHIFTS = (0.0, math.pi / 7, -math.e / 5)  # of points and times, where nothing cancels by chance

# When the result of an operation is zero, given which of its operands are.
ZERO_WHEN = {
    "mul": any,
    "add": all,
    "sub": all,
    "neg": all,
    "convert_element_type": all,
    "broadcast_in_dim": all,
    "div": lambda zero: zero[0],
    "select_n": lambda zero: all(zero[1:]),
}


def check_noise(model: AbstractSDE, y0) -> None:
    """Raise `ValueError` where `noise` does not vanish without increments, or is not of its `noise_kind`.

    `y0` is a `State` of concrete numbers. The program of the noise settles most models, and costs nothing;
    only where it reads more than it may, or is not seen to vanish, is it computed, with its Jacobian, at `y0`
    and time zero and beside them. Says nothing of `commutative`, nor whether a noise that vanishes with its
    increments is linear in them.
    """
    states, increments = model.State._fields, model.Noise._fields
    who, kind = f"{type(model).__name__}.noise", model.noise_kind
    if kind == "scalar" and len(increments) != 1:
        raise ValueError(
            f"{who}_kind: scalar noise has one component, {type(model).__name__} has "
            f"{len(increments)} ({', '.join(increments)}); say commutative or general"
        )
    zero = model.Noise(*(0.0 for _ in increments))
    read, vanishes = _seen(model, y0, zero)
    if not vanishes:
        for t, y in _points(y0):
            for name, value in zip(states, model.noise(t, y, zero), strict=True):
                if abs(float(value)) > 0:
                    raise ValueError(
                        f"{who}: must be a sum of increments times their coefficients, and that of {name} is "
                        f"{float(value):g} where all increments are 0; multiply by one of "
                        f"{', '.join(f'dW.{k}' for k in increments)}"
                    )
    wrong = [
        (name, other)
        for i, (name, found) in enumerate(zip(states, read, strict=True))
        for other in sorted(found)
        if not _may_read(kind, i, other, states, increments)
    ]
    if wrong:
        slopes = _slopes(model, y0)
        for name, other in wrong:
            if slopes[name, other]:
                what = f"on {other}" if other in states else f"on dW.{other}"
                allowed = {
                    "additive": "additive noise depends on no variable; say diagonal, commutative or general",
                    "diagonal": "diagonal noise has one component for each variable, in the same order, and "
                    "the noise of a variable depends on that one and on the variable alone; say commutative "
                    "or general",
                }[kind]
                raise ValueError(f"{who}_kind: the noise of {name} depends {what}, but {allowed}")


def _may_read(kind: str, i: int, other: str, states, increments) -> bool:
    if kind == "additive":
        return other not in states
    if kind == "diagonal":
        return other in ("", states[i]) or (i < len(increments) and other == increments[i])
    return True


def _seen(model: AbstractSDE, y0, zero) -> tuple[list[frozenset[str]], bool]:
    """For each variable the names of the variables and increments from which its noise is computed.

    The time has no name. And whether the program shows that all noise vanishes without increments.
    """
    names = ("", *y0._fields, *zero._fields)
    jaxpr = jax.make_jaxpr(lambda t, y, dW: tuple(model.noise(t, y, dW)))(0.0, y0, zero).jaxpr
    known = {x: frozenset([name]) for x, name in zip(jaxpr.invars, names, strict=True)}
    zeros = set(jaxpr.invars[1 + len(y0) :])

    def read(x) -> frozenset[str]:
        return frozenset() if isinstance(x, Literal) else known.get(x, frozenset())

    def is_zero(x) -> bool:
        return x.val == 0 if isinstance(x, Literal) else x in zeros

    for equation in jaxpr.eqns:
        found = frozenset().union(*map(read, equation.invars))
        known |= dict.fromkeys(equation.outvars, found)
        rule = ZERO_WHEN.get(equation.primitive.name)
        if rule is not None and rule([is_zero(x) for x in equation.invars]):
            zeros.update(equation.outvars)
    return [read(x) for x in jaxpr.outvars], all(is_zero(x) for x in jaxpr.outvars)


def _points(y0):
    """Times and states."""
    for shift in SHIFTS:
        yield abs(shift), type(y0)(*(jnp.asarray(x, float) + shift * (1 + i) for i, x in enumerate(y0)))


def _slopes(model: AbstractSDE, y0) -> dict[tuple[str, str], bool]:
    """Whether the noise of a variable changes with another, or with an increment, at one of the points."""
    dW = model.Noise(*(1.0 + 0.1 * k for k in range(len(model.Noise._fields))))
    names = (*y0._fields, *dW._fields)
    found = {(name, other): False for name in y0._fields for other in names}
    for t, y in _points(y0):
        jacobian = jax.jacfwd(lambda y, dW, t=t: model.noise(t, y, dW), (0, 1))(y, dW)
        for name, (of_state, of_noise) in zip(y0._fields, jacobian, strict=True):
            for other, slope in zip(names, (*of_state, *of_noise), strict=True):
                found[name, other] |= bool(abs(float(slope)) > 0)
    return found
