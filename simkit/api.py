"""From an experiment to its dataset: load, build, run, label, write."""

import os
import warnings
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from simkit.config.overrides import Overrides, opened
from simkit.config.settings.places import is_particles
from simkit.ensemble.run import Progress, run_ensemble
from simkit.ensemble.simulation import EnsembleResult, Simulation, experiment_of
from simkit.ensemble.sizes import check_memory
from simkit.errors import NumericalError, UnresolvedWarning
from simkit.experiments.variants import (
    Variants,
    by_name,
    keeps_unresolved,
    load_variants,
    output_of,
    refuse_paths,
    together,
)
from simkit.md.experiment import ParticleVariants, load_particle_variants
from simkit.md.experiment import by_name as particles_by_name
from simkit.results.provenance import as_yaml, provenance
from simkit.results.step_notes import all_unresolved

if TYPE_CHECKING:
    import xarray as xr

    from simkit.md.simulation import ParticleSimulation

PAIRED = 65_536  # paths of which variants are compared one by one; their means are those of all paths


def run(
    source: str | os.PathLike | Mapping[str, Any],
    *,
    overrides: Overrides = (),
    variants: Iterable[str] | None = None,
    out: str | os.PathLike | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> "xr.Dataset":
    """Run an experiment and return its labelled results, as `simkit run` does.

    `source` is the path of a YAML file or a dictionary of the same shape; `overrides` are settings such as
    `["model.sigma=0.3"]` or `{"model.sigma": 0.3}`. With the key `system` it is one of molecular dynamics. An
    experiment with variants gives one dataset of all, or of those named in `variants`, with a dimension
    `variant`. The dataset is also written to `out`, or to the experiment's `output:`, where one of them is
    given. Raises `InputError` (a `ValueError`) that lists every error, `NumericalError` when a path becomes
    NaN or infinite, and `OutputError` (an `OSError`) when the output exists and `overwrite` is not set, or
    cannot be written. Warns with `UnresolvedWarning` of means for which the steps are too long, unless
    the experiment says `ensemble: {unresolved: keep}`.
    """
    document = opened(source, overrides)
    chosen = None if variants is None else list(variants)
    if is_particles(document.data):
        return _run_particles(load_particle_variants(document, (), chosen), out, overwrite, progress)
    loaded = load_variants(document, (), chosen)
    target = out if out is not None else output_of(loaded)
    if target is not None:
        from simkit.results.storage import check_output

        check_output(target, overwrite)
        refuse_paths(loaded, target)
    dataset = run_loaded(loaded, progress)
    notes = [] if keeps_unresolved(loaded) else all_unresolved(dataset)
    if notes:
        warnings.warn("\n".join(notes), UnresolvedWarning, stacklevel=2)
    if target is not None:
        from simkit.results.storage import write_dataset

        write_dataset(dataset, target, overwrite)
    return dataset


def _run_particles(
    loaded: "ParticleSimulation | ParticleVariants",
    out: str | os.PathLike | None,
    overwrite: bool,
    progress: Progress | None,
) -> "xr.Dataset":
    from simkit.md.trajectory import check_trajectory

    simulations = particles_by_name(loaded)
    target = out if out is not None else next(iter(simulations.values())).experiment.output
    if target is not None:
        from simkit.results.storage import check_output

        check_output(target, overwrite)
    for simulation in simulations.values():
        check_trajectory(simulation, overwrite, target)
    dataset = run_particle_variants(loaded, progress)
    if target is not None:
        from simkit.results.storage import write_dataset

        write_dataset(dataset, target, overwrite)
    return dataset


def run_particle_variants(
    loaded: "ParticleSimulation | ParticleVariants", progress: Progress | None = None
) -> "xr.Dataset":
    """Run a simulation of particles, or variants one after the other, and label the results.

    Nothing but trajectories is written. Raises `NumericalError` where a step blows up, which names the
    variant.
    """
    if not isinstance(loaded, dict):
        return _run_particle_simulation(loaded, progress)
    total, done, datasets = sum(each.all_steps for each in loaded.values()), 0, {}
    for name, simulation in loaded.items():
        try:
            datasets[name] = _run_particle_simulation(simulation, _beginning_at(done, total, progress))
        except NumericalError as error:
            raise NumericalError(f"variant {name}: {error}") from error
        done += simulation.all_steps
    from simkit.md.dataset import of_variants

    experiments = {name: simulation.experiment for name, simulation in loaded.items()}
    return of_variants(datasets, as_yaml(together(experiments)))


def _run_particle_simulation(simulation: "ParticleSimulation", progress: Progress | None) -> "xr.Dataset":
    from simkit.md.replicas import run_particles

    result = run_particles(simulation, progress)
    from simkit.md.dataset import to_particle_dataset

    return to_particle_dataset(result, provenance(simulation.experiment.resolved()))


def run_loaded(loaded: Simulation | Variants, progress: Progress | None = None) -> "xr.Dataset":
    """Run what was loaded, an experiment or its variants, and label the results; nothing is written.

    Raises `InputError` where the results do not fit into memory.
    """
    check_memory(by_name(loaded))
    single = isinstance(loaded, Simulation)
    return run_experiment(loaded, progress) if single else run_variants(loaded, progress)


def run_variants(simulations: Variants, progress: Progress | None = None) -> "xr.Dataset":
    """Run variants and label the results; nothing is written.

    Where the seed is the same, path i of all variants meets the same noise. Raises `NumericalError` that
    names the variant.
    """
    total = sum(simulation.paths for simulation in simulations.values())
    results: dict[str, EnsembleResult] = {}
    for name, simulation in simulations.items():
        before = sum(result.paths for result in results.values())
        try:
            results[name] = run_ensemble(simulation, _beginning_at(before, total, progress), PAIRED)
        except NumericalError as error:
            raise NumericalError(f"variant {name}: {error}") from error
    from simkit.ensemble.coupling import claimed_order
    from simkit.results.dataset import to_dataset
    from simkit.results.variant_dataset import combined

    datasets = {
        name: to_dataset(each, results[name], provenance(experiment_of(each).resolved()))
        for name, each in simulations.items()
    }
    ends = {name: result.ends for name, result in results.items()}
    described = as_yaml(together({name: experiment_of(each) for name, each in simulations.items()}))
    draws = {name: simulation.draws_per_step for name, simulation in simulations.items()}
    if max(draws.values()) == 1:
        return combined(datasets, ends, described)
    return combined(datasets, ends, described, draws, claimed_order(simulations.values()))


def _beginning_at(before: int, total: int, progress: Progress | None) -> Progress | None:
    """Progress of one variant as that of all."""
    return None if progress is None else lambda done, _: progress(before + done, total)


def run_experiment(simulation: Simulation, progress: Progress | None = None) -> "xr.Dataset":
    """Run what was loaded from an experiment and label the results; nothing is written."""
    result = run_ensemble(simulation, progress)
    from simkit.results.dataset import to_dataset

    return to_dataset(simulation, result, provenance(experiment_of(simulation).resolved()))
