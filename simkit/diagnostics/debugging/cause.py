"""Which part of a computation gave the first value that is not finite."""

import ast
import traceback
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from jaxtyping import PyTree

from simkit.ensemble.without_value import first_bad
from simkit.expressions import Expression, PythonExpression, compile_expression

LIBRARIES = ("/jax/", "/equinox/", "/diffrax/", "/lineax/", "/optimistix/", "/jaxtyping/", "<")


def bad_part(expression: Expression, values: Mapping[Any, Any]) -> str | None:
    """The innermost part of an expression that is not finite where its own parts are, with their values.

    Of a `where` only the side that was chosen counts. `None` where the expression is finite, or has no value.
    """
    if isinstance(expression, PythonExpression):
        return None
    node: ast.expr = ast.parse(expression.text, mode="eval").body
    if _finite(node, values):
        return None
    while True:
        below = [child for child in _parts(node, values) if not _finite(child, values)]
        if not below:
            break
        node = below[0]
    text = ast.unparse(node)
    with_values = ", ".join(f"{name} = {float(x):.9g}" for name, x in sorted(_read(node, values).items()))
    return f"{text} = {_value(node, values):.9g}" + (f", with {with_values}" if with_values else "")


def functionals_alone(expression: Expression) -> list[Expression]:
    """The path functionals in an expression, each as an expression of its own."""
    if not expression.functionals:
        return []
    calls = [node for node in ast.walk(ast.parse(expression.text, mode="eval")) if isinstance(node, ast.Call)]
    parts = [compile_expression(ast.unparse(call), None, functionals=True) for call in calls]
    return [part for part in dict.fromkeys(parts) if part.whole is not None]


def _read(node: ast.AST, values: Mapping[Any, Any]) -> dict[str, Any]:
    """What a part reads, with its values: names, and path functionals as they are written."""
    if isinstance(node, ast.Name):
        return {node.id: values[node.id]} if node.id in values else {}
    whole = (
        compile_expression(ast.unparse(node), None, functionals=True).whole
        if isinstance(node, ast.Call)
        else None
    )
    if whole is not None:
        return {ast.unparse(node): values[whole]} if whole in values else {}
    return {name: x for child in ast.iter_child_nodes(node) for name, x in _read(child, values).items()}


def _parts(node: ast.expr, values: Mapping[Any, Any]) -> list[ast.expr]:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        if node.func.id == "where":
            return [node.args[1] if _value(node.args[0], values) else node.args[2]]
        return list(node.args)
    return [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]


def _value(node: ast.expr, values: Mapping[Any, Any]) -> float:
    """The value of a part; 0 of what has none, such as a path functional that is not known here."""
    part = compile_expression(ast.unparse(node), None, functionals=True)
    if not part.names <= values.keys() or any(each not in values for each in part.functionals):
        return 0.0
    return float(part(values))


def _finite(node: ast.expr, values: Mapping[Any, Any]) -> bool:
    return bool(np.isfinite(_value(node, values)))


def bad_operation(function: Callable, *arguments: PyTree) -> str | None:
    """The first operation that gives something not finite from finite numbers, and where it was written;
    `None` where everything is finite."""
    found = first_bad(function, *arguments)
    if found is None:
        return None
    operation, given = found
    values = ", ".join(f"{float(x):.9g}" for x in given if np.ndim(x) == 0)
    return f"{operation.name}({values}){_place(operation.equation)}"


def _place(equation: Any) -> str:
    """The innermost line of Python that is not a library's."""
    trace = equation.source_info.traceback
    frames = [] if trace is None else traceback.extract_tb(trace.as_python_traceback())
    own = [frame for frame in frames if not any(part in frame.filename for part in LIBRARIES)]
    return f" at {own[-1].filename}:{own[-1].lineno}, in {own[-1].name}" if own else ""
