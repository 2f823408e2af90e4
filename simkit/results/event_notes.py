"""Lines below a table on events: how many there are at given times, and how often others happened."""

from typing import TYPE_CHECKING

from simkit.results.number_text import with_error
from simkit.results.step_notes import notes_of_variants

if TYPE_CHECKING:
    import xarray as xr


def event_notes(dataset: "xr.Dataset") -> list[str]:
    """A line for all events at given times, and one for each with a condition, of each variant."""
    return notes_of_variants(dataset, _notes)


def _notes(dataset: "xr.Dataset", which: str) -> list[str]:
    given = dataset.attrs.get("given_events")
    counted = dataset.attrs.get("counted_events", "").split()
    return [*([f"events{which}: {given}"] if given else []), *(_note(dataset, x, which) for x in counted)]


def _note(dataset: "xr.Dataset", name: str, which: str) -> str:
    count, error = (float(dataset[f"{name}_count{end}"]) for end in ("", "_stderr"))
    if count:
        several = " on a path" if int(dataset.attrs["paths"]) > 1 else ""
        text = "once" if count == 1 and not error else f"{with_error(count, error)} times"
        return f"event {name}{which}: {text}{several}{_doubt(dataset)}"
    event = _events(dataset)[name]
    condition = f"`{event['when']}`"
    if {"at", "every"} & event.keys():
        reason = f"{condition} held at none of its times"
    else:
        reason = f"{condition} never went from false to true (holding from the start does not count)"
    if "==" in str(event["when"]) and dataset.attrs["kind"] != "jump":
        reason += "; what changes continuously is hardly ever equal to a number: use < or > for that"
    return f"! event {name}{which} never happened: {reason}"


def _doubt(dataset: "xr.Dataset") -> str:
    """What the error of a count leaves out: what steps of a stochastic equation, or leaps, change in it."""
    state = dataset.attrs["state_variables"].split()[0]
    stepped = dataset.attrs["kind"] in ("sde", "jump") and f"{state}_bias" in dataset
    return ", with an unknown step bias" if stepped else ""


def _events(dataset: "xr.Dataset") -> dict:
    """The events of the experiment by name, as its file has them."""
    import yaml

    return yaml.safe_load(dataset.attrs["configuration"])["events"]
