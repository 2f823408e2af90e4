r"""Levels of ever shorter steps, whose two grids have the same Brownian motion.

Level l has $2^l$ steps for each of the simulation's own. What is averaged there is a value at the end on
these steps less that of the same path on half as many, whose increments are sums of two; on level 0, which
is the simulation's own grid, it is the value itself. Dates at which observables monitor a path are the same
on all grids; an integral over time sees every step. Reference: Giles (2008), Multilevel Monte Carlo path
simulation, doi:10.1287/opre.1070.0496.

Where noises do not commute, a solver without their Lévy areas $A_{jk}$ leaves out
$\tfrac12 \sum_{j<k} [g_j, g_k] A_{jk}$ in a step. The area of two steps together changes its sign where their
increments change places. So the finer path is the average of two of the same law, the second with the
increments of all pairs exchanged: what the coarse path lacks is left out of the average too. Reference:
Giles & Szpruch (2014), Antithetic multilevel Monte Carlo estimation for multi-dimensional SDEs without Lévy
area simulation, doi:10.1214/13-AAP957.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, cast

import jax
import numpy as np
from simkit_solvers.grids.grid import Grid
from simkit_solvers.loops.compensated import loses_float32
from simkit_solvers.loops.step import stepper_for
from simkit_solvers.methods.registry import info_of
from simkit_solvers.problems.problem import AbstractSDE

from simkit.derivatives.other_steps import on_grid
from simkit.ensemble.failures import failed_paths, failure_of
from simkit.ensemble.paths import path_program, with_traced_steps
from simkit.ensemble.simulation import Run, Simulation
from simkit.multilevel.last_step import ManyEnds, jumping_at_the_end, pairs_of_ends
from simkit.multilevel.levels import MOST_LEVELS, AbstractLevels, weak_orders


@dataclasses.dataclass(frozen=True)
class StepLevels(AbstractLevels):
    """Levels of a simulation with steps of one length; with `one_end` none takes the last one many times."""

    one_end: bool = False
    unit = "step"

    @property
    def orders(self):
        return weak_orders(self.simulation)

    @property
    def most(self):
        return next((level for level in range(MOST_LEVELS) if not self._possible(level)), MOST_LEVELS)

    def _possible(self, level: int) -> bool:
        """Whether a path can have the steps of a level."""
        simulation, steps = self.simulation, self._steps(level)
        return steps < 2**31 and not loses_float32(simulation.solver, simulation.precision, steps)

    def _steps(self, level: int) -> int:
        return int(self.simulation.grid.steps or 0) * 2**level

    def steps(self, seen=()):
        return [self._steps(level) for level in range(self.most)]

    def costs(self, seen=()):
        own, finer, coarser = self.steps(), 1 + self._swaps, 1 + self._mirrors
        ends = [(finer + coarser) * 2 * self._pairs(level) for level in range(len(own))]
        pairs = [finer * n + coarser * below for n, below in zip(own[1:], own, strict=False)]
        return [a + b for a, b in zip([own[0], *pairs], ends, strict=True)]

    @property
    def many_ends(self):
        return [] if self.one_end else jumping_at_the_end(self.simulation)

    def _pairs(self, level: int) -> int:
        """Half the number of ends of a path of a level; 0 where there is one alone."""
        jumps = level and self._steps(level - 1) > 1 and self.many_ends
        return pairs_of_ends(self._steps(level)) if jumps else 0

    @property
    def _swaps(self) -> bool:
        """Whether a step leaves out just what changes its sign with the order of two increments."""
        info = info_of(self.simulation.solver)
        return info.unbiased_area and cast(AbstractSDE, self.simulation.problem).noise_kind == "general"

    @property
    def precision(self):
        return self.simulation.precision

    def grids(self, own, level):
        fine = self._on_grid(own, level)
        if not level:
            return (fine,)
        below = self._on_grid(own, level - 1)
        coarse = dataclasses.replace(on_grid(below, _same, self._bridged), draws_per_step=2)
        grids = [fine, *([dataclasses.replace(fine, swapped=True)] * self._swaps), coarse]
        return *grids, *([dataclasses.replace(coarse, swapped=True)] * self._mirrors)

    def _bridged(self, observer: Any) -> Any:
        """The observer of coarse paths, whose bridges go through the middles of steps.

        Not where these have more to do with the solver's step than its increment.
        """
        return observer if stepper_for(self.simulation.solver).areas else observer.with_middles()

    @property
    def _mirrors(self) -> bool:
        """Whether a coarse path, too, is one of two, whose middles are on either side."""
        observer = self._bridged(self.simulation.observer)
        return self._swaps and any(each.middles for each in observer.observables)

    def _on_grid(self, own: Simulation, level: int) -> Simulation:
        factor, steps = 2**level, self._steps(level)

        def shorter(grid: Any) -> Grid:
            return Grid(grid.t0, grid.dt / factor, steps, steps)

        return on_grid(own, shorter, lambda observer: observer.refined(factor))

    def program(self, grids, level):
        pairs = [path_program(each, with_traced_steps(each, each.grid)) for each in grids]
        programs, inputs = zip(*pairs, strict=True)
        coarse = tuple(each.draws_per_step > 1 for each in grids)
        if pairs_of_level := self._pairs(level):
            programs = tuple(map(ManyEnds, programs, coarse))
            inputs = tuple((each, np.uint32(pairs_of_level)) for each in inputs)
        return StepProgram((*self.orders,), programs, coarse), inputs

    def failure(self, grids, level, path):
        coarse_first = reversed(grids)
        grid = next((x for x in coarse_first if failure_of(x, path).row is not None), grids[0])
        return failed_paths(grid, np.array([path]))


@dataclasses.dataclass(frozen=True)
class StepProgram:
    """A function of (inputs of each grid, ids): of each quantity the value at the end.

    It is the average over the finer grids less that over those that are `coarse`.
    """

    names: tuple[str, ...]
    grids: tuple[Callable[..., dict[str, jax.Array]], ...]
    coarse: tuple[bool, ...]

    def __call__(self, inputs: tuple[Run, ...], ids) -> tuple[jax.Array, ...]:
        ends: dict[bool, list] = {False: [], True: []}
        for program, each, coarse in zip(self.grids, inputs, self.coarse, strict=True):
            ends[coarse].append(program(each, ids))
        return tuple(_average(name, ends[False]) - _average(name, ends[True]) for name in self.names)


def _same(grid: Any) -> Any:
    return grid


def _average(name: str, grids: list) -> Any:
    return sum(each[name][-1:] for each in grids) / max(len(grids), 1)
