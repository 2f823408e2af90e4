"""Pieces of Markdown that the generated pages share."""

import re
from collections.abc import Iterable, Sequence


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; bars inside cells are escaped."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |" for line in lines)


def linked(text: str) -> str:
    """The text with every `doi:…` as a link."""
    return re.sub(r"doi:(10\.\d{4,}/[^\s,;]+)", _link, text)


def _link(match: re.Match) -> str:
    doi = match[1]
    tail = ""
    while doi[-1] in ".:" or (doi[-1] == ")" and doi.count(")") > doi.count("(")):
        doi, tail = doi[:-1], doi[-1] + tail
    return f"[doi:{doi}](<https://doi.org/{doi}>){tail}"
