"""From the text of an expression to its tree, with a message for whatever is not allowed.

The text is checked token by token, parsed by the standard library's `ast`, and every node is translated by
a list of what is allowed. Python itself never evaluates it: no `eval`, no `compile`, no attribute access.
"""

import ast
import functools
import inspect
import math
import operator
from collections.abc import Callable, Collection, Mapping
from typing import NoReturn, cast

from simkit.closed_forms import OF_NUMBERS
from simkit.expressions.elsewhere import function_elsewhere, name_elsewhere
from simkit.expressions.expression import Expression, expression_of, name_expression
from simkit.expressions.functions import (
    NUMBERS,
    NUMERIC,
    as_number,
    both,
    divide,
    either,
    integer_power,
    is_function,
    negation,
    power,
    where,
)
from simkit.expressions.tokens import MAX_DEPTH, ExpressionError, check_tokens, fail, place, python_tree
from simkit.expressions.tree import (
    Call,
    Chain,
    ClosedFormCall,
    Comparison,
    ExpressionNode,
    FunctionalCall,
    Name,
    NumberLiteral,
    names_in,
)
from simkit.functionals import FUNCTIONALS
from simkit.suggestions import did_you_mean, of_your_own, shown

MAX_INTEGER_POWER = 1000
SHOWN = 12  # names in a message

_ARITHMETIC = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: divide,
}
_COMPARISONS = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}


def compile_expression(
    text: str | float,
    names: Collection[str] | None = (),
    *,
    functionals: bool = False,
    closed_forms: Mapping[str, Callable[..., float]] | None = None,
) -> Expression:
    """Compile a text, or a number, that may use `names` (any name at all if `None`).

    With `functionals`, those along a path such as `mean(x)` may be used; `closed_forms` are called with
    keyword arguments. Raises `ExpressionError`.
    """
    if isinstance(text, int | float):
        return expression_of(repr(float(text)), NumberLiteral(float(text)))
    check_tokens(text)
    translation = _Translation(names, functionals, closed_forms or {})
    return expression_of(" ".join(text.split()), translation.number(python_tree(text), 0))


class _Translation:
    """Translates Python's syntax tree to ours; `inside` is the path functional whose argument it reads."""

    def __init__(
        self, names: Collection[str] | None, functionals: bool, closed_forms: Mapping, inside: str = ""
    ):
        self.names = names
        self.functionals = functionals
        self.closed_forms = closed_forms
        self.inside = inside

    def number(self, node: ast.expr, depth: int) -> ExpressionNode:
        """The tree of a number; a condition counts as 1 or 0."""
        translated = self.translate(node, depth)
        return Call("as_number", as_number, (translated,)) if _is_condition(node) else translated

    def condition(self, node: ast.expr, depth: int) -> ExpressionNode:
        """The tree of something true or false."""
        translated = self.translate(node, depth)
        if not _is_condition(node):
            what = f"{shown(ast.unparse(node))} is a number where a condition is needed"
            fail(node.col_offset, f"{what}; compare it with another, as in S > 1")
        return translated

    def translate(self, node: ast.expr, depth: int) -> ExpressionNode:
        """The tree of a node, a number or a condition."""
        if depth > MAX_DEPTH:
            fail(node.col_offset, f"nested more than {MAX_DEPTH} levels deep")
        match node:
            case ast.Constant():
                return self.literal(node)
            case ast.Name():
                return self.name(node)
            case ast.UnaryOp(op=ast.Not()):
                return Call("not", negation, (self.condition(node.operand, depth + 1),))
            case ast.UnaryOp(op=ast.USub()):
                return Call("negative", operator.neg, (self.number(node.operand, depth + 1),))
            case ast.UnaryOp(op=ast.UAdd()):
                return self.number(node.operand, depth + 1)
            case ast.BinOp(op=ast.Pow()):
                return self.power(node, depth)
            case ast.BinOp(op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div()):
                return self.chain(node, depth)
            case ast.BoolOp():
                join = both if isinstance(node.op, ast.And) else either
                parts = tuple(self.condition(part, depth + 1) for part in node.values)
                return Chain((join,) * (len(parts) - 1), parts)
            case ast.Compare():
                operations = tuple(
                    _COMPARISONS.get(type(op)) or fail(node.col_offset, "this comparison") for op in node.ops
                )
                parts = tuple(self.number(part, depth + 1) for part in (node.left, *node.comparators))
                return Comparison(operations, parts)
            case ast.Call():
                return self.call(node, depth)
            case ast.Tuple():
                fail(
                    node.col_offset,
                    "a comma outside the arguments of a function; a list is written in brackets",
                )
        fail(node.col_offset, "this is not allowed in an expression")

    def literal(self, node: ast.Constant) -> NumberLiteral:
        try:
            value = float(cast(float, node.value))
        except (OverflowError, TypeError, ValueError):
            value = math.inf
        if not math.isfinite(value):
            fail(node.col_offset, "a number too large for float64")
        return NumberLiteral(value)

    def name(self, node: ast.Name) -> NumberLiteral | Name:
        name = node.id
        if name in NUMBERS:
            return NumberLiteral(NUMBERS[name])
        if self.names is not None and name not in self.names:
            if is_function(name) or name in self.closed_forms:
                fail(node.col_offset, f"{name} is a function; write {name}(…)")
            known = [*dict.fromkeys((*self.names, *NUMBERS))]
            hint = (
                name_elsewhere(name) or did_you_mean(name, known) or f"; known: {', '.join(known[:SHOWN])}, …"
            )
            raise ExpressionError(f"unknown name {shown(name)} {place(node.col_offset)}{hint}")
        return Name(name)

    def chain(self, node: ast.expr, depth: int) -> Chain:
        """A sum or product of any length without nesting: the left spine of the tree, walked in a loop."""
        operands = []
        while isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
            operands.append((_ARITHMETIC[type(node.op)], node.right))
            node = node.left
        first = self.number(node, depth + 1)
        steps = [(operation, self.number(operand, depth + 1)) for operation, operand in reversed(operands)]
        operations, others = zip(*steps, strict=True)
        return Chain(operations, (first, *others))

    def power(self, node: ast.BinOp, depth: int) -> Call:
        base = self.number(node.left, depth + 1)
        whole = _whole(node.right)
        if whole is not None:
            return Call("integer_power", functools.partial(integer_power, n=whole), (base,))
        return Call("power", power, (base, self.number(node.right, depth + 1)))

    def call(self, node: ast.Call, depth: int) -> ExpressionNode:
        if not isinstance(node.func, ast.Name):
            fail(node.col_offset, "only a function can be called; write * for a product")
        name = node.func.id
        for argument in node.args:
            if isinstance(argument, ast.Starred):
                fail(argument.col_offset, "* before an argument is not allowed")
        if name in self.closed_forms:
            return self.closed_form(node, name, depth)
        if not is_function(name):
            self.unknown_function(node, name)
        if node.keywords:
            wanted = f"the arguments of {name} are given without names, not as here; equality is =="
            fail(node.keywords[0].col_offset, wanted)
        if name in FUNCTIONALS:
            return self.functional(node, name)
        if name == "where":
            _count(node, name, 3)
            condition = self.condition(node.args[0], depth + 1)
            return Call(name, where, (condition, *(self.number(part, depth + 1) for part in node.args[1:])))
        function = NUMERIC[name]
        _count(node, name, function.arguments)
        return Call(name, function, tuple(self.number(part, depth + 1) for part in node.args))

    def unknown_function(self, node: ast.Call, name: str) -> NoReturn:
        where = place(node.col_offset)
        if name in (self.names or ()) or name in NUMBERS:
            moment = f"at({name}, …) for its value at a time, and " if self.functionals else ""
            raise ExpressionError(f"{name} is not a function {where}; write {moment}{name}*(…) for a product")
        known = [*NUMERIC, "where", *(FUNCTIONALS if self.functionals else ()), *self.closed_forms]
        elsewhere = function_elsewhere(node, name)
        hint = f"; {elsewhere}" if elsewhere else of_your_own(name, known, "functions")
        raise ExpressionError(f"unknown function {shown(name)} {where}{hint}")

    def functional(self, node: ast.Call, name: str) -> FunctionalCall:
        at, kind = node.col_offset, FUNCTIONALS[name]
        hint = f"; of two numbers use {kind.of_two_numbers}" if kind.of_two_numbers else ""
        if hint and len(node.args) != kind.takes:
            fail(at, f"{name} takes one argument, along the path{hint}")
        if not self.functionals:
            fail(at, f"{name}(…) runs along a path and is for observables only{hint}")
        _count(node, name, kind.takes)
        if self.inside:
            fail(at, f"{name}(…) inside {self.inside}(…): path functionals cannot be nested")
        first, last = node.args[0], node.args[-1]
        if kind.conditional and first is not last and _is_condition(first) and not _is_condition(last):
            fail(at, f"{name}(x, c) takes the condition last, as in {name}(S, S > 120)")
        inner = _Translation(self.names, True, self.closed_forms, inside=name)
        arguments = [name_expression("t")] if kind.of_time else []
        for argument in node.args:
            condition = kind.conditional and argument is last
            tree = (inner.condition if condition else inner.number)(argument, 1)
            arguments.append(expression_of(ast.unparse(argument), tree))
        return FunctionalCall(kind(tuple(arguments)))

    def closed_form(self, node: ast.Call, name: str, depth: int) -> ClosedFormCall:
        form = self.closed_forms[name]
        parameters = inspect.signature(form).parameters
        usage = f"write {name}({', '.join(f'{p}=…' for p in parameters)})"
        if node.args:
            fail(node.args[0].col_offset, f"{name} takes its arguments by name, {usage}")
        parts: dict[str, ExpressionNode] = {}
        for given in node.keywords:
            if given.arg is None:
                fail(given.col_offset, "** before an argument is not allowed")
            if given.arg not in parameters:
                raise ExpressionError(
                    f"{name} has no argument {shown(given.arg)} (column {given.col_offset + 1})"
                    f"{did_you_mean(given.arg, parameters)}"
                )
            if given.arg in parts:
                fail(given.col_offset, f"{name} is given {given.arg} twice")
            parts[given.arg] = self.number(given.value, depth + 1)
        missing = [p for p, spec in parameters.items() if spec.default is spec.empty and p not in parts]
        if missing:
            fail(node.col_offset, f"{name} needs {', '.join(missing)} too, {usage}")
        used = names_in(*parts.values())
        if self.functionals and name in OF_NUMBERS and used:
            fail(
                node.col_offset,
                f"{name} is computed from numbers before the run, and {min(used)} is a name; give {name}(…) "
                "of constants a name in constants, and use that here. It has no value along a path",
            )
        return ClosedFormCall(name, form, tuple(parts), tuple(parts.values()))


def _is_condition(node: ast.expr) -> bool:
    """Whether an expression is true or false by its form."""
    negated = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
    return negated or isinstance(node, ast.Compare | ast.BoolOp)


def _count(node: ast.Call, name: str, wanted: int) -> None:
    if len(node.args) != wanted:
        arguments = "1 argument" if wanted == 1 else f"{wanted} arguments"
        fail(node.col_offset, f"{name} takes {arguments}, got {len(node.args)}")


def _whole(node: ast.expr) -> int | None:
    """The whole number that a literal exponent is, unless it is too large to multiply out."""
    sign = 1
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        sign, node = -1, node.operand
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        value = node.value
        if abs(value) <= MAX_INTEGER_POWER and value == int(value):
            return sign * int(value)
    return None
