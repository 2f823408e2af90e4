"""Expressions as text, compiled to closures over `jax.numpy`.

The text is checked token by token, parsed by the standard library's `ast`, and every node is translated by
a list of what is allowed. Python itself never evaluates it: no `eval`, no `compile`, no attribute access.
"""

import ast
import dataclasses
import inspect
import itertools
import keyword
import math
import operator
import re
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NoReturn, cast

from simkit.closed_forms import KINKED_AT_EXPIRY, OF_NUMBERS, SMOOTH
from simkit.closed_forms.numbers import is_plain
from simkit.expressions.functions import (
    KINKED,
    MONOTONE,
    NUMBERS,
    NUMERIC,
    STEPS,
    as_number,
    both,
    divide,
    either,
    functions,
    integer_power,
    is_function,
    negation,
    power,
    where,
)
from simkit.expressions.tokens import MAX_DEPTH, ExpressionError, check_tokens, fail, place
from simkit.functionals import FUNCTIONALS
from simkit.functionals.functional import AbstractFunctional
from simkit.suggestions import did_you_mean, shown

MAX_INTEGER_POWER = 1000
SHOWN = 12  # names in a message
NO_DERIVATIVE = (
    "is computed from plain numbers before the run and has no derivative; leave what it depends on out of "
    "sensitivity.wrt"
)

_ELSEWHERE = {"ln": "log", "pow": "**", "arcsin": "asin", "arccos": "acos", "arctan": "atan", "fabs": "abs"}
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

Environment = Mapping[Any, Any]


@dataclasses.dataclass(frozen=True)
class Edge:
    """Where an expression jumps, or where its slope does (`kink`): at the zeros of a difference.

    `names` are those outside path functionals. Two edges of the same text and place are equal.
    """

    text: str
    place: int
    kink: bool
    names: frozenset[str]
    functionals: tuple[AbstractFunctional, ...]
    difference: Callable[[Environment], Any] = dataclasses.field(compare=False, repr=False)


@dataclasses.dataclass(frozen=True)
class Expression:
    """A compiled expression: call it with a mapping from names (and functionals) to values.

    Plain numbers in it are Python floats, which never promote a float32 state; a condition
    is 1 or 0. `jumps` are the names on which conditions, `sign`, `floor` and `ceil` in
    it depend: where these change a little, its value may change at once. `kinks` are those in `maximum`,
    `minimum`, `clip`, `abs` and in extremes along the path, where its slope may, and `roots`, which are in
    roots of what may touch zero, or in closed forms that bend at T = 0. `hidden` are those in closed forms
    that jump there. `edges` are where all that happens, but for roots, what is hidden, and extremes along the
    path. `outside` are the functionals whose values count, and not only whether they are above something.
    `whole` is the functional that the expression is, if it is nothing else. Two expressions of the same text
    are equal.
    """

    text: str
    names: frozenset[str]
    functionals: tuple[AbstractFunctional, ...]
    evaluate: Callable[[Environment], Any] = dataclasses.field(compare=False, repr=False)
    jumps: frozenset[str] = frozenset()
    kinks: frozenset[str] = frozenset()
    roots: frozenset[str] = frozenset()
    hidden: frozenset[str] = frozenset()
    edges: tuple[Edge, ...] = dataclasses.field(default=(), compare=False, repr=False)
    outside: frozenset[AbstractFunctional] = dataclasses.field(default=frozenset(), compare=False, repr=False)
    whole: AbstractFunctional | None = dataclasses.field(default=None, compare=False, repr=False)

    def __call__(self, environment: Environment):
        return self.evaluate(environment)


TIME = Expression("t", frozenset(["t"]), (), lambda environment: environment["t"])


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
        number = float(text)
        return Expression(repr(number), frozenset(), (), lambda environment: number)
    keywords = closed_forms is not None
    check_tokens(text, keywords)
    compiler = _Compiler(text, names, functionals, closed_forms or {})
    parsed = _parsed(text)
    evaluate = compiler.number(parsed, 0)
    found = compiler.expression(" ".join(text.split()), evaluate, tuple(compiler.found))
    return dataclasses.replace(found, whole=compiler.called.get(id(parsed)))


def check_spelling(name: str) -> str | None:
    """Why a name cannot be that of a result, to which no expression refers; `None` if it can."""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        letters = "letters" if name.isascii() else "plain letters (a to z)"
        return f"{shown(name)} is not a name: use {letters}, digits and _, and begin with a letter"
    return f"{name!r} begins with _; begin with a letter" if name.startswith("_") else None


def check_name(name: str) -> str | None:
    """Why a name cannot be given to something that expressions refer to; `None` if it can."""
    reason = check_spelling(name)
    if reason:
        return reason
    if keyword.iskeyword(name):
        return f"{name!r} is a reserved word; choose another name, such as {name + '_'!r}"
    if is_function(name):
        return f"{name!r} is a function; choose another name"
    if name in NUMBERS:
        return f"{name!r} is the number {NUMBERS[name]:.4f}…; choose another name"
    if name == "t":
        return "'t' is the time; choose another name"
    return None


def _parsed(text: str) -> ast.expr:
    """The syntax tree, its columns those of the text."""
    flat = re.sub(r"\s", " ", text)
    lead = len(flat) - len(flat.lstrip())
    if not flat.strip():
        raise ExpressionError("an empty expression")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            body = ast.parse(flat.strip(), mode="eval").body
    except SyntaxError as error:
        raise ExpressionError(f"not an expression: {_reason(error, flat, lead)}") from None
    except (RecursionError, MemoryError, ValueError, Warning):
        raise ExpressionError("an expression that cannot be read; write it in smaller parts") from None
    for node in ast.walk(body):
        if isinstance(node, ast.expr | ast.keyword):
            node.col_offset += lead
    return body


def _reason(error: SyntaxError, text: str, lead: int) -> str:
    """The parser's complaint, whose column is of no use where the text ends too early."""
    if re.search(r"(?:[-+*/(,<>=]|\b(?:and|or|not))\s*\Z", text):
        return f"it ends too early, after column {len(text.rstrip())} of the expression"
    message = error.msg or ""
    known = message if "never closed" in message or "unmatched" in message else "it cannot be read"
    return f"{known} {place(lead + (error.offset or 1) - 1)}"


class _Compiler:
    """Translates a syntax tree to a closure; collects the names and functionals that it uses."""

    def __init__(self, text: str, names: Collection[str] | None, functionals: bool, closed_forms: Mapping):
        self.text = text
        self.names = names
        self.functionals = functionals
        self.closed_forms = closed_forms
        self.used: set[str] = set()
        self.jumps: set[str] = set()
        self.kinks: set[str] = set()
        self.roots: set[str] = set()
        self.hidden: set[str] = set()
        self.found: list[AbstractFunctional] = []
        self.edges: list[Edge] = []
        self.called: dict[int, AbstractFunctional] = {}
        self.outside: set[AbstractFunctional] = set()
        self.comparing = 0
        self.inside: str = ""

    def expression(
        self, text: str, evaluate: Callable, functionals: tuple[AbstractFunctional, ...]
    ) -> Expression:
        """What was translated."""
        jumps, kinks = self.jumps | self.hidden, self.kinks | self.roots
        used, *rough = map(frozenset, (self.used, jumps, kinks, self.roots, self.hidden))
        outside = frozenset(self.outside)
        return Expression(text, used, functionals, evaluate, *rough, tuple(self.edges), outside)

    def number(self, node: ast.expr, depth: int) -> Callable[[Environment], Any]:
        """A closure for a number; a condition counts as 1 or 0."""
        truth, evaluate = self.translate(node, depth)
        return (lambda environment: as_number(evaluate(environment))) if truth else evaluate

    def condition(self, node: ast.expr, depth: int) -> Callable[[Environment], Any]:
        """A closure for something true or false."""
        truth, evaluate = self.translate(node, depth)
        if not truth:
            fail(node.col_offset, "a condition such as S > 1 is needed, not a number")
        return evaluate

    def translate(self, node: ast.expr, depth: int) -> tuple[bool, Callable[[Environment], Any]]:
        """Whether the node is a condition, and its closure."""
        if depth > MAX_DEPTH:
            fail(node.col_offset, f"nested more than {MAX_DEPTH} levels deep")
        match node:
            case ast.Constant():
                return False, self.literal(node)
            case ast.Name():
                return False, self.name(node)
            case ast.UnaryOp(op=ast.Not()):
                inner = self.condition(node.operand, depth + 1)
                return True, lambda environment: negation(inner(environment))
            case ast.UnaryOp(op=ast.USub()):
                inner = self.number(node.operand, depth + 1)
                return False, lambda environment: -inner(environment)
            case ast.UnaryOp(op=ast.UAdd()):
                return False, self.number(node.operand, depth + 1)
            case ast.BinOp(op=ast.Pow()):
                return False, self.power(node, depth)
            case ast.BinOp(op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div()):
                return False, self.chain(node, depth)
            case ast.BoolOp():
                return True, self.logic(node, depth)
            case ast.Compare():
                return True, self.comparison(node, depth)
            case ast.Call():
                return False, self.call(node, depth)
            case ast.Tuple():
                fail(node.col_offset, "a comma outside the arguments of a function")
        fail(node.col_offset, "this is not allowed in an expression")

    def literal(self, node: ast.Constant):
        try:
            value = float(cast(float, node.value))
        except (OverflowError, TypeError, ValueError):
            value = math.inf
        if not math.isfinite(value):
            fail(node.col_offset, "a number too large for float64")
        return lambda environment: value

    def name(self, node: ast.Name):
        name = node.id
        if name in NUMBERS:
            value = NUMBERS[name]
            return lambda environment: value
        if self.names is not None and name not in self.names:
            if is_function(name) or name in self.closed_forms:
                fail(node.col_offset, f"{name} is a function; write {name}(…)")
            known = [*self.names, *NUMBERS]
            hint = did_you_mean(name, known) or f"; known: {', '.join(known[:SHOWN])}, …"
            raise ExpressionError(f"unknown name {shown(name)} {place(node.col_offset)}{hint}")
        self.used.add(name)
        return lambda environment: environment[name]

    def chain(self, node: ast.expr, depth: int):
        """A sum or product of any length without nesting: the left spine of the tree, walked in a loop."""
        operands = []
        while isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
            operands.append((_ARITHMETIC[type(node.op)], node.right))
            node = node.left
        first = self.number(node, depth + 1)
        steps = [(operation, self.number(operand, depth + 1)) for operation, operand in reversed(operands)]

        def evaluate(environment):
            value = first(environment)
            for operation, operand in steps:
                value = operation(value, operand(environment))
            return value

        return evaluate

    def power(self, node: ast.BinOp, depth: int):
        base = self.number(node.left, depth + 1)
        whole = _whole(node.right)
        if whole is not None:
            return lambda environment: integer_power(base(environment), whole)
        if _may_touch_zero(node.left):
            self.roots |= _names(node.left)
        exponent = self.number(node.right, depth + 1)
        return lambda environment: power(base(environment), exponent(environment))

    def logic(self, node: ast.BoolOp, depth: int):
        parts = [self.condition(part, depth + 1) for part in node.values]
        join = both if isinstance(node.op, ast.And) else either

        def evaluate(environment):
            value = parts[0](environment)
            for part in parts[1:]:
                value = join(value, part(environment))
            return value

        return evaluate

    def comparison(self, node: ast.Compare, depth: int):
        self.jumps |= _names(node)
        operations = [
            _COMPARISONS.get(type(op)) or fail(node.col_offset, "this comparison") for op in node.ops
        ]
        nodes = (node.left, *node.comparators)
        self.comparing += 1
        parts = [self.number(part, depth + 1) for part in nodes]
        self.comparing -= 1
        for pair, between in zip(itertools.pairwise(nodes), itertools.pairwise(parts), strict=True):
            self.edge(pair, _difference(*between))

        def evaluate(environment):
            values = [part(environment) for part in parts]
            truths = [op(a, b) for op, a, b in zip(operations, values, values[1:], strict=False)]
            value = truths[0]
            for truth in truths[1:]:
                value = both(value, truth)
            return value

        return evaluate

    def call(self, node: ast.Call, depth: int):
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
            fail(node.keywords[0].col_offset, f"the arguments of {name} are given without names, not as here")
        if name in FUNCTIONALS:
            return self.functional(node, name)
        if name == "where":
            _count(node, name, 3)
            condition = self.condition(node.args[0], depth + 1)
            a, b = (self.number(part, depth + 1) for part in node.args[1:])
            return lambda environment: where(condition(environment), a(environment), b(environment))
        function = NUMERIC[name]
        if name in STEPS:
            self.jumps |= _names(node)
        if name in KINKED:
            self.kinks |= _names(node)
        if name == "sqrt" and any(map(_may_touch_zero, node.args)):
            self.roots |= _names(node)
        _count(node, name, function.arguments)
        parts = [self.number(part, depth + 1) for part in node.args]
        if name in STEPS:
            self.edge(node.args, _to_step(name, parts[0]))
        elif name == "abs":
            self.edge(node.args, parts[0], kink=True)
        elif name in KINKED:
            for i in range(1, len(parts)):
                self.edge((node.args[0], node.args[i]), _difference(parts[0], parts[i]), kink=True)
        return lambda environment: function(*[part(environment) for part in parts])

    def edge(self, nodes: Sequence[ast.expr], difference: Callable, kink: bool = False) -> None:
        """Note where what these nodes give is compared."""
        calls, names = [], set()
        waiting: list[ast.AST] = list(nodes)
        while waiting:
            node = waiting.pop()
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in FUNCTIONALS:
                calls.append(node)
                continue
            if isinstance(node, ast.Name):
                names.add(node.id)
            waiting += ast.iter_child_nodes(node)
        own = frozenset(names - functions().keys() - NUMBERS.keys())
        functionals = tuple(dict.fromkeys(self.called[id(call)] for call in calls))
        self.edges.append(Edge(self.text, len(self.edges), kink, own, functionals, difference))

    def unknown_function(self, node: ast.Call, name: str) -> NoReturn:
        where = place(node.col_offset)
        if name in (self.names or ()) or name in NUMBERS:
            raise ExpressionError(f"{name} is not a function {where}; write {name}*(…) for a product")
        known = [*NUMERIC, "where", *(FUNCTIONALS if self.functionals else ()), *self.closed_forms]
        hint = f"; did you mean {_ELSEWHERE[name]!r}?" if name in _ELSEWHERE else did_you_mean(name, known)
        raise ExpressionError(f"unknown function {shown(name)} {where}{hint}")

    def functional(self, node: ast.Call, name: str):
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
        arguments = [TIME] if kind.of_time else []
        for argument in node.args:
            inner = _Compiler(self.text, self.names, True, self.closed_forms)
            inner.inside = name
            condition = kind.conditional and argument is last
            evaluate = (inner.condition if condition else inner.number)(argument, 1)
            arguments.append(inner.expression(ast.unparse(argument), evaluate, ()))
            self.jumps |= inner.jumps
            self.roots |= inner.roots
            self.hidden |= inner.hidden
            self.kinks |= inner.used if kind.kink else inner.kinks
        found = kind(tuple(arguments))
        self.used |= found.names
        if found not in self.found:
            self.found.append(found)
        self.called[id(node)] = found
        if not self.comparing:
            self.outside.add(found)
        return lambda environment: environment[found]

    def closed_form(self, node: ast.Call, name: str, depth: int):
        form = self.closed_forms[name]
        parameters = inspect.signature(form).parameters
        usage = f"write {name}({', '.join(f'{p}=…' for p in parameters)})"
        if node.args:
            fail(node.args[0].col_offset, f"{name} takes its arguments by name, {usage}")
        parts = {}
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

        used = set().union(*(_names(each.value) for each in node.keywords))
        if self.functionals and name in OF_NUMBERS and used:
            fail(
                node.col_offset,
                f"{name} is computed from numbers before the run, and {min(used)} is a name; give {name}(…) "
                "of constants a name in constants, and use that here. It has no value along a path",
            )
        expiry = next((each.value for each in node.keywords if each.arg == "T"), None)
        if name not in SMOOTH and expiry is not None and "t" in _names(expiry):
            (self.roots if name in KINKED_AT_EXPIRY else self.hidden).update(used)

        def evaluate(environment):
            values = {key: part(environment) for key, part in parts.items()}
            if not is_plain(*values.values()):
                if name in OF_NUMBERS:
                    raise ExpressionError(f"{name} {NO_DERIVATIVE}")
                return form(**values)
            try:
                return float(form(**values))
            except (ValueError, ArithmeticError) as error:
                raise ExpressionError(f"{name}: {error}") from error

        return evaluate


def _is_condition(node: ast.expr) -> bool:
    """Whether an expression is true or false by its form."""
    negated = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
    return negated or isinstance(node, ast.Compare | ast.BoolOp)


def _names(node: ast.AST) -> set[str]:
    """All names below a node, those of functions and numbers not."""
    found = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
    return found - functions().keys() - NUMBERS.keys()


def _may_touch_zero(node: ast.AST) -> bool:
    """Whether a value may be zero and positive to both sides, as a square, where its root has a kink.

    What is monotone in each of its names is not: beyond its zero it has no root.
    """
    names = []
    for each in ast.walk(node):
        if isinstance(each, ast.Pow) or (isinstance(each, ast.Call) and not _is_monotone(each)):
            return True
        if isinstance(each, ast.Name) and not is_function(each.id) and each.id not in NUMBERS:
            names.append(each.id)
    return len(names) > len(set(names))


def _is_monotone(call: ast.Call) -> bool:
    name = call.func.id if isinstance(call.func, ast.Name) else ""
    return name in MONOTONE or (name in FUNCTIONALS and FUNCTIONALS[name].monotone)


def _difference(a: Callable, b: Callable) -> Callable[[Environment], Any]:
    """How far apart two values are."""
    return lambda environment: a(environment) - b(environment)


def _to_step(name: str, part: Callable) -> Callable[[Environment], Any]:
    """How far a value is from where `sign` jumps, or the nearest place where `floor` and `ceil` do."""
    if name == "sign":
        return part
    nearest = NUMERIC["floor"]
    return lambda environment: part(environment) - nearest(part(environment) + 0.5)


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
