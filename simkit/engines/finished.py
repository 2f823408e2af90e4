"""What a dataset on disk says of the run that it is the result of, to compare with a run that resumes."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from simkit.engines.engine import OF_NO_EFFECT
from simkit.records.same_run import of_this_machine
from simkit.results.provenance import as_yaml

if TYPE_CHECKING:
    import xarray as xr

INPUTS = "inputs"  # the attribute with digests of what the configuration only names
TASKS = ("sensitivity", "steady", "sweep", "uncertainty")  # kinds of datasets; others are of a run


def contents_of(dataset: "xr.Dataset") -> dict[str, str]:
    """What a dataset says of the run that it is the result of."""
    import yaml

    attributes = dataset.attrs
    kind = attributes.get("simkit_kind")
    versions = f"{attributes.get('versions', '')} python={attributes.get('python', '')}"
    configuration, inputs = (yaml.safe_load(attributes.get(key, "{}")) for key in ("configuration", INPUTS))
    return _contents(kind if kind in TASKS else "run", configuration, versions, inputs)


def contents(task: str, configuration: dict[str, Any], inputs: Mapping[str, str]) -> dict[str, str]:
    """The same of a run of this process: other processors may have finished it."""
    return _contents(task, configuration, of_this_machine()["versions"], inputs)


def _contents(
    task: str, configuration: dict[str, Any], versions: str, inputs: Mapping[str, str]
) -> dict[str, str]:
    experiment = as_yaml(_of_effect(configuration))
    return {"task": task, "experiment": experiment, "versions": versions, **inputs}


def _of_effect(configuration: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration without what says how to compute, and where results go."""
    result = {key: x for key, x in configuration.items() if key not in ("output", "cluster")}
    if isinstance(ensemble := result.get("ensemble"), dict):
        result["ensemble"] = {key: x for key, x in ensemble.items() if key not in OF_NO_EFFECT}
    if isinstance(variants := result.get("variants"), dict):
        result["variants"] = {name: _of_effect(changes) for name, changes in variants.items()}
    return result
