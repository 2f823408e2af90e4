"""The statistics of a dataset as one tidy table, for a spreadsheet: a line for each quantity and time."""

import csv
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from simkit.results.result_names import suffixes
from simkit.results.swept import name_columns, unfolded
from simkit.results.variants import each_variant

BIAS = ("bias", "bias_stderr", "bias_bound")  # of the end
FIGURES = ("", "stderr", "sd", *BIAS, "step_error", "check", "check_stderr", "z", "estimator", "reason")
ALONG = {"derivative": "parameter", "second": "pair"}

Line = dict[str, Any]


def write_statistics(dataset: xr.Dataset, path: Path) -> None:
    """Write the statistics of any of simkit's datasets: UTF-8, a line of names, numbers in full precision.

    What is not known is an empty cell. Figures that are known at the end only stand in the line of that time.
    """
    lines = list(_lines(dataset))
    names = list(dict.fromkeys(name for line in lines for name in line))
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(names)
        writer.writerows([_cell(line.get(name)) for name in names] for line in lines)


def _cell(value: Any) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return repr(value) if isinstance(value, float) else str(value)


def _lines(dataset: xr.Dataset) -> Iterator[Line]:
    kind = dataset.attrs.get("simkit_kind")
    if kind == "uncertainty":
        yield from _of_study(dataset)
        return
    dataset = unfolded(dataset)
    kind = dataset.attrs.get("simkit_kind")
    kinds = {"sensitivity": _of_sensitivities, "particles": _of_particles, "steady": _of_steady_states}
    of = kinds.get(str(kind), _of_run)
    variants = each_variant(dataset)
    columns = name_columns(dataset, variants)
    for name, one in variants.items():
        for line in of(one):
            yield ({key: texts[name] for key, texts in columns.items()} if name else {}) | line


def _of_run(dataset: xr.Dataset) -> Iterator[Line]:
    """A line for each quantity and saved time: all figures that have no other dimension but quantiles."""
    times = dataset["time"].values
    for name in (*dataset.attrs["state_variables"].split(), *dataset.attrs["observables"].split()):
        figures = _figures(dataset, name)
        over_time = "time" in dataset[f"{name}_mean"].dims
        for i in range(len(times)) if over_time else [len(times) - 1]:
            at: Line = {"quantity": name, "unit": dataset[f"{name}_mean"].attrs["units"]}
            at["time"] = float(times[i])
            for label, figure in figures.items():
                known = figure.isel(time=i) if "time" in figure.dims else figure
                ends = "time" in figure.dims or i == len(times) - 1
                at[label] = float(known) if ends else None
            yield at
    yield from _of_derived(dataset)


def _of_derived(dataset: xr.Dataset) -> Iterator[Line]:
    """A line for each figure made of means, whose value is in the column of means."""
    for name in dataset.attrs.get("derived", "").split():
        value = dataset[f"{name}_value"]
        line: Line = {"quantity": name, "unit": value.attrs["units"], "time": float(dataset["time"][-1])}
        known = [suffix for suffix in suffixes() if f"{name}_{suffix}" in dataset]
        yield line | {"mean": float(value)} | {suffix: float(dataset[f"{name}_{suffix}"]) for suffix in known}


def _figures(dataset: xr.Dataset, name: str) -> dict[str, xr.DataArray]:
    """The figures of a quantity by the names of their columns."""
    result = {}
    for suffix in suffixes():
        figure = dataset.get(f"{name}_{suffix}")
        if figure is None or not set(figure.dims) <= {"time", "quantile"}:
            continue
        if "quantile" not in figure.dims:
            result[suffix] = figure
            continue
        for j, level in enumerate(dataset["quantile"].values):
            result[f"{suffix}_{level:g}"] = figure.isel(quantile=j)
    return result


def _of_particles(dataset: xr.Dataset) -> Iterator[Line]:
    """A line for each observable of molecular dynamics, and for each number that follows from a function."""
    for name in dataset.attrs["observables"].split():
        mean = dataset[f"{name}_mean"]
        line: Line = {"quantity": name, "unit": mean.attrs["units"]}
        figures = ("mean", "stderr", "correlation_time", "correlation_time_stderr")
        yield line | {figure: _plain(dataset[f"{name}_{figure}"]) for figure in figures}
    for name in dataset.attrs["numbers"].split():
        value, stderr = dataset[name], dataset[f"{name}_stderr"]
        for place in np.ndindex(value.shape):
            kind = {"species": str(dataset["species"].values[place[0]])} if place else {}
            line = {"quantity": name, "unit": value.attrs["units"]} | kind
            yield line | {"mean": float(value.values[place]), "stderr": float(stderr.values[place])}


def _of_sensitivities(dataset: xr.Dataset) -> Iterator[Line]:
    """A line for each mean, each derivative of it and each second derivative, at each of its times."""
    for name in dataset.attrs["quantities"].split():
        mean = dataset[f"{name}_mean"]
        means = {"value": mean, "stderr": dataset[f"{name}_mean_stderr"]}
        means |= {key: dataset[f"{name}_{key}"] for key in BIAS if f"{name}_{key}" in dataset}
        yield from _at_times(dataset, {"quantity": name, "figure": "mean", "wrt": ""}, means)
        for kind, along in ALONG.items():
            prefix = f"{name}_{kind}"
            if prefix not in dataset:
                continue
            keys = {suffix: f"{prefix}_{suffix}".rstrip("_") for suffix in FIGURES}
            figures = {suffix or "value": dataset[key] for suffix, key in keys.items() if key in dataset}
            for i, wrt in enumerate(dataset[along].values):
                own = {key: figure.isel({along: i}) for key, figure in figures.items()}
                yield from _at_times(dataset, {"quantity": name, "figure": kind, "wrt": str(wrt)}, own)


def _of_steady_states(dataset: xr.Dataset) -> Iterator[Line]:
    """A line for each value of each steady state, each derivative of it, and each part of an eigenvalue."""
    for root in dataset["root"].values:
        one = dataset.sel(root=root)
        line: Line = {"root": int(root), "kind": str(one["kind"].values), "reached": bool(one["reached"])}
        for name in one["quantity"].values:
            own = one.sel(quantity=name)
            at = line | {"quantity": str(name), "unit": str(own["quantity_unit"].values)}
            figures = {"value": float(own["value"]), "error": float(own["value_error"])}
            yield at | {"figure": "value", "wrt": ""} | figures
            for wrt in one["parameter"].values if "parameter" in one.dims else ():
                figure, error = (float(own[f"derivative{end}"].sel(parameter=wrt)) for end in ("", "_error"))
                yield at | {"figure": "derivative", "wrt": str(wrt), "value": figure, "error": error}
        for part in ("real", "imag"):
            pairs = zip(one[f"eigenvalue_{part}"].values, one["eigenvalue_error"].values, strict=True)
            for number, (figure, error) in enumerate(pairs, 1):
                at = line | {"quantity": f"eigenvalue {number}", "unit": one["eigenvalue_real"].units}
                yield at | {"figure": part, "wrt": "", "value": float(figure), "error": float(error)}


def _at_times(dataset: xr.Dataset, line: Line, figures: dict[str, xr.DataArray]) -> Iterator[Line]:
    """The line with the figures, at each time where these have several."""
    times = dataset["time"].values if "time" in figures["value"].dims else [dataset.attrs["t1"]]
    for i, time in enumerate(times):
        known = {key: x.isel(time=i) if "time" in x.dims else x for key, x in figures.items()}
        if i < len(times) - 1:
            known = {key: x for key, x in known.items() if key not in BIAS}
        yield line | {"time": float(time)} | {key: _plain(x) for key, x in known.items()}


def _of_study(dataset: xr.Dataset) -> Iterator[Line]:
    """A line for each measure of each output, and of each parameter it belongs to."""
    for name, figure in dataset.data_vars.items():
        half = dataset.get(f"{name}_halfwidth")
        if half is None:
            continue
        for place in np.ndindex(figure.shape):
            line: Line = {"quantity": None, "parameter": None, "parameter_2": None, "quantile": None}
            for dim, i in zip(figure.dims, place, strict=True):
                line["quantity" if dim == "observable" else str(dim)] = _plain(figure[dim][i])
            line |= {"measure": str(name), "value": float(figure[place]), "halfwidth": float(half[place])}
            yield line


def _plain(figure: xr.DataArray) -> Any:
    """A number or a text."""
    value = figure.values.item()
    return float(value) if isinstance(value, int | float) else str(value)
