"""What derivatives of averages are taken with respect to, and how it moves the numbers of a run."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from simkit_physics import POTENTIALS
from simkit_solvers.problems.problem import parameters_of

from simkit.config.diagnostics import Diagnostics
from simkit.config.documents import KeyPath
from simkit.errors import InputError
from simkit.experiments.constants import Constants
from simkit.md.potential_plan import plan_potential
from simkit.md.sensitivity_plan import target_name, targets_of
from simkit.md.simulation import ParticleSimulation

STEP = 1e-4  # of differences between files, relative to the number that is moved
# The one-sided ones are for a number at the end of its range.
STENCILS = (
    ((-1, 1), (-0.5, 0.5)),
    ((0, 1, 2), (-1.5, 2.0, -0.5)),
    ((0, -1, -2), (1.5, -2.0, 0.5)),
)
TEMPERATURE: KeyPath = ("solver", "temperature")
HELD = ("system", "time", "solver")  # sections whose other numbers no target may move
DRAWN = ("system", "velocities")  # but for those that a run at constant temperature forgets


@dataclasses.dataclass(frozen=True)
class ParticleTarget:
    """A number that derivatives are taken with respect to, as the file has it."""

    label: str
    value: float
    unit: str


class RunNumbers(NamedTuple):
    """The numbers of a run that a target may move, or how fast they move with it.

    `held` are those that it may not, by key.
    """

    potential: Any
    tail: tuple[float, float]
    temperature: float
    constants: dict[str, float]
    held: dict[str, float]


def find_target(simulation: ParticleSimulation, label: str) -> tuple[ParticleTarget, RunNumbers]:
    """What a name means, and how fast the numbers of the run move with it.

    They are differences of the numbers of files, to a relative 1e-8 of a curvature. Raises `InputError` where
    fluctuations give no derivative.
    """
    targets = targets_of(simulation.constants)
    name = target_name(label, targets)
    assert name is not None  # the names of a file were checked
    place = targets[name]
    constants = simulation.constants
    value = constants.values[place] if isinstance(place, str) else constants.number_at(place)
    change = _slope(lambda by: _numbers(simulation, place, by), abs(value) or 1.0)
    for key, moved in change.held.items():
        if moved:
            raise InputError(
                f"sensitivity.wrt: {label} moves {key}, and fluctuations give derivatives by the potential "
                "and the temperature; compare variants at two values of it"
            )
    _refuse_jump_at_cutoff(simulation, label, change.potential)
    return ParticleTarget(label, value, _unit(simulation, place)), change


def _slope(numbers: Callable[[float], RunNumbers], scale: float) -> RunNumbers:
    """The derivative of the numbers of a run at 0."""
    step, refused = STEP * scale, None
    for places, weights in STENCILS:
        try:
            nodes = [numbers(step * place) for place in places]
        except InputError as error:
            refused = refused or error
        else:
            factors = np.asarray(weights) / step
            return jax.tree.map(functools.partial(_combined, factors), *nodes)
    assert refused is not None
    raise refused


def _combined(factors: np.ndarray, *values: Any) -> Any:
    return sum(float(factor) * value for factor, value in zip(factors, values, strict=True))


def _numbers(simulation: ParticleSimulation, place: str | KeyPath, by: float) -> RunNumbers:
    """The numbers of the run where a constant, or the number at a place, is larger by so much."""
    experiment, system = simulation.experiment, simulation.system
    diagnostics = Diagnostics(experiment.document, with_text=False)
    constants = simulation.constants.moved(place, by, diagnostics)
    potential = None
    with diagnostics.collecting():
        potential = plan_potential(experiment.potential, system.names, constants)
    diagnostics.raise_if_any()
    tail = (0.0, 0.0)
    if experiment.potential.tail and potential is not None:
        counts = np.bincount(np.asarray(system.particles.species), minlength=len(system.names))
        energy, pressure = potential.tail(counts, system.volume)
        tail = float(energy), float(pressure)
    temperature = constants.number_at(TEMPERATURE) if TEMPERATURE in constants.numbers else 0.0
    return RunNumbers(potential, tail, temperature, dict(constants.values), _held(constants))


def _held(constants: Constants) -> dict[str, float]:
    """The numbers of the system and its motion that fluctuations say nothing about, by key."""
    paths = [path for path in constants.numbers if path[0] in HELD and path != TEMPERATURE]
    return {
        ".".join(map(str, path)): constants.number_at(path) for path in paths if path[: len(DRAWN)] != DRAWN
    }


def _refuse_jump_at_cutoff(simulation: ParticleSimulation, label: str, change: Any) -> None:
    """Where the cutoff moves and the force jumps there, pairs at the cutoff would add to the derivative."""
    truncation = simulation.system.potential
    if not truncation.force_jumps or not np.any(np.asarray(change.cutoffs)):
        return
    if np.any(np.asarray(truncation.potential.slope(jnp.asarray(truncation.cutoffs) ** 2))):
        raise InputError(
            f"sensitivity.wrt: {label} moves the cutoff, where the force jumps; take truncation: "
            "shifted_force or switched, or a cutoff that does not depend on it"
        )


def _unit(simulation: ParticleSimulation, place: str | KeyPath) -> str:
    if isinstance(place, str):
        return ""
    units, section = simulation.system.units, simulation.experiment.potential
    if place == TEMPERATURE:
        return units.label("temperature")
    if "cutoff" in place or place[-1] == "switch_from":
        return units.label("length")
    specs = parameters_of(POTENTIALS[section.type]) if section.type in POTENTIALS else {}
    spec = next((specs[str(part)] for part in place if part in specs), None)
    return "" if spec is None or spec.unit in ("", "1") else units.label(spec.unit)
