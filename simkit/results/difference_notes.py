"""Differences of means from the first variant that are mostly differences of step biases."""

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from simkit.ensemble.step_bias.resolution import MANY, OF_VALUE
from simkit.results.number_text import MARK, with_error
from simkit.results.step_notes import notes_of_variants
from simkit.results.summary import summary

if TYPE_CHECKING:
    import xarray as xr


def difference_text(row: Mapping[str, Any]) -> str:
    """A difference with its error, marked where the step bias of it matters."""
    return with_error(row.get("difference"), row.get("difference_stderr")) + MARK * _is_biased(row)


def difference_notes(dataset: "xr.Dataset") -> list[str]:
    """A line for each difference of which the step bias matters."""
    return notes_of_variants(dataset, _notes)


def _notes(dataset: "xr.Dataset", which: str) -> Iterable[str]:
    content = summary(dataset)
    for name, row in (content["observables"] | content["state"]).items():
        if _is_biased(row):
            bias = with_error(row["difference_bias"], row["difference_bias_stderr"])
            yield f"! {name}{which}: the difference has a step bias of {bias}; subtract it, or use more steps"


def _is_biased(row: Mapping[str, Any]) -> bool:
    """Whether the step bias of a difference is well above its errors, and a relevant part of it."""
    difference, stderr, bias, error = (
        row.get(f"difference{end}") for end in ("", "_stderr", "_bias", "_bias_stderr")
    )
    if difference is None or bias is None:
        return False
    noise = math.hypot(stderr or 0.0, error or 0.0)
    return abs(bias) > MANY * noise and abs(bias) > OF_VALUE * abs(difference)
