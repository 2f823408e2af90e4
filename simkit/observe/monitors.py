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

    A functional of one time has a `date` instead, the number of a step, from 0.
    """

    functional: AbstractFunctional
    every: int = 1
    date: int | None = None

    @property
    def interval(self) -> int:
        """The number of which all its steps are multiples."""
        return self.every if self.date is None else self.date

    def initial(self, values: Values, dtype: DTypeLike) -> tuple:
        """What it keeps at t0."""
        return self.functional.begin(Moment(values, dtype))

    def updated(self, state: tuple, k: jax.Array, values: Values, dt: jax.Array, dtype: DTypeLike) -> tuple:
        """What it keeps after step `k`."""
        new = self.functional.add(state, Moment(values, dtype, k, dt, self.every))
        return self._where_due(new, state, k)

    def changed(self, state: tuple, k: jax.Array, then: Values, now: Values, dtype: DTypeLike) -> tuple:
        """What it keeps where the values change at once, at the end of step `k`."""
        new = self.functional.change(state, Moment(then, dtype), Moment(now, dtype))
        return self._where_due(new, state, k)

    def value(self, state: tuple, k: jax.Array, values: Values, dtype: DTypeLike) -> jax.Array:
        """The functional's value so far, after step `k`."""
        return self.functional.value(state, Moment(values, dtype, k, every=self.every))

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
