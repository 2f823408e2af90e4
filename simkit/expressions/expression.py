"""A compiled expression, and what is known about it."""

import dataclasses
import functools

from simkit.expressions.discontinuities import Discontinuities
from simkit.expressions.tree import (
    Call,
    Environment,
    ExpressionNode,
    FunctionalCall,
    Name,
    functionals_in,
    names_in,
)
from simkit.functionals.functional import AbstractFunctional


@dataclasses.dataclass(frozen=True)
class Expression:
    """A compiled expression: call it with a mapping from names (and functionals) to values.

    Plain numbers in it are Python floats, which never promote a float32 state; a condition is 1 or 0.
    Two expressions of the same text and functionals are equal.
    """

    text: str
    functionals: tuple[AbstractFunctional, ...]
    tree: ExpressionNode = dataclasses.field(compare=False, repr=False)

    def __call__(self, environment: Environment):
        return self.tree(environment)

    @functools.cached_property
    def names(self) -> frozenset[str]:
        """All names that its value depends on."""
        return names_in(self.tree).union(*(functional.names for functional in self.functionals))

    @functools.cached_property
    def discontinuities(self) -> Discontinuities:
        """Where it jumps, or its slope does."""
        return Discontinuities(self.text, self.tree)

    @property
    def is_condition(self) -> bool:
        """Whether it is a condition, such as S > 1, rather than a number."""
        return isinstance(self.tree, Call) and self.tree.name == "as_number"

    @property
    def whole(self) -> AbstractFunctional | None:
        """The functional that the expression is, if it is nothing else."""
        return self.tree.functional if isinstance(self.tree, FunctionalCall) else None


def expression_of(text: str, tree: ExpressionNode) -> Expression:
    """The expression with this tree."""
    return Expression(text, functionals_in(tree), tree)


def name_expression(name: str) -> Expression:
    """The expression that is a name alone."""
    return expression_of(name, Name(name))
