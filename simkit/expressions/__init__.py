"""The formula language: `compile_expression` makes a function of a text."""

from simkit.expressions.expression import Expression, name_expression
from simkit.expressions.functions import function_summaries
from simkit.expressions.names import check_name, check_spelling
from simkit.expressions.parsing import compile_expression
from simkit.expressions.tokens import ExpressionError

__all__ = [
    "Expression",
    "ExpressionError",
    "check_name",
    "check_spelling",
    "compile_expression",
    "function_summaries",
    "name_expression",
]
