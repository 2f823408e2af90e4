"""The datasets of variants as one, along a dimension `variant`."""

import json
import math
from collections.abc import Hashable, Iterable, Mapping
from typing import Any

import numpy as np
import xarray as xr

from simkit.ensemble.coupling import strong_error, strong_order
from simkit.results.variables import DatasetParts, Variable, Variables, variable, with_stderr
from simkit.results.variant_settings import differing_numbers
from simkit.results.variants import AXES, LACKS, OF_VARIABLES, VARIANT

NOT_ASYMPTOTIC = "not in the asymptotic regime"
TOTALS = ("elapsed_s", "compile_s", "bias_s")


def combined(
    datasets: Mapping[str, DatasetParts],
    ends: Mapping[str, Mapping[str, np.ndarray]],
    configuration: str,
    draws_per_step: Mapping[str, int] | None = None,
    claimed: float = math.inf,
) -> xr.Dataset:
    """One dataset of several results with the same variables and times, along `variant` in their order.

    Where only some have a variable, such as an exact value, it is NaN for the others. Bins differ, so that
    `S_bin` is left out; `S_histogram_edge` has them all. `S_difference` `(variant)` is the mean at the end
    minus that of the first variant, and `S_difference_stderr` its standard error, from the differences of the
    same paths, whose final values are `ends`. Where paths failed, both are of the pairs in which neither did.
    Attributes that differ are stored by variant in `variant_attributes` as JSON; times are sums.
    `configuration` is that of all variants. Numbers of it that differ are coordinates along `variant`, such
    as `model.sigma`. Where paths are those of the finest steps, `draws_per_step` says how many of these make
    one of a variant, and there are strong errors (`simkit.ensemble.coupling`);
    `claimed` is the order that the solvers claim for them.
    """
    each = list(datasets.values())
    first = each[0]
    names = dict.fromkeys(str(name) for dataset in each for name in dataset.data_vars)
    variables = {name: _stacked(name, each) for name in names}
    attributes = first.attrs
    for quantity in (*attributes["state_variables"].split(), *attributes["observables"].split()):
        variables |= _differences(quantity, datasets, ends)
        variables |= _biases_of_differences(quantity, datasets)
        if draws_per_step is not None:
            variables |= _strong_errors(quantity, datasets, ends, draws_per_step, claimed)
    coordinates: dict[str, Any] = {
        name: first.coords[name]
        for name in ("time", "path", "quantile", "quantity", "quantity_2")
        if name in first.coords
    }
    coordinates |= differing_numbers(datasets)
    coordinates[VARIANT] = variable(
        (VARIANT,), np.array(list(datasets), object), "1", "variant of the experiment"
    )
    return xr.Dataset(variables, coordinates, _attributes(datasets, configuration))


def side_by_side(datasets: Mapping[str, xr.Dataset]) -> xr.Dataset:
    """The datasets of variants as one along `variant`; `one_variant` gives each back.

    Where only some have a variable, such as the error of their steps, it is NaN for the others. An axis
    whose places differ, such as the wave numbers of other boxes, has those of all, and NaN where a variant
    has none. Numbers of the experiment that differ are coordinates, as of `combined`. Attributes are those
    that all share, and in `variant_attributes`, as JSON, all of each.
    """
    shapes = {str(name): one[name] for one in datasets.values() for name in one.data_vars}
    complete = [_completed(one, shapes) for one in datasets.values()]
    names = xr.DataArray(np.array(list(datasets), object), dims=VARIANT, name=VARIANT)
    result = xr.concat(
        complete,
        names,
        data_vars="all",
        coords="different",
        compat="equals",
        join="outer",
        combine_attrs="drop",
    )
    result.attrs = _labels([one.attrs for one in datasets.values()])
    for key, own in result.drop_vars(VARIANT).variables.items():
        own.attrs = _labels([one[key].attrs for one in datasets.values() if key in one.variables])
    result[VARIANT].attrs = {"units": "1", "long_name": "variant of the experiment"}
    result = result.assign_coords(differing_numbers(datasets))
    axes = [str(dim) for dim in result.sizes if dim != VARIANT and _differs(dim, complete)]
    return result.assign_attrs(
        {
            "variant_attributes": json.dumps(
                {name: _own(one, result) for name, one in datasets.items()}, ensure_ascii=False
            ),
            **({AXES: " ".join(axes)} if axes else {}),
        }
    )


def _completed(one: xr.Dataset, shapes: Mapping[str, xr.DataArray]) -> xr.Dataset:
    """The dataset with NaN in the variables that it lacks."""
    lacking = {name: xr.full_like(known, np.nan) for name, known in shapes.items() if name not in one}
    return one.merge(lacking, join="outer", compat="override") if lacking else one


def _labels(each: list[dict[str, Any]]) -> dict[str, Any]:
    """The attributes that all have in common."""
    return {key: value for key, value in each[0].items() if all(other.get(key) == value for other in each)}


def _own(one: xr.Dataset, shared: xr.Dataset) -> dict[str, Any]:
    """All attributes of a variant, with those of its variables that differ between variants."""
    differing = {
        str(key): {label: value for label, value in own.attrs.items() if label not in shared[key].attrs}
        for key, own in one.variables.items()
    }
    of_variables = {OF_VARIABLES: {key: labels for key, labels in differing.items() if labels}}
    return one.attrs | of_variables | _lacking(one, shared.data_vars)


def _lacking(one: xr.Dataset | DatasetParts, names: Iterable[Hashable]) -> dict[str, list[str]]:
    """The attribute with the variables of these names that a variant lacks; none where it has all."""
    lacking = [str(name) for name in names if name not in one.data_vars]
    return {LACKS: lacking} if lacking else {}


def _differs(dim: Hashable, datasets: list[xr.Dataset]) -> bool:
    """Whether the places along a dimension are not the same in all."""
    places = [one[dim].values for one in datasets if dim in one.coords]
    return any(not np.array_equal(each, places[0]) for each in places)


def _stacked(name: str, datasets: list[DatasetParts]) -> Variable:
    each = [dataset.data_vars.get(name) for dataset in datasets]
    known = [one for one in each if one is not None]
    missing = np.full(np.shape(known[0].values), np.nan)
    values = np.stack([missing if one is None else one.values for one in each])
    labels = dict(known[0].attrs)
    for key, value in known[0].attrs.items():
        others = [each.attrs[key] for each in known]
        if any(other != value for other in others):
            labels[key] = "" if any(isinstance(other, str) for other in others) else others
    return Variable((VARIANT, *known[0].dims), values, labels)


def _differences(
    quantity: str, datasets: Mapping[str, DatasetParts], ends: Mapping[str, Mapping[str, np.ndarray]]
) -> Variables:
    """Mean difference at the end from the first variant, and its standard error."""
    mean = f"{quantity}_mean"
    first = next(iter(datasets))
    differences, errors = [], []
    for name, dataset in datasets.items():
        pairs = ends[name][quantity] - ends[first][quantity]
        pairs = pairs[np.isfinite(pairs)]
        count = len(pairs)
        difference = _last(dataset.data_vars[mean]) - _last(datasets[first].data_vars[mean])
        if dataset.attrs["failed_paths"] or datasets[first].attrs["failed_paths"]:
            difference = pairs.mean() if count else np.nan  # the means are those of different paths
        else:
            labels = dataset.data_vars[mean].attrs
            count = int(labels.get("replicates", labels["n"]))
        differences.append(difference)
        spread = pairs.std(ddof=1) if len(pairs) > 1 else np.nan
        if name != first and not spread and f"{quantity}_upper" in dataset.data_vars:
            spread = np.nan  # on all paths both have one value, though rarer ones would have others
        errors.append(spread / np.sqrt(count))
    unit = datasets[first].data_vars[mean].attrs["units"]
    what = f"mean of {quantity} at the end minus that of {first}"
    key = f"{quantity}_difference"
    return with_stderr(key, (VARIANT,), np.asarray(differences), np.asarray(errors), unit, what)


def _biases_of_differences(quantity: str, datasets: Mapping[str, DatasetParts]) -> Variables:
    """What steps leave in the differences, where it is known of both means.

    The errors of the two biases are added as if they were independent, though paths are mostly the same.
    """
    first, *others = (_bias(quantity, one) for one in datasets.values())
    biases = [(0.0, 0.0), *((bias - first[0], math.hypot(error, first[1])) for bias, error in others)]
    own, errors = np.transpose(biases)
    if np.isnan(own[1:]).all():
        return {}
    unit = next(iter(datasets.values())).data_vars[f"{quantity}_mean"].attrs["units"]
    what = f"step bias of the difference of {quantity}"
    return with_stderr(f"{quantity}_difference_bias", (VARIANT,), own, errors, unit, what)


def _bias(quantity: str, one: DatasetParts) -> tuple[float, float]:
    """The step bias of a mean and its error, NaN where it is unknown."""
    known = one.data_vars
    bias, error = (known.get(f"{quantity}_bias{end}") for end in ("", "_stderr"))
    return (math.nan, math.nan) if bias is None or error is None else (_last(bias), _last(error))


def _strong_errors(
    quantity: str,
    datasets: Mapping[str, DatasetParts],
    ends: Mapping[str, Mapping[str, np.ndarray]],
    factors: Mapping[str, int],
    claimed: float,
) -> Variables:
    """How far paths at the end are from those of the finest steps, and the order that this shows."""
    finest = min(factors, key=lambda name: factors[name])
    away = {name: ends[name][quantity] - ends[finest][quantity] for name in datasets}
    errors = [strong_error(away[name]) if factors[name] > 1 else (0.0, 0.0) for name in datasets]
    unit = datasets[finest].data_vars[f"{quantity}_mean"].attrs["units"]
    what = f"root mean square difference of {quantity} at the end from the same paths in steps as of {finest}"
    sizes, stderrs = np.transpose(errors)
    variables = with_stderr(f"{quantity}_strong_error", (VARIANT,), sizes, stderrs, unit, what)
    longer = [name for name in datasets if factors[name] > 1]
    if len({factors[name] for name in longer}) > 1:
        order, error, asymptotic = strong_order(
            [away[name] for name in longer], [factors[name] for name in longer], claimed
        )
        note = {} if asymptotic else {"note": NOT_ASYMPTOTIC}
        what = f"strong order of convergence of {quantity} at the end"
        key, figures = f"{quantity}_strong_order", (np.asarray(order), np.asarray(error))
        variables |= with_stderr(key, (), *figures, "1", what, **note)
    return variables


def _last(figure: Variable) -> float:
    return float(np.atleast_1d(figure.values)[-1])


def _attributes(datasets: Mapping[str, DatasetParts], configuration: str) -> dict[str, Any]:
    names = dict.fromkeys(str(name) for dataset in datasets.values() for name in dataset.data_vars)
    each = [dataset.attrs for dataset in datasets.values()]
    same = {
        key: value
        for key, value in each[0].items()
        if key not in TOTALS and all(key in other and other[key] == value for other in each)
    }
    own = {
        name: {key: value for key, value in dataset.attrs.items() if key not in same}
        | _lacking(dataset, names)
        for name, dataset in datasets.items()
    }
    totals = {key: sum(attributes[key] for attributes in each) for key in TOTALS}
    work = sum(attributes["path_steps_per_s"] * attributes["elapsed_s"] for attributes in each)
    return {
        **same,
        "configuration": configuration,
        **totals,
        "path_steps_per_s": work / totals["elapsed_s"],
        "variant_attributes": json.dumps(own, ensure_ascii=False),
    }
