"""Molecular dynamics, as commands and Python functions see it."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from simkit.config.diagnostics import placed
from simkit.config.documents import Document
from simkit.config.settings import ParticleExperiment, ParticleSensitivity
from simkit.engines.engine import AbstractEngine, Progress, Target
from simkit.ensemble.work import workers_on
from simkit.errors import InputError
from simkit.experiments.start_files import digest_of
from simkit.experiments.variants import together
from simkit.machine.on_each_device import local_devices
from simkit.md.experiment import simulation_of
from simkit.md.simulation import ParticleSimulation
from simkit.md.size import LIGHTER
from simkit.md.variant_fit import fitted
from simkit.progress import counted
from simkit.results.provenance import as_yaml, provenance

if TYPE_CHECKING:
    import xarray as xr


class ParticleEngine(AbstractEngine[ParticleSimulation]):
    """Systems of particles: replicas in time, and averages along them."""

    counted = "steps"
    parameter = "epsilon"
    lighter = LIGHTER

    def build(self, document: Document) -> ParticleSimulation:
        return simulation_of(document)

    def root(self) -> type[ParticleExperiment]:
        from simkit.md.experiment_section import particle_experiment

        return particle_experiment()

    def fitted(self, each: dict[str, ParticleSimulation]) -> dict[str, ParticleSimulation]:
        return fitted(each)

    def experiment(self, simulation: ParticleSimulation) -> ParticleExperiment:
        return simulation.experiment

    def work(self, simulation: ParticleSimulation) -> int:
        return simulation.all_steps

    def about(self, simulation: ParticleSimulation) -> dict[str, Any]:
        experiment = simulation.experiment
        return {
            "potential": experiment.potential.type or "energy",
            "solver": experiment.solver.type,
            "particles": simulation.system.count,
            "paths": simulation.paths,
            "steps": simulation.run.steps,
            "stages": [stage.name for stage in simulation.stages[:-1]],
            "observables": [*simulation.scalars, *simulation.functions],
        }

    def summary(self, simulation: ParticleSimulation) -> str:
        about = self.about(simulation)
        sizes = [counted(about["particles"], "particle"), counted(about["paths"], "replica")]
        return ", ".join([about["potential"], about["solver"], *sizes, counted(about["steps"], "step")])

    def size(self, simulation: ParticleSimulation) -> dict[str, Any]:
        from simkit.md.size import size_of

        return size_of(simulation)

    def size_text(self, sizes: dict[str, Any]) -> str:
        from simkit.md.size import size_text

        return size_text(sizes)

    def shorter(self, simulation: ParticleSimulation) -> str:
        return (
            f"fewer time.steps{', fewer ensemble.paths' if simulation.paths > 1 else ''} or fewer particles"
        )

    def identity(self, simulation: ParticleSimulation) -> str | None:
        """With the number of threads, by which the bits of large systems differ. None of a run that writes a
        DCD file, to which nothing can be appended."""
        if simulation.trajectory is not None and simulation.trajectory.file.suffix == ".dcd":
            return None
        experiment = simulation.experiment.resolved()
        threads = workers_on(local_devices(1), simulation.threads)
        experiment.pop("output", None)
        experiment["ensemble"] = {k: x for k, x in experiment["ensemble"].items() if k != "threads"}
        return as_yaml(experiment | {"threads at work": len(threads)} | self.inputs(simulation))

    def inputs(self, simulation: ParticleSimulation) -> dict[str, str]:
        """The file of the start, and the table of a potential."""
        experiment, folder = simulation.experiment, simulation.experiment.document.folder
        names = [name for name in (experiment.system.file, experiment.potential.file) if name is not None]
        return {f"content of {name}": digest_of(folder / name) for name in names}

    def pilot(self, simulation: ParticleSimulation) -> ParticleSimulation:
        return dataclasses.replace(simulation, trajectory=None, end=None)

    def files(self, simulation: ParticleSimulation) -> list[Path]:
        from simkit.md.trajectory import files_of

        return files_of(simulation)

    def check_files(self, each: Mapping[str, ParticleSimulation], target: Target, overwrite: bool) -> None:
        """The files are those of positions."""
        from simkit.md.trajectory import check_trajectory

        for simulation in each.values():
            check_trajectory(simulation, overwrite, target)

    def run(
        self,
        each: Mapping[str, ParticleSimulation],
        progress: Progress | None = None,
        parts: list[Any] | None = None,
    ) -> "xr.Dataset":
        """Trajectories are written."""
        datasets = self.one_by_one(each, _run, progress)
        if "" in datasets:
            return datasets[""]
        from simkit.md.dataset import of_variants

        experiments = {name: simulation.experiment for name, simulation in each.items()}
        return of_variants(datasets, as_yaml(together(experiments)))

    def check_parts(self) -> None:
        raise InputError(
            "molecular dynamics cannot be run in parts, nor merged from them; `simkit run` runs all"
        )

    def run_part(
        self, each: Mapping[str, ParticleSimulation], part: Any, progress: Progress | None = None
    ) -> list[Any]:
        """There are none of a trajectory, each step of which needs the one before."""
        self.check_parts()
        return []

    def differentiate(
        self, simulation: ParticleSimulation, section: ParticleSensitivity, progress: Progress | None = None
    ) -> "xr.Dataset":
        """The derivatives are those of averages at constant temperature, from fluctuations."""
        from simkit.derivatives.particles.study import find_derivatives

        with placed(simulation.experiment.document):
            study = find_derivatives(simulation, section, progress)
        from simkit.derivatives.particles.result import to_average_dataset

        return to_average_dataset(study, provenance(simulation.experiment.resolved()))

    def table(self) -> ModuleType:
        from simkit.md import table

        return table


def _run(simulation: ParticleSimulation, progress: Progress | None) -> "xr.Dataset":
    from simkit.md.replicas import run_particles

    result = run_particles(simulation, progress)
    from simkit.md.dataset import to_particle_dataset

    return to_particle_dataset(result, provenance(simulation.experiment.resolved()))
