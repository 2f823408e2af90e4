"""A study as a labelled `xarray.Dataset`."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from simkit.studies.distributions import plain
from simkit.studies.methods import METHODS, QUANTILES, AbstractMethod
from simkit.studies.study import Plan, Study

FORMAT = 1
KIND = "uncertainty"
BINS = 80
MEANINGS = {
    "first": "first-order Sobol' index",
    "total": "total Sobol' index",
    "second": "second-order Sobol' index of the pair",
    "mu": "mean elementary effect",
    "mu_star": "mean absolute elementary effect",
    "sigma": "standard deviation of elementary effects",
    "effect_noise": "standard deviation that the noise leaves in an effect",
    "nu": "mean squared derivative",
    "bound": "upper bound of the total Sobol' index",
    "derivative": "mean derivative",
    "spearman": "rank correlation",
    "partial": "partial rank correlation",
    "mean": "mean",
    "sd": "standard deviation",
    "quantiles": "quantile",
    "parameter_variance": "variance of the conditional mean, which the parameters cause",
    "noise_variance": "mean conditional variance, which the noise causes",
    "noise_share": "share of the noise in the variance",
}


def method_name(method: AbstractMethod) -> str:
    """What the method is called in a file."""
    return next(name for name, cls in METHODS.items() if type(method) is cls)


def to_dataset(
    method: AbstractMethod,
    plan: Plan,
    study: Study,
    units: Mapping[str, str] | None = None,
    provenance: Mapping[str, Any] | None = None,
) -> xr.Dataset:
    """Estimates by name with `observable` as the first dimension, and `…_halfwidth` of each interval.

    `note` says of each parameter why its measures are zero, or whether they may be noise. Of a propagation
    `histogram` `(observable, bin)` has the density of the output between the edges `histogram_edge`.
    """
    names = list(study.estimates)
    first = study.estimates[names[0]]
    variables: dict[str, tuple] = {}
    for key, estimate in first.items():
        dims = ("observable", *estimate.dims)
        labels = {"units": "", "long_name": MEANINGS[key]}
        half = {"units": "", "long_name": f"half of the interval of: {MEANINGS[key]}"}
        variables[key] = (dims, np.stack([study.estimates[n][key].value for n in names]), labels)
        variables[f"{key}_halfwidth"] = (dims, np.stack([study.estimates[n][key].half for n in names]), half)
    groups = list(method.groups)
    coordinates: dict[str, Any] = {
        "observable": np.asarray(names, object),
        "parameter": np.asarray(groups, object),
    }
    if "second" in first:
        coordinates["parameter_2"] = np.asarray(groups, object)
    if "quantiles" in first:
        coordinates["quantile"] = np.asarray(QUANTILES)
        variables |= _histograms(study, names)
    notes = np.asarray([study.notes[name] for name in names], object)
    variables["note"] = (("observable", "parameter"), notes, {"long_name": "what to know of its measures"})
    attributes = {
        "simkit_format": FORMAT,
        "simkit_kind": KIND,
        "title": "simkit uncertainty",
        "method": method_name(method),
        "points": study.points,
        "replicates": plan.replicates,
        "runs": study.runs,
        "seed": str(plan.seed),
        "confidence": plan.confidence,
        "widest_interval": study.widest,
        "stopped": study.stopped,
        "distributions": "; ".join(f"{name}: {_law_text(law)}" for name, law in method.laws.items()),
    }
    if plan.width is not None:
        attributes |= {"width": plan.width, "budget": plan.budget}
    units = units or {}
    attributes["units"] = "; ".join(f"{name}: {units[name]}" for name in names if units.get(name))
    return xr.Dataset(variables, coordinates, attributes | dict(provenance or {}))


def _law_text(law) -> str:
    """`normal(mean 0.05, sd 0.01)`."""
    ((kind, numbers),) = plain(law).items()
    texts = (
        f"{k} {', '.join(f'{v:g}' for v in x) if isinstance(x, list) else f'{x:g}'}"
        for k, x in numbers.items()
    )
    return f"{kind}({', '.join(texts)})"


def _histograms(study: Study, names: list[str]) -> dict[str, tuple]:
    """Densities of the output; the outermost thousandths lie outside.

    A bin has one whole number in its middle where the output has few values, all of them whole.
    """
    counts, edges = [], []
    for name in names:
        flat = study.samples[name].reshape(-1)
        low, high = np.quantile(flat, [0.001, 0.999])
        if high - low < BINS and np.all(flat % 1 == 0):
            edge = np.floor(low) - 0.5 + np.arange(BINS + 1)
        elif high > low:
            edge = np.linspace(low, high, BINS + 1)
        else:
            edge = np.linspace(low - 0.5, high + 0.5, BINS + 1)
        number, _ = np.histogram(flat, edge)
        counts.append(number / len(flat) / np.diff(edge))
        edges.append(edge)
    return {
        "histogram": (("observable", "bin"), np.stack(counts), {"long_name": "density of the output"}),
        "histogram_edge": (("observable", "edge"), np.stack(edges), {"long_name": "edges of the bins"}),
    }
