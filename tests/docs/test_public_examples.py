"""The example in the docstring of each public name runs and prints what it shows; shapes of arrays are said.

A model or solver has a page with an example instead, which other tests build and run.
"""

import doctest
import importlib
import re
import sys
import warnings

import jax
import pytest
from checkout import ROOT

sys.path.insert(0, str(ROOT / "docs"))
try:
    from public_names import PACKAGES, documentation, has_page, public_names, signature
finally:
    sys.path.remove(str(ROOT / "docs"))

THINGS = {
    (package, name): getattr(module, name)
    for package in PACKAGES
    for module in (importlib.import_module(package),)
    for name in public_names(module)
    if not isinstance(getattr(module, name), type(sys))
}
WITH_PAGE = {key for key, thing in THINGS.items() if has_page(key[1], thing)}
UNNAMED_SHAPE = r"(?<!\[)\b(jax\.Array|np\.ndarray|ArrayLike|Array)\b"
SHAPE = r"`\((\w+,? ?)*\)`|\bscalars?\b|\belementwise\b|\bany shape\b"


def ids(key: tuple[str, str]) -> str:
    return ".".join(key)


def test_each_public_name_has_an_example_or_a_page():
    missing = [
        ids(key)
        for key, thing in THINGS.items()
        if key not in WITH_PAGE and not documentation(key[1], thing)[1]
    ]
    assert not missing, f"add an example, `>>> …`, at the end of the docstring of {', '.join(missing)}"


@pytest.mark.more
@pytest.mark.parametrize("key", [key for key in THINGS if key not in WITH_PAGE], ids=ids)
def test_the_example_runs_as_shown(key, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = ids(key)
    example = documentation(key[1], THINGS[key])[1]
    test = doctest.DocTestParser().get_doctest(example, {}, name, name, 0)
    report: list[str] = []
    with jax.enable_x64(False), warnings.catch_warnings():  # as for a reader
        warnings.simplefilter("error")
        result = doctest.DocTestRunner(verbose=False).run(test, out=report.append)
    assert test.examples
    assert not result.failed, "".join(report)


@pytest.mark.parametrize("key", [key for key, thing in THINGS.items() if callable(thing)], ids=ids)
def test_arrays_are_said_with_their_shapes(key):
    name, thing = key[1], THINGS[key]
    if name == "Scalar" or not re.search(UNNAMED_SHAPE, signature(name, thing)):
        return
    assert re.search(SHAPE, documentation(name, thing)[0]), f"{name}: the docstring has no shapes"


def test_an_example_is_short():
    for key, thing in THINGS.items():
        example = documentation(key[1], thing)[1]
        assert len(example.splitlines()) <= 25, ids(key)
