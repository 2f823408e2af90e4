"""The numbers of a study, for people and for programs."""

import math
import sys
from typing import TYPE_CHECKING, Any, TextIO

from simkit.progress import counted
from simkit.results.number_text import with_error
from simkit.results.printing import laid_out, printed
from simkit.studies.methods import METHODS, OF_ALL, PER_PARAMETER, QUANTILES

if TYPE_CHECKING:
    import xarray as xr
    from rich.table import Table

TITLES = {
    "mu_star": "mean |effect|",
    "mu": "mean effect",
    "sigma": "sd of effects",
    "effect_noise": "noise of effects",
    "bound": "bound of total",
    "derivative": "mean derivative",
    "spearman": "rank correlation",
    "partial": "partial",
}

ROUNDED = 1e-9  # of an index, by which rounding may put it beyond 0 or 1


def summary(dataset: "xr.Dataset") -> dict[str, Any]:
    """Estimates with half of their intervals as plain data that JSON knows; None where there is no number."""
    a = dataset.attrs
    return {
        "method": str(a["method"]),
        "observables": {
            str(name): _of(dataset.sel(observable=name)) for name in dataset["observable"].values
        },
        "points": int(a["points"]),
        "replicates": int(a["replicates"]),
        "paths": int(a.get("paths", 1)),
        "runs": int(a["runs"]),
        "confidence": float(a["confidence"]),
        "widest_interval": float(a["widest_interval"]),
        "stopped": str(a["stopped"]),
    }


def _of(one: "xr.Dataset") -> dict[str, Any]:
    """Everything about one observable."""
    parameters = [str(name) for name in one["parameter"].values]
    result: dict[str, Any] = {key: _figure(one, key, ()) for key in OF_ALL if key in one}
    if "step_bias" in one:
        keys = {"value": "step_bias", "stderr": "step_bias_stderr", "at_least": "step_bias_at_least"}
        figures = {key: float(one[name]) for key, name in keys.items()}
        result["step_bias"] = {key: x if math.isfinite(x) else None for key, x in figures.items()}
    if float(one.get("censored", 0)) > 0:
        result["censored"] = int(one["censored"])
    if "quantiles" in one:
        result["quantiles"] = {f"{q:g}": _figure(one, "quantiles", (i,)) for i, q in enumerate(QUANTILES)}
    keys = [key for key in PER_PARAMETER if key in one]
    if keys:
        result["parameters"] = {
            name: {key: _figure(one, key, (i,)) for key in keys} | _note(one, i)
            for i, name in enumerate(parameters)
        }
    if "second" in one:
        result["pairs"] = {
            f"{parameters[i]} × {parameters[j]}": _figure(one, "second", (i, j))
            for i in range(len(parameters))
            for j in range(i + 1, len(parameters))
        }
    return result


def _figure(one: "xr.Dataset", key: str, place: tuple[int, ...]) -> dict[str, float | None]:
    value, half = (float(one[name].values[place]) for name in (key, f"{key}_halfwidth"))
    return {k: x if math.isfinite(x) else None for k, x in (("value", value), ("halfwidth", half))}


def _note(one: "xr.Dataset", place: int) -> dict[str, str]:
    note = str(one["note"].values[place])
    return {"note": note} if note else {}


def make_table(dataset: "xr.Dataset", unicode: bool = True) -> "Table":
    """The table of a study: for each observable a row for each parameter, or for the whole."""
    content = summary(dataset)["observables"]
    rows: list[dict[str, str]] = []
    ends = set()
    for name, figures in content.items():
        own = list(_rows(figures))
        for number, row in enumerate(own):
            rows.append({"": name if number == 0 else "", **row})
        ends.add(len(rows))
    titles = [*dict.fromkeys(title for row in rows for title in row if title != "note"), "note"]
    columns = {title: [row.get(title, "") for row in rows] for title in titles}
    shown = {title: cells for title, cells in columns.items() if any(cells) or title == ""}
    return laid_out(shown, ends, unicode)


def _rows(figures: dict[str, Any]):
    """Cells by title."""
    for name, row in figures.get("parameters", {}).items():
        cells = {TITLES.get(key, key): _text(row[key]) for key in row if key != "note"}
        yield {"parameter": name, **cells, "note": row.get("note", "")}
    for name, figure in figures.get("pairs", {}).items():
        yield {"parameter": name, "second": _text(figure)}
    if "parameters" not in figures:
        for key in OF_ALL:
            if key in figures:
                yield {"of the output": key.replace("_", " "), "value": _text(figures[key])}
        for level, figure in figures.get("quantiles", {}).items():
            yield {"of the output": f"{float(level):g} quantile", "value": _text(figure)}


def _text(figure: dict[str, float | None]) -> str:
    half = figure["halfwidth"]
    return with_error(figure["value"], math.nan if half is None else half)


def closing_lines(dataset: "xr.Dataset") -> list[str]:
    """How large the study was, why it ended, and what is to be known about the figures."""
    content, a = summary(dataset), dataset.attrs
    what = "walks" if content["method"] == "morris" else "points"
    each = f", {counted(content['paths'], 'path')} each" if content["paths"] > 1 else ""
    size = (
        f"{content['replicates']} replicates of {content['points']:,} {what}{each}: {content['runs']:,} runs"
    )
    took = f" in {float(a['elapsed_s']):.1f} s" if "elapsed_s" in a else ""
    lines = [f"{size}{took}; intervals of {100 * content['confidence']:g} %"]
    if content["stopped"] != "points":
        unit = METHODS[content["method"]].width_unit
        wanted = f", not {float(a['width']):g}" if content["stopped"] == "budget" else ""
        widest = f"the widest interval is {content['widest_interval']:.3g}{unit}{wanted}"
        lines.append(f"stopped by {content['stopped']}: {widest}")
    counts_as = dict(text.split(": ") for text in a.get("counts_as", "").split("; ") if text)
    for name, figures in content["observables"].items():
        lines += _impossible(name, figures.get("parameters", {}))
        lines += _step_bias(name, figures.get("step_bias"))
        if waiting := figures.get("censored"):
            lines.append(
                f"{name}: {waiting:,} of the {content['runs']:,} paths of all runs had not met the condition "
                f"before the end, and count with {counts_as[name]}"
            )
        variance = figures.get("parameter_variance")
        if variance and figures["noise_fraction"]["value"]:
            percent, half = (100 * figures["noise_fraction"][k] for k in ("value", "halfwidth"))
            lines.append(f"{name}: {with_error(percent, half)} % of the variance of one path is noise")
            if variance["value"] <= variance["halfwidth"]:
                lines.append(
                    f"{name}: the effect of the parameters cannot be distinguished from noise; "
                    "use more paths or points"
                )
    return lines


def _impossible(name: str, parameters: dict[str, dict[str, Any]]) -> list[str]:
    """The indices of Sobol' that are above 1, or below 0 by more than half of their interval."""
    beyond = []
    for parameter, row in parameters.items():
        for key in ("first", "total"):
            value, half = (row.get(key, {}).get(part) for part in ("value", "halfwidth"))
            if value is not None and (value > 1 + ROUNDED or value + (half or 0.0) < -ROUNDED):
                beyond.append(f"{key} {parameter}")
    if not beyond:
        return []
    which = "index is" if len(beyond) == 1 else "indices are"
    return [
        f"{name}: the {which} not between 0 and 1, where the true ones are ({', '.join(beyond)}): points are "
        "too few; use more of them (uncertainty.points)"
    ]


def _step_bias(name: str, bias: dict[str, float | None] | None) -> list[str]:
    """The step bias at the centre of the parameters; nothing where steps are exact."""
    if bias is None or bias["value"] == 0:
        return []
    if bias["value"] is not None:
        size = f"{with_error(bias['value'], bias['stderr'])} (one standard error)"
    elif bias["at_least"]:
        size = f"at least {bias['at_least']:.3g}: use more steps"
    else:
        size = "unknown"
    return [f"{name}: step bias {size}, at the centre of the parameters; the intervals leave it out"]


def print_table(dataset: "xr.Dataset", file: TextIO | None = None) -> None:
    """Print the table and the closing lines."""
    heading = f"{dataset.attrs['method']}: {dataset.attrs['distributions']}"
    error = f"half of an interval of {100 * float(dataset.attrs['confidence']):g} %"
    printed(
        file or sys.stdout,
        heading,
        lambda unicode: make_table(dataset, unicode),
        closing_lines(dataset),
        error,
    )
