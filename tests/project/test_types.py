"""Public functions and methods have types for what they take and return."""

import importlib
import inspect
from collections.abc import Iterator

import pytest

PACKAGES = ("simkit", "simkit.transforms", "simkit_solvers", "simkit_physics")


def public_functions(package: str) -> Iterator[tuple[str, object]]:
    """The functions that a package exports, and the methods of its classes with those they inherit here."""
    module = importlib.import_module(package)
    for name in dir(module):
        thing = inspect.unwrap(getattr(module, name))  # of one that jax compiles
        if inspect.isfunction(thing):
            yield name, thing
        bases = thing.__mro__ if inspect.isclass(thing) and not name.startswith("_") else ()
        for i, base in enumerate(bases):
            for method, member in vars(base).items() if base.__module__.startswith("simkit") else ():
                function = getattr(member, "fget", None) or getattr(member, "__func__", member)
                # The equations of a model stand as in its paper; their types are those of the abstract class.
                equation = package == "simkit_physics" and any(method in vars(b) for b in bases[i + 1 :])
                public = method == "__call__" or not method.startswith("_")
                if inspect.isfunction(function) and public and not equation:
                    yield f"{base.__name__}.{method}", function


def is_typed(function: object) -> bool:
    """Whether all arguments but the object itself, and what is returned, have a type."""
    signature = inspect.signature(function)
    types = [each.annotation for name, each in signature.parameters.items() if name not in ("self", "cls")]
    return inspect.Signature.empty not in (*types, signature.return_annotation)


@pytest.mark.parametrize("package", PACKAGES)
def test_public_functions_and_methods_are_typed(package):
    functions = dict(public_functions(package))
    assert len(functions) > 10
    assert not [name for name, function in functions.items() if not is_typed(function)]
