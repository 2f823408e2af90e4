"""From the sections of an experiment of molecular dynamics to a simulation that can run."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import jax
import numpy as np
from simkit_physics.particles.density import Snapshot
from simkit_physics.particles.overlaps import coincident
from simkit_solvers.grids.grid import NO_STEP

from simkit.config.diagnostics import Diagnostics, SettingError
from simkit.config.documents import KeyPath
from simkit.config.settings import ParticleExperiment
from simkit.errors import InputError
from simkit.experiments.constants import Constants
from simkit.experiments.sections.curve_plan import plan_curves, with_curve_numbers
from simkit.md.file_plan import PLACE
from simkit.md.files.library import check_installed
from simkit.md.functions import AbstractFunction
from simkit.md.method_plan import measured_every, plan_stages
from simkit.md.observable_plan import plan_functions, plan_scalars
from simkit.md.potential_plan import plan_potential
from simkit.md.sensitivity_plan import check_sensitivity
from simkit.md.simulation import (
    ParticleSimulation,
    ParticleSystem,
    PlannedStage,
    PlannedTrajectory,
    clock_of,
)
from simkit.md.system_plan import ONLY, SystemPlan, plan_system
from simkit.md.velocities import without_drift_of_file

MOST_WIDTHS = 10  # of the box, for a cutoff: beyond, there are more than 9261 images


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
    plan = potential = stages = None
    scalars, tail = {}, (0.0, 0.0)
    with diagnostics.collecting():
        plan = plan_system(experiment.system, 0 if ensemble is None else ensemble.seed, constants)
    names = _species(experiment) if plan is None else plan.names
    if names:
        with diagnostics.collecting():
            potential = plan_potential(experiment.potential, names, constants)
    curves = plan_curves(experiment.curves, constants, None)
    with diagnostics.collecting():
        stages = plan_stages(experiment, curves, constants)
    if plan is not None:
        method = None if stages is None else stages[-1].method
        scalars = plan_scalars(experiment.observe, plan.cell is None, method, plan.units, constants)
    every, trajectory = _saved(experiment, plan, diagnostics)
    with diagnostics.collecting():
        _refuse_small_numbers(experiment)
    if plan is not None and stages is not None and ensemble is not None:
        with diagnostics.collecting():
            _refuse_equal_replicas(ensemble.paths, plan, stages)
    if plan is None or potential is None or stages is None:
        return None
    plan = without_drift_of_file(plan, stages[0].method)
    with diagnostics.collecting():
        _check_images(plan, float(np.max(np.asarray(potential.cutoffs))), diagnostics)
    with diagnostics.collecting():
        tail = _tail(experiment, plan, potential)
    system = ParticleSystem(
        **{field.name: getattr(plan, field.name) for field in dataclasses.fields(plan)},
        potential=potential,
        tail=tail,
        run=stages[-1],
        every=every,
    )
    with diagnostics.collecting():
        _refuse_coincident(system)
    functions = plan_functions(experiment.observe, system, constants)
    with diagnostics.collecting():
        _refuse_late_clock(0 if plan.earlier is None else plan.earlier.clock, stages, every, functions)
    check_sensitivity(experiment.sensitivity, constants, scalars, functions)
    if diagnostics.entries:
        return None
    return ParticleSimulation(
        experiment=experiment,
        system=system,
        stages=stages,
        scalars=scalars,
        functions=functions,
        constants=constants,
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


def _saved(
    experiment: ParticleExperiment, plan: SystemPlan | None, diagnostics: Diagnostics
) -> tuple[int, PlannedTrajectory | None]:
    """The steps from one measurement to the next, and the trajectory."""
    every, trajectory = 1, None
    if experiment.time is not None and experiment.save is not None:
        with diagnostics.collecting():
            every = measured_every(experiment)
            trajectory = _trajectory(experiment, every)
        if plan is not None and plan.cell is None and str(experiment.save.end).endswith(".data"):
            message = "a LAMMPS data file needs a box, and this system is in free space; take .xyz"
            diagnostics.add(("save", "end"), message)
    return every, trajectory


def _trajectory(experiment: ParticleExperiment, every: int) -> PlannedTrajectory | None:
    section = experiment.save.trajectory
    if section is None:
        return None
    if section.every % every:
        message = f"must be a multiple of save.every, {every}, got {section.every}"
        raise SettingError(("save", "trajectory", "every"), message)
    file, output = Path(section.file), experiment.output
    if output is not None and Path(output) == file:
        message = (
            f"is the name of the dataset too; give the trajectory its own, such as {file.stem}_frames.zarr"
        )
        raise SettingError(("save", "trajectory", "file"), message)
    if file.suffix == ".dcd":
        try:
            check_installed(file)
        except InputError as error:
            raise SettingError(("save", "trajectory", "file"), str(error)) from error
    return PlannedTrajectory(file, section.every)


def _refuse_small_numbers(experiment: ParticleExperiment) -> None:
    """In SI the square of a momentum is 1e-46 or so, and the least float32 is 1e-38."""
    precision = experiment.precision
    if experiment.system is not None and experiment.system.units == "si" and precision != "float64":
        message = f"numbers in SI units are too small for {precision}; take float64, or units: metal or real"
        raise SettingError(("precision",), message)


def _refuse_equal_replicas(paths: int, system: SystemPlan, stages: tuple[PlannedStage, ...]) -> None:
    """Replicas differ by the velocities that are drawn, by the noise of a method, or by where they start."""
    drawn = system.temperature is not None
    if system.earlier is not None and (there := len(system.earlier.particles)) > 1:
        if paths > there:
            message = f"the run in system.file has {there} replicas, got {paths}; take at most {there}"
            raise SettingError(("ensemble", "paths"), message)
        return
    if paths > 1 and not drawn and not any(stage.steps and stage.method.random for stage in stages):
        raise SettingError(
            ("ensemble", "paths"),
            f"all {paths} replicas would be equal: nothing in them is random; give system.velocities: "
            "{temperature: …}, a stage with BAOAB, or paths: 1",
        )


def _refuse_late_clock(
    start: int, stages: tuple[PlannedStage, ...], every: int, functions: Mapping[str, AbstractFunction]
) -> None:
    """The clock of a run is a whole number of 32 bits."""
    intervals = sorted({every, *(each.every for each in functions.values())})
    end = clock_of(start + sum(stage.steps for stage in stages[:-1]), intervals) + stages[-1].steps
    if end >= NO_STEP:
        shown = " and ".join(map(str, intervals))
        raise SettingError(
            ("observe",),
            f"the run would end at step {end:,}, and steps are counted up to {NO_STEP:,}: after stages it "
            f"begins at a common multiple of every, here of {shown}; take multiples of save.every",
        )


def _check_images(system: SystemPlan, cutoff: float, diagnostics: Diagnostics) -> None:
    """With a cutoff of many boxes, a step would take all pairs of as many images; one of some is a remark."""
    if system.cell is None:
        return
    path: KeyPath = ("potential", "cutoff")
    least = min(float(width) for width in jax.tree.map(np.asarray, system.box).widths)
    if cutoff > least:
        diagnostics.remark(
            path,
            f"is {cutoff / least:.3g} times the least width of the box, {least:.6g}: particles meet their "
            "own images, and several of each other, which takes long; take a larger box, or a smaller cutoff",
        )
    if cutoff > MOST_WIDTHS * least:
        raise SettingError(
            path,
            f"must be at most {MOST_WIDTHS * least:.6g}, {MOST_WIDTHS} times the least width of the box, got "
            f"{cutoff:g}; take a smaller cutoff, a larger box, or box: {{free: true}}",
        )


def _refuse_coincident(system: ParticleSystem) -> None:
    """Refuse two particles of a file of positions that are at the same place."""
    if system.called.numbers is None:
        return
    cutoff = float(np.max(np.asarray(system.potential.cutoffs)))
    overlap = coincident(Snapshot.of(system.particles, system.box), system.box, cutoff)
    if overlap is not None:
        raise SettingError(
            PLACE,
            f"{system.called.of(overlap.one, overlap.other)} are at the same place: their distance is "
            f"{overlap.distance:.3g}; move one of them or leave it out",
        )


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
