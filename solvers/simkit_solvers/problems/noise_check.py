"""Whether a model's noise is linear in the increments, and of the stated kind."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.extend.core import Literal
from jaxtyping import PyTree

from simkit_solvers.problems.problem import AbstractSDE

SHIFTS = (0.0, math.pi / 7, -math.e / 5)  # of points and times, where nothing cancels by chance

# What a number is in the increments: zero, without any of them, a sum of them, or anything.
ZERO, CONSTANT, LINEAR, ANY = range(4)
UNCHANGED = ("neg", "convert_element_type", "broadcast_in_dim", "reshape", "squeeze")
COMBINATION = (2.0, -3.0)  # of two vectors of increments; none that is even or positive only passes


def check_noise(model: AbstractSDE, y0: PyTree) -> bool:
    """Raise `ValueError` where `noise` is not linear in the increments, or is not of its `noise_kind`.

    True where that holds for all values of the parameters.

    `y0` is a `State` of concrete numbers. The program of the noise settles most models, and costs nothing;
    only where it reads more than it may, or is not a sum of increments to be seen, is it computed, with its
    Jacobian, at `y0` and time zero and near them. Says nothing of `commutative`.

    >>> from simkit_physics import GBM
    >>> from simkit_solvers import check_noise
    >>> check_noise(GBM(mu=0.05, sigma=0.2), GBM.State(S=100.0))
    True
    """
    states, increments = model.State._fields, model.Noise._fields
    who, kind = f"{type(model).__name__}.noise", model.noise_kind
    if kind == "scalar" and len(increments) != 1:
        raise ValueError(
            f"{who}_kind: scalar noise has one component, {type(model).__name__} has "
            f"{len(increments)} ({', '.join(increments)}); say commutative or general"
        )
    zero = model.Noise(*(0.0 for _ in increments))
    read, linear = _seen(model, y0, zero)
    if not linear:
        _check_linear(model, y0, who)
    wrong = [
        (name, other)
        for i, (name, names) in enumerate(zip(states, read, strict=True))
        for other in sorted(names)
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
    return linear and not wrong


def _may_read(kind: str, i: int, other: str, states, increments) -> bool:
    if kind == "additive":
        return other not in states
    if kind == "diagonal":
        return other in ("", states[i]) or (i < len(increments) and other == increments[i])
    return True


def _check_linear(model: AbstractSDE, y0, who: str) -> None:
    """Raise `ValueError` where the noise is no linear function of the increments at one of the points."""
    states, increments = model.State._fields, model.Noise._fields
    zero = model.Noise(*(0.0 for _ in increments))
    one, other = (model.Noise(*(base + 0.1 * k for k in range(len(increments)))) for base in (1.0, 0.7))
    p, q = COMBINATION
    tolerance = math.sqrt(jnp.finfo(jnp.result_type(float)).eps)
    both = model.Noise(*(p * a + q * b for a, b in zip(one, other, strict=True)))
    noise = jax.jit(lambda *at: model.noise(*at))
    for t, y in _points(y0):
        values = zip(states, *(noise(t, y, dW) for dW in (zero, one, other, both)), strict=True)
        for name, *at in values:
            nothing, first, second, combined = (float(value) for value in at)
            if abs(nothing) > 0:
                raise ValueError(
                    f"{who}: must be a sum of increments times their coefficients, and that of {name} is "
                    f"{nothing:g} where all increments are 0; multiply by one of "
                    f"{', '.join(f'dW.{k}' for k in increments)}"
                )
            expected = p * first + q * second
            size = abs(p * first) + abs(q * second) + abs(combined)
            if abs(combined - expected) > tolerance * size:
                raise ValueError(
                    f"{who}: must be linear in the increments, and that of {name} is not: for increments "
                    f"{p:g} a - {-q:g} b it is {combined:g}, and {p:g} times that of a less {-q:g} times "
                    f"that of b is {expected:g}; multiply each increment by a coefficient without increments"
                )


def _seen(model: AbstractSDE, y0, zero) -> tuple[list[frozenset[str]], bool]:
    """For each variable the names of the variables and increments from which its noise is computed.

    The time has no name. And whether the program shows that all noise is linear in the increments.
    """
    names = ("", *y0._fields, *zero._fields)
    parameters, others = eqx.partition(model, eqx.is_inexact_array_like)

    def noise(parameters, t, y, dW):
        return tuple(eqx.combine(parameters, others).noise(t, y, dW))

    jaxpr = jax.make_jaxpr(noise)(parameters, 0.0, y0, zero).jaxpr
    invars = jaxpr.invars[-len(names) :]
    known = {x: frozenset([name]) for x, name in zip(invars, names, strict=True)}
    kinds = dict.fromkeys(invars[1 + len(y0) :], LINEAR)

    def read(x) -> frozenset[str]:
        return frozenset() if isinstance(x, Literal) else known.get(x, frozenset())

    def kind(x) -> int:
        if isinstance(x, Literal):
            return ZERO if jnp.ndim(x.val) == 0 and x.val == 0 else CONSTANT
        return kinds.get(x, CONSTANT)

    for equation in jaxpr.eqns:
        names_read = frozenset().union(*map(read, equation.invars))
        known |= dict.fromkeys(equation.outvars, names_read)
        kinds |= dict.fromkeys(
            equation.outvars, _kind_of(equation.primitive.name, [kind(x) for x in equation.invars])
        )
    return [read(x) for x in jaxpr.outvars], all(kind(x) in (ZERO, LINEAR) for x in jaxpr.outvars)


def _kind_of(operation: str, kinds: list[int]) -> int:
    """How the result of an operation depends on the increments, given how its operands do."""
    if operation in UNCHANGED:
        return kinds[0]
    if operation == "mul":
        return ZERO if ZERO in kinds else max(kinds) if CONSTANT in kinds else ANY
    if operation == "div" and kinds[1] == CONSTANT:
        return kinds[0]
    if operation == "select_n" and kinds[0] != CONSTANT:
        return ANY
    if operation in ("add", "sub", "select_n"):
        own = set(kinds[operation == "select_n" :]) - {ZERO}
        return own.pop() if len(own) == 1 else ANY if own else ZERO
    return CONSTANT if max(kinds, default=CONSTANT) <= CONSTANT else ANY


def _points(y0):
    """Times and states at which the noise is computed."""
    for shift in SHIFTS:
        yield abs(shift), type(y0)(*(jnp.asarray(x, float) + shift * (1 + i) for i, x in enumerate(y0)))


def _slopes(model: AbstractSDE, y0) -> dict[tuple[str, str], bool]:
    """Whether the noise of a variable changes with another, or with an increment, at one of the points."""
    dW = model.Noise(*(1.0 + 0.1 * k for k in range(len(model.Noise._fields))))
    names = (*y0._fields, *dW._fields)
    slopes = {(name, other): False for name in y0._fields for other in names}
    for t, y in _points(y0):
        jacobian = jax.jacfwd(lambda y, dW, t=t: model.noise(t, y, dW), (0, 1))(y, dW)
        for name, (of_state, of_noise) in zip(y0._fields, jacobian, strict=True):
            for other, slope in zip(names, (*of_state, *of_noise), strict=True):
                slopes[name, other] |= bool(abs(float(slope)) > 0)
    return slopes
