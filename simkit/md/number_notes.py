"""Notes on numbers of which there is one by species: a line of the attribute `note` for each that has one."""

from collections.abc import Sequence


def joined_notes(species: Sequence[str], notes: Sequence[str | None]) -> str:
    """The notes as one text; with several species, each line begins with the name of its own."""
    if len(species) == 1:
        return notes[0] or ""
    return "\n".join(f"{name}: {note}" for name, note in zip(species, notes, strict=True) if note)


def note_of(note: str, species: Sequence[str], name: str) -> str:
    """The note on the number of a species, empty where it has none; one without names is on all."""
    lines = note.split("\n")
    if len(species) == 1 or not any(line.startswith(f"{each}: ") for line in lines for each in species):
        return note
    own = [line.removeprefix(f"{name}: ") for line in lines if line.startswith(f"{name}: ")]
    return own[0] if own else ""
