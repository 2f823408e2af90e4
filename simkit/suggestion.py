"""Did you mean?"""

import difflib
from collections.abc import Iterable

LONGEST = 60


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """`; did you mean 'GBM'?` for a name close to a known one, else the known ones, if they are few."""
    names = list(dict.fromkeys(known))
    folded = {name.casefold(): name for name in names}
    close = difflib.get_close_matches(given[:100].casefold(), folded, n=1)
    if close:
        return f"; did you mean {folded[close[0]]!r}?"
    return f"; known: {', '.join(names)}" if 0 < len(names) <= 12 else ""


def shown(value: object) -> str:
    """A value as it may stand in a message: on one line, and not longer than 60 characters."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, int) and value.bit_length() > 256:
        return "a very large number"
    if isinstance(value, list):
        text = f"[{', '.join(map(shown, value[:LONGEST]))}]" if value else "an empty list"
    else:
        text = f"{value:.12g}" if isinstance(value, float) else ascii(value)
    return text if len(text) <= LONGEST else text[: LONGEST - 4] + "…" + text[-1]
