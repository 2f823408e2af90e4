"""Lines below the table of a multilevel run: its levels, how fast they fall, and what plain paths take."""

import math
from typing import TYPE_CHECKING, Any

from simkit.progress import counted, short_count
from simkit.results.number_text import finite_or_none, with_error

if TYPE_CHECKING:
    import xarray as xr

KIND = "multilevel"
FIGURES = ("mean", "stderr", "variance", "kurtosis")
COSTS = ("cost", "pilot_cost", "plain_cost", "saving")


def is_multilevel(dataset: "xr.Dataset") -> bool:
    """Whether it is the dataset of a multilevel run."""
    return dataset.attrs.get("method") == KIND


def levels_summary(dataset: "xr.Dataset") -> dict[str, Any]:
    """The costs, and by level the steps, the paths and what is averaged; empty of other runs."""
    if not is_multilevel(dataset):
        return {}
    names = _names(dataset)
    levels = [
        {key: int(dataset[key][level]) for key in ("steps", "paths", "cost")}
        | {
            name: {key: finite_or_none(float(dataset[f"{name}_level_{key}"][level])) for key in FIGURES}
            for name in names
        }
        for level in range(dataset.sizes["level"])
    ]
    keys = [f"{key}{end}" for key in ("alpha", "beta") for end in ("", "_stderr")]
    rates = {name: {key: finite_or_none(float(dataset[f"{name}_{key}"])) for key in keys} for name in names}
    return {
        "levels": levels,
        "rates": rates,
        **{key: finite_or_none(float(dataset.attrs[key])) for key in COSTS},
    }


def level_notes(dataset: "xr.Dataset") -> list[str]:
    """The lines; none of other runs."""
    if not is_multilevel(dataset):
        return []
    pairs = zip(dataset["steps"].values, dataset["paths"].values, strict=True)
    unit = dataset.attrs["level_unit"]
    text = ", ".join(f"{paths:,} × {counted(int(steps), unit)}" for steps, paths in pairs)
    own, pilot, plain, saving = (float(dataset.attrs[key]) for key in COSTS)
    cost = f"cost: {short_count(own + pilot)} path-{unit}s, {short_count(pilot)} of them the pilot's"
    if math.isfinite(plain):
        cost += f"; plain paths would take {short_count(plain)}, {saving:.2g} times as many"
    mark = "! " if saving < 1 else ""
    advice = "; leave method out" if mark else ""
    rates = [line for name in dataset.attrs["target_of"].split() if (line := _rates(dataset, name))]
    jumping = dataset.attrs["many_ends"].split()
    ends = f"levels average many ends of the last {unit}, since the value jumps there: {', '.join(jumping)}"
    return [f"levels: {text}", *[ends] * bool(jumping), *rates, f"{mark}{cost}{advice}"]


def _names(dataset: "xr.Dataset") -> list[str]:
    if "quantities" in dataset.attrs:  # of sensitivities
        return dataset.attrs["quantities"].split()
    return [*dataset.attrs["observables"].split(), *dataset.attrs["state_variables"].split()]


def _rates(dataset: "xr.Dataset", name: str) -> str:
    """How fast the levels of a quantity fall; empty where that does not show."""
    kinds = {"means": "alpha", "variances": "beta"}
    known = {
        what: with_error(*(float(dataset[f"{name}_{key}{end}"]) for end in ("", "_stderr")), 2)
        for what, key in kinds.items()
        if math.isfinite(float(dataset[f"{name}_{key}"]))
    }
    unit = dataset.attrs["level_unit"]
    texts = [f"{what} with the power {rate} of the {unit}" for what, rate in known.items()]
    return f"{name}: from level to level {', '.join(texts)}" if texts else ""
