"""Whether the results of variants fit into one dataset."""

import itertools
from typing import Any

import numpy as np

from simkit.ensemble.coupling import coupled
from simkit.ensemble.replicates import PLAIN
from simkit.ensemble.simulation import Simulation, experiment_of
from simkit.errors import InputError
from simkit.observe.exercise import Exercise
from simkit.suggestions import called


def fitted(simulations: dict[str, Simulation]) -> dict[str, Simulation]:
    """The variants, coupled if `ensemble.couple` is set. Raises `InputError` unless their results fit."""
    refuse_coupling_of_one(simulations)
    refuse_levels_of_several(simulations)
    first = next(iter(simulations))
    problems = [
        f"{called(name)}: {reason}; give both the same, or make files of them"
        for name, simulation in simulations.items()
        if (reason := _difference(simulation, simulations[first], first))
    ]
    if not problems and any(experiment_of(each).ensemble.couple for each in simulations.values()):
        simulations, problems = coupled(simulations)
    if problems:
        raise InputError(problems)
    return simulations


def refuse_coupling_of_one(simulations: dict[str, Simulation]) -> None:
    """Raise `InputError` where an experiment without variants sets `ensemble.couple`."""
    if "" in simulations and experiment_of(simulations[""]).ensemble.couple:
        raise InputError(
            "ensemble.couple: is for variants that differ in time.steps, and there are none; add "
            "variants, or leave it out"
        )


def refuse_levels_of_several(simulations: dict[str, Simulation]) -> None:
    """Raise `InputError` where variants or points of a sweep set `ensemble.method: multilevel`."""
    if "" not in simulations and any(each.levels is not None for each in simulations.values()):
        raise InputError(
            "ensemble.method: multilevel is for one experiment, and there are several, which would have "
            "other levels; leave it out, or run one: --variant NAME"
        )


def _difference(one: Simulation, first: Simulation, first_name: str) -> str | None:
    """Why two results do not fit into one dataset."""

    def properties(simulation: Simulation) -> dict[str, Any]:
        when = {key: info.at for key, info in simulation.observables.items()}
        options = [f"{_dates_text(x.exercise)} of {x.name}" for x in simulation.observed if x.exercise]
        return {
            "the variables": ", ".join(simulation.problem.State._fields),
            "the observables": ", ".join(f"{key} ({at})" for key, at in when.items()) or "none",
            "the dates of exercise": ", ".join(options) or "none",
            "another number of paths": "that of a target" if simulation.target else simulation.paths,
            "another variance reduction": (simulation.reduction or PLAIN).description or "none",
            "another number of stored paths": simulation.stored_paths,
            "the quantiles": ", ".join(f"{level:g}" for level in simulation.quantiles),
            "another number of saved times": len(simulation.grid.times),
        }

    here, there = properties(one), properties(first)
    for what, value in here.items():
        if value != there[what]:
            return f"has {what}: {value}, and {first_name} has {there[what]}"
    times, others = np.asarray(one.grid.times), np.asarray(first.grid.times)
    if not np.allclose(times, others, rtol=1e-9, atol=1e-9 * float(np.ptp(others))):
        return (
            f"runs from {times[0]:g} to {times[-1]:g}, and {first_name} from {others[0]:g} to {others[-1]:g}"
        )
    return None


def _dates_text(exercise: Exercise) -> str:
    """How many there are, and at which fractions of the run where they are not equally spaced."""
    spacings = {b - a for a, b in itertools.pairwise((0, *exercise.when))}
    if len(spacings) == 1 and exercise.when[-1] == exercise.of:
        return str(exercise.dates)
    return (
        f"{exercise.dates} (at {', '.join(f'{fraction:.6g}' for fraction in exercise.fractions)} of the time)"
    )
