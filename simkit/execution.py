"""From an experiment to its dataset: load, build, run, label, write."""

import os
import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from simkit.build import build
from simkit.ensemble import Progress, run_ensemble
from simkit.experiment import Experiment, load
from simkit.overrides import Overrides
from simkit.simulation import Simulation
from simkit.version import simkit_version

if TYPE_CHECKING:
    import xarray as xr


def run(
    source: str | os.PathLike | Mapping[str, Any],
    *,
    overrides: Overrides = (),
    out: str | os.PathLike | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> "xr.Dataset":
    """Run an experiment and return its labelled results, as `simkit run` does.

    `source` is the path of a YAML file or a dictionary of the same shape; `overrides` are settings such as
    `["model.sigma=0.3"]` or `{"model.sigma": 0.3}`. The dataset is also written to `out`, or to the
    experiment's `output:`, where one of them is given. Raises `InputError` (a `ValueError`) that lists every
    mistake, `NumericalError` when a path becomes NaN or infinite, and `OutputError` (an `OSError`) when the
    output exists and `overwrite` is not set, or cannot be written.
    """
    experiment = load(source, overrides=overrides)
    target = out if out is not None else experiment.output
    if target is not None:
        from simkit.storage import check_output

        check_output(target, overwrite)
    dataset = run_experiment(experiment, build(experiment), progress)
    if target is not None:
        from simkit.storage import write_dataset

        write_dataset(dataset, target, overwrite)
    return dataset


def run_experiment(
    experiment: Experiment, simulation: Simulation, progress: Progress | None = None
) -> "xr.Dataset":
    """Run what was built from an experiment and label the results; nothing is written."""
    result = run_ensemble(simulation, progress)
    from simkit.dataset import to_dataset

    return to_dataset(simulation, result, provenance(experiment))


def provenance(experiment: Experiment) -> dict[str, str]:
    """What it takes to run the experiment again: the full configuration, versions and platform."""
    import jax
    import yaml

    configuration = experiment.resolved()
    configuration.pop("output", None)  # where it lies is not what it is
    packages = ("jax", "jaxlib", "diffrax", "equinox", "numpy")
    return {
        "configuration": yaml.safe_dump(configuration, sort_keys=False, allow_unicode=True),
        "versions": " ".join(
            [f"simkit={simkit_version()}", *(f"{name}={version(name)}" for name in packages)]
        ),
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "backend": f"{jax.default_backend()}: {jax.local_devices()[0].device_kind}",
        "xla_flags": os.environ.get("XLA_FLAGS", ""),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }
