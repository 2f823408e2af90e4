"""Where an expression jumps, or its slope does."""

import dataclasses
import itertools
from collections.abc import Callable, Iterable
from typing import Any

from simkit.closed_forms import KINKED_AT_EXPIRY, SMOOTH
from simkit.expressions.functions import Function
from simkit.expressions.tree import (
    Call,
    ClosedFormCall,
    Comparison,
    Environment,
    ExpressionNode,
    FunctionalCall,
    Name,
    PythonCall,
    functionals_in,
    names_in,
    walk,
)
from simkit.functionals.functional import AbstractFunctional

MONOTONE = ("negative", "not", "as_number")  # operations


@dataclasses.dataclass(frozen=True)
class Difference:
    """An expression jumps, or with `kink` its slope does, at the zeros of a difference.

    `names` are those outside path functionals. Two of the same text and place are equal.
    """

    text: str
    place: int
    kink: bool
    names: frozenset[str]
    functionals: tuple[AbstractFunctional, ...]
    difference: Callable[[Environment], Any] = dataclasses.field(compare=False, repr=False)


class Discontinuities:
    """What is known of an expression's discontinuities.

    `jumps` are the names in conditions, `sign`, `floor` and `ceil`: where these change a little, the value
    may change at once. `kinks` are those in `maximum`, `minimum`, `clip`, `abs` and in extremes along the
    path, where its slope may. `roots` are those in roots of what may touch zero, and in closed forms that
    bend at T = 0; `hidden` those in closed forms that jump there, and in functions that may jump anywhere.
    `differences` say where all that happens, except for roots, what is hidden, and extremes along the path.
    `valued` are the functionals whose values count, not just the results of their comparisons.
    """

    def __init__(self, text: str, tree: ExpressionNode):
        self.text = text
        self.jumps: set[str] = set()
        self.kinks: set[str] = set()
        self.roots: set[str] = set()
        self.hidden: set[str] = set()
        self.differences: list[Difference] = []
        self.valued: set[AbstractFunctional] = set()
        self._visit(tree, compared=False)
        self.jumps |= self.hidden
        self.kinks |= self.roots

    def _visit(self, node: ExpressionNode, compared: bool) -> None:
        if isinstance(node, FunctionalCall):
            self._functional(node.functional, compared)
            return
        for part in node.parts:
            self._visit(part, compared or isinstance(node, Comparison))
        if isinstance(node, Comparison):
            self.jumps |= names_in(node)
            for a, b in itertools.pairwise(node.parts):
                self._add((a, b), _difference(a, b))
        elif isinstance(node, ClosedFormCall):
            expiry = dict(zip(node.keys, node.parts, strict=True)).get("T")
            if node.name not in SMOOTH and expiry is not None and "t" in names_in(expiry):
                (self.roots if node.name in KINKED_AT_EXPIRY else self.hidden).update(names_in(node))
        elif isinstance(node, PythonCall):
            self.hidden |= names_in(node)
        elif isinstance(node, Call):
            self._call(node)

    def _functional(self, functional: AbstractFunctional, compared: bool) -> None:
        for argument in functional.written:
            inner = argument.discontinuities
            self.jumps |= inner.jumps
            self.kinks |= argument.names if functional.kink else inner.kinks
            self.roots |= inner.roots
            self.hidden |= inner.hidden
        if not compared:
            self.valued.add(functional)

    def _call(self, node: Call) -> None:
        if not isinstance(node.function, Function):  # a sign, `not`, a power of a whole number
            return
        first, *others = node.parts
        match node.function.smoothness:
            case "step":
                self.jumps |= names_in(node)
                self._add(node.parts, _to_jump(node.function, first))
            case "kinked":
                self.kinks |= names_in(node)
                for other in others:
                    self._add((first, other), _difference(first, other), kink=True)
                if not others:
                    self._add((first,), first, kink=True)
            case "root" if _may_touch_zero(first):
                self.roots |= names_in(first)
            case "unknown":
                self.hidden |= names_in(node)

    def _add(self, nodes: Iterable[ExpressionNode], difference: Callable, kink: bool = False) -> None:
        names, functionals = names_in(*nodes, into_functionals=False), functionals_in(*nodes)
        place = len(self.differences)
        self.differences.append(Difference(self.text, place, kink, names, functionals, difference))


def _may_touch_zero(node: ExpressionNode) -> bool:
    """Whether a value may be zero and positive to both sides, as a square, where its root has a kink.

    What is monotone in each of its names is not: beyond its zero it has no root.
    """
    below = list(walk(node))
    names = [each.name for each in below if isinstance(each, Name)]
    return len(names) > len(set(names)) or not all(map(_is_monotone, below))


def _is_monotone(node: ExpressionNode) -> bool:
    match node:
        case Call():
            function = node.function
            return function.monotone if isinstance(function, Function) else node.name in MONOTONE
        case FunctionalCall():
            return node.functional.monotone
    return not isinstance(node, ClosedFormCall)


def _difference(a: ExpressionNode, b: ExpressionNode) -> Callable[[Environment], Any]:
    return lambda environment: a(environment) - b(environment)


def _to_jump(function: Function, part: ExpressionNode) -> Callable[[Environment], Any]:
    """The difference to the place nearest to a value where a step jumps."""
    nearest = function.nearest_jump
    if nearest is None:
        raise TypeError("a function whose smoothness is 'step' says where by nearest_jump")

    def difference(environment: Environment):
        value = part(environment)
        return value - nearest(value)

    return difference
