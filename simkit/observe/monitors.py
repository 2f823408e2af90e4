"""The accumulators of path functionals: which steps each monitors, and what it keeps."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from simkit.expressions import Expression
from simkit.functionals.functional import AbstractFunctional, Moment

Values = Mapping[Any, Any]  # of variables and functionals, by name and by itself


@dataclasses.dataclass(frozen=True)
class Monitor:
    """One path functional at every `every`-th step. Observables that agree in both share the accumulator.

    A functional of one time has a `date` instead, the number of a step, from 0. With `middles` its bridges go
    through points at half the time, and what is kept ends with the one of the present step, from `driven`.
    """

    functional: AbstractFunctional
    every: int = 1
    date: int | None = None
    middles: bool = False

    @property
    def interval(self) -> int:
        """The number of which all its steps are multiples."""
        return self.every if self.date is None else self.date

    def initial(self, values: Values, dtype: DTypeLike) -> tuple:
        """What it keeps at t0."""
        state = self.functional.begin(Moment(values, dtype))
        return (*state, jnp.zeros((), dtype)) if self.middles else state

    def driven(self, state: tuple, middle: jax.Array) -> tuple:
        """What it keeps once the middle of the step that begins is known."""
        return (*state[:-1], middle)

    def _parted(self, state: tuple) -> tuple[tuple, tuple]:
        """What the functional keeps, and the middle if there is one."""
        return (state[:-1], state[-1:]) if self.middles else (state, ())

    def updated(self, state: tuple, k: jax.Array, values: Values, dt: jax.Array, dtype: DTypeLike) -> tuple:
        """What it keeps after step `k`."""
        own, middle = self._parted(state)
        new = self.functional.add(own, Moment(values, dtype, k, dt, self.every, *middle))
        return self._where_due((*new, *middle), state, k)

    def changed(self, state: tuple, k: jax.Array, then: Values, now: Values, dtype: DTypeLike) -> tuple:
        """What it keeps where the values change at once, at the end of step `k`."""
        own, middle = self._parted(state)
        new = self.functional.change(own, Moment(then, dtype), Moment(now, dtype))
        return self._where_due((*new, *middle), state, k)

    def value(self, state: tuple, k: jax.Array, values: Values, dtype: DTypeLike) -> jax.Array:
        """The functional's value so far, after step `k`."""
        return self.functional.value(self._parted(state)[0], Moment(values, dtype, k, every=self.every))

    def held(self, state: tuple, values: Values, dtype: DTypeLike) -> tuple:
        """What it keeps once its condition holds."""
        return self.functional.held(state, Moment(values, dtype))

    def _where_due(self, new: tuple, state: tuple, k: jax.Array) -> tuple:
        """The new state where the step is monitored, otherwise the old one."""
        if self.date is not None:
            due = k <= jnp.uint32(self.date)
        elif self.every > 1:
            due = k % jnp.uint32(self.every) == 0
        else:
            return new
        return jax.tree.map(lambda a, b: jnp.where(due, a, b), new, state)


def value_of(expression: Expression, values: Mapping[str, Any], dtype: DTypeLike) -> jax.Array:
    """The value of an expression, as an array."""
    return jnp.asarray(expression(values), dtype)
