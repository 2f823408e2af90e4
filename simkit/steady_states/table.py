"""The numbers of steady states, for people and for programs."""

import math
import sys
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Any, TextIO

from rich.table import Table

from simkit.derivatives.summary import elasticity
from simkit.results.number_text import digits_to, finite_or_none, with_error
from simkit.results.printing import ESTIMATED_ERROR, laid_out, printed
from simkit.results.titles import run_title
from simkit.results.variants import each_variant, variant_names

if TYPE_CHECKING:
    import xarray as xr

TINY = 1e-6  # of a figure: an error below that would be a row of zeros


def summary(dataset: "xr.Dataset") -> dict[str, Any]:
    """All figures as plain data; None where there is no finite number. Of variants those of each by name."""
    if variant_names(dataset):
        return {"variants": {name: summary(one) for name, one in each_variant(dataset).items()}}
    after = dataset.attrs["reached_within_10_percent_after"]
    return {
        "model": str(dataset.attrs["model"]),
        "what": str(dataset.attrs["what"]),
        "steady_states": [_state(dataset.sel(root=number)) for number in dataset["root"].values],
        "conserved": {str(text): float(dataset["total"].sel(conserved=text)) for text in _conserved(dataset)},
        "reached_within_10_percent_after": finite_or_none(after),
        "notes": _notes(dataset),
    }


def _state(one: "xr.Dataset") -> dict[str, Any]:
    """All about one steady state."""
    time, time_error = float(one["relaxation_time"]), float(one["relaxation_time_error"])
    numbers = (one[f"eigenvalue_{part}"].values for part in ("real", "imag", "error"))
    return {
        "kind": str(one["kind"].values),
        "stable": bool(one["stable"]),
        "reached": bool(one["reached"]),
        "values": {str(name): _value(one, str(name)) for name in one["quantity"].values},
        "eigenvalues": [
            {"real": float(real), "imag": float(imag), "error": finite_or_none(error)}
            for real, imag, error in zip(*numbers, strict=True)
        ],
        "relaxation_time": {"value": finite_or_none(time), "error": finite_or_none(time_error)},
    }


def _value(one: "xr.Dataset", name: str) -> dict[str, Any]:
    """A variable or an observable: value, error, what it leaves, and its derivatives."""
    own = one.sel(quantity=name)
    result: dict[str, Any] = {"value": float(own["value"]), "error": float(own["value_error"])}
    result["unit"] = str(own["quantity_unit"].values)
    if name in one["variable"].values:
        result["residual"] = float(one["residual"].sel(variable=name))
        result["in_range"] = bool(one["in_range"].sel(variable=name))
    if "parameter" in one.dims:
        result["derivatives"] = {
            str(label): _derivative(own.sel(parameter=label), result) for label in one["parameter"].values
        }
    return result


def _derivative(one: "xr.Dataset", value: dict[str, Any]) -> dict[str, Any]:
    figure, error = float(one["derivative"]), float(one["derivative_error"])
    pair = elasticity(figure, error, value["value"], value["error"], float(one["parameter_value"]))
    keys = ("derivative", "error", "elasticity", "elasticity_error")
    return dict(zip(keys, map(finite_or_none, (figure, error, *pair)), strict=True))


def _conserved(dataset: "xr.Dataset") -> list[str]:
    return [str(text) for text in dataset["conserved"].values] if "conserved" in dataset.dims else []


def _notes(dataset: "xr.Dataset") -> list[str]:
    return str(dataset.attrs["notes"]).splitlines()


def state_table(states: list[dict[str, Any]], unicode: bool = True) -> Table:
    """A row for each variable, next to an eigenvalue, and for each observable, of each steady state."""
    rows: list[dict[str, str]] = []
    ends = set()
    for number, state in enumerate(states, 1):
        eigenvalues, time = state["eigenvalues"], state["relaxation_time"]
        for i, (name, value) in enumerate(state["values"].items()):
            row = {
                "steady state": "" if i else f"{number}: {state['kind']}",
                "": name,
                "value": _figure(value["value"], value["error"]),
                "unit": value["unit"],
                "rate of change": f"{value['residual'] + 0.0:.3g}" if "residual" in value else "",
            }
            if i < len(eigenvalues):
                own = eigenvalues[i]
                if own["error"] is None:
                    rows.append(row | {"eigenvalue": "?"})
                    continue
                real = 0.0 if math.hypot(own["real"], own["imag"]) <= (own["error"] or 0.0) else own["real"]
                row["eigenvalue"] = _figure(real, own["error"])
                row["imaginary part"] = _figure(own["imag"], own["error"]) if own["imag"] else ""
            if i == 0:
                row["relaxation time"] = _figure(time["value"], time["error"])
            rows.append(row)
        ends.add(len(rows))
    return _laid_out(rows, ends, unicode)


def derivative_table(states: list[dict[str, Any]], unicode: bool = True) -> Table:
    """A row for each derivative, `?` where it is undefined.

    The elasticity is the change of the value in % for 1 % of the parameter; a value of 0 has none, nor one
    that is as small as its error.
    """
    rows: list[dict[str, str]] = []
    ends = set()
    for number, state in enumerate(states, 1):
        for name, value in state["values"].items():
            for i, (label, own) in enumerate(value["derivatives"].items()):
                undefined = own["derivative"] is None
                row = {
                    "steady state": "" if i else str(number),
                    "": "" if i else name,
                    "with respect to": label,
                    "derivative": "?" if undefined else _figure(own["derivative"], own["error"]),
                    "elasticity": "?" if undefined else _figure(own["elasticity"], own["elasticity_error"]),
                }
                rows.append(row)
            ends.add(len(rows))
    return _laid_out(rows, ends, unicode)


def _laid_out(rows: list[dict[str, str]], ends: Collection[int], unicode: bool) -> Table:
    """A table of rows by title, without columns that are empty."""
    titles = dict.fromkeys(title for row in rows for title in row)
    columns = {title: [row.get(title, "") for row in rows] for title in titles}
    return laid_out({title: cells for title, cells in columns.items() if any(cells)}, ends, unicode)


def _figure(value: float | None, error: float | None) -> str:
    """A figure with its error, of many digits to the first one of that; what is known exactly has none."""
    if value is None:
        return ""
    if not value or not error or error > TINY * abs(value):
        return with_error(value + 0.0, math.nan if error is None else error, 2)
    return f"{value:.{digits_to(value, error)}g} ± {error:.1g}"


def print_table(dataset: "xr.Dataset", file: TextIO | None = None) -> None:
    """Print the steady states, their derivatives and notes, of each variant where there are several."""
    output = file or sys.stdout
    for variant, one in each_variant(dataset).items():
        content = summary(one)
        states = content["steady_states"]
        heading = f"{run_title(one)}{f', {variant}' if variant else ''}: {content['what']}"
        closings = [*_reached(content, one.attrs["time_unit"]), *_totals(content), *content["notes"]]
        if not any(_has_derivatives(state) for state in states):
            _print(output, heading, state_table, states, closings)
        else:
            _print(output, heading, state_table, states, ())
            _print(output, f"{heading}, derivatives", derivative_table, states, closings)


def _has_derivatives(state: dict[str, Any]) -> bool:
    """Whether there are numbers among the derivatives of a state."""
    all_of = (own for value in state["values"].values() for own in value.get("derivatives", {}).values())
    return any(own["derivative"] is not None for own in all_of)


def _print(
    file: TextIO, heading: str, table: Callable, states: list[dict[str, Any]], closings: Iterable[str]
) -> None:
    printed(file, heading, lambda unicode: table(states, unicode), closings, ESTIMATED_ERROR)


def _reached(content: dict[str, Any], unit: str) -> list[str]:
    """When the model is near the state that it reaches, which is the first."""
    time = content["reached_within_10_percent_after"]
    if time is None:
        return []
    if not time:
        return ["the model begins within 10 % of steady state 1, and stays there"]
    after = f"{time:.3g}{'' if unit == 'time' else f' {unit}'}"
    text = f"the model reaches steady state 1 from its initial values, to within 10 % after a time of {after}"
    unstable = content["steady_states"][0]["kind"].startswith(("saddle", "unstable"))
    return [f"{text}; it is unstable, and values next to these lead elsewhere" if unstable else text]


def _totals(content: dict[str, Any]) -> list[str]:
    """The conserved totals."""
    parts = [f"{text} = {total:.10g}" for text, total in content["conserved"].items()]
    if not parts:
        return []
    return [f"conserved, as at the start: {', '.join(parts)}; eigenvalues are those at the same totals"]
