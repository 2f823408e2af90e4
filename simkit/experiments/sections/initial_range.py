"""Which initial values of a model's variables are admissible."""

from collections.abc import Mapping

import numpy as np
from simkit_solvers.problems.problem import AbstractODE, variables_of
from simkit_solvers.problems.reaction_network import AbstractReactionNetwork
from simkit_solvers.problems.schedule import model_of

from simkit.config.documents import KeyPath
from simkit.distributions.distribution import AbstractDrawn
from simkit.ensemble.initial import PathValues
from simkit.experiments.constants import Constants
from simkit.experiments.sections.initial_plan import InitialValue


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
