"""Did you mean?"""

import difflib
import re
from collections.abc import Iterable
from pathlib import Path

LONGEST = 60
WITH_COMMAS = re.compile(r"[-+]?\d+(,\d+)+(\.\d*)?([eE][-+]?\d+)?")
FEW_ALIKE = 3  # lines that differ in numbers only, before the others are counted
NUMBER = re.compile(r"(?<!\w)[-+]?\d[\d,.]*(e[-+]?\d+)?")
THOUSANDS = re.compile(r"[-+]?[1-9]\d{0,2}(,\d{3})+(\.\d*)?")


def did_you_mean(given: str, known: Iterable[str], few: int = 12) -> str:
    """`; did you mean 'GBM'?` for a name with which only one known begins, or that is close to one.

    Otherwise the known ones, if they are few.
    """
    names = list(dict.fromkeys(known))
    folded = {name.casefold(): name for name in names}
    given = given[:100].casefold()
    close = [name for name in folded if len(given) > 2 and name.startswith(given)]
    if len(close) != 1:
        close = difflib.get_close_matches(given, folded, n=1)
    if close:
        return f"; did you mean {folded[close[0]]!r}?"
    return f"; known: {', '.join(names)}" if 0 < len(names) <= few else ""


def known_names(given: str, known: Iterable[str], few: int = 12) -> str:
    """`did_you_mean`, and where many are known and none is close, the first of them."""
    names = list(dict.fromkeys(known))
    first = ", ".join(names[:few])
    hint = did_you_mean(given, names, few)
    return hint or (f"; known: {first}, … ({len(names)} in all)" if names else "")


def missing_file(path: Path, name: str | None = None) -> str:
    """`gmb.yaml: no such file`, with one of a similar name there, or where it is looked for.

    `name` is what messages call the file.
    """
    name = name or str(path)
    endings = (".yaml", ".yml") if path.suffix in (".yaml", ".yml") else (path.suffix,)
    try:
        there = [entry.name for entry in path.parent.iterdir() if entry.suffix in endings]
    except OSError:
        return f"{name}: no such file; there is no folder {path.parent}"
    close = difflib.get_close_matches(path.name, there, n=1, cutoff=0.75)
    if close:
        return f"{name}: no such file; did you mean {str(Path(name).with_name(close[0]))!r}?"
    folder = "the working directory" if path.parent == Path() else path.parent
    if not path.suffix and path.parent == Path():
        return f"{name}: no such file; give the name of a file with its ending, such as {name}.yaml"
    return f"{name}: no such file; it is looked for in {folder}"


def of_your_own(given: str, known: Iterable[str], kind: str) -> str:
    """`did_you_mean` for names that your own module may enter; if none is close, it says how."""
    hint = did_you_mean(given, known)
    if "mean" in hint:
        return hint
    return f"{hint or f'; `simkit list {kind}` shows all'}; `simkit --import MODULE run ...` enters your own"


def few_alike(lines: Iterable[str]) -> list[str]:
    """Different lines; of those that differ in numbers only the first few, and how many more there are."""
    kinds: dict[str, list[str]] = {}
    for line in dict.fromkeys(lines):
        kinds.setdefault(NUMBER.sub("0", line), []).append(line)
    result = []
    for alike in kinds.values():
        few = alike if len(alike) <= FEW_ALIKE + 1 else alike[:FEW_ALIKE]
        result += few if few is alike else [*few, f"and {len(alike) - FEW_ALIKE:,} more lines like these"]
    return result


def without_commas(text: str) -> str:
    """`; write a decimal point: 0.2` for a text such as 0,2; nothing for any other."""
    text = text.strip()
    if not WITH_COMMAS.fullmatch(text):
        return ""
    plain, point = text.replace(",", ""), text.replace(",", ".")
    if not THOUSANDS.fullmatch(text):
        return f"; write a decimal point: {point}" if text.count(",") == 1 and "." not in text else ""
    either = (
        f"{plain}, or with a decimal point {point}" if text.count(",") == 1 and "." not in text else plain
    )
    return f"; write {either}"


def called(variant: str) -> str:
    """What messages call a variant; one of a sweep has the values in its name."""
    return f"at {variant}" if "=" in variant else f"variant {variant}"


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
