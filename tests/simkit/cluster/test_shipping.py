"""The source of own modules goes with a simulation, and a process takes the latest."""

import importlib
import pickle
import sys

import pytest

from simkit.cluster.shipping import unpacked


class Module:
    """Pickled it is the module of this name, as the other process imports it."""

    def __init__(self, name: str):
        self.name = name

    def __reduce__(self):
        return importlib.import_module, (self.name,)


@pytest.fixture
def imports(monkeypatch):
    """What a test imports, and who finds it, is forgotten."""
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    before = {*sys.modules}
    yield
    for name in {*sys.modules} - before:
        del sys.modules[name]


def shipped(**codes: str):
    """The module `first`, from the bytes that a process gets with these sources."""
    sources = {name: (code, f"/nowhere/{name}.py", False) for name, code in codes.items()}
    return unpacked(pickle.dumps((sources, pickle.dumps(Module("first")))))


@pytest.mark.usefixtures("imports")
def test_a_module_of_another_source_is_imported_again_and_one_of_the_same_is_not():
    """A user who runs a changed module on workers that are still there gets what it says now."""
    one = shipped(first="VALUE = 1", second="VALUE = 10")
    second = importlib.import_module("second")
    assert (one.VALUE, one.__file__) == (1, "/nowhere/first.py")
    changed = shipped(first="VALUE = 2", second="VALUE = 10")
    assert changed.VALUE == 2
    assert importlib.import_module("second") is second
    assert shipped(first="VALUE = 2") is changed
