"""The closed forms by name, entered by `@closed_form`, and what is special about them."""

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

from simkit.closed_forms.arguments import finite, refuse_zero

Form = TypeVar("Form", bound=Callable[..., object])

CLOSED_FORMS: dict[str, Callable[..., float]] = {}
OF_NUMBERS: set[str] = set()
KINKED_AT_EXPIRY: set[str] = set()
SMOOTH: set[str] = set()
EXAMPLES: dict[str, dict[str, float]] = {}  # of each closed form, what its `example` gives

# What letters stand for in most closed forms; others are given by `example`.
USUAL = {"S": 100.0, "K": 100.0, "B": 90.0, "r": 0.05, "q": 0.02, "sigma": 0.2, "T": 1.0}
USUAL |= {"mu": 0.1, "kappa": 4.0, "theta": 0.25, "rho": -0.5}


def closed_form(
    *,
    of_numbers: bool = False,
    kinked_at_expiry: bool = False,
    smooth: bool = False,
    example: Mapping[str, float] | None = None,
    arguments_of: Callable[..., Any] | None = None,
) -> Callable[[Form], Form]:
    """Enter a function of keyword arguments under its name; each plain number among them must be finite.

    One `of_numbers` takes plain numbers alone: its work depends on them, so no program can contain it. At
    T = 0, where a price is what is paid, it may jump in its arguments, unless only its slope does
    (`kinked_at_expiry`), or it is `smooth`. One that hands its arguments on takes those of `arguments_of`.
    `example` has valid values of the arguments whose letters are not among the `USUAL`.
    """

    def enter(form: Form) -> Form:
        @functools.wraps(form)
        def checked(**arguments: Any) -> Any:
            finite(**arguments)
            try:
                return form(**arguments)
            except ZeroDivisionError:
                refuse_zero(form.__name__, **arguments)
                raise

        name = form.__name__
        CLOSED_FORMS[name] = checked
        EXAMPLES[name] = dict(example or (EXAMPLES[arguments_of.__name__] if arguments_of else {}))
        kinds = ((OF_NUMBERS, of_numbers), (KINKED_AT_EXPIRY, kinked_at_expiry), (SMOOTH, smooth))
        for names, holds in kinds:
            names.discard(name)
            if holds:
                names.add(name)
        if arguments_of is not None:
            checked.__signature__ = inspect.signature(arguments_of)  # pyright: ignore[reportAttributeAccessIssue]
        return cast(Form, checked)

    return enter


def example_of(name: str) -> dict[str, float]:
    """Valid arguments of a closed form; raises `ValueError` for one whose value is not known."""
    known = USUAL | EXAMPLES[name]
    letters = list(inspect.signature(CLOSED_FORMS[name]).parameters)
    if unknown := [letter for letter in letters if letter not in known]:
        given = ", ".join(f'"{letter}": ...' for letter in unknown)
        raise ValueError(
            f"{name}: needs an example of {', '.join(unknown)}; write @closed_form(example={{{given}}})"
        )
    return {letter: known[letter] for letter in letters}
