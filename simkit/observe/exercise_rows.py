"""Values along a path at the exercise dates, and the normals between them."""

import equinox as eqx
import jax
import jax.numpy as jnp
from simkit_solvers.problems.observe import AbstractObserver
from simkit_solvers.problems.schedule import schedule_of

from simkit.observe.observer import Observer


class ExerciseRows(AbstractObserver):
    """The observables as a decision sees them, with the normals of each interval of `every` steps.

    A row has the observables by name, before events at its time, those after events as `NAME after`, and the
    normals of the interval that ended as `normal 0`, …, of variance 1. With `jumps` the sum of the marks of
    the jumps in it is `marks`.
    """

    observer: Observer
    every: int = eqx.field(static=True)
    components: int = eqx.field(static=True)
    jumps: bool = eqx.field(static=True, default=False)

    def init(self, problem, t, y):
        inner = self.observer.init(problem, t, y)
        zero = jnp.zeros((), jnp.result_type(*y))
        before = self._seen(problem, inner, t, y) if _has_events(problem) else {}
        return inner, (zero,) * (self.components + self.jumps), before

    def driven(self, problem, acc, k, t, y, draw):
        inner, normals, before = acc
        new, scale = k % jnp.uint32(self.every) == 0, self.every**-0.5
        drawn = draw.W[: self.components]
        added = [
            jnp.where(new, 0.0, sofar) + scale * x.astype(sofar.dtype)
            for sofar, x in zip(normals[: self.components], drawn, strict=True)
        ]
        return inner, (*added, *normals[self.components :]), before

    def jumped(self, acc, k, marks):
        inner, driving, before = acc
        if not self.jumps:
            return acc
        sofar = jnp.where(k % jnp.uint32(self.every) == 0, 0.0, driving[-1])
        return inner, (*driving[:-1], sofar + marks), before

    def update(self, problem, acc, k, t, y, dt):
        return self.observer.update(problem, acc[0], k, t, y, dt), *acc[1:]

    def changed(self, acc, k, t, before, after):
        inner, normals, seen = acc
        if seen:
            problem, then = self.observer.at_decision(inner, k, t, before, after)
            due = k % jnp.uint32(self.every) == 0
            seen = jax.lax.cond(due, lambda _: self._seen(problem, then, t, before[1]), lambda x: x, seen)
        return self.observer.changed(inner, k, t, before, after), normals, seen

    def row(self, problem, acc, t, y):
        inner, normals, before = acc
        after = self._seen(problem, inner, t, y)
        rows = {**(before or after), **{f"{name} after": x for name, x in after.items()}}
        rows |= {f"normal {i}": x for i, x in enumerate(normals[: self.components])}
        return rows | ({"marks": normals[-1]} if self.jumps else {})

    def _seen(self, problem, inner, t, y):
        rows = self.observer.row(problem, inner, t, y)
        return {observable.name: rows[observable.name] for observable in self.observer.observables}

    def coarsened(self, factor):
        return None

    def refined(self, factor):
        raise ValueError("ExerciseRows: options are exercised on the run's own steps")


def _has_events(problem) -> bool:
    schedule = schedule_of(problem)
    return schedule is not None and bool(schedule.events)
