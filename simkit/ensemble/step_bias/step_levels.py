"""The other grids on which paths of a run can be simulated again: longer steps, or shorter ones.

The noise is the same: increments of longer steps are sums, areas and jumps included; those of shorter ones
come from the Brownian bridge. A grid counts if it has all dates at which an observable monitors the path, all
events, and all points of curves at which a step of the run ends: otherwise it would be another experiment.

Adaptive steps are longer or shorter by other tolerances, which are traced, so that the program is the same.
The error of an ordinary equation goes with its tolerances. Where it stops at every saved time its steps may
be as long as that allows, at any tolerance: with smaller ones they are no longer than a fourth or a sixteenth
of it. Of a stochastic equation steps go with their power 2/3, and its error with the steps.

Where sampling is exact, only what functionals over time make of the states is approximate: they see
every second and fourth state of the same path, or those of a path on steps a fourth as long.
"""

import dataclasses
import operator
from collections.abc import Callable
from typing import Any

import equinox as eqx
import numpy as np
from simkit_solvers.grids.adaptive_grid import AdaptiveGrid
from simkit_solvers.grids.grid import Grid
from simkit_solvers.loops.compensated import loses_float32
from simkit_solvers.methods.registry import samples_exactly, weak_order
from simkit_solvers.problems.calendar import Schedule
from simkit_solvers.problems.curve import INSIDE
from simkit_solvers.problems.jump_diffusion import AbstractJumpDiffusion
from simkit_solvers.problems.observe import AbstractObserver
from simkit_solvers.problems.schedule import schedule_of
from simkit_solvers.random.noise import CounterNoise, HalvedNoise

from simkit.ensemble.coupling import OnSums
from simkit.ensemble.simulation import Driver, Simulation

FEWEST = 4  # steps of a grid of which something is learnt about shorter ones
LONGER = (2, 4), (3, 9)
SHORTER = 0.5, 0.25
HALVING = {0.5: HalvedNoise.of, 0.25: HalvedNoise.twice}
TOLERANCES = (10.0, 0.1), (0.1, 0.01), (10.0, 100.0)
# Of an interval between stops, for tolerances so many times as large. In two or three steps, each no more
# than ten times the one before, the longest is nearly half an interval: four parts make it half as long.
PARTS = {0.1: 4.0, 0.01: 16.0}
FINEST = 8  # units in the last place, below which no relative tolerance is


@dataclasses.dataclass(frozen=True)
class OtherGrid:
    """Another grid for the same paths: `factor` is its step over the run's, and `cost` its work.

    `see` makes of the run's observer that of the grid.
    """

    factor: float
    cost: float
    grid: Grid | AdaptiveGrid
    driver: Driver
    observer: AbstractObserver
    see: Callable[[Any], Any] = lambda observer: observer


def levels(simulation: Simulation, shorter: bool = False) -> tuple[OtherGrid, ...]:
    """Two grids besides the run's own, from which an order can be measured; fewer if there are not two.

    Steps of 2h and 4h, or 3h and 9h. Where dates or the number of steps rule these out, h/2 takes the place
    of those that are missing, then h/4. With `shorter` it is h/2 and h/4, which say more of h and cost more.
    Adaptive steps have those of tolerances ten times as large and a tenth as large; with `shorter`, where the
    equation is ordinary, a tenth and a hundredth.
    None for the jump process of a reaction network. Where the solver samples the process exactly
    they are of the same steps; with `shorter`, or where their number rules that out, three of shorter ones,
    the first seen as the run's.
    Jumps are not split between halves of a step, so that jump diffusions have longer steps only.
    """
    grid: Any = simulation.grid
    if simulation.stepping.tolerances:
        return _by_tolerances(simulation, grid, shorter)
    if not grid.known:
        return ()
    if samples_exactly(simulation.solver, simulation.problem):
        return (() if shorter else _sparser(simulation, grid)) or _denser(simulation, grid)
    longer: list[Any] = []
    for factors in () if shorter else LONGER:
        pair: list[Any] = [level for factor in factors if (level := _longer(simulation, grid, factor))]
        if len(pair) == 2 and pair[1].grid.steps >= FEWEST:
            return tuple(pair)
        longer = longer or pair
    factors = SHORTER[:1] if longer else SHORTER
    halves = [level for factor in factors if (level := _shorter(simulation, grid, factor)) is not None]
    return (*halves, *longer)[:2]


def approximate(simulation: Simulation) -> tuple[str, ...]:
    """The observables that are approximate also of exact states: those with functionals over time."""
    return tuple(observable.name for observable in simulation.observed if observable.approximates)


def _sparser(simulation: Simulation, grid: Grid) -> tuple[OtherGrid, ...]:
    """The paths of the run, of which functionals over time see fewer states."""
    schedule = schedule_of(simulation.problem)
    for pair in LONGER if approximate(simulation) else ():
        last = pair[-1]
        if grid.steps % last or grid.steps < FEWEST * last or not _keeps_dates(schedule, grid, last):
            continue
        result = [
            OtherGrid(factor, 1.0, grid, CounterNoise.of, see(simulation.observer), see)
            for factor in pair
            for see in [operator.methodcaller("spaced", factor)]
        ]
        if all(each.observer is not None for each in result):
            return tuple(result)
    return ()


def _denser(simulation: Simulation, grid: Grid) -> tuple[OtherGrid, ...]:
    """Other paths of the same distribution on shorter steps, seen as in the run first."""
    most = round(1 / min(SHORTER))
    steps = most * grid.steps
    if not approximate(simulation) or steps >= 2**31:
        return ()
    if loses_float32(simulation.solver, simulation.precision, steps):
        return ()
    finer = Grid(grid.t0, grid.dt / most, steps, steps)

    def at(factor: float) -> OtherGrid:
        def see(observer: Any) -> Any:
            return observer.refined(most).spaced(round(most * factor))

        return OtherGrid(factor, most, finer, CounterNoise.of, see(simulation.observer), see)

    return tuple(map(at, (1.0, *SHORTER)))


def _longer(simulation: Simulation, grid: Grid, factor: int) -> OtherGrid | None:
    if grid.steps % factor or grid.steps <= factor:
        return None
    see = operator.methodcaller("coarsened", factor)
    observer = see(simulation.observer)
    if observer is None or not _keeps_dates(schedule_of(simulation.problem), grid, factor):
        return None
    steps = grid.steps // factor
    longer = Grid(grid.t0, grid.dt * factor, steps, steps)
    return OtherGrid(factor, 1 / factor, longer, OnSums(CounterNoise.of, factor), observer, see)


def _shorter(simulation: Simulation, grid: Grid, factor: float) -> OtherGrid | None:
    times = round(1 / factor)
    steps = times * grid.steps
    if steps >= 2**31 or isinstance(simulation.problem, AbstractJumpDiffusion):
        return None
    if loses_float32(simulation.solver, simulation.precision, steps):
        return None
    see = operator.methodcaller("refined", times)
    halves = Grid(grid.t0, grid.dt / times, steps, steps)
    return OtherGrid(factor, times, halves, HALVING[factor], see(simulation.observer), see)


def _by_tolerances(simulation: Simulation, grid: AdaptiveGrid, shorter: bool) -> tuple[OtherGrid, ...]:
    """Two other tolerances, with a relative one below 1 that the precision can hold."""
    stochastic = simulation.problem.stochastic
    rtol, finest = float(grid.tolerances.rtol), FINEST * float(np.finfo(simulation.precision).eps)
    possible = [pair for pair in TOLERANCES if all(finest <= times * rtol < 1 for times in pair)]
    schedule = schedule_of(simulation.problem)
    stops = not stochastic and schedule is not None and bool(schedule.events or schedule.nodes)
    if stops:  # larger tolerances alone may take the same steps
        possible = [pair for pair in possible if min(pair) < 1]
    if shorter and not stochastic:
        possible = [pair for pair in possible if max(pair) < 1]
    power = simulation.stepping.power
    of_steps = power if stochastic else 1 / weak_order(simulation.solver, simulation.problem)

    def other(times: float) -> OtherGrid:
        tolerances = eqx.tree_at(
            lambda t: (t.rtol, t.atol),
            grid.tolerances,
            (times * grid.tolerances.rtol, times * grid.tolerances.atol),
        )
        parts = PARTS.get(times, 1.0)
        there = grid.with_steps(tolerances, parts * grid.parts)
        cost = max(times**-of_steps, parts) if stops else times**-of_steps
        return OtherGrid(times**power, cost, there, CounterNoise.of, simulation.observer)

    return tuple(map(other, possible[0])) if possible else ()


def _keeps_dates(schedule: Schedule | None, grid: Grid, factor: int) -> bool:
    """Whether longer steps end at the events, and at the points of curves at which the run's steps end."""
    if schedule is None:
        return True
    if any(event.steps_of(grid.steps // factor) is None for event in schedule.events):
        return False
    nodes = np.concatenate([np.zeros(0), *(np.asarray(each, np.float64) for each in schedule.nodes)])
    steps = (nodes - float(grid.t0)) / float(grid.dt)
    steps = steps[(steps > 0) & (steps < grid.steps)]
    dates = np.rint(steps)[np.abs(steps - np.rint(steps)) < INSIDE]
    return bool(np.all(dates % factor == 0))
