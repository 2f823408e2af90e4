"""The closed forms by name, entered by `@closed_form`, and what is special about them."""

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar, cast

from simkit.closed_forms.arguments import finite

Form = TypeVar("Form", bound=Callable[..., object])

CLOSED_FORMS: dict[str, Callable[..., float]] = {}
OF_NUMBERS: set[str] = set()
KINKED_AT_EXPIRY: set[str] = set()
SMOOTH: set[str] = set()


def closed_form(
    *,
    of_numbers: bool = False,
    kinked_at_expiry: bool = False,
    smooth: bool = False,
    arguments_of: Callable[..., Any] | None = None,
) -> Callable[[Form], Form]:
    """Enter a function of keyword arguments under its name; each plain number among them must be finite.

    One `of_numbers` takes plain numbers alone: its work depends on them, so no program can contain it. At
    T = 0, where a price is what is paid, it may jump in its arguments, unless only its slope does
    (`kinked_at_expiry`), or it is `smooth`. One that hands its arguments on takes those of `arguments_of`.
    """

    def enter(form: Form) -> Form:
        @functools.wraps(form)
        def checked(**arguments: Any) -> Any:
            finite(**arguments)
            return form(**arguments)

        name = form.__name__
        CLOSED_FORMS[name] = checked
        kinds = ((OF_NUMBERS, of_numbers), (KINKED_AT_EXPIRY, kinked_at_expiry), (SMOOTH, smooth))
        for names, holds in kinds:
            names.discard(name)
            if holds:
                names.add(name)
        if arguments_of is not None:
            checked.__signature__ = inspect.signature(arguments_of)  # pyright: ignore[reportAttributeAccessIssue]
        return cast(Form, checked)

    return enter
