"""What a run is called in tables and pictures."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import xarray as xr

MOST_STATES = 4
EQUATIONS = {
    "InlineODE": "ordinary equations",
    "InlineSDE": "stochastic equations",
    "InlineHamiltonian": "Hamiltonian equations",
    "InlineNetwork": "reactions",
}


def end_of(dataset: "xr.Dataset") -> str:
    """The last time, `t = 500 ms`: with its unit where the experiment says which."""
    time = dataset["time"]
    unit = str(time.attrs.get("units", ""))
    return f"t = {float(time.values[-1]):g}" + (f" {unit}" if unit not in ("", "1", "time") else "")


def model_title(dataset: "xr.Dataset") -> str:
    """The name of the model; of one without a name its kind and variables. Empty where variants differ."""
    model = str(dataset.attrs.get("model", ""))
    if model not in EQUATIONS:
        return model
    states = dataset.attrs.get("state_variables", dataset.attrs.get("quantities", "")).split()
    shown = ", ".join([*states[:MOST_STATES], *(["…"] if len(states) > MOST_STATES else [])])
    return f"{EQUATIONS[model]} of {shown}"


def run_title(dataset: "xr.Dataset") -> str:
    """Model and solver; those in which variants differ are left out."""
    attributes = dataset.attrs
    view = f" ({attributes['view']})" if "view" in attributes else ""
    model = model_title(dataset)
    parts = [f"{model[:1].upper()}{model[1:]}{view}" if model else "", attributes.get("solver", "")]
    return ", ".join(part for part in parts if part) or "variants"
