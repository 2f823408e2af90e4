"""Range checks on the arguments of closed forms: each error names the argument, its value and the range."""

import math


def finite(**values: float) -> None:
    """Raise `ValueError` unless every value is a finite number."""
    for name, value in values.items():
        if not math.isfinite(value):
            raise ValueError(f"{name}: must be a finite number, got {value!r}")


def nonnegative(**values: float) -> None:
    """Raise `ValueError` unless every value is finite and at least zero."""
    finite(**values)
    for name, value in values.items():
        if value < 0:
            raise ValueError(f"{name}: must be >= 0, got {value:g}")


def correlation(**values: float) -> None:
    """Raise `ValueError` unless every value lies in [-1, 1]."""
    finite(**values)
    for name, value in values.items():
        if abs(value) > 1:
            raise ValueError(f"{name}: must lie between -1 and 1, got {value:g}")
