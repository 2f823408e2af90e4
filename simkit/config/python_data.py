"""Data from Python in the types of YAML: dict, list, str, bool, int, float, None."""

import os
import sys
from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any

import numpy as np

from simkit.config.strict_yaml import MAX_DEPTH
from simkit.config.yaml_values import Diagnostic, KeyPath
from simkit.errors import InputError
from simkit.suggestions import shown

_PLAIN = (Mapping, list, tuple, os.PathLike, type(None), bool, str, np.bool_, Real)


def plain_mapping(mapping: Mapping, path: KeyPath, diagnostics: list[Diagnostic]) -> dict[str, Any]:
    """A mapping as plain data; what is wrong in it is added to `diagnostics`."""
    data = {}
    for key, item in mapping.items():
        if not isinstance(key, str):
            diagnostics.append(((0, 0), path, f"a key must be a string, got {shown(key)}"))
        elif isinstance(item, _PLAIN) or _is_single(item):
            data[key] = _plain(item, (*path, key), diagnostics)
        else:
            kind = type(item).__name__
            message = f"must be a number, text, list or dict, got a value of type {kind}"
            if (*path, key) in (("model",), ("solver",)):
                message += f"; give it by name: {{type: {kind}, ...}}"
            elif hasattr(item, "tolist"):
                message += "; write its .tolist()"
                message += ", as {values: […]} for one value for each path" * (path == ("initial",))
            diagnostics.append(((0, 0), (*path, key), message))
    return data


def _plain(value: Any, path: KeyPath, diagnostics: list[Diagnostic]) -> Any:
    if len(path) > MAX_DEPTH:
        raise InputError(f"nested more than {MAX_DEPTH} levels deep, or a mapping in itself")
    if isinstance(value, Mapping):
        return plain_mapping(value, path, diagnostics)
    if isinstance(value, list | tuple):
        return [_plain(item, (*path, i), diagnostics) for i, item in enumerate(value)]
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, Integral):
        return int(value)
    if _is_single(value):
        return _plain(value.item(), path, diagnostics)
    return float(value) if isinstance(value, Real) else None


def _is_single(value: Any) -> bool:
    """Whether it is one number in an array of numpy or jax, which need not be imported to ask."""
    jax = sys.modules.get("jax")
    arrays = np.ndarray if jax is None else (np.ndarray, jax.Array)
    traced = jax is not None and isinstance(value, jax.core.Tracer)
    return isinstance(value, arrays) and value.shape == () and not traced
