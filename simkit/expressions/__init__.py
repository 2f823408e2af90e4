"""The formula language: `compile_expression` makes a function of a text."""

from simkit.expressions.expression import Expression as Expression
from simkit.expressions.expression import name_expression as name_expression
from simkit.expressions.functions import function_summaries as function_summaries
from simkit.expressions.names import check_name as check_name
from simkit.expressions.names import check_spelling as check_spelling
from simkit.expressions.parsing import compile_expression as compile_expression
from simkit.expressions.python_function import PythonExpression as PythonExpression
from simkit.expressions.python_function import python_expression as python_expression
from simkit.expressions.python_function import takes_three as takes_three
from simkit.expressions.python_function import what_is_wrong as what_is_wrong
from simkit.expressions.tokens import ExpressionError as ExpressionError
