"""Finite differences as a part of a study: where to run the same paths, and the runs put together."""

import dataclasses
import functools
import itertools
from collections.abc import Callable

import jax.numpy as jnp
import numpy as np

from simkit.derivatives.differences import (
    DISCONTINUOUS,
    LONG_STEP,
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
from simkit.derivatives.differentiated_run import DifferentiatedRun
from simkit.derivatives.estimator import Errors, Part, Selection
from simkit.derivatives.leaps import leaps_of_differences
from simkit.derivatives.levels import with_levels
from simkit.derivatives.moments import Averages, shapes_of
from simkit.derivatives.other_steps import with_tighter_tolerances
from simkit.derivatives.smoothness import why_discontinuous
from simkit.derivatives.targets import Target, is_in_range, shifted
from simkit.ensemble.chunk_program import ChunkProgram
from simkit.ensemble.programs import Request
from simkit.errors import InputError


@dataclasses.dataclass(frozen=True, kw_only=True)
class DifferencePart(Part):
    """Differences with a `relative_step`, then how far those of a lower order differ, and their sizes."""

    differentiated: DifferentiatedRun
    relative_step: float

    def step_errors(self, result: Averages, of_first_paths: Callable) -> Errors:
        of_tolerances = super().step_errors(result, of_first_paths)
        count = len(self.derivatives)
        return {c: np.abs(result.mean[i + count]) + of_tolerances.get(c, 0.0) for c, i in self.derivatives}

    def again(self, result: Averages, errors: Errors) -> Part | None:
        step, precision = self.relative_step / SHORTER, self.differentiated.simulation.precision
        if step < shortest(precision):
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
        build = functools.partial(difference_part, relative_step=step)
        others = (each.differentiated for each in self.replicates if isinstance(each, DifferencePart))
        replicates = tuple(build(run, too_long) for run in others)
        return dataclasses.replace(with_levels(self.differentiated, too_long, build), replicates=replicates)


def difference_part(
    run: DifferentiatedRun, group: list[Selection], relative_step: float | None = None
) -> DifferencePart:
    """Finite differences over paths at other values of one target or two, by no longer step than this."""
    targets = [run.targets[i] for i in dict.fromkeys(group[0].targets)]
    second = group[0].is_second
    if relative_step is None:
        jumps = any(why_discontinuous(run, choice.quantity, choice.targets[0]) for choice in group)
        relative_step = SECOND if second else DISCONTINUOUS if jumps else SMOOTH
        relative_step = LONG_STEP if group[0].long_steps else relative_step
    names = [choice.quantity for choice in group]
    rows = run.rows(names)
    stencil, relative_step = _stencil(run, second, targets, relative_step)
    steps = [step_of(target, relative_step) for target in targets]
    given = [shifted(run.simulation, targets, _times(point, steps)) for point in stencil.points]
    weights = [jnp.asarray(each, jnp.float64) for each in (stencil.weights, stencil.lower_order)]
    ids = run.first_ids
    one = Request(ChunkProgram(run.program, rows), (run.inputs, ids), run.devices)
    shapes = shapes_of([count for _, count in rows], ids.shape, run.simulation.precision)
    added = Request(Weighted(len(given)), ((shapes,) * len(given), *weights), run.devices)

    def simulate(program, add, ids, given=given):
        return add(tuple(program(inputs, ids)[0] for inputs in given), *weights)

    part = DifferencePart(
        requests=(one, added),
        simulate=simulate,
        counts=tuple(count for _, count in rows) * 3,
        derivatives=tuple((choice, q) for q, choice in enumerate(group)),
        cost=float(len(given)),
        leaps=leaps_of_differences(run, given, stencil.weights, names),
        differentiated=run,
        relative_step=relative_step,
    )
    if run.simulation.stepping.exact_by != "tolerances":
        return part
    tighter = [with_tighter_tolerances(inputs, run.simulation.precision) for inputs in given]
    return dataclasses.replace(part, finer=part.with_arguments(given=tighter))


def _stencil(
    run: DifferentiatedRun, second: bool, targets: list[Target], relative_step: float
) -> tuple[Stencil, float]:
    """Where to run, all within the ranges of parameters and initial values, and the relative step."""
    ways: list[tuple[int, ...]] = [(0,) * len(targets), *itertools.product((1, -1), repeat=len(targets))]
    if run.simulation.stepping.whole and any(target.value == 0 for target in targets):
        ways = ways[1:]  # a rate of 0 has nothing below, which ranges do not say of a network in the file
    for size in (relative_step, relative_step / 10, relative_step / 100):
        steps = [step_of(target, size) for target in targets]
        for sides in ways:
            if len(targets) == 2:
                stencil = mixed_difference(steps, (sides[0], sides[1]))
            else:
                stencil = (second_difference if second else first_difference)(steps[0], sides[0])
            if all(is_in_range(run.simulation, targets, _times(point, steps)) for point in stencil.points):
                return stencil, size
    labels = " and ".join(f"{target.label} = {target.value:g}" for target in targets)
    raise InputError(
        f"sensitivity: no finite differences in {labels}: a step of {relative_step / 100:.2%} to either side "
        "leaves the range of a parameter or an initial value; choose a value further inside"
    )


def _times(point: tuple[float, ...], steps: list[float]) -> list[float]:
    return [m * h for m, h in zip(point, steps, strict=True)]
