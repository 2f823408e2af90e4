"""From an experiment to its dataset: load, build, run, label, write."""

import os
import platform
import warnings
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simkit.build import build
from simkit.ensemble import Progress, run_ensemble
from simkit.errors import InputError, NumericalError
from simkit.overrides import Overrides
from simkit.settings import Experiment
from simkit.simulation import EnsembleResult, Simulation
from simkit.sizes import check_memory
from simkit.step_notes import all_unresolved
from simkit.variants import Variants, build_together, load_variants, together
from simkit.version import simkit_version

if TYPE_CHECKING:
    import xarray as xr

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
    `["model.sigma=0.3"]` or `{"model.sigma": 0.3}`. An experiment with variants gives one dataset of all, or
    of those named in `variants`, with a dimension `variant`. The dataset is also written to `out`, or to the
    experiment's `output:`, where one of them is given. Raises `InputError` (a `ValueError`) that lists every
    mistake, `NumericalError` when a path becomes NaN or infinite, and `OutputError` (an `OSError`) when the
    output exists and `overwrite` is not set, or cannot be written. Warns with `UnresolvedWarning` of means
    that steps are too long for, unless the experiment says `ensemble: {unresolved: keep}`.
    """
    loaded = load_variants(source, overrides, None if variants is None else list(variants))
    target = out if out is not None else output_of(loaded)
    if target is not None:
        from simkit.storage import check_output

        check_output(target, overwrite)
        refuse_paths(loaded, target)
    dataset = run_built(loaded, build_loaded(loaded), progress)
    notes = [] if keeps_unresolved(loaded) else all_unresolved(dataset)
    if notes:
        warnings.warn("\n".join(notes), UnresolvedWarning, stacklevel=2)
    if target is not None:
        from simkit.storage import write_dataset

        write_dataset(dataset, target, overwrite)
    return dataset


class UnresolvedWarning(UserWarning):
    """Steps are so long that the step bias of a mean or a derivative is as large as that: it is no result."""


def keeps_unresolved(loaded: Experiment | Variants) -> bool:
    """Whether figures that are no result are shown without a warning or an exit code."""
    each = [loaded] if isinstance(loaded, Experiment) else loaded.values()
    return all(experiment.ensemble.unresolved == "keep" for experiment in each)


def output_of(loaded: Experiment | Variants) -> str | None:
    """Where the file says that the dataset goes."""
    return (loaded if isinstance(loaded, Experiment) else next(iter(loaded.values()))).output


def refuse_paths(loaded: Experiment | Variants, target: str | os.PathLike | None) -> None:
    """Raise `InputError` where paths are to be saved and the file is to be a table of statistics."""
    each = [loaded] if isinstance(loaded, Experiment) else loaded.values()
    if target is not None and Path(target).suffix == ".csv" and any(x.save.paths is not None for x in each):
        raise InputError(
            f"save.paths: {target} holds statistics only; write .zarr or .nc, or leave save.paths out"
        )


def build_loaded(loaded: Experiment | Variants) -> Simulation | dict[str, Simulation]:
    """The simulation of an experiment, or those of its variants by name, whose results fit together."""
    return build(loaded) if isinstance(loaded, Experiment) else build_together(loaded)


def run_built(
    loaded: Experiment | Variants,
    built: Simulation | Mapping[str, Simulation],
    progress: Progress | None = None,
) -> "xr.Dataset":
    """Run what was built from an experiment, or from its variants; nothing is written.

    Raises `InputError` where what is to be kept does not fit into memory.
    """
    check_memory(built if isinstance(built, Mapping) else {"": built})
    if isinstance(loaded, Experiment) and isinstance(built, Simulation):
        return run_experiment(loaded, built, progress)
    if isinstance(loaded, Experiment) or isinstance(built, Simulation):
        raise TypeError("an experiment goes with its simulation, and variants with theirs")
    return run_variants(loaded, built, progress)


def run_variants(
    variants: Variants, simulations: Mapping[str, Simulation], progress: Progress | None = None
) -> "xr.Dataset":
    """Run what was built from variants and label the results; nothing is written.

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
    from simkit.coupling import claimed_order
    from simkit.dataset import to_dataset
    from simkit.variant_dataset import combined

    datasets = {
        name: to_dataset(simulations[name], results[name], provenance(experiment))
        for name, experiment in variants.items()
    }
    ends, described = {name: result.ends for name, result in results.items()}, _as_yaml(together(variants))
    draws = {name: simulation.draws_per_step for name, simulation in simulations.items()}
    if max(draws.values()) == 1:
        return combined(datasets, ends, described)
    return combined(datasets, ends, described, draws, claimed_order(simulations.values()))


def _beginning_at(before: int, total: int, progress: Progress | None) -> Progress | None:
    """Progress of one variant as that of all."""
    return None if progress is None else lambda done, _: progress(before + done, total)


def run_experiment(
    experiment: Experiment, simulation: Simulation, progress: Progress | None = None
) -> "xr.Dataset":
    """Run what was built from an experiment and label the results; nothing is written."""
    result = run_ensemble(simulation, progress)
    from simkit.dataset import to_dataset

    return to_dataset(simulation, result, provenance(experiment))


def provenance(experiment: Experiment) -> dict[str, str]:
    """What it takes to run the experiment again: the full configuration, versions and platform."""
    return provenance_of(experiment.resolved())


def provenance_of(resolved: Mapping[str, Any]) -> dict[str, str]:
    """The same of a configuration as plain data."""
    import jax

    configuration = dict(resolved)
    configuration.pop("output", None)  # where it lies is not what it is
    packages = ("jax", "jaxlib", "diffrax", "equinox", "numpy")
    return {
        "configuration": _as_yaml(configuration),
        "versions": " ".join(
            [f"simkit={simkit_version()}", *(f"{name}={version(name)}" for name in packages)]
        ),
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "backend": f"{jax.default_backend()}: {jax.local_devices()[0].device_kind}",
        "xla_flags": os.environ.get("XLA_FLAGS", ""),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _as_yaml(configuration: dict[str, Any]) -> str:
    import yaml

    return yaml.safe_dump(configuration, sort_keys=False, allow_unicode=True)
