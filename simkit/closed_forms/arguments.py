"""Range checks on the arguments of closed forms: each error names the argument, its value and the range.

Arrays cannot raise where they may be traced: for those the result says whether they are in the range.
"""

import math
from typing import Any

from simkit.closed_forms.numbers import Number, is_plain


def finite(**values: Number) -> None:
    """Raise `ValueError` unless every plain number is finite."""
    for name, value in values.items():
        if is_plain(value) and not math.isfinite(value):
            raise ValueError(f"{name}: must be a finite number, got {value!r}")


def nonnegative(**values: Number) -> Any:
    """Whether every value is at least zero; raise `ValueError` for a plain number that is not."""
    finite(**values)
    valid: Any = True
    for name, value in values.items():
        if not is_plain(value):
            valid = (value >= 0) & valid
        elif value < 0:
            raise ValueError(f"{name}: must be >= 0, got {value:g}")
    return valid


def correlation(**values: Number) -> Any:
    """Whether every value lies in [-1, 1]; raise `ValueError` for a plain number that does not."""
    finite(**values)
    valid: Any = True
    for name, value in values.items():
        if not is_plain(value):
            valid = (abs(value) <= 1) & valid
        elif abs(value) > 1:
            raise ValueError(f"{name}: must lie between -1 and 1, got {value:g}")
    return valid
