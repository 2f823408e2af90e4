"""Which initial values of a model's variables are admissible, and which do not fit a parameter."""

from collections.abc import Mapping

import numpy as np
from simkit_solvers.problems.problem import AbstractODE, parameters_of, variables_of
from simkit_solvers.problems.reaction_network import AbstractReactionNetwork
from simkit_solvers.problems.schedule import model_of

from simkit.config.documents import KeyPath
from simkit.distributions.distribution import AbstractDrawn
from simkit.ensemble.initial import PathValues
from simkit.experiments.constants import Constants
from simkit.experiments.sections.initial_plan import InitialValue

CLOSE = 1e-9  # of a sum: what rounding makes


def refuse_out_of_range(
    initial: Mapping[str, InitialValue],
    problem: AbstractODE | None,
    constants: Constants,
) -> None:
    """Values below the least that a variable may have at t0; of a distribution with bounds, its lower one.

    The species of a reaction network have at least 0. A normal distribution has none, and passes.
    """
    if problem is None:
        return
    network = isinstance(model_of(problem), AbstractReactionNetwork)
    for name, quantity in variables_of(problem).items():
        least = 0.0 if network else quantity.at_least
        if least is None or name not in initial:
            continue
        value = initial[name]
        bound = value.bound(constants.values)
        path: KeyPath = ("initial", name)
        if isinstance(bound, AbstractDrawn):
            if bound.least is None:
                continue
            path, bound = value.places["low"], bound.least
        numbers = np.atleast_1d(bound.numbers if isinstance(bound, PathValues) else bound)
        below = np.flatnonzero(numbers < least)
        if len(below):
            wanted = f"must be >= {least:g}, {quantity.description or f'the amount of {name}'}"
            constants.diagnostics.add(path, f"{value.place(below[0])}{wanted}; got {numbers[below[0]]:g}")


def remark_totals(
    initial: Mapping[str, InitialValue], problem: AbstractODE | None, constants: Constants
) -> None:
    """Remark on a parameter that is not the sum of initial values that it stands for, as N of an epidemic."""
    if problem is None:
        return
    model = model_of(problem)
    for name, about in parameters_of(model).items():
        parts = [initial[part].bound(constants.values) for part in about.total if part in initial]
        if not about.total or len(parts) < len(about.total) or any(np.size(part) != 1 for part in parts):
            continue
        if any(isinstance(part, AbstractDrawn | PathValues) for part in parts):
            continue
        own, total = float(getattr(model, name)), float(sum(parts))
        if abs(own - total) > CLOSE * abs(total):
            message = (
                f"is {own:g}, {about.description}, and {' + '.join(about.total)} is {total:g} at the start; "
                f"use {name}: {total:g}, or other initial values"
            )
            constants.diagnostics.remark(("model", name), message)
