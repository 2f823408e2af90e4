"""Data from Python in the types of YAML: dict, list, str, bool, int, float, None."""

import os
import sys
from collections.abc import Callable, Mapping
from numbers import Integral, Real
from typing import Any

import numpy as np

from simkit.config.strict_yaml import MAX_DEPTH
from simkit.config.yaml_values import Diagnostic, KeyPath
from simkit.errors import InputError
from simkit.suggestions import shown

PYTHON = " (Python)"  # ends what stands for a function

_PLAIN = (Mapping, list, tuple, os.PathLike, type(None), bool, str, np.bool_, Real)


class PythonData:
    """Mappings as plain data. What is wrong in them is in `diagnostics`; `functions` are those found in the
    place of expressions, by the text that stands for them.

    A model is what its class is called and its parameters; an array of initial values is one for each path,
    any other a list.
    """

    def __init__(self) -> None:
        self.diagnostics: list[Diagnostic] = []
        self.functions: dict[str, Callable] = {}

    def mapping(self, mapping: Mapping, path: KeyPath = ()) -> dict[str, Any]:
        data = {}
        for key, item in mapping.items():
            if not isinstance(key, str):
                self.diagnostics.append(((0, 0), path, f"a key must be a string, got {shown(key)}"))
                continue
            item = self._stood_for((*path, key), item)
            if isinstance(item, _PLAIN) or _is_single(item):
                before = len(self.diagnostics)
                plain = self._plain(item, (*path, key))
                if len(self.diagnostics) == before or isinstance(plain, dict):
                    data[key] = plain
            else:
                self.diagnostics.append(((0, 0), (*path, key), _refusal((*path, key), item)))
        return data

    def _stood_for(self, path: KeyPath, item: Any) -> Any:
        """What stands for a function, a model or an array; anything else is itself."""
        match path:
            case ("observe", _) | ("observe", _, "value") if callable(item):
                return self._name(item)
            case ("model",):
                return _model(item) or item
            case ("initial", _) if getattr(item, "ndim", 0) == 1:
                return {"values": np.asarray(item).tolist()}
            case _ if path[0] != "initial" and getattr(item, "ndim", 0) and not _is_single(item):
                return np.asarray(item).tolist()
        return item

    def _name(self, function: Callable) -> str:
        """The text that stands for a function: its name, with a number where another one has it."""
        name, again = getattr(function, "__name__", type(function).__name__), ""
        while self.functions.get(text := f"{name}{again}{PYTHON}", function) is not function:
            again = f" {int(again or 1) + 1}"
        self.functions[text] = function
        return text

    def _plain(self, value: Any, path: KeyPath) -> Any:
        if len(path) > MAX_DEPTH:
            raise InputError(f"nested more than {MAX_DEPTH} levels deep, or a mapping in itself")
        if isinstance(value, Mapping):
            return self.mapping(value, path)
        if isinstance(value, list | tuple):
            return [self._plain(item, (*path, i)) for i, item in enumerate(value)]
        if isinstance(value, os.PathLike):
            return os.fspath(value)
        if value is None or isinstance(value, bool | str):
            return value
        if isinstance(value, np.bool_):
            return bool(value)
        if isinstance(value, Integral):
            return int(value)
        if _is_single(value):
            return self._plain(value.item(), path)
        if isinstance(value, Real):
            return float(value)
        self.diagnostics.append(((0, 0), path, _refusal(path, value)))
        return None


def _refusal(path: KeyPath, item: Any) -> str:
    if path in (("model",), ("solver",)) and isinstance(item, type):
        return _not_a_class(path, item)
    kind = type(item).__name__
    if path[:1] == ("initial",) and getattr(item, "ndim", 0) > 1:
        return f"must be a number, or an array (paths,) of one for each path, got the shape {item.shape}"
    message = f"must be a number, text, list or dict, got a value of type {kind}"
    if callable(item) and not isinstance(item, type) and kind in ("function", "builtin_function_or_method"):
        own = "a model of your own is an instance of a class of AbstractODE or AbstractSDE"
        return f"{message}; write an expression as text, such as '-k*x'; {own}"
    if path in (("model",), ("solver",)):
        return f"{message}; give it by name: {{type: {kind}, ...}}"
    return message


def _not_a_class(path: KeyPath, item: type) -> str:
    kind = item.__name__
    by_name = f"{{type: {kind}, ...}}"
    if path == ("solver",):
        return f"must not be a class; give its name: {by_name}"
    solvers = sys.modules.get("simkit_solvers")
    if solvers is None or not issubclass(item, solvers.AbstractODE):
        return f"the class {kind} is no model"
    from simkit_solvers.problems.problem import parameters_of

    values = ", ".join(f"{name}=…" for name in parameters_of(item))
    return f"must not be a class; give an instance, {kind}({values}), or its name, {by_name}"


def _model(item: Any) -> dict[str, Any] | None:
    """A model as its name and parameters; its class is entered under that name unless it is there.

    Raises `InputError` where a model of simkit has the name.
    """
    solvers = sys.modules.get("simkit_solvers")
    if solvers is None or not isinstance(item, solvers.AbstractODE):
        return None
    from simkit_physics import MODELS
    from simkit_solvers.problems.problem import parameters_of

    kind = type(item)
    known = MODELS.setdefault(kind.__name__, kind)
    if known is not kind:
        if kind.__module__.startswith("simkit_physics"):  # of a size, which the name does not say
            return None
        if known.__module__.startswith("simkit_physics"):
            raise InputError(
                f"model: {kind.__name__} is the name of a model of simkit too; rename your class"
            )
        MODELS[kind.__name__] = kind  # defined again, as in a notebook
    return {"type": kind.__name__, **{name: getattr(item, name) for name in parameters_of(kind)}}


def _is_single(value: Any) -> bool:
    """Whether it is one number in an array of numpy or jax, which need not be imported to ask."""
    jax = sys.modules.get("jax")
    arrays = np.ndarray if jax is None else (np.ndarray, jax.Array)
    traced = jax is not None and isinstance(value, jax.core.Tracer)
    return isinstance(value, arrays) and value.shape == () and not traced
