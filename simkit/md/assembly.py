"""From the sections of an experiment of molecular dynamics to a simulation that can run."""

import dataclasses
from pathlib import Path

import jax

from simkit.config.diagnostics import Diagnostics, SettingError
from simkit.config.settings import ParticleExperiment
from simkit.experiments.constants import Constants
from simkit.experiments.sections.curve_plan import plan_curves, with_curve_numbers
from simkit.md.method_plan import measured_every, plan_stages
from simkit.md.observable_plan import plan_functions, plan_scalars
from simkit.md.potential_plan import plan_potential
from simkit.md.simulation import ParticleSimulation, ParticleSystem, PlannedTrajectory
from simkit.md.system_plan import ONLY, SystemPlan, plan_system


def assemble_particles(experiment: ParticleExperiment, diagnostics: Diagnostics) -> ParticleSimulation | None:
    """The simulation of an experiment; what is wrong goes to `diagnostics`, and then there is none.

    A section is `None` where it cannot be read; the others are checked as far as they go without it.
    """
    with jax.enable_x64(True):
        return _assembled(experiment, diagnostics)


def _assembled(experiment: ParticleExperiment, diagnostics: Diagnostics) -> ParticleSimulation | None:
    experiment = with_curve_numbers(experiment, diagnostics)
    given = experiment.constants or {}
    names = dict.fromkeys([*diagnostics.written("constants"), *given])
    constants = Constants(given, list(names), diagnostics)
    ensemble = experiment.ensemble
    plan = potential = stages = trajectory = None
    every, scalars, functions, tail = 1, {}, {}, (0.0, 0.0)
    with diagnostics.collecting():
        plan = plan_system(experiment.system, 0 if ensemble is None else ensemble.seed, constants)
    names = _species(experiment) if plan is None else plan.names
    if names:
        with diagnostics.collecting():
            potential = plan_potential(experiment.potential, names, constants)
    if plan is not None:
        scalars = plan_scalars(experiment.observe, plan.cell is None, plan.units, constants)
    curves = plan_curves(experiment.curves, constants, None)
    with diagnostics.collecting():
        stages = plan_stages(experiment, curves, constants)
    if experiment.time is not None and experiment.save is not None:
        with diagnostics.collecting():
            every = measured_every(experiment)
            trajectory = _trajectory(experiment, every)
        if plan is not None and plan.cell is None and str(experiment.save.end).endswith(".data"):
            message = "a LAMMPS data file needs a box, and this system is in free space; take .xyz"
            diagnostics.add(("save", "end"), message)
    if plan is None or potential is None or stages is None:
        return None
    with diagnostics.collecting():
        tail = _tail(experiment, plan, potential)
    system = ParticleSystem(
        **{field.name: getattr(plan, field.name) for field in dataclasses.fields(plan)},
        potential=potential,
        tail=tail,
        run=stages[-1],
        every=every,
    )
    functions = plan_functions(experiment.observe, system, constants)
    if diagnostics.entries:
        return None
    return ParticleSimulation(
        experiment=experiment,
        system=system,
        stages=stages,
        scalars=scalars,
        functions=functions,
        constants=constants.values,
        paths=ensemble.paths,
        seed=ensemble.seed,
        threads=ensemble.threads,
        precision=experiment.precision,
        trajectory=trajectory,
        end=Path(experiment.save.end) if experiment.save.end else None,
    )


def _species(experiment: ParticleExperiment) -> tuple[str, ...]:
    """The species of a system that is wrong, as far as they are known: not those of a file."""
    section = experiment.system
    if section is None or section.file is not None:
        return ()
    return tuple(section.species or {}) or (ONLY,)


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
