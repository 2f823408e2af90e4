"""Finite differences as a part of a study: where to run the same paths, and the runs put together."""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Sequence

import jax.numpy as jnp
import numpy as np

from simkit.derivatives.differences import (
    LONG_STEP,
    ROUGH,
    ROUNDINGS,
    SECOND,
    SHORTER,
    SMOOTH,
    Stencil,
    Weighted,
    first_difference,
    is_too_long,
    mixed_difference,
    second_difference,
    shortest,
    step_of,
)
from simkit.derivatives.error_controlled import is_ordinary_and_adaptive, with_tighter_tolerances
from simkit.derivatives.estimator import Selection
from simkit.derivatives.facts import Facts
from simkit.derivatives.leaps import leaps_at
from simkit.derivatives.moments import Averages, shapes_of
from simkit.derivatives.part import Errors, Part, devices_of, on_half_steps, rows_of, some_ids, with_levels
from simkit.derivatives.targets import Target, admitted, shifted
from simkit.ensemble.programs import Request
from simkit.ensemble.run import ChunkProgram
from simkit.errors import InputError


@dataclasses.dataclass(frozen=True, kw_only=True)
class DifferencePart(Part):
    """Differences with steps of `share`, followed by how far their lower order is away, and their sizes."""

    facts: Facts
    share: float

    def step_errors(self, result: Averages, programs: Sequence[Callable], ids, paths: int) -> Errors:
        of_tolerances = super().step_errors(result, programs, ids, paths)
        count = len(self.derivatives)
        return {c: np.abs(result.mean[i + count]) + of_tolerances.get(c, 0.0) for c, i in self.derivatives}

    def again(self, result: Averages, errors: Errors) -> Part | None:
        share, precision = self.share / SHORTER, self.facts.simulation.precision
        if share < shortest(precision):
            return None
        too_long, count = [], len(self.derivatives)
        rounding = ROUNDINGS * float(np.finfo(precision).eps)
        for choice, i in self.derivatives:
            difference, size = result.mean[i + count], result.mean[i + 2 * count]
            allowed = result.stderr[i] if self.finer is None else errors[choice] - np.abs(difference)
            if is_too_long(result.mean[i], allowed, difference, result.stderr[i + count], rounding * size):
                too_long.append(choice)
        if not too_long:
            return None
        build = functools.partial(difference_part, share=share)
        others = (each.facts for each in self.replicates if isinstance(each, DifferencePart))
        replicates = tuple(build(facts, too_long) for facts in others)
        return dataclasses.replace(with_levels(self.facts, too_long, build), replicates=replicates)


def difference_part(facts: Facts, group: list[Selection], share: float | None = None) -> DifferencePart:
    """The same paths at other values of one target, or two; `share` is the longest step to take."""
    targets = [facts.targets[i] for i in dict.fromkeys(group[0].targets)]
    second = len(group[0].targets) == 2
    if share is None:
        rough = any(facts.is_rough(choice.quantity, choice.targets[0]) for choice in group)
        share = SECOND if second else ROUGH if rough else SMOOTH
        share = LONG_STEP if group[0].long_steps else share
    names = [choice.quantity for choice in group]
    rows = rows_of(facts, names)
    stencil, share = _stencil(facts, second, targets, share)
    steps = [step_of(target, share) for target in targets]
    given = [shifted(facts.simulation, targets, _times(point, steps)) for point in stencil.points]
    weights = [jnp.asarray(each, jnp.float64) for each in (stencil.weights, stencil.rough)]
    ids = some_ids(facts)
    devices = devices_of(facts)
    run = Request(ChunkProgram(facts.program, rows), (facts.inputs, ids), devices)
    shapes = shapes_of([count for _, count in rows], ids.shape, facts.simulation.precision)
    given_shapes = (shapes,) * len(given), *weights
    added = Request(Weighted(len(given)), given_shapes, devices)

    def simulate(run, add, ids, given=given):
        return add(tuple(run(inputs, ids)[0] for inputs in given), *weights)

    result = tuple((choice, q) for q, choice in enumerate(group))
    counts = tuple(count for _, count in rows) * 3
    cost, leaps = float(len(given)), leaps_at(facts, given, stencil.weights, group)
    part = DifferencePart(
        (run, added), simulate, counts, result, (), cost, leaps=leaps, facts=facts, share=share
    )
    if is_ordinary_and_adaptive(facts.simulation):
        tighter = [with_tighter_tolerances(inputs, facts.simulation.precision) for inputs in given]
        finer = dataclasses.replace(part, simulate=functools.partial(simulate, given=tighter))
        return dataclasses.replace(part, finer=finer)
    if facts.finer is not None:
        return dataclasses.replace(
            part, finer=on_half_steps(difference_part(facts.finer, group, share), facts)
        )
    return part


def _stencil(facts: Facts, second: bool, targets: list[Target], share: float) -> tuple[Stencil, float]:
    """Where to run, all within the ranges of parameters and initial values, and the step as a share."""
    ways: list[tuple[int, ...]] = [(0,) * len(targets), *itertools.product((1, -1), repeat=len(targets))]
    if facts.simulation.grid.has_events and any(target.value == 0 for target in targets):
        ways = ways[1:]  # a rate of 0 has nothing below, which ranges do not say of a network in the file
    for size in (share, share / 10, share / 100):
        steps = [step_of(target, size) for target in targets]
        for sides in ways:
            if len(targets) == 2:
                stencil = mixed_difference(steps, (sides[0], sides[1]))
            else:
                stencil = (second_difference if second else first_difference)(steps[0], sides[0])
            if all(admitted(facts.simulation, targets, _times(point, steps)) for point in stencil.points):
                return stencil, size
    labels = " and ".join(f"{target.label} = {target.value:g}" for target in targets)
    raise InputError(
        f"sensitivity: no finite differences in {labels}: a step of {share / 100:.2%} to either side leaves "
        "the range of a parameter or an initial value; choose a value further inside"
    )


def _times(point: tuple[float, ...], steps: list[float]) -> list[float]:
    return [m * h for m, h in zip(point, steps, strict=True)]
