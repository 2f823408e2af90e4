"""The parts of a study on other steps, which show the error of its own."""

import dataclasses
from collections.abc import Callable, Sequence

from simkit.derivatives.chunks import affordable_paths
from simkit.derivatives.differentiated_run import DifferentiatedRun
from simkit.derivatives.estimator import Part, Selection
from simkit.derivatives.validity import smoothings_of
from simkit.ensemble.chunks import planned_steps
from simkit.ensemble.step_bias.coupled_steps import approximate_means

# Of a level, up to which its code had better be made quickly: half a second of compiling against 0.2 s.
FEW_PATH_STEPS = 2**20

Build = Callable[[DifferentiatedRun, list[Selection]], Part]


def with_levels(run: DifferentiatedRun, group: list[Selection], build: Build) -> Part:
    """The part of a group, with those that give the same on twice as many steps, or on the levels of a run.

    Extremes are not compared on twice as many steps: the largest of these is often the same one, and says
    nothing of the time between.
    """
    own = build(run, group)
    if run.finer is not None:
        finer = build(run.finer, group)
        derivatives = tuple((c, i) for c, i in finer.derivatives if not run.has_extremes_of_steps(c.quantity))
        own = dataclasses.replace(own, finer=dataclasses.replace(finer, derivatives=derivatives))
    if not {choice.quantity for choice in group} & {*approximate_means(run.simulation)}:
        return own

    def on(levels: Sequence[DifferentiatedRun]) -> tuple[Part, ...]:
        quick, parts = _are_short(levels, run.simulation.paths), []
        for level in levels:
            there = build(level, [_at_level(level, choice) for choice in group])
            derivatives = tuple((choice, i) for choice, (_, i) in zip(group, there.derivatives, strict=True))
            there = quickly_made(there) if quick else there
            cost = level.cost * there.cost
            parts.append(dataclasses.replace(there, derivatives=derivatives, factor=level.factor, cost=cost))
        return tuple(parts)

    return dataclasses.replace(own, levels=on(run.levels), shorter_levels=lambda: on(run.shorter_levels))


def quickly_made(part: Part) -> Part:
    """The part with programs that are quick to compile and slow to run."""
    return dataclasses.replace(part, requests=tuple(each._replace(quick=True) for each in part.requests))


def _at_level(level: DifferentiatedRun, choice: Selection) -> Selection:
    """The estimator of `choice` on the steps of a level, which it counts instead of the run's own."""
    original, observable = level.original, level.observable(choice.quantity)
    every, smoothings = choice.every, choice.smoothings
    if every and original is not None and every == original.monitoring_interval(choice.quantity):
        every = level.monitoring_interval(choice.quantity)
    if smoothings and observable is not None:
        there = smoothings_of(level, observable, len(choice.targets))
        smoothings = smoothings if isinstance(there, str) else there
    return dataclasses.replace(choice, every=every, smoothings=smoothings)


def _are_short(levels: Sequence[DifferentiatedRun], paths: int) -> bool:
    """Whether these run so few steps in all that compiling them takes longer."""
    cost = sum(level.cost for level in levels)
    steps = max((planned_steps(level.simulation.grid) for level in levels), default=0)
    return steps > 0 and steps * affordable_paths(paths, cost) <= FEW_PATH_STEPS
