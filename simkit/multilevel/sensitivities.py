"""The derivatives of means from levels: what is refused, the run, and the estimates."""

import dataclasses
import math
from collections.abc import Callable, Sequence

import jax
import numpy as np

from simkit.config.settings import Sensitivity
from simkit.derivatives.differentiated_run import DifferentiatedRun
from simkit.derivatives.estimates import EstimatedDerivative, EstimatedSensitivities
from simkit.derivatives.estimator import Selection
from simkit.derivatives.estimators import PATHWISE
from simkit.derivatives.offers import requested_offer
from simkit.derivatives.tails import FAULTS, UNMOVED, Tail, tail_of
from simkit.derivatives.targets import find_target
from simkit.ensemble.simulation import Simulation
from simkit.errors import InputError
from simkit.multilevel.derivative_levels import DerivativeLevels, derivative_name
from simkit.multilevel.level_rates import QuantityLevels
from simkit.multilevel.run import MultilevelResult, run_levels

PLAIN = "--set ensemble.method=null --set ensemble.target=null --set ensemble.paths=100000"

Progress = Callable[[int, int], None]


def find_level_sensitivities(
    simulation: Simulation, section: Sensitivity, progress: Progress | None = None
) -> tuple[EstimatedSensitivities, MultilevelResult]:
    """Estimate the derivatives that the section asks for from levels, and give what these show too.

    The target is that of the means that are differentiated; derivatives have the errors that follow from as
    many levels, and on each as many paths as leave them the least error for their work. Raises `InputError`
    where a derivative along paths would be wrong, and as `run_levels`.
    """
    _refuse(section)
    with jax.enable_x64(True):
        choices, levels = _chosen(simulation, section)
        result = run_levels(levels.simulation, progress, levels)
        return _estimated(levels, choices, result), result


def _refuse(section: Sensitivity) -> None:
    """Raise `InputError` for what takes other paths than those of levels."""
    for key, given in (("second", section.second), ("check", section.check)):
        if given:
            raise InputError(
                f"sensitivity.{key}: ensemble.method: multilevel has first derivatives along paths only; "
                f"leave it out, or use plain paths: {PLAIN}"
            )


def _chosen(simulation: Simulation, section: Sensitivity) -> tuple[list[Selection], DerivativeLevels]:
    """The derivatives, each along the paths, and the levels that give them."""
    targets = tuple(find_target(simulation, label) for label in section.wrt)
    quantities = (*(section.of or [*simulation.observables] or simulation.problem.State._fields),)
    run = DifferentiatedRun.of(simulation, targets)
    choices = [_along_paths(run, section.method, q, i) for q in quantities for i in range(len(targets))]
    kinked = [
        (choice.quantity, run.targets[i].label)
        for choice in choices
        for i in choice.targets
        if not isinstance(PATHWISE.fits(run, choice.quantity, (i, i), ""), Selection)
    ]
    of_target = [name for name in simulation.target_names if name in quantities] or [*quantities]
    target = simulation.target and simulation.target.model_copy(update={"of": of_target})
    own = dataclasses.replace(simulation, target=target)
    return choices, DerivativeLevels(own, quantities, tuple(run.targets), (*kinked,))


def _along_paths(run: DifferentiatedRun, method: str, quantity: str, target: int) -> Selection:
    """The derivative along the path. Raises `InputError` where it is wrong, or another is requested."""
    choice = requested_offer(run, method, quantity, target).rivals[0]
    if choice.estimator is not PATHWISE:
        label = run.targets[target].label
        raise InputError(
            f"sensitivity.wrt: {quantity} by {label} takes {choice.method} ({choice.reason}), and "
            f"ensemble.method: multilevel differentiates along paths; use plain paths: {PLAIN}"
        )
    return choice


def _estimated(
    levels: DerivativeLevels, choices: Sequence[Selection], result: MultilevelResult
) -> EstimatedSensitivities:
    derivatives, places = [], [*levels.orders]
    for choice in choices:
        name = derivative_name(choice.quantity, levels.targets[choice.targets[0]].label)
        derivatives.append(_derivative(choice, result, name, places.index(name)))
    values, bias = {}, {}
    for name in levels.quantities:
        stderr, _ = result.stderr_of(name)
        values[name] = np.array([result.levels[name].total]), np.array([stderr])
        bias[name] = result.levels[name].step_error
    failed = sum(len(each.failed) for each in result.averages)
    sizes = sum(result.plan.paths), failed, result.elapsed_s, result.compile_s
    return EstimatedSensitivities(levels.targets, tuple(derivatives), values, *sizes, bias)


def _derivative(choice: Selection, result: MultilevelResult, name: str, place: int) -> EstimatedDerivative:
    """A derivative; its deviation and its tail are those of paths of the coarsest level."""
    levels, averages = result.levels[name], result.averages
    parts = levels.variance / levels.count
    whole = max(float(parts.sum()), np.finfo(float).tiny)
    shares = [each.largest_part(place) * part / whole for each, part in zip(averages, parts, strict=True)]
    tail = tail_of(averages[0].sample[place], largest=max(shares))
    if tail is not None:  # a level may vary more than the value itself
        tail = dataclasses.replace(tail, grows=bool(np.any(levels.variance[1:] > levels.variance[0])))
    choice = dataclasses.replace(choice, reason=_reason(choice, levels, tail))
    return EstimatedDerivative(
        choice,
        np.array([levels.total]),
        np.array([result.stderr_of(name)[0]]),
        np.array([math.sqrt(levels.variance[0])]),
        steps=levels.step_error,
        tail=tail,
    )


def _reason(choice: Selection, levels: QuantityLevels, tail: Tail | None) -> str:
    """Why this estimator, or what to know first: there is no result, or it is 0 on every path."""
    if not levels.total and not np.any(levels.variance):
        return UNMOVED
    others = "use plain paths, without ensemble.method"
    match "reliable" if tail is None else tail.verdict:
        case "grows":
            return f"no result: {FAULTS['grows']}; {others}"
        case "heavy":
            return f"{choice.reason}; or {others}"
    return choice.reason
