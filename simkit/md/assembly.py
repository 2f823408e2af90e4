"""From the sections of an experiment of molecular dynamics to a simulation that can run."""

from pathlib import Path

import jax

from simkit.config.diagnostics import Diagnostics, SettingError
from simkit.config.settings import ParticleExperiment
from simkit.experiments.constants import Constants
from simkit.md.method_plan import measured_every, plan_stages
from simkit.md.observable_plan import plan_particle_observables
from simkit.md.potential_plan import plan_potential
from simkit.md.simulation import ParticleSimulation, PlannedTrajectory
from simkit.md.system_plan import SystemPlan, plan_system


def assemble_particles(experiment: ParticleExperiment, diagnostics: Diagnostics) -> ParticleSimulation | None:
    """The simulation of an experiment; what is wrong goes to `diagnostics`, and then there is none.

    A section is `None` where it cannot be read; the others are checked as far as they go without it.
    """
    with jax.enable_x64(True):
        return _assembled(experiment, diagnostics)


def _assembled(experiment: ParticleExperiment, diagnostics: Diagnostics) -> ParticleSimulation | None:
    given = experiment.constants or {}
    names = dict.fromkeys([*diagnostics.written("constants"), *given])
    constants = Constants(given, list(names), diagnostics)
    ensemble = experiment.ensemble
    system = potential = stages = trajectory = None
    with diagnostics.collecting():
        system = plan_system(experiment.system, 0 if ensemble is None else ensemble.seed, constants)
    if system is not None:
        with diagnostics.collecting():
            potential = plan_potential(experiment.potential, system.names, constants)
    with diagnostics.collecting():
        stages = plan_stages(experiment, constants)
    every = 1
    if experiment.time is not None and experiment.save is not None:
        with diagnostics.collecting():
            every = measured_every(experiment)
            trajectory = _trajectory(experiment, every)
    observables = {}
    if system is not None:
        observables = plan_particle_observables(experiment.observe, system.widths, system.units, constants)
    tail = (0.0, 0.0)
    if system is not None and potential is not None:
        with diagnostics.collecting():
            tail = _tail(experiment, system, potential)
    if diagnostics.entries or system is None or stages is None:
        return None
    return ParticleSimulation(
        experiment=experiment,
        particles=system.particles,
        box=system.box,
        cell=system.cell,
        names=system.names,
        masses=system.masses,
        temperature=system.temperature,
        units=system.units,
        potential=potential,
        tail=tail,
        stages=stages,
        every=every,
        observables=observables,
        constants=constants.values,
        paths=ensemble.paths,
        seed=ensemble.seed,
        threads=ensemble.threads,
        precision=experiment.precision,
        trajectory=trajectory,
    )


def _trajectory(experiment: ParticleExperiment, every: int) -> PlannedTrajectory | None:
    section = experiment.save.trajectory
    if section is None:
        return None
    if section.every % every:
        message = f"must be a multiple of save.every, {every}, got {section.every}"
        raise SettingError(("save", "trajectory", "every"), message)
    return PlannedTrajectory(Path(section.file), section.every)


def _tail(experiment: ParticleExperiment, system: SystemPlan, potential) -> tuple[float, float]:
    """Energy, and pressure in energy per volume, of the pairs beyond the cutoff."""
    if not experiment.potential.tail:
        return 0.0, 0.0
    path = ("potential", "tail")
    if system.cell is None:
        raise SettingError(path, "is that of a uniform fluid, and this system is in free space", at_key=True)
    try:
        energy, pressure = potential.tail(system.counts, float(system.box.volume))
    except ValueError as error:
        raise SettingError(path, str(error), at_key=True) from error
    return float(energy), float(pressure)
