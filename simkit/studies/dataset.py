"""A study as a labelled `xarray.Dataset`."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from simkit.distributions.plain import distribution_text
from simkit.ensemble.step_bias.step_error import StepError
from simkit.results.variables import Variables, variable, with_stderr
from simkit.studies.method import PER_GROUP, AbstractMethod
from simkit.studies.methods import MEANINGS, NEVER_CHANGES, QUANTILES, UNUSED
from simkit.studies.study import Study, StudyPlan

FORMAT = 1
KIND = "uncertainty"
BINS = 80


def to_dataset(
    method: AbstractMethod,
    plan: StudyPlan,
    study: Study,
    units: Mapping[str, str] | None = None,
    provenance: Mapping[str, Any] | None = None,
    step_errors: Mapping[str, StepError] | None = None,
) -> xr.Dataset:
    """Estimates by name with `observable` as the first dimension, and `…_halfwidth` of each interval.

    `step_errors` are those of the means with all parameters at their centre, where steps are an
    approximation: `step_bias` and its error, or `step_bias_at_least` where there is no estimate.

    `note` says of each parameter why its measures are zero, or whether they may be noise. Of a propagation
    `histogram` `(observable, bin)` has the density of the output between the edges `histogram_edge`.
    """
    names = list(study.estimates)
    first = study.estimates[names[0]]
    variables: Variables = {}
    for key, estimate in first.items():
        dims = ("observable", *estimate.dims)
        values, halves = (
            np.stack([getattr(study.estimates[name][key], field) for name in names])
            for field in ("value", "half")
        )
        if "noise_variance" in first and estimate.dims == PER_GROUP:
            known = [[note in (UNUSED, NEVER_CHANGES) for note in study.notes[name]] for name in names]
            halves = np.where((halves == 0) & ~np.array(known), np.nan, halves)  # rarer paths may differ
        variables[key] = variable(dims, values, "", MEANINGS[key])
        variables[f"{key}_halfwidth"] = variable(
            dims, halves, "", f"half of the interval of: {MEANINGS[key]}"
        )
    groups = np.asarray(list(method.groups), object)
    coordinates = {"observable": np.asarray(names, object), "parameter": groups}
    if "second" in first:
        coordinates["parameter_2"] = groups
    if "quantiles" in first:
        coordinates["quantile"] = np.asarray(QUANTILES)
        variables |= _histograms(study, names)
    notes = np.asarray([study.notes[name] for name in names], object)
    variables["note"] = variable(("observable", "parameter"), notes, None, "what to know of its measures")
    variables |= _step_biases(names, step_errors or {})
    if any(study.waiting.values()):
        what = "paths of all runs that had not met the condition of a first time before the end"
        waiting = [study.waiting.get(name, np.nan) for name in names]
        variables["censored"] = variable(("observable",), np.asarray(waiting, float), "1", what)
    attributes = _attributes(method, plan, study, units or {}) | dict(provenance or {})
    return xr.Dataset(variables, coordinates, attributes)


def _step_biases(names: list[str], errors: Mapping[str, StepError]) -> Variables:
    """Zero for a quantity without step bias, NaN where it is unknown."""
    if not errors:
        return {}
    what = "step bias of the mean with all parameters at their centre, which no interval includes"
    figures = np.full((3, len(names)), np.nan)
    for i, name in enumerate(names):
        if name not in errors:
            figures[:, i] = 0.0
        elif errors[name].claim == "estimate":
            figures[:, i] = errors[name].bias, errors[name].stderr, abs(errors[name].bias)
        else:
            figures[2, i] = abs(errors[name].bias)
    bias, stderr, least = figures
    bound = variable(("observable",), least, "", f"size of the {what}, or the least where it has no estimate")
    return with_stderr("step_bias", ("observable",), bias, stderr, "", what) | {"step_bias_at_least": bound}


def _attributes(
    method: AbstractMethod, plan: StudyPlan, study: Study, units: Mapping[str, str]
) -> dict[str, Any]:
    texts = (f"{name}: {distribution_text(each)}" for name, each in method.distributions.items())
    limits = {} if plan.width is None else {"width": plan.width, "budget": plan.budget}
    return {
        "simkit_format": FORMAT,
        "simkit_kind": KIND,
        "title": "simkit uncertainty",
        "method": method.key,
        "points": study.points,
        "replicates": plan.replicates,
        "runs": study.runs,
        "seed": str(plan.seed),
        "confidence": plan.confidence,
        "widest_interval": study.widest,
        "stopped": study.stopped,
        "distributions": "; ".join(texts),
        **limits,
        "units": "; ".join(f"{name}: {units[name]}" for name in study.estimates if units.get(name)),
    }


def _histograms(study: Study, names: list[str]) -> Variables:
    """Densities of the output; the outermost thousandths lie outside.

    Bins of an output that is always a whole number have edges halfway between such numbers.
    """
    counts, edges = [], []
    for name in names:
        flat = study.samples[name].reshape(-1)
        low, high = np.quantile(flat, [0.001, 0.999])
        if np.all(flat % 1 == 0):
            low = np.floor(low)
            edge = low - 0.5 + np.arange(BINS + 1) * np.ceil((high - low + 1) / BINS)
        elif high > low:
            edge = np.linspace(low, high, BINS + 1)
        else:
            edge = np.linspace(low - 0.5, high + 0.5, BINS + 1)
        number, _ = np.histogram(flat, edge)
        counts.append(number / len(flat) / np.diff(edge))
        edges.append(edge)
    return {
        "histogram": variable(("observable", "bin"), np.stack(counts), None, "density of the output"),
        "histogram_edge": variable(("observable", "edge"), np.stack(edges), None, "edges of the bins"),
    }
