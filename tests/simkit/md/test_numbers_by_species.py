"""Numbers by species: each has the note of its own, and where its error is known nothing says otherwise."""

import numpy as np
import xarray as xr

from simkit.md.number_notes import joined_notes, note_of
from simkit.md.table import closing_lines, summary

NOTES = ("it does not grow", None, "it grows as t^2.00: no diffusion coefficient")
SPECIES = ("Ar", "Kr", "B: x")


def two_numbers(note: str, stderr: list[float]) -> xr.Dataset:
    """What the table needs of a run that measured diffusion by species."""
    about = {"units": "Å^2/ps", "note": note, "stderr_unknown": "38 autocorrelation times of data"}
    attributes = dict.fromkeys(("functions", "observables", "units", "forces", "ensemble"), "") | {
        "numbers": "D_diffusion"
    }
    attributes |= dict.fromkeys(("paths", "steps", "particles", "elapsed_s"), 1)
    attributes |= dict.fromkeys(("compile_s", "atom_steps_per_s"), 1.0)
    variables = {
        "D_diffusion": ("species", [0.1, 0.2, 0.3], about),
        "D_diffusion_stderr": ("species", stderr),
    }
    return xr.Dataset(variables, {"species": np.array(SPECIES, object)}, attributes)


def test_each_species_keeps_the_note_of_its_own():
    joined = joined_notes(SPECIES, NOTES)
    assert [note_of(joined, SPECIES, name) or None for name in SPECIES] == list(NOTES)
    lines = closing_lines(two_numbers(joined, [0.1, 0.1, 0.1]))
    assert [line for line in lines if line.startswith("D_diffusion")] == [
        "D_diffusion Ar: it does not grow",
        "D_diffusion B: x: it grows as t^2.00: no diffusion coefficient",
    ]


def test_a_note_without_names_is_on_every_species():
    """As on the only species of a run."""
    assert joined_notes(["A"], ["slow"]) == "slow" == note_of("slow", ["A"], "A")
    assert [note_of("slow", SPECIES, name) for name in SPECIES] == ["slow"] * 3
    assert joined_notes(SPECIES, [None] * 3) == joined_notes(["A"], [None]) == ""


def test_only_those_without_an_error_are_said_to_have_none():
    """Though the reason is an attribute of the numbers of all species."""
    some = two_numbers("", [np.nan, 0.1, np.nan])
    (line,) = (line for line in closing_lines(some) if "unknown" in line)
    assert line.startswith("error of D_diffusion Ar, D_diffusion B: x unknown: 38 autocorrelation times")
    assert ["stderr_unknown" in figures for figures in summary(some)["numbers"].values()] == [
        True,
        False,
        True,
    ]
