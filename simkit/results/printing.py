"""Tables on a terminal or in a file: columns that fit, ASCII where there is no Unicode."""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TextIO

from rich.box import ASCII2, HEAVY_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

LEFT = ("", "unit", "paths", "variant", "parameter", "of the output", "note")
LEFT += ("with respect to", "estimator", "because", "steady state")
FOLDED = {"unit": 5, "note": 5, "because": 12, "with respect to": 15, "estimator": 9}  # to these widths
NAME_WIDTH = 18  # to which names in the first column are folded; what stands next to them only at spaces
STANDARD_ERROR = "one standard error"
ESTIMATED_ERROR = "the estimated error"  # of one path, which has no sampling error
WIDEST = 10_000  # where there is no terminal, nothing is folded


def laid_out(columns: Mapping[str, list[str]], ends: Collection[int], unicode: bool) -> Table:
    """A table of columns by title, with lines below the rows in which sections end, counted from 1.

    Where the terminal is narrow, names and what is in `FOLDED` are folded. No number is: half of one reads as
    another.
    """
    table = Table(box=HEAVY_HEAD if unicode else ASCII2)
    for title, cells in columns.items():
        least = FOLDED.get(title) or max(map(cell_len, (title, *cells)))
        if not title:
            least = min(
                NAME_WIDTH, max(cell_len(word) for cell in cells for word in (cell or " ").split(" "))
            )
        justify = "left" if title in LEFT else "right"
        table.add_column(title, justify=justify, overflow="fold", min_width=least)
    rows = list(zip(*columns.values(), strict=True))
    for number, cells in enumerate(rows, 1):
        texts = (cell if unicode else cell.replace("±", "+-") for cell in cells)
        table.add_row(*texts, end_section=number in ends and number < len(rows))
    return table


def printed(
    file: TextIO,
    heading: str,
    table: Callable[[bool], Table],
    closings: Iterable[str],
    error: str = STANDARD_ERROR,
) -> None:
    """Print a heading, a table made for a terminal that knows Unicode or not, and closing lines.

    Where the table has errors, the heading says what they are.
    """
    console = Console(file=file, highlight=False, markup=False, width=None if file.isatty() else WIDEST)
    unicode = _knows(file, "┏━┓±×")
    content = table(unicode)
    sign = "±" if unicode else "+-"
    if any(f" {sign} " in str(cell) for column in content.columns for cell in column.cells):
        heading = f"{heading}; {sign} is {error}"
    if file.isatty():
        unbounded = console.options.update(width=WIDEST)
        console.width = max(console.width, Measurement.get(console, unbounded, content).minimum)
    with console.capture() as capture:
        console.print(heading, soft_wrap=True)
        console.print(content)
        for closing in closings:
            console.print(
                closing if unicode else closing.replace("×", "x").replace("±", sign), soft_wrap=True
            )
    text = capture.get()
    if not _knows(file, text):
        text = text.encode(file.encoding, "replace").decode(file.encoding)
    file.write(text)
    file.flush()


def _knows(file: TextIO, text: str) -> bool:
    try:
        text.encode(getattr(file, "encoding", None) or "utf-8")
    except UnicodeEncodeError:
        return False
    return True


def plain_columns(rows: list[tuple[str, ...]]) -> str:
    """Rows of cells as text, indented by two, in columns that begin at the same place."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(map(str.ljust, row, widths)) for row in rows)
    return "\n".join(f"  {line.rstrip()}" for line in lines)
