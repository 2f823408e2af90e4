"""Range checks on the arguments of closed forms: each error names the argument, its value and the range.

Arrays cannot raise where they may be traced: for those the result says whether they are in the range.
"""

import math
from collections.abc import Callable
from typing import Any

from simkit.closed_forms.numbers import Number, is_plain


def finite(**values: Number) -> None:
    """Raise `ValueError` unless every plain number is finite."""
    for name, value in values.items():
        if is_plain(value) and not math.isfinite(value):
            raise ValueError(f"{name}: must be a finite number, got {value!r}")


def refuse_zero(form: str, **values: Number) -> None:
    """Raise `ValueError` for the arguments that are 0, of a closed form that has divided by 0."""
    zero = [name for name, value in values.items() if is_plain(value) and value == 0]
    if zero:
        raise ValueError(f"{', '.join(zero)}: must not be 0, by which {form} divides")


def nonnegative(**values: Number) -> Any:
    """Whether every value is at least zero; raise `ValueError` for a plain number that is not."""
    return _all(lambda value: value >= 0, "be >= 0", values)


def correlation(**values: Number) -> Any:
    """Whether every value lies in [-1, 1]; raise `ValueError` for a plain number that does not."""
    return _all(lambda value: abs(value) <= 1, "lie between -1 and 1", values)


def _all(holds: Callable[[Number], Any], wanted: str, values: dict[str, Number]) -> Any:
    valid: Any = True
    for name, value in values.items():
        if not is_plain(value):
            valid = holds(value) & valid
        elif not holds(value):
            raise ValueError(f"{name}: must {wanted}, got {value:g}")
    return valid
