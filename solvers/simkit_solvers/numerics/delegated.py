"""Attributes that an object delegates to one of its parts."""

from typing import Any


def delegated(part: str) -> Any:
    """`rtol = delegated("finder")` in a class makes `self.rtol` what `self.finder.rtol` is."""
    return _Delegated(part)


class _Delegated:
    def __init__(self, part: str):
        self.part = part

    def __set_name__(self, owner: type, name: str):
        self.name = name

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else getattr(getattr(instance, self.part), self.name)
