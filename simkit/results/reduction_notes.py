"""Lines below a table about how much smaller the variance of means is than that of plain paths."""

import json
import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from simkit.ensemble.step_bias.step_error import student_quantile
from simkit.results.step_notes import notes_of_variants
from simkit.results.variants import each_variant

if TYPE_CHECKING:
    import xarray as xr


FAR = 5.0  # standard errors: a control's mean is wrong, not unlucky
WORSE = 0.9  # a factor that is no accident


def reduction_notes(dataset: "xr.Dataset") -> list[str]:
    """A line with the factors of all quantities, of variants the least of each, and what is worse."""
    each = [one for one in each_variant(dataset).values() if "variance_reduction" in one.attrs]
    if not each:
        return []
    controls = each[0].attrs["control_variates"].split()
    names = [*dataset.attrs["observables"].split(), *dataset.attrs["state_variables"].split()]
    names = [name for name in names if name not in controls]
    factors = {name: min(float(one[f"{name}_variance_reduction"]) for one in each) for name in names}
    known = {name: factor for name, factor in factors.items() if np.isfinite(factor)}
    least = "at least " if len(each) > 1 else ""
    texts = ", ".join(f"{name} {least}{float(f'{factor:.3g}'):,.9g}" for name, factor in known.items())
    few = few_scramblings(each[0])
    worse = [name for name, factor in known.items() if factor < WORSE]
    exact = [name for name, factor in factors.items() if factor == np.inf]
    parts = [
        _drifts(each),
        f"variances smaller by factors of {texts}" if known else "",
        few,
        f"as factors below 1 are larger ones, leave it out for {', '.join(worse)}" if worse else "",
        f"no sampling error but rounding: {', '.join(exact)}" if exact else "",
    ]
    text = "; ".join(part for part in parts if part)
    shifted = [line for name in controls if (line := _wrong_mean(name, each))]
    shifted += notes_of_variants(dataset, _degenerate)
    return [f"{each[0].attrs['variance_reduction']}: {text}", *shifted] if text else shifted


def _drifts(each: "list[xr.Dataset]") -> str:
    """The drift of importance sampling, and how it was found; empty where there is none."""
    if "importance_drift" not in each[0].attrs:
        return ""
    drifts = dict.fromkeys(str(one.attrs["importance_drift"]) for one in each)
    text = (
        next(iter(drifts))
        if len(drifts) == 1
        else f"{len(drifts)} drifts, {' to '.join([*drifts][:: len(drifts) - 1])}"
    )
    aim, paths = (each[0].attrs[f"importance_{key}"] for key in ("of", "pilot_paths"))
    how = f", the best for {aim} in a pilot of {paths:,} paths" if aim else ""
    return f"drift {text}{how}"


def _degenerate(dataset: "xr.Dataset", which: str) -> Iterable[str]:
    """A line for each quantity whose weights leave no result."""
    needed = json.loads(dataset.attrs.get("degenerate", "{}"))
    if needed:
        yield (
            f"! {', '.join(needed)}{which}: no result with this drift, as the weights degenerate: it would "
            f"take {max(needed.values()):.1g} paths; run it without importance"
        )


def few_scramblings(one: "xr.Dataset") -> str:
    """How well their spread tells the errors; empty where there are none."""
    if "scramblings" not in one.attrs:
        return ""
    freedom = one.attrs["scramblings"] - 1
    return (
        f"errors are known to {100 / math.sqrt(2 * freedom):.0f} %, and a 95 % interval is "
        f"± {student_quantile(freedom, 0.975):.3g} of them"
    )


def _wrong_mean(name: str, each: "list[xr.Dataset]") -> str:
    """That the mean of a control is not the known one; empty where it may be."""
    far = max(abs(float(np.nan_to_num(one.get(f"{name}_z", np.nan)))) for one in each)
    if far < FAR:
        return ""
    return (
        f"! {name}: its mean is {far:.0f} standard errors from its exact one, so the means that it controls "
        "are shifted; correct exact:, or leave it out of control"
    )
