"""Whether a quantity with the same value on all paths of a run could take other values, and which."""

from typing import cast

import numpy as np
from simkit_solvers.problems.reaction_network import AbstractReactionNetwork
from simkit_solvers.problems.schedule import model_of

from simkit.ensemble.initial import differs_between_paths
from simkit.ensemble.simulation import Simulation
from simkit.expressions.value_range import value_range
from simkit.observe.observable import Observable


def is_random(simulation: Simulation) -> bool:
    """Whether paths with the same parameters differ."""
    return simulation.stepping.random or differs_between_paths(simulation.initial.values())


def observable_of(name: str, simulation: Simulation) -> Observable | None:
    """The observable of this name; None for a state variable."""
    return next((observable for observable in simulation.observed if observable.name == name), None)


def range_of(name: str, simulation: Simulation) -> tuple[float, float]:
    """The least and the largest value that an observable can have, whatever the state is."""
    observable = observable_of(name, simulation)
    if observable is None:
        return -np.inf, np.inf
    times = float(simulation.grid.times[0]), float(simulation.grid.times[-1])
    known = {"t": times} | {key: (float(x), float(x)) for key, x in simulation.constants.items()}
    state = simulation.problem.State._fields
    known = {key: ends for key, ends in known.items() if key not in state}
    low, high = value_range(observable.expression.tree, known)
    return (min(low, 0.0), max(high, 0.0)) if observable.exercise else (low, high)


def could_differ(name: str, value: float, simulation: Simulation) -> bool:
    """Whether paths could have other values of a quantity than this one, which all have.

    Of state variables only those count that a reaction changes: an SDE may have some without noise.
    """
    if not is_random(simulation):
        return False
    least, most = range_of(name, simulation)
    observable = observable_of(name, simulation)
    if observable is None:
        depends = simulation.stepping.whole and any(
            each.change.get(name) for each in _network(simulation).reactions.values()
        )
    else:
        depends = bool(observable.names & {*simulation.problem.State._fields})
    return depends and least < most and bool(np.isfinite(least) or np.isfinite(most) or value == 0)


def _network(simulation: Simulation) -> AbstractReactionNetwork:
    return cast(AbstractReactionNetwork, model_of(simulation.problem))
