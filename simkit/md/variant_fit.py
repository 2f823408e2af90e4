"""Whether the results of variants of particles fit into one dataset."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from simkit.errors import InputError
from simkit.md.simulation import ParticleSimulation
from simkit.suggestions import called


def fitted(simulations: dict[str, ParticleSimulation]) -> dict[str, ParticleSimulation]:
    """The variants. Raises `InputError` unless their results fit, and none writes a file of another."""
    first = next(iter(simulations))
    problems = [
        f"{called(name)}: {reason}; give both the same, or make files of them"
        for name, simulation in simulations.items()
        if (reason := _difference(simulation, simulations[first], first))
    ]
    problems += _shared_files(simulations)
    if problems:
        raise InputError(problems)
    return simulations


def _difference(one: ParticleSimulation, first: ParticleSimulation, first_name: str) -> str | None:
    """Why two results do not fit into one dataset."""
    here, there = _properties(one), _properties(first)
    for what, value in here.items():
        if value != there[what]:
            return f"has {what}: {value}, and {first_name} has {there[what]}"
    interval, other = one.system.interval, first.system.interval
    if not np.isclose(interval, other, rtol=1e-9, atol=0):
        return f"is measured every {interval:g} in time, and {first_name} every {other:g}"
    return None


def _properties(simulation: ParticleSimulation) -> dict[str, Any]:
    system = simulation.system
    functions = [f"{name} ({type(each).__name__})" for name, each in simulation.functions.items()]
    steps = simulation.run.steps
    return {
        "the observables": ", ".join([*simulation.scalars, *functions]) or "none",
        "the species": ", ".join(system.names),
        "the units": system.units.name,
        "another number of replicas": simulation.paths,
        "another number of measurements": 1 + steps // system.every,
        **({} if steps else {"another number of particles": system.count, "a box": system.cell is not None}),
    }


def _shared_files(simulations: dict[str, ParticleSimulation]) -> list[str]:
    """What to say of files of positions that two variants would write."""
    owners: dict[Path, str] = {}
    problems = []
    for name, simulation in simulations.items():
        for key, file in _files(simulation):
            owner = owners.setdefault(file, name)
            if owner != name:
                problems.append(
                    f"variant {name}: {key}: {file} is written by {owner} too; give each variant a file of "
                    "its own"
                )
    return problems


def _files(simulation: ParticleSimulation) -> Iterator[tuple[str, Path]]:
    if simulation.trajectory is not None:
        yield "save.trajectory.file", simulation.trajectory.file
    if simulation.end is not None:
        yield "save.end", simulation.end
