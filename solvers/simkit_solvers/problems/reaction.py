"""Reactions as chemists write them: `S + I -> 2 I`."""

import re
from typing import NamedTuple

_TERM = re.compile(r"(?:(\S+)[\s*]+)?([A-Za-z_]\w*)|(\d+)([A-Za-z_]\w*)")


class Reaction(NamedTuple):
    """One reaction: how many of each species go in and come out, as pairs (species, number).

    With `mass_action` its propensity is its rate times the number of ways to choose the reactants; without,
    the rate is the propensity itself.

    >>> from simkit_solvers import Reaction
    >>> Reaction(reactants=(("S", 1), ("I", 1)), products=(("I", 2),)).mass_action
    True
    """

    reactants: tuple[tuple[str, int], ...]
    products: tuple[tuple[str, int], ...]
    mass_action: bool = True

    @property
    def species(self) -> tuple[str, ...]:
        """Every species in it, reactants first."""
        return tuple(dict.fromkeys(name for name, _ in (*self.reactants, *self.products)))

    @property
    def change(self) -> dict[str, int]:
        """How much one event changes each of its species."""
        before, after = dict(self.reactants), dict(self.products)
        return {name: after.get(name, 0) - before.get(name, 0) for name in self.species}

    @property
    def order(self) -> int:
        """How many molecules react."""
        return sum(number for _, number in self.reactants)


def reaction(equation: str, mass_action: bool = True) -> Reaction:
    """The reaction of an equation such as `S + I -> 2 I`, `I -> R` or `0 -> X`, where 0 is nothing.

    Raises `ValueError`, with what to write, for anything else.

    >>> from simkit_solvers import reaction
    >>> reaction("S + I -> 2 I").products
    (('I', 2),)
    """
    sides = equation.split("->")
    if len(sides) != 2 or sides[0].rstrip().endswith("<"):
        raise ValueError(
            f"{equation!r} is not a reaction: write reactants -> products, such as S + I -> 2 I, and two "
            "directions as two reactions"
        )
    return Reaction(_side(sides[0], equation), _side(sides[1], equation), mass_action)


def _side(text: str, equation: str) -> tuple[tuple[str, int], ...]:
    numbers: dict[str, int] = {}
    if text.strip() == "0":
        return ()
    for part in text.split("+"):
        match = _TERM.fullmatch(part.strip())
        if match is None:
            raise ValueError(
                f"{equation!r}: {part.strip()!r} is not a species with a number before it, such as 2 I; "
                "write 0 for nothing"
            )
        number, name = match[1] or match[3] or "1", match[2] or match[4]
        if not number.isdecimal() or int(number) < 1:
            raise ValueError(f"{equation!r}: the number of {name} must be a whole one from 1, got {number}")
        numbers[name] = numbers.get(name, 0) + int(number)
    return tuple(numbers.items())
