r"""Levels whose last step is taken many times, where what is averaged jumps with the state at the end.

Two paths that end on either side of a jump differ by all of it, however short the steps. The average over
several ends of the last fine step, from as many fresh increments, which are the same on both grids, is almost
a smooth function of the state before it. All grids run up to the last step of the coarse one, whose first
half keeps its increment; an increment of the coarse grid is the sum of that and a fresh one. Each end has the
law of a path's, so that means stay what they are, whatever the number of ends. By a method of strong order 1
with n ends of steps of length h the variance of a difference is of order $h/n + h^{3/2}$ in place of $h$, and
n is of order $h^{-3/4}$, so that the second term is left and ends take a small part of the work. Reference:
Giles (2015), Multilevel Monte Carlo methods, doi:10.1017/S096249291500001X, section 5.2.
"""

import dataclasses
import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree
from simkit_solvers.loops.blocks import method_of
from simkit_solvers.loops.integrate import integrate
from simkit_solvers.loops.path_run import Followed, path_run
from simkit_solvers.methods.registry import info_of
from simkit_solvers.numerics.delegated import delegated
from simkit_solvers.problems.observe import AbstractObserver
from simkit_solvers.problems.schedule import as_solved, schedule_of
from simkit_solvers.random.draws import Draw, merged
from simkit_solvers.random.generator import Stream, stream_key
from simkit_solvers.random.noise import CounterNoise

from simkit.ensemble.paths import PathProgram
from simkit.ensemble.simulation import Run, Simulation

PAIR = 2  # of fresh steps, which share random words


def jumping_at_the_end(simulation: Simulation) -> list[str]:
    """The observables that jump with the state at the end, where the last step can be taken many times.

    Not where the solver carries more than the state to its last step, nor where events are at fixed steps.
    """
    schedule = schedule_of(simulation.problem)
    if info_of(simulation.solver).carries or (schedule is not None and schedule.events):
        return []
    variables = {*simulation.problem.State._fields}
    return [x.name for x in simulation.observed if variables & x.expression.discontinuities.jumps]


def pairs_of_ends(steps: int) -> int:
    """Half the number of ends of a path of so many steps."""
    return math.ceil(steps**0.75 / PAIR)


@dataclasses.dataclass(frozen=True)
class ManyEnds:
    """A function of ((inputs of a grid, pairs of ends), ids): each quantity's average over a path's ends.

    `coarse` says whether a step of the grid has the draws of two.
    """

    paths: PathProgram
    coarse: bool

    def __call__(self, given: tuple[Run, np.unsignedinteger], ids: Any) -> dict[str, jax.Array]:
        return self.paths.each(self._averages)(given, ids)

    def _averages(self, given: tuple[Run, jax.Array], path: jax.Array) -> dict[str, jax.Array]:
        inputs, pairs = given
        problem, solver, y0, grid, noise, observer = self.paths.prepared(inputs, path)
        method = method_of(problem, solver, y0, grid, noise)
        run = path_run(problem, method, grid, noise, observer)
        steps = 1 if self.coarse else PAIR
        rows = integrate(problem, solver, y0, grid.without_last(steps), noise, _Keeper(observer))
        y, acc = jax.tree.map(lambda x: x[-1], (rows["y"], rows["acc"]))
        k = jnp.uint32(grid.steps) - jnp.uint32(steps)
        state = run.stepper.init(as_solved(run.after(k)), run.time(k), run.dt, y)
        carry = y, state, Followed(acc, run.start(y0)[2].happened)

        key, float64 = inputs.key, self.paths.float64_normals
        drawn = method.driving(CounterNoise.of(key, path, float64), k * jnp.uint32(PAIR // steps), PAIR)
        (kept, words), (last, words_of_last) = drawn
        if self.coarse:
            words = words and words_of_last and words + words_of_last
        else:
            carry, k, words = run.step(carry, k, kept, words), k + jnp.uint32(1), words_of_last
        components, areas = method.components, method.stepper.areas

        def end(fresh: Draw) -> dict[str, jax.Array]:
            if self.coarse:
                words_of_parts = kept.words + last.words
                parts = kept, fresh
                fresh = merged([*parts], components, areas)._replace(words=words_of_parts, parts=parts)
            else:
                fresh = fresh._replace(words=last.words)
            return run.row(run.step(carry, k, fresh, words), k + jnp.uint32(1))

        def with_two_more(i, sums):
            draws = fresh.draws(components, areas, jnp.uint32(PAIR) * i.astype(jnp.uint32), PAIR)
            return functools.reduce(_sum, map(end, draws), sums)

        streams = (stream_key(key, path, x) for x in (Stream.ENDS, Stream.AREAS_OF_ENDS))
        fresh = CounterNoise(*streams, float64)
        zeros = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), jax.eval_shape(end, last))
        sums = jax.lax.fori_loop(0, pairs.astype(jnp.int32), with_two_more, zeros)
        count = (PAIR * pairs).astype(method.dtype)
        return {name: x[None] / count for name, x in sums.items()}


def _sum(a: PyTree, b: PyTree) -> PyTree:
    return jax.tree.map(jnp.add, a, b)


class _Keeper(AbstractObserver):
    """What `observer` accumulates, and the state, at each row."""

    observer: AbstractObserver
    driven = delegated("observer")
    jumped = delegated("observer")
    init = delegated("observer")
    update = delegated("observer")
    changed = delegated("observer")

    def row(self, problem, acc, t, y):
        return {"y": y, "acc": acc}

    def coarsened(self, factor: int) -> "_Keeper | None":
        coarse = self.observer.coarsened(factor)
        return None if coarse is None else _Keeper(coarse)

    def refined(self, factor: int) -> "_Keeper":
        return _Keeper(self.observer.refined(factor))
